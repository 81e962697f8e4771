"""Quotients of a row: many numbers from 0 to 1 by one, of which the reciprocal is taken once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Value, number

if TYPE_CHECKING:
    from .builder import Builder

# Keeps the remainder of a subnormal quotient from being rounded.
SCALE = 2.0**64


def row_quotient(b: Builder, x: Value, y: Value) -> Value:
    """x / y (f32), rounded once, for lanes 0 <= x <= 1 and one y for all of them.

    The quotient that the reciprocal in two parts gives is off by less than a unit, and its remainder exact: corrected
    by it, the quotient is rounded to nearest (Markstein, IBM Journal of Research and Development 34, 1990), of
    subnormal numbers too, unless it is a tie. There are none among normal numbers; among others, only where y is an
    even integer: then, and where y is out of range or none, lanes are divided.
    """
    slot = b.slot(x.full, "quotient")
    near, far, after = (b.label(word) for word in ("near", "far", "after"))
    half = b.binary("fmul", y, _f32(0.5))
    odd = b.compared("fcmp one", half, b.called("floor", half))
    large = b.compared("fcmp oge", y, _f32(2.0**-24))
    small = b.compared("fcmp ole", y, _f32(2.0**24))
    b.branch(b.binary("and", odd, b.binary("and", large, small)), near, far)
    b.start(near)
    reciprocal = b.binary("fdiv", _f32(1.0), y)
    lost = b.binary("fmul", b.called("fma", reciprocal, b.negated(y), _f32(1.0)), reciprocal)
    found = b.called("fma", x, reciprocal, b.binary("fmul", x, lost))
    rest = b.called("fma", found, b.binary("fmul", y, _f32(-SCALE)), b.binary("fmul", x, _f32(SCALE)))
    corrected = b.called("fma", rest, b.binary("fmul", reciprocal, _f32(1 / SCALE)), found)
    b.line(f"store {corrected}, ptr {slot}")
    b.jump(after)
    b.start(far)
    b.line(f"store {b.binary('fdiv', x, y)}, ptr {slot}")
    b.jump(after)
    b.start(after)
    return b.made(f"load {x.full}, ptr {slot}", x.type, x.lanes)


def _f32(value: float) -> Value:
    return number(value, "float")
