"""Footprints: the elements of a tensor that one iteration of some loops touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map
from ..compiler.ir.codegen import Bounds, as_params, expression, without
from ..compiler.ir.quasiaffine import Affine, substituted
from ..compiler.ir.tree import Leaf, Loop, Node, leaves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Program


def places_of(rank: int) -> tuple[str, ...]:
    """The names of a footprint's dimensions."""
    return tuple(f"place {p}" for p in range(rank))


def touched(program: Program, nodes: Sequence[Node], tensor: str, around: tuple[str, ...]) -> isl.Set | None:
    """What leaves write of a tensor, or read of it whether that matters or not; None where nothing does.

    A parameter set over the sizes, the loops *around* and the places of the tensor. What data decide is left out.
    """
    rank = program.tensors[tensor].rank
    places = places_of(rank)
    union: isl.Set | None = None
    for leaf in leaves(nodes):
        statement = program.statement(leaf.statement)
        instance = dict(zip(statement.iterators, leaf.instance, strict=True))
        for access in statement.accesses:
            if access.tensor != tensor or access.padded or access.free:
                continue
            position = [a.substituted(instance) for a in access.affine if a is not None]
            if len(position) != rank:
                continue
            images = [*(Affine.name(n) for n in around), *position]
            guard = substituted(access.guard, instance)
            relation = make_map(program.sizes, leaf.indices, images, guard).intersect_domain(leaf.domain)
            points = as_params(relation.range(), (*around, *places))
            union = points if union is None else union.union(points)
    return union


def indices_of(program: Program, nodes: Sequence[Node], tensor: str) -> Iterator[str]:
    """The loop indices that say which element of a tensor leaves access."""
    for leaf in leaves(nodes):
        statement = program.statement(leaf.statement)
        instance = dict(zip(statement.iterators, leaf.instance, strict=True))
        for access in statement.accesses:
            if access.tensor == tensor:
                for place in access.affine:
                    yield from place.substituted(instance).names() if place is not None else ()


def sides(
    program: Program, nodes: Sequence[Node], tensor: str, around: tuple[str, ...], known: isl.Set
) -> list[tuple[str, isl.Set]] | None:
    """For each dimension of a tensor its name, and what leaves touch in it; None where that is nothing."""
    points = touched(program, nodes, tensor, around)
    if points is None or points.intersect(known).is_empty():
        return None
    places = places_of(program.tensors[tensor].rank)
    return [(place, without(points, [p for p in places if p != place])) for place in places]


def extents(
    program: Program, nodes: Sequence[Node], tensor: str, around: tuple[str, ...], known: isl.Set
) -> list[str] | None:
    """How many places a footprint spans in each dimension: the most there are, or an expression; None: nothing."""
    points = touched(program, nodes, tensor, around)
    if points is None or points.intersect(known).is_empty():
        return None
    points = points.intersect(known)
    places = places_of(program.tensors[tensor].rank)
    found: list[str] = []
    for place in places:
        alone = without(points, [p for p in places if p != place])
        position = alone.find_dim_by_name(isl.dim_type.param, place)
        values = alone.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        low, high = values.dim_min(0).ceil(), values.dim_max(0).floor()
        one = isl.PwAff.from_aff(isl.Aff.val_on_domain_space(low.get_domain_space(), isl.Val(1)))
        count = high.sub(low).add(one)
        most = _most(count)
        if most is not None:
            found.append(str(most))
            continue
        build = isl.AstBuild.from_context(known)
        found.append(expression(build.expr_from_pw_aff(count.gist(known).coalesce()), lambda name: name))
    return found


def _most(count: isl.PwAff) -> int | None:
    """The greatest value that an expression has at all; None where there is none, or isl does not find it."""
    try:
        most = count.max_val()
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise
        return None  # isl's search takes no expression with some divisions
    return int(most.to_python()) if most.is_int() else None


def footprints(
    program: Program, tree: Sequence[Node], around: tuple[str, ...] = ()
) -> Iterator[tuple[str, str, list[str]]]:
    """(loop, tensor, extents) of what one iteration of each loop touches, outer loops first."""
    bounds = Bounds(program)
    yield from _footprints(program, tree, around, bounds, bounds.start())


def _footprints(
    program: Program, nodes: Sequence[Node], around: tuple[str, ...], bounds: Bounds, known: isl.Set
) -> Iterator[tuple[str, str, list[str]]]:
    for node in nodes:
        if isinstance(node, Leaf):
            continue
        inside, outer = known, around
        if isinstance(node, Loop):
            _, _, _, inside = bounds.loop(node, around, known)
            outer = (*around, node.index)
            for tensor in _tensors(program, node.body):
                found = extents(program, node.body, tensor, outer, inside)
                if found is not None:
                    yield node.index, tensor, found
        yield from _footprints(program, node.body, outer, bounds, inside)


def _tensors(program: Program, nodes: Sequence[Node]) -> list[str]:
    found: dict[str, None] = {}
    for leaf in leaves(nodes):
        found.update(dict.fromkeys(a.tensor for a in program.statement(leaf.statement).accesses))
    return list(found)
