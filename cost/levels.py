"""What passes between the levels of a processor's memory.

A level holds what one iteration of some loop touches. Outside of that loop it holds nothing from one iteration to the
next, but for what every one of them touches, which is never the least recently used. So each access is counted over the
loop that is next to those whose iterations the level holds, and over all further ones that it does not hang on
(Ferrante, Sarkar and Thrash 1991; McKinley, Carr and Tseng 1996 count lines of single nests in this manner).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.tree import instance_map
from .count import most
from .traffic import amount, outer, touched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compiler.ir.program import Access, Program
    from ..compiler.ir.quasiaffine import Affine
    from ..compiler.ir.tree import Placed

# Bytes that move together; so many rows at once are read ahead of by hardware, once so many lines of a row were read.
LINE = 64
STREAMS, STARTS = 32, 4


@dataclass(frozen=True, eq=False)
class Reached:
    """An access of a statement to something that lies in memory. *loops*: those around it that are no lanes; *own*: all
    loops that say which element; *along*: the one whose next iteration touches its neighbour; *scope*: in how many of
    *loops* its buffer is private; *packed*: whether that has a layout of its own."""

    item: Placed
    access: Access
    loops: tuple[str, ...]
    own: frozenset[str]
    along: str
    scope: int
    packed: bool

    @property
    def tensor(self) -> str:
        return self.access.tensor

    @property
    def by_data(self) -> bool:
        """Whether data say which element; each read is then counted as one of another."""
        return None in self.access.affine


@dataclass(frozen=True, eq=False)
class Levels:
    """The accesses of a nest at some sizes, with what was counted before."""

    program: Program
    reached: tuple[Reached, ...]
    sizes: Mapping[str, int]
    _counts: dict[tuple[object, ...], float] = field(default_factory=dict, repr=False)

    def passed(self, capacity: float) -> dict[tuple[str, str], float]:
        """Bytes that pass between a level that holds so many and the next one, by tensor and `read` or `write`; whole
        lines where pieces of rows are shorter."""
        found: dict[tuple[str, str], float] = {}
        for (tensor, kind, _, depth, _), own in self._together(capacity).items():
            key = (tensor, kind)
            found[key] = found.get(key, 0.0) + self._bytes(own, depth) * self._stretched(own, depth)
        return found

    def alone(self, capacity: float) -> float:
        """Those of the bytes that pass whose lines nothing tells beforehand: the first ones of every piece of a row."""
        total = 0.0
        for (*_, depth, _), own in self._together(capacity).items():
            lines = self._piece(own[0]) / LINE
            share = min(1.0, STARTS / lines)
            total += share * self._bytes(own, depth) * self._stretched(own, depth)
        return total

    def _piece(self, one: Reached) -> float:
        """The bytes of a row that are touched one after the other, while no more than STREAMS rows are; infinite where
        the next row is the neighbour of a whole one."""
        tensor = self.program.tensors[one.tensor]
        if one.packed or not tensor.rank:
            return inf
        row = tensor.shape(self.sizes)[-1]
        for depth in range(one.scope, len(one.loops) + 1):
            points = self._points((one,), depth)
            length = min(most(points, points.dim(isl.dim_type.set) - 1) or row, row)
            count = self.elements((one,), depth) / max(1.0, self.iterations(one.item, depth))
            if count <= STREAMS * length:
                return length * tensor.dtype.bits // 8 if length < row else inf
        return inf

    def _together(self, capacity: float) -> dict[tuple[str, str, bool, int, tuple[str, ...]], list[Reached]]:
        """The accesses that are counted together: of one tensor, over the same loops."""
        found: dict[tuple[str, str, bool, int, tuple[str, ...]], list[Reached]] = {}
        for one in self.reached:
            depth = self._depth(one, capacity)
            if depth is not None:
                key = (one.tensor, one.access.kind, one.by_data, depth, one.loops[:depth])
                found.setdefault(key, []).append(one)
        return found

    def _depth(self, one: Reached, capacity: float) -> int | None:
        """Over how many of its outer loops an access is counted; None where a level holds the buffer for good."""
        depth = next((d for d in range(len(one.loops)) if self.footprint(one.item, d) <= capacity), len(one.loops))
        if one.scope and depth <= one.scope:
            return None
        if not depth:
            return 0
        if one.loops[depth - 1] in one.own:
            return max(depth - 1, one.scope)
        while depth > one.scope and one.loops[depth - 1] not in one.own:
            depth -= 1
        return depth

    def footprint(self, item: Placed, depth: int) -> float:
        """Bytes that an iteration of the first *depth* loops around a leaf touches, with all that is in it."""
        key = ("footprint", item.places[:depth])
        if key not in self._counts:
            self._counts[key] = sum(self._of_tensors(item, depth))
        return self._counts[key]

    def _of_tensors(self, item: Placed, depth: int) -> Iterator[float]:
        tensors: dict[tuple[str, bool, tuple[str, ...]], list[Reached]] = {}
        for one in self.reached:
            if one.item.places[:depth] == item.places[:depth]:
                inside = max(depth, one.scope)
                tensors.setdefault((one.tensor, one.by_data, one.loops[:inside]), []).append(one)
        largest: dict[str, float] = {}
        for (tensor, _, loops), own in tensors.items():
            size = self._bytes(own, len(loops)) / max(1.0, self.iterations(own[0].item, len(loops)))
            largest[tensor] = max(largest.get(tensor, 0.0), size)
        yield from largest.values()

    def iterations(self, item: Placed, depth: int) -> float:
        """How often the first *depth* loops around a leaf run for it."""
        key = ("iterations", item.leaf.statement, item.places[:depth], id(item) if depth else 0)
        if key not in self._counts:
            self._counts[key] = counted(self.program, prefix(self.program, item, depth), self.sizes)
        return self._counts[key]

    def _bytes(self, own: Sequence[Reached], depth: int) -> float:
        """Bytes that some accesses to one tensor touch, counted anew for every iteration of their first loops."""
        dtype = self.program.tensors[own[0].tensor].dtype
        # Narrow floats lie in private buffers as f32.
        width = max(4, dtype.bits // 8) if own[0].scope and dtype.is_float else dtype.bits // 8
        return width * self.elements(own, depth)

    def elements(self, own: Sequence[Reached], depth: int) -> float:
        """The elements that some accesses to one tensor touch, counted anew in every iteration of their outer loops."""
        key = ("elements", depth, *((id(one.item), id(one.access)) for one in own))
        if key not in self._counts:
            self._counts[key] = counted(self.program, self._points(own, depth), self.sizes)
        return self._counts[key]

    def _points(self, own: Sequence[Reached], depth: int) -> isl.Set:
        found: isl.Set | None = None
        for one in own:
            _, points, _ = touched(self.program, one.item, one.access, 0, depth)
            found = points if found is None else found.union(points).coalesce()
        assert found is not None
        return found

    def _stretched(self, own: Sequence[Reached], depth: int) -> float:
        """By how much more moves than is touched, in whole lines."""
        tensor = self.program.tensors[own[0].tensor]
        if own[0].packed or not tensor.rank:
            return 1.0
        points = self._points(own, depth)
        count = most(points, points.dim(isl.dim_type.set) - 1)
        length = None if count is None else count * tensor.dtype.bits // 8
        return 1.0 if not length else -(-length // LINE) * LINE / length


def reached(program: Program, items: Sequence[Placed]) -> tuple[Reached, ...]:
    """The accesses of leaves to what lies in memory: to tensors, and to buffers too large for registers."""
    found: list[Reached] = []
    kept: dict[str, bool] = {}
    for item in items:
        statement = program.statement(item.leaf.statement)
        instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
        loops = outer(item)
        for access in statement.accesses:
            places = [p.substituted(instance) for p in access.affine if p is not None]
            own = frozenset(n for p in places for n in p.names())
            scope = dict(item.scopes).get(access.tensor)
            inside = {loop.index: loop.kind for loop in item.loops[scope or 0 :]}
            if scope is not None:
                # A place in a register is a number: no loop that runs says which.
                kept[access.tensor] = kept.get(access.tensor, True) and all(
                    inside[n] in ("unroll", "vector") for n in own & set(inside)
                )
            deep = sum(loop.index in loops for loop in item.loops[: scope or 0])
            lanes = lanes_of(program, item)
            along = lanes if _beside(places, lanes) else ""
            packed = bool(scope is not None and item.storage(access.tensor).layout)
            found.append(Reached(item, access, loops, own, along, deep, packed))
    return tuple(one for one in found if not kept.get(one.tensor, False))


def lanes_of(program: Program, item: Placed) -> str:
    """The loop whose iterations are a leaf's lanes: one that is marked, or an innermost one of which LLVM makes vectors
    by itself, as no element of it needs another, and all lie beside each other; "" where there is none."""
    marked = next((loop.index for loop in reversed(item.loops) if loop.kind == "vector"), "")
    statement = program.statement(item.leaf.statement)
    if marked or not item.loops or item.loops[-1].kind != "serial" or statement.kind == "update":
        return marked
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    index = item.loops[-1].index
    for access in statement.accesses:
        places = [p.substituted(instance) for p in access.affine if p is not None]
        if any(index in p.names() for p in places) and not _beside(places, index):
            return ""
    return index


def _beside(places: Sequence[Affine], index: str) -> bool:
    """Whether the next value of an index touches the neighbour in a row."""
    return bool(places) and (index, 1) in places[-1].terms and not any(index in p.names() for p in places[:-1])


def counted(program: Program, points: isl.Set, sizes: Mapping[str, int]) -> float:
    """How many points there are at some sizes."""
    return float(amount(program, (points,), 1).at(sizes))


def prefix(program: Program, item: Placed, depth: int, only: frozenset[str] | None = None) -> isl.Set:
    """The iterations of the first *depth* loops around a leaf that are no lanes, or of *only* some of them."""
    names = set(outer(item)[:depth]) if only is None else only
    points = instance_map(program, item.leaf).domain().reset_tuple_id()
    for place in reversed(range(len(item.loops))):
        if item.loops[place].index not in names:
            points = points.project_out(isl.dim_type.set, place, 1)
    return points.coalesce()
