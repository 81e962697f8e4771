"""How the elements of a tensor lie in its buffer: where, in which layout, and which of them share a place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .affine import make_map, make_set
from .quasiaffine import Affine, All, Comparison, Range

if TYPE_CHECKING:
    from collections.abc import Mapping

    import islpy as isl


@dataclass(frozen=True, slots=True)
class Storage:
    """The buffer of a tensor, by positions relative to the first element that it holds.

    *space*: the memory asked for ("shared", "local", ..), or "". *layout*: the place of the element at positions
    *names*, outermost first (none: the positions themselves). *pad*: elements left free at the end of each innermost
    row. *swizzle*: 0, or a power of two s; the place in the innermost row is XORed with the row number modulo s.
    *fold*: (dimension, count): positions that differ by a multiple of count share a place.
    """

    space: str = ""
    names: tuple[str, ...] = ()
    layout: tuple[Affine, ...] = ()
    pad: int = 0
    swizzle: int = 0
    fold: tuple[tuple[int, int], ...] = ()

    def slot(self, positions: tuple[int, ...]) -> tuple[int, ...]:
        """What tells the places of elements apart: positions, folded ones by their remainder."""
        counts = dict(self.fold)
        return tuple(p % counts[d] if d in counts else p for d, p in enumerate(positions))

    def folded(self, rank: int) -> tuple[Affine, ...]:
        """The slot as expressions of positions named `at0`, `at1`, .."""
        counts = dict(self.fold)
        names = [Affine.name(f"at{d}") for d in range(rank)]
        return tuple(n.divided("%", counts[d]) if d in counts else n for d, n in enumerate(names))

    def places(self, positions: Mapping[int, Affine], rank: int) -> tuple[Affine, ...]:
        """The place of an element, before padding and swizzle; *positions*: relative ones, by dimension."""
        counts = dict(self.fold)
        where = [positions[d].divided("%", counts[d]) if d in counts else positions[d] for d in range(rank)]
        if not self.layout:
            return tuple(where)
        values = dict(zip(self.names, where, strict=True))
        return tuple(a.substituted(values) for a in self.layout)

    def __str__(self) -> str:
        parts = [self.space] if self.space else []
        if self.layout:
            parts.append(f"({', '.join(self.names)}) -> ({', '.join(map(str, self.layout))})")
        parts += [f"pad {self.pad}"] if self.pad else []
        parts += [f"swizzle {self.swizzle}"] if self.swizzle else []
        parts += [f"dimension {d} modulo {n}" for d, n in self.fold]
        return ", ".join(parts)


PLAIN = Storage()


def greatest_places(storage: Storage, counts: tuple[str, ...]) -> tuple[isl.Set, list[isl.PwAff]]:
    """The greatest place in each dimension of a layout, before padding and swizzle, over how many positions each
    dimension of the tensor has (by the names *counts*, at least 1); and that they are so many."""
    # A layout is monotone or periodic in each position: isl finds where its places end.
    names = tuple(f"at{d}" for d in range(len(counts)))
    inside = All(tuple(Range(n, (Affine(),), (Affine.name(c),)).formula() for n, c in zip(names, counts, strict=True)))
    some = All(tuple(Comparison(">=", Affine.name(c), Affine.number(1)) for c in counts))
    plain = replace(storage, fold=())
    places = plain.places({d: Affine.name(n) for d, n in enumerate(names)}, len(counts))
    image = make_map(counts, names, places, All((inside, some))).range()
    known = make_set(counts, (), some).params()
    return known, [image.dim_max(d).gist(known).coalesce() for d in range(len(places))]


def injective(storage: Storage) -> bool:
    """Whether the layout gives every element a place of its own, none of them negative.

    Raises:
        UndecidedError: isl gave up.
    """
    inside = All(tuple(Comparison(">=", Affine.name(n), Affine()) for n in storage.names))
    below = [All((inside, Comparison("<", place, Affine()))) for place in storage.layout]
    if any(not make_set((), storage.names, negative).is_empty() for negative in below):
        return False
    return bool(make_map((), storage.names, storage.layout, inside).is_injective())
