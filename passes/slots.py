"""Elements that share a place in a buffer: folded dimensions, and the versions of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map
from ..compiler.ir.quasiaffine import Affine, All
from .dependence import Dependence, dependences, earlier

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Access, Program
    from ..compiler.ir.tree import Placed


_OUT = isl.dim_type.out


@dataclass(frozen=True, eq=False)
class Clash:
    """Two leaves that use one place for different elements, the second writing; the second's come later.

    *dependence*: its relation pairs their points. *early*: { point of the first, a read -> point of the second } where
    the second's write comes between the first's element and the read of it.
    """

    dependence: Dependence
    first: Placed
    second: Placed
    early: isl.Map | None


def clashes(program: Program, items: Sequence[Placed], maps: Sequence[isl.Map]) -> Iterator[Clash]:
    """Every pair of leaves with elements that share a place."""
    shared = {name for item in items for name, _ in item.scopes if _shares(item, name)}
    pipelined = any(loop.stages > 1 for item in items for loop in item.loops)
    for tensor in sorted(shared):
        users = [
            (n, access)
            for n, item in enumerate(items)
            for access in program.statement(item.leaf.statement).accesses
            if access.tensor == tensor
        ]
        for lagged in (False, True) if pipelined else (False,):
            yield from _clashes(program, items, maps, tensor, users, lagged)


def _shares(item: Placed, tensor: str) -> bool:
    return bool(item.storage(tensor).fold) or any(item.versions(tensor))


def _clashes(
    program: Program,
    items: Sequence[Placed],
    maps: Sequence[isl.Map],
    tensor: str,
    users: Sequence[tuple[int, Access]],
    lagged: bool,
) -> Iterator[Clash]:
    flows = [d for d in dependences(program) if d.kind == "flow" and d.tensor == tensor]
    for c, overwriting in users:
        if overwriting.kind != "write":
            continue
        for b, access in users:
            meeting = _sharing(program, items, maps, (b, access), (c, overwriting))
            if meeting.is_empty():
                continue
            after = earlier(meeting, items[b], items[c], lagged)
            early = None
            if access.kind == "read":
                early = _early(program, items, maps, tensor, users, flows, lagged, (b, c))
            name, other = items[b].leaf.statement, items[c].leaf.statement
            dependence = Dependence(name, other, "anti" if access.kind == "read" else "output", tensor, after, False)
            yield Clash(dependence, items[b], items[c], early)


def _early(
    program: Program,
    items: Sequence[Placed],
    maps: Sequence[isl.Map],
    tensor: str,
    users: Sequence[tuple[int, Access]],
    flows: Sequence[Dependence],
    lagged: bool,
    pair: tuple[int, int],
) -> isl.Map | None:
    """{ read -> write of another element at the place of what it reads, between the write of that and the read }."""
    b, c = pair
    overwriting = program.statement(items[c].leaf.statement).accesses[0]
    found: isl.Map | None = None
    for a, written in users:
        if written.kind != "write":
            continue
        for flow in flows:
            if (flow.source, flow.target) != (items[a].leaf.statement, items[b].leaf.statement):
                continue
            clash = _sharing(program, items, maps, (a, written), (c, overwriting))
            later = earlier(clash, items[a], items[c], lagged)
            source = maps[b].apply_range(flow.relation.reverse()).apply_range(maps[a].reverse())
            # In its own buffer: where several iterations fill one each with the same elements, each reads its own.
            depth = min(len(items[a].scope(tensor)), len(items[b].scope(tensor)))
            for level in range(depth):
                source = source.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
            hit = earlier(source.apply_range(later).reverse(), items[c], items[b], lagged).reverse()
            if not hit.is_empty():
                found = hit if found is None else found.union(hit)
    return found


def _sharing(
    program: Program,
    items: Sequence[Placed],
    maps: Sequence[isl.Map],
    one: tuple[int, Access],
    other: tuple[int, Access],
) -> isl.Map:
    """{ point -> point } of two leaves that use one place for different elements."""
    ends = [_elements(program, items[n], maps[n], access) for n, access in (one, other)]
    if ends[0].dim(_OUT) != ends[1].dim(_OUT):
        return _none(maps[one[0]], maps[other[0]])
    slots = [_slots(program, items[n], access.tensor) for n, access in (one, other)]
    # A read may take several elements: which of them shares its place with which is told element by element.
    shared = slots[0].apply_range(slots[1].reverse())
    shared = shared.subtract(isl.Map.identity(shared.get_space()))
    return ends[0].apply_range(shared).apply_range(ends[1].reverse())


def _none(a: isl.Map, b: isl.Map) -> isl.Map:
    return isl.Map.from_domain_and_range(a.domain(), b.domain()).subtract(
        isl.Map.from_domain_and_range(a.domain(), b.domain())
    )


def _elements(program: Program, item: Placed, points: isl.Map, access: Access) -> isl.Map:
    """{ point -> [iterations that have a buffer each, position] }."""
    plain = points.apply_range(program.relation(program.statement(item.leaf.statement), access)).reset_tuple_id(_OUT)
    scope = item.scope(access.tensor)
    around = make_map(program.sizes, item.leaf.indices, [Affine.name(n) for n in scope], All())
    return around.flat_range_product(plain)


def _slots(program: Program, item: Placed, tensor: str) -> isl.Map:
    """{ [iterations that have a buffer each, position] -> place }: both by their remainders where they are folded."""
    versions = item.versions(tensor)
    rank = program.tensors[tensor].rank
    names = [f"it{n}" for n in range(len(versions))]
    images = [Affine.name(n).divided("%", v) if v else Affine.name(n) for n, v in zip(names, versions, strict=True)]
    images += item.storage(tensor).folded(rank)
    return make_map(program.sizes, [*names, *(f"at{d}" for d in range(rank))], images, All())
