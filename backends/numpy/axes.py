"""Which indices of a stage are array axes, their extents, and what may lie outside their true ranges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...compiler.ir.affine import UndecidedError, decide, make_set
from ...compiler.ir.expr import Index, Read
from ...compiler.ir.quasiaffine import Affine, Comparison, Division, Formula, Range, Some, conjunction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...compiler.ir.program import Extent, Program


@dataclass
class Axes:
    """The vector indices of a stage in axis order, and every index in scope with its box.

    *box*: for each index the ends, free of vector indices, that hold its true range; *exact*: the indices
    whose box is their true range. Indices that are not in *vector* are carried by Python loops.
    """

    program: Program
    vector: tuple[str, ...]
    box: dict[str, tuple[tuple[Affine, ...], tuple[Affine, ...]]] = field(default_factory=dict)  # pyright: ignore
    exact: set[str] = field(default_factory=set[str])

    def position(self, name: str) -> int:
        return self.vector.index(name)

    def enter(self, found: Range, substitute: Callable[[Affine], Affine]) -> bool:
        """Bring a range into scope; whether its box is exact."""
        lower = tuple(substitute(a) for a in found.lower)
        upper = tuple(substitute(b) for b in found.upper)
        low = tuple(dict.fromkeys(self._extreme(a, least=True) for a in lower))
        high = tuple(dict.fromkeys(self._extreme(b, least=False) for b in upper))
        exact = (low, high) == (lower, upper)
        self.box[found.index] = self._needed(low, ">"), self._needed(high, "<")
        if exact:
            self.exact.add(found.index)
        return exact

    def leave(self, found: Range) -> None:
        """Take a range out of scope again."""
        self.box.pop(found.index, None)
        self.exact.discard(found.index)

    def _needed(self, ends: tuple[Affine, ...], beyond: str) -> tuple[Affine, ...]:
        """The ends without those that another end is proved to make idle."""
        kept = list(ends)
        for end in ends:
            others = [other for other in kept if other is not end]
            if any(self.never(Comparison(beyond, end, other)) for other in others):
                kept = others
        return tuple(kept)

    def _extreme(self, end: Affine, least: bool) -> Affine:
        """A bound of an end over the boxes of the vector indices in it."""
        total = Affine.number(end.constant)
        for term, factor in end.terms:
            low = least == (factor > 0)
            if isinstance(term, Division):
                if not any(n in self.vector for n in term.numerator.names()):
                    part = Affine(((term, 1),))
                elif term.kind == "//":
                    part = self._extreme(term.numerator, low).divided("//", term.divisor)
                else:
                    part = Affine.number(0 if low else term.divisor - 1)
            elif term in self.vector:
                ends = self.box[term]
                part = ends[0][0] if low else ends[1][0] - 1
            else:
                part = Affine.name(term)
            total += part.scaled(factor)
        return total

    def inside(self, read: Read, substitute: Callable[[Affine], Affine]) -> list[bool]:
        """For each subscript, whether it is proved to lie in the tensor all over the box (True for a gather)."""
        self.program.tensors[read.tensor]
        return [
            not isinstance(sub, Index) or self.within(substitute(sub.affine), extent)
            for sub, extent in zip(read.subscripts, self.program.tensors[read.tensor].extents, strict=True)
        ]

    def within(self, position: Affine, extent: Extent) -> bool:
        """Whether a position is proved to lie in a dimension of a tensor, whatever values other vector indices have.

        The checker has proved it for every instance of the stage. But the box may hold points that are none, and
        Python's loops run even where a vector index has no value at all.
        """
        if len(extent.lower) != 1 or (len(extent.upper) != 1 and not extent.meet):
            return False
        found = self.box.get(position.bare or "")
        if found is not None and extent.lower[0] in found[0] and all(b in found[1] for b in extent.upper):
            return True
        outside = [Comparison("<", position, extent.lower[0]), *(Comparison(">=", position, b) for b in extent.upper)]
        return self.never(Some(tuple(outside)), [n for n in position.names() if n in self.vector])

    def never(self, formula: Formula, vector: Sequence[str] | None = None) -> bool:
        """Whether a condition is proved false all over the box.

        *vector*: the vector indices that may be taken to have values (None: all). Loop indices always have.
        """
        names = tuple(n for n in self.box if vector is None or n not in self.vector or n in vector)
        parts: list[Formula] = [self.program.context, formula]
        for name in names:
            lower, upper = self.box[name]
            parts.append(Range(name, lower, upper).formula())
        others = _other_names(parts, (*names, *self.program.sizes))
        try:
            return decide(make_set(self.program.sizes, (*names, *others), conjunction(*parts)).is_empty)
        except UndecidedError:
            return False

    def nonnegative(self, value: Affine) -> bool:
        """Whether an expression of sizes and loop indices is proved to be at least 0 (wherever it matters)."""
        if value.constant >= 0 and all(
            isinstance(t, str) and f > 0 and t in self.program.sizes for t, f in value.terms
        ):
            return True
        return self.never(Comparison("<", value, Affine()), [])


def _other_names(formulas: Sequence[Formula], known: Sequence[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    stack = list(formulas)
    while stack:
        formula = stack.pop()
        if isinstance(formula, Comparison):
            found.update(dict.fromkeys((*formula.left.names(), *formula.right.names())))
        else:
            stack.extend(formula.parts)
    return tuple(n for n in found if n not in known)


def substitution(values: Mapping[str, Affine]) -> Callable[[Affine], Affine]:
    """A function that replaces names in an expression."""
    return lambda a: a.substituted(values) if values else a
