"""How many values loops have at most, at any size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.codegen import as_params, without
from ...compiler.ir.tree import leaves
from .refusing import cannot

if TYPE_CHECKING:
    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Loop


def power(count: int) -> int:
    """The least power of two that is no less."""
    return 1 << max(count - 1, 0).bit_length()


def extent_of(program: Program, loop: Loop) -> int:
    """How many values a block loop has at most, at any size."""
    last = greatest(program, loop)
    if last is None:
        text = f"{loop.index} has no bound that holds at all sizes: a tile has as many lanes as its axis has values"
        hint = f"split {loop.index} and block the inner loop, or bound the size (where ..)"
        raise cannot(program, text, hint, rule="shape")
    return max(last + 1, 1)


def greatest(program: Program, loop: Loop) -> int | None:
    """The greatest value of a loop's index at any size; None where there is none, or where values may be below 0."""
    last = -1
    for leaf in leaves(loop.body):
        points = as_params(leaf.domain, leaf.indices)
        points = without(points, [n for n in (*leaf.indices, *program.sizes) if n != loop.index])
        position = points.find_dim_by_name(isl.dim_type.param, loop.index)
        if position < 0:
            continue
        values = points.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        if values.is_empty():
            continue
        low, high = values.dim_min_val(0), values.dim_max_val(0)
        if not high.is_int() or not low.is_int() or int(low.to_python()) < 0:
            return None
        last = max(last, int(high.to_python()))
    return last
