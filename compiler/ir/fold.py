"""The sum that a matrix unit carries out, `mma=`: one step of its fold at a time.

A step adds the products of *block* consecutive elements to the accumulator. Every term is cut, toward zero, to a
multiple of 2**(greatest exponent - align); those are added exactly; and the sum is cut to *bits* significant bits. No
vendor documents it: the rules and constants are those of Khattak and Mikaitis, "Accurate models of NVIDIA tensor
cores" (arXiv 2512.07004), confirmed bit for bit on an H200 for every type here, subnormals and overflow included.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .dtype import F32
from .expr import Allow, Binary, Cast
from .scalar import round_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .expr import Expr, Order

FLOOR = -133  # the least greatest exponent there is
LEAST = -126  # the exponent of subnormal f32
LAST = -149  # that of the last bit of an f32


@dataclass(frozen=True)
class Unit:
    """A matrix unit for one type of input. *least*: the exponent of the type's subnormals, as they are not normalised.

    *cut*: inputs are f32 that lose their last 13 bits, which makes them tf32.
    """

    block: int
    align: int
    bits: int
    least: int
    cut: bool = False


_SM_90 = {
    "bf16": Unit(16, 25, 24, -126),
    "f16": Unit(16, 25, 24, -14),
    "f32": Unit(8, 25, 24, -126, cut=True),
    "f8e4m3": Unit(32, 13, 14, -6),
    "f8e5m2": Unit(32, 13, 14, -14),
}
# The chip families whose fold is part of the language: those whose bits are known.
FAMILIES = {"sm_90": _SM_90}


def added(value: Expr) -> Expr:
    """The product in an update of an `mma=` sum, which is `total + product`."""
    assert isinstance(value, Binary)
    return value.right


def factors_of(element: Expr) -> tuple[Expr, Expr]:
    """What an `mma=` sum multiplies: the narrow values themselves, or two f32."""
    product = _bare(element)
    assert isinstance(product, Binary)
    sides = [_bare(side) for side in (product.left, product.right)]
    left, right = (side.operand if isinstance(side, Cast) and side.dtype is F32 else side for side in sides)
    return left, right


def _bare(expr: Expr) -> Expr:
    while isinstance(expr, Allow):
        expr = expr.operand
    return expr


def unit_of(order: Order, element: Expr) -> Unit:
    """The unit that adds products like this one in an `mma=` order."""
    return FAMILIES[order.family][factors_of(element)[0].dtype.name]


def fold_step(accumulator: float, pairs: Sequence[tuple[float, float]], unit: Unit) -> float:
    """The accumulator with one step's products added: at most *block* pairs, in any order."""
    if unit.cut:
        pairs = [(_tf32(a), _tf32(b)) for a, b in pairs]
    terms = [a * b for a, b in pairs] + [accumulator]  # exact in f64
    if any(math.isnan(t) for t in terms) or {math.inf, -math.inf} <= set(terms):
        return math.nan
    if any(math.isinf(t) for t in terms):
        return next(t for t in terms if math.isinf(t))
    exponents = [_exponent(a, unit.least) + _exponent(b, unit.least) for a, b in pairs if a and b]
    exponents += [_exponent(accumulator, LEAST)] if accumulator else []
    last = max([FLOOR, *exponents]) - unit.align
    total = sum(math.trunc(math.ldexp(t, -last)) for t in terms)
    lost = max(abs(total).bit_length() - unit.bits, LAST - last, 0)
    size = abs(total) >> lost
    if not size:
        return 0.0
    large = size.bit_length() + lost + last > 128
    return math.copysign(math.inf if large else math.ldexp(size, lost + last), total)


def _exponent(x: float, least: int) -> int:
    return max(math.frexp(x)[1] - 1, least)


def _tf32(x: float) -> float:
    """An f32 without its last 13 bits."""
    if math.isnan(x):
        return x
    (bits,) = struct.unpack("<I", struct.pack("<f", x))
    (cut,) = struct.unpack("<f", struct.pack("<I", bits & 0xFFFFE000))
    return cut


@dataclass(frozen=True)
class Folding:
    """An accumulator between two elements of its sum, any number of which are in its last, open step.

    *place*: the block of that step, with the indices outside of it. *before*: the accumulator ahead of the step; with
    `promote=` that of the part which *promoted* is ahead of.
    """

    place: tuple[int, ...]
    part: tuple[int, ...]
    before: float
    promoted: float
    pairs: tuple[tuple[float, float], ...] = ()


def folded(
    state: Folding | None, value: float, point: Sequence[int], pair: tuple[float, float], unit: Unit, promote: int
) -> tuple[Folding, float]:
    """The next element: the new state, and what the accumulator now is.

    *state*: that after the element before (None: this is the first); *value*: what the accumulator is; *point*: the
    values of the reduction's indices, innermost last.
    """
    *outer, k = point
    place, part = (*outer, k // unit.block), (*outer, k // promote) if promote else ()
    if state is None or state.part != part:
        state = Folding(place, part, 0.0 if promote else value, value if promote else 0.0)
    elif state.place != place:
        state = Folding(place, part, value if not promote else _inner(state, unit), state.promoted)
    state = replace(state, pairs=(*state.pairs, pair))
    inner = _inner(state, unit)
    return state, round_to(F32, state.promoted + inner) if promote else inner


def _inner(state: Folding, unit: Unit) -> float:
    return fold_step(state.before, state.pairs, unit)
