"""The merge of a sum's lanes: adjacent pairs, until one is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine
from . import arithmetic
from .builder import Value, number
from .memory import Buffer, load
from .positions import VariesError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.expr import Partial
    from .memory import Place
    from .positions import Positions


def merged(p: Positions, buffer: Buffer, places: Sequence[Place], node: Partial) -> Value:
    """The lanes from some places on, the last dimension's, combined in pairs."""
    if p.vector:
        raise VariesError
    b = p.b
    wide = min(node.count, p.wide)
    if buffer.slots:
        # As many as a register has of those that are in some.
        wide = min(lanes for _, lanes in buffer.slots.values())
    starts = range(0, node.count, wide)
    values = [_lanes(p, buffer, _moved(p, places, start), wide) for start in starts]
    while len(values) > 1:
        values = [_pairs(p, one, other, node) for one, other in zip(values[::2], values[1::2], strict=True)]
    (value,) = values
    while value.lanes > 1:
        half = value.lanes // 2
        even = b.shuffled(value, value, range(0, value.lanes, 2)) if half > 1 else b.lane(value, 0)
        odd = b.shuffled(value, value, range(1, value.lanes, 2)) if half > 1 else b.lane(value, 1)
        value = arithmetic.combined(p.b, node.op, even, odd, node.dtype)
    return value


def _moved(p: Positions, places: Sequence[Place], start: int) -> list[Place]:
    """The places so many lanes further."""
    last = places[-1]
    further = p.plus(last, number(start, "i64")) if isinstance(last, Value) else last + start
    return [*places[:-1], further]


def _lanes(p: Positions, buffer: Buffer, places: Sequence[Place], wide: int) -> Value:
    """So many lanes from some places on: a load, if they lie beside each other."""
    if buffer.strides[-1].text == "1" and wide > 1 and not isinstance(places[-1], Value):
        lane = "lane of a merge"
        p.names[lane] = number(0, "i64")
        p.vector, p.lanes, p.first = lane, wide, Affine()
        value = load(p, buffer, [*places[:-1], places[-1] + Affine.name(lane)])
        p.vector, p.lanes, p.first = "", 1, None
        return value
    parts = [load(p, buffer, _moved(p, places, n)) for n in range(wide)]
    return parts[0] if wide == 1 else p.b.joined(parts)


def _pairs(p: Positions, one: Value, other: Value, node: Partial) -> Value:
    """The adjacent lanes of two values, one after the other, combined."""
    if one.lanes == 1:
        return arithmetic.combined(p.b, node.op, one, other, node.dtype)
    count = 2 * one.lanes
    even, odd = (p.b.shuffled(one, other, range(n, count, 2)) for n in (0, 1))
    return arithmetic.combined(p.b, node.op, even, odd, node.dtype)
