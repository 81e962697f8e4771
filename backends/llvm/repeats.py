"""Iterations beyond a loop's end.

A tile of registers that is not full at an edge is computed as a full one is: what is beyond its last row is that row
once more, in registers of its own that nobody stores. So nothing is tested in the sum that the tile is for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.codegen import without
from ...compiler.ir.tree import leaves

if TYPE_CHECKING:
    from ...compiler.ir.tree import Loop
    from .blocks import Around, Blocks


def repeats(walk: Blocks, loop: Loop, around: Around, known: isl.Set) -> bool:
    """Whether a loop may run its last iteration more than once: it begins at 0, and all that it writes is floats in
    registers that no other iteration names."""
    values = walk.bounds.values(loop, around).intersect(known)
    position = values.find_dim_by_name(isl.dim_type.param, loop.index)
    first = values.fix_val(isl.dim_type.param, position, isl.Val(0))
    if not without(values, [loop.index]).is_subset(without(first, [loop.index])):
        return False
    for leaf in leaves(loop.body):
        statement = walk.program.statement(leaf.statement)
        buffer = walk.buffers[statement.tensor]
        # What lies in registers beyond the end may never have been set: of floats, nothing comes of it.
        held = [b for b in (walk.buffers[a.tensor] for a in statement.accesses) if b.slots is not None]
        if buffer.slots is None or not all(b.dtype.is_float for b in held):
            return False
        bound = dict(zip(statement.iterators, leaf.instance, strict=True))
        places = (at.substituted(bound) - low for at, low in zip(statement.position, buffer.lows, strict=True))
        if not any(place.bare == loop.index for place in places):
            return False
    return True
