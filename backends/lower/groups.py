"""Loops of a grid that run in groups: as often in every group, but for the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.codegen import without
from .tile import Grouped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.codegen import Bounds
    from ...compiler.ir.tree import Loop
    from .tile import For


def of_grid(spans: Bounds, made: For, node: Loop, around: tuple[str, ...], known: isl.Set) -> For:
    """A loop that may be one of the grid, with what the launcher wants to know of it."""
    _, *own, _ = spans.loop(node, around, known)
    _, *span, _ = spans.loop(node, (), spans.start())
    shared = node.target == "processors"
    if own == span:
        return replace(made, span=(span[0], span[1]), shared=shared)
    values = spans.values(node, around).intersect(known)
    grouped = None
    if made.condition is None and own[0] == "0":
        sizes = ((outer, _group_size(values, node.index, outer, around)) for outer in around)
        grouped = next((Grouped(outer, size, own[1]) for outer, size in sizes if size is not None), None)
    return replace(made, span=(span[0], span[1]), rectangular=False, grouped=grouped, shared=shared)


def _group_size(values: isl.Set, index: str, outer: str, around: Sequence[str]) -> int | None:
    """How often a loop runs in every iteration of a loop around it but the last, at any size; None where that is no one
    number, or where it depends on another loop. *values*: of its index, from 0 on, as a parameter set."""
    alone = without(values, [n for n in around if n != outer])
    if not without(values, [index]).intersect(alone).is_subset(values):
        return None
    pairs = _as_dims(alone, (outer, index))
    last = pairs.dim_max_val(1)
    if not last.is_int():
        return None
    outers = pairs.project_out(isl.dim_type.set, 1, 1)
    before = outers.lex_lt_set(outers).domain()
    full = before.insert_dims(isl.dim_type.set, 1, 1).lower_bound_val(isl.dim_type.set, 1, isl.Val(0))
    full = full.upper_bound_val(isl.dim_type.set, 1, last)
    return int(last.to_python()) + 1 if full.is_subset(pairs) else None


def _as_dims(points: isl.Set, names: Sequence[str]) -> isl.Set:
    """A parameter set with some of its parameters as dimensions, in order."""
    for place, name in enumerate(names):
        position = points.find_dim_by_name(isl.dim_type.param, name)
        if position < 0:
            points, position = points.add_dims(isl.dim_type.param, 1), points.dim(isl.dim_type.param)
        points = points.move_dims(isl.dim_type.set, place, isl.dim_type.param, position, 1)
    return points
