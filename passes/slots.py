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
            _User(n, access, _elements(program, item, maps[n], access), _slots(program, item, tensor))
            for n, item in enumerate(items)
            for access in program.statement(item.leaf.statement).accesses
            if access.tensor == tensor
        ]
        for overwriting in users:
            if overwriting.access.kind != "write":
                continue
            for user in users:
                meeting = _sharing(user, overwriting)
                if meeting.is_empty():
                    continue
                for lagged in (False, True) if pipelined else (False,):
                    yield _clash(program, items, maps, users, meeting, lagged, (user, overwriting))


@dataclass(frozen=True, eq=False)
class _User:
    """An access of a leaf, by the leaf's number. *elements*: { point -> [iterations that have a buffer each, position]
    }; *slots*: { the same -> place }."""

    leaf: int
    access: Access
    elements: isl.Map
    slots: isl.Map


def _shares(item: Placed, tensor: str) -> bool:
    return bool(item.storage(tensor).fold) or any(item.versions(tensor))


def _clash(
    program: Program,
    items: Sequence[Placed],
    maps: Sequence[isl.Map],
    users: Sequence[_User],
    meeting: isl.Map,
    lagged: bool,
    pair: tuple[_User, _User],
) -> Clash:
    access = pair[0].access
    first, second = (items[one.leaf] for one in pair)
    after = earlier(meeting, first, second, lagged)
    early = _early(program, items, maps, users, lagged, pair) if access.kind == "read" else None
    kind = "anti" if access.kind == "read" else "output"
    dependence = Dependence(first.leaf.statement, second.leaf.statement, kind, access.tensor, after, False)
    return Clash(dependence, first, second, early)


def _early(
    program: Program,
    items: Sequence[Placed],
    maps: Sequence[isl.Map],
    users: Sequence[_User],
    lagged: bool,
    pair: tuple[_User, _User],
) -> isl.Map | None:
    """{ read -> write of another element at the place of what it reads, between the write of that and the read }."""
    reading, overwriting = pair
    b, c = reading.leaf, overwriting.leaf
    flows = [d for d in dependences(program) if d.kind == "flow" and d.tensor == reading.access.tensor]
    found: isl.Map | None = None
    for written in users:
        if written.access.kind != "write":
            continue
        a = written.leaf
        for flow in flows:
            if (flow.source, flow.target) != (items[a].leaf.statement, items[b].leaf.statement):
                continue
            later = earlier(_sharing(written, overwriting), items[a], items[c], lagged)
            source = maps[b].apply_range(flow.relation.reverse()).apply_range(maps[a].reverse())
            # In its own buffer: where several iterations fill one each with the same elements, each reads its own.
            depth = min(len(items[a].scope(flow.tensor)), len(items[b].scope(flow.tensor)))
            for level in range(depth):
                source = source.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
            hit = earlier(source.apply_range(later).reverse(), items[c], items[b], lagged).reverse()
            if not hit.is_empty():
                found = hit if found is None else found.union(hit)
    return found


def _sharing(one: _User, other: _User) -> isl.Map:
    """{ point -> point } of two leaves that use one place for different elements."""
    if one.elements.dim(_OUT) != other.elements.dim(_OUT):
        return isl.Map.from_domain_and_range(one.elements.domain(), other.elements.domain()).subtract(
            isl.Map.from_domain_and_range(one.elements.domain(), other.elements.domain())
        )
    # A read may take several elements: which of them shares its place with which is told element by element.
    shared = one.slots.apply_range(other.slots.reverse())
    shared = shared.subtract(isl.Map.identity(shared.get_space()))
    return one.elements.apply_range(shared).apply_range(other.elements.reverse())


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
