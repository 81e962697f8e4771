"""Where axes start: block loops counted from 0 on, as unrolled ones are, and those of one iteration gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import affine_of_isl, make_map
from ...compiler.ir.codegen import Bounds, as_params, without
from ...compiler.ir.quasiaffine import TRUE, Affine, Comparison
from ...compiler.ir.tree import Leaf, Loop, Node, distributed, leaves
from ...passes.state import reindexed
from .masks import formula_set
from .refusing import cannot

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Kind

KINDS: tuple[Kind, ...] = ("block", "unroll")


def from_zero(program: Program, tree: Sequence[Node], kinds: Collection[Kind] = KINDS) -> tuple[Node, ...]:
    """The tree with the index of loops of some kinds counted from its first value; of loops that are no block loops
    only where that is one expression.

    Raises:
        IllegalTransformError: the first value is no single expression of sizes and outer indices (rule target).
    """
    tree = distributed(tree)
    bounds = Bounds(program)
    return tuple(n for node in tree for n in _from_zero(program, node, (), bounds, kinds))


def _from_zero(
    program: Program, node: Node, around: tuple[str, ...], bounds: Bounds, kinds: Collection[Kind]
) -> list[Node]:
    if isinstance(node, Leaf):
        return [node]
    if not isinstance(node, Loop):
        return [
            replace(
                node, body=tuple(n for inner in node.body for n in _from_zero(program, inner, around, bounds, kinds))
            )
        ]
    body = node.body
    if node.kind in kinds:
        values = bounds.values(node, around)
        position = values.find_dim_by_name(isl.dim_type.param, node.index)
        low = values.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1).dim_min(0)
        pieces = low.gist(low.domain()).coalesce().get_pieces()
        if len(pieces) == 1:
            base = affine_of_isl(pieces[0][1].ceil())
        else:
            base = _below(program, node, values, pieces) if node.kind == "block" else Affine()
        if values.is_subset(formula_set(_names(values), Comparison("==", Affine.name(node.index), base))):
            # One value is no axis: all that it says is where.
            body = reindexed(program, body, node.index, (), base, TRUE)
            return [n for member in body for n in _from_zero(program, member, around, bounds, kinds)]
        if base != Affine():
            body = reindexed(program, body, node.index, (node.index,), Affine.name(node.index) + base, TRUE)
    inner = (*around, node.index)
    return [replace(node, body=tuple(n for member in body for n in _from_zero(program, member, inner, bounds, kinds)))]


def _below(program: Program, loop: Loop, values: isl.Set, pieces: Sequence[tuple[isl.Set, isl.Aff]]) -> Affine:
    """Where an axis starts whose first value is one of several expressions: at one that no value is below, and from
    which the values go the least far; if there is none, at the least value of all."""
    best: tuple[int, Affine] | None = None
    for _, piece in pieces:
        try:
            base = affine_of_isl(piece.ceil())
        except isl.Error:
            continue
        names = sorted({loop.index, *base.names()})
        lane = make_map((), names, (Affine.name(loop.index) - base,), TRUE)
        lanes = _points_of(values, names).apply(lane)
        low, high = lanes.dim_min_val(0), lanes.dim_max_val(0)
        if low.is_int() and high.is_int() and low.to_python() >= 0:
            found = (int(high.to_python()), base)
            best = found if best is None or found[0] < best[0] else best
    return best[1] if best is not None else _least(program, loop)


def _points_of(points: isl.Set, names: Sequence[str]) -> isl.Set:
    """Some parameters of a parameter set as the dimensions of a set, the others projected out."""
    found = isl.Set.from_params(without(points, [n for n in _names(points) if n not in names]))
    for name in names:
        position = found.find_dim_by_name(isl.dim_type.param, name)
        found = found.move_dims(isl.dim_type.set, found.dim(isl.dim_type.set), isl.dim_type.param, position, 1)
    return found


def _names(points: isl.Set) -> list[str]:
    return [str(points.get_dim_name(isl.dim_type.param, i)) for i in range(points.dim(isl.dim_type.param))]


def _least(program: Program, loop: Loop) -> Affine:
    """The least value that a loop's index has at all, where its first one differs from place to place."""
    values: isl.Set | None = None
    for leaf in leaves(loop.body):
        points = as_params(leaf.domain, leaf.indices)
        points = without(points, [n for n in (*leaf.indices, *program.sizes) if n != loop.index])
        values = points if values is None else values.union(points)
    assert values is not None
    position = values.find_dim_by_name(isl.dim_type.param, loop.index)
    least = values.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1).dim_min_val(0)
    if not least.is_int():
        text = f"the first value of {loop.index} differs from place to place: no axis starts there"
        raise cannot(program, text, f"split or peel {loop.index}, or block another loop")
    return Affine.number(int(least.to_python()))
