"""What a schedule moves: for every tensor the bytes that its loops ask for, and those that are there to be asked for.

A tile is asked for whole and once: of the lanes of blocks, those that touch one element are one request. What lies in a
buffer of an iteration is not asked for here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import islpy as isl
import sympy

from ..compiler.ir.affine import make_map
from ..compiler.ir.quasiaffine import Affine, conjunction, substituted
from ..compiler.ir.tree import leaves, placed
from .count import count, listed, number, symbol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Access, Program, Statement
    from ..compiler.ir.tree import Node, Placed

Kind = Literal["read", "write"]
_OUT, _SET = isl.dim_type.out, isl.dim_type.set


@dataclass(frozen=True, eq=False)
class Amount:
    """A number, of bytes say. *formula*: in the sizes; None where there is none. *points*: what it counts, each *width*
    times."""

    formula: sympy.Expr | None
    points: tuple[isl.Set, ...]
    width: int
    sizes: tuple[str, ...]
    _known: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict, repr=False)

    def at(self, sizes: Mapping[str, int]) -> int:
        """The bytes at these sizes; without a formula the points are listed, which takes long for many.

        Raises:
            KeyError: a size is missing.
        """
        if self.formula is not None:
            return number(self.formula, sizes)
        key = tuple(sorted(sizes.items()))
        if key not in self._known:
            self._known[key] = self.width * sum(listed(points, sizes, self.sizes) for points in self.points)
        return self._known[key]

    def __str__(self) -> str:
        return str(self.formula) if self.formula is not None else "no formula"


@dataclass(frozen=True, eq=False)
class Moved:
    """What a launch moves of one tensor. *asked*: by all its iterations together; *there*: the elements themselves,
    each once: no cache and no other order brings it below that. *places*: how many of the last dimensions of the points
    say which element. *step*: the innermost loop round an access, and the bytes from one of its iterations to the next.
    *assumptions*: what the numbers leave out."""

    launch: int
    tensor: str
    kind: Kind
    asked: Amount
    there: Amount
    places: int
    step: tuple[str, sympy.Expr] | None = None
    assumptions: tuple[str, ...] = ()


def moved(program: Program, tree: Sequence[Node]) -> tuple[Moved, ...]:
    """What each launch (outermost loop nest) reads and writes of each tensor that lies in memory, in their order."""
    found: dict[tuple[int, str, Kind], list[tuple[tuple[str, ...], isl.Set]]] = {}
    notes: dict[tuple[int, str, Kind], dict[str, None]] = {}
    steps: dict[tuple[int, str, Kind], tuple[str, sympy.Expr] | None] = {}
    held = accumulators(program, tree)
    reads = _reads(program, tree)
    for item in placed(tree):
        for access in program.statement(item.leaf.statement).accesses:
            if item.scope(access.tensor) or dict(item.scopes).get(access.tensor) == 0 or access.tensor in held:
                continue
            key = (item.places[0], access.tensor, access.kind)
            loops, points, note = touched(program, item, access, reads.get(access.tensor, 0))
            found.setdefault(key, []).append((loops, points))
            notes.setdefault(key, {}).update(dict.fromkeys(note))
            steps.setdefault(key, _step(program, item, access))
    return tuple(
        Moved(
            launch,
            tensor,
            kind,
            *_amounts(program, tensor, parts),
            reads.get(tensor, 0) + program.tensors[tensor].rank,
            steps[launch, tensor, kind],
            tuple(notes[launch, tensor, kind]),
        )
        for (launch, tensor, kind), parts in found.items()
    )


def stride(program: Program, statement: Statement, tensor: str, index: str) -> sympy.Expr:
    """The bytes between what a statement touches of a tensor and what it touches one step of an index later, where the
    tensor lies row by row: its own width for neighbours, 0 for the same element.

    Raises:
        ValueError: the statement does not touch it, or data say where.
    """
    places = next((a.affine for a in statement.accesses if a.tensor == tensor), (None,))
    if None in places:
        raise ValueError(f"{statement.name} touches no element of {tensor} that indices say")
    return _between(program, tensor, [p for p in places if p is not None], index)


def _step(program: Program, item: Placed, access: Access) -> tuple[str, sympy.Expr] | None:
    """The innermost loop round an access, and the bytes between what it touches in one of its iterations and the next;
    None where there is no loop, or data say."""
    if not item.loops or None in access.affine:
        return None
    instance = dict(zip(program.statement(item.leaf.statement).iterators, item.leaf.instance, strict=True))
    places = [place.substituted(instance) for place in access.affine if place is not None]
    index = item.loops[-1].index
    return index, _between(program, access.tensor, places, index)


def _between(program: Program, tensor: str, places: Sequence[Affine], index: str) -> sympy.Expr:
    """The bytes from an element to that of the next value of an index, by the terms that are the index itself."""
    step, row = sympy.Integer(0), sympy.Integer(program.tensors[tensor].dtype.bits // 8)
    for place, extent in reversed(list(zip(places, program.tensors[tensor].extents, strict=True))):
        step += row * sum(factor for term, factor in place.terms if term == index)
        size = extent.size
        if size is not None:
            row *= size.constant + sum((f * symbol(str(t)) for t, f in size.terms), sympy.Integer(0))
    return sympy.expand(step)


def _reads(program: Program, tree: Sequence[Node]) -> dict[str, int]:
    """The tensors that are read where data say, with how many numbers tell such a read from others: which
    of the program's accesses it is, and the loops around it. Its position does not."""
    found: dict[str, int] = {}
    for leaf in leaves(tree):
        for access in program.statement(leaf.statement).accesses:
            if None in access.affine:
                found[access.tensor] = max(found.get(access.tensor, 0), 1 + len(leaf.indices))
    return found


def accumulators(program: Program, tree: Sequence[Node]) -> set[str]:
    """The accumulators that one launch alone touches: they are registers, or tiles of them."""
    launches: dict[str, set[int]] = {}
    for item in placed(tree):
        for access in program.statement(item.leaf.statement).accesses:
            launches.setdefault(access.tensor, set()).add(item.places[0])
    return {n for n, where in launches.items() if program.tensors[n].role == "accumulator" and len(where) == 1}


def touched(
    program: Program, item: Placed, access: Access, reads: int = 0, deepest: int | None = None
) -> tuple[tuple[str, ...], isl.Set, list[str]]:
    """{ [loops that are no lanes, read, position] } of an access, with the names of those loops: all of them, or the
    first *deepest*.

    *reads*: how many dimensions say which read it is: 0 in all of them, unless data say where it reads; then the
    position is 0 in what they say.
    """
    statement = program.statement(item.leaf.statement)
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    loops = outer(item)[:deepest]
    zero = Affine.number(0)
    positions: list[Affine] = []
    notes: list[str] = []
    for place in access.affine:
        if place is None:
            notes.append(f"{access.tensor} is read where data say, and counted as if each read were another element")
            positions.append(zero)
        else:
            positions.append(place.substituted(instance))
    which: list[Affine] = []
    if notes:
        every = [a for s in program.statements for a in s.accesses]
        which = [Affine.number(1 + every.index(access)), *(Affine.name(n) for n in item.leaf.indices)]
    images = [*(Affine.name(n) for n in loops), *which, *[zero] * (reads - len(which)), *positions]
    guard = substituted(access.guard, instance)
    free = tuple(r.index for r in access.free)
    ranges = conjunction(guard, *(r.formula() for r in access.free))
    relation = make_map(program.sizes, item.leaf.indices, images, ranges, free=free)
    points = relation.intersect_domain(item.leaf.domain).range()
    if access.padded and not notes:
        points = points.intersect(_inside(program, access.tensor, len(loops) + reads))
    return loops, points.coalesce(), notes


def outer(item: Placed) -> tuple[str, ...]:
    """The loops around a leaf that are no lanes."""
    return tuple(loop.index for loop in item.loops if loop.kind not in ("block", "vector"))


def _inside(program: Program, tensor: str, before: int) -> isl.Set:
    """The elements that a tensor has, behind so many other dimensions."""
    names = tuple(f"place{p}" for p in range(program.tensors[tensor].rank))
    others = tuple(f"loop{n}" for n in range(before))
    images = [Affine.name(n) for n in (*others, *names)]
    return make_map(program.sizes, (*others, *names), images, program.tensors[tensor].box(names)).range()


def _amounts(program: Program, tensor: str, parts: list[tuple[tuple[str, ...], isl.Set]]) -> tuple[Amount, Amount]:
    width = program.tensors[tensor].dtype.bits // 8
    together: dict[tuple[str, ...], isl.Set] = {}
    for loops, points in parts:
        together[loops] = together[loops].union(points).coalesce() if loops in together else points
    asked = tuple(together.values())
    elements: isl.Set | None = None
    for loops, points in together.items():
        own = points.project_out(_SET, 0, len(loops))
        elements = own if elements is None else elements.union(own).coalesce()
    assert elements is not None
    return amount(program, asked, width), amount(program, (elements,), width)


def amount(program: Program, points: tuple[isl.Set, ...], width: int) -> Amount:
    """So many bytes for each of some points."""
    counts = [count(p) for p in points]
    formula = None if any(c is None for c in counts) else width * sympy.Add(*(c for c in counts if c is not None))
    return Amount(formula, points, width, program.sizes)
