"""The language's scalar operations, one value at a time.

A float value is a Python float that its type holds exactly, an integer a Python int in its type's range,
a bool a Python bool. Every float result is the exact result rounded once to nearest even.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dtype import DType


def round_to(dtype: DType, value: Fraction | float) -> float:
    """The value of the float type *dtype* nearest to the exact *value* (a Fraction, float or int).

    Ties go to the even neighbour. Infinities and overflow follow ``dtype.overflow``; NaN stays NaN; the
    sign of a zero, given or underflowed to, is kept.
    """
    if isinstance(value, float) and (dtype.bits == 64 or value == 0.0 or not math.isfinite(value)):
        return _overflowed(dtype, value) if math.isinf(value) else value
    top, bottom = value.as_integer_ratio()
    sign, top = (-1.0, -top) if top < 0 else (1.0, top)
    if top == 0:
        return 0.0
    # The result is count * 2^exponent; a power of two may round up to precision + 1 bits, still exact.
    exponent = max(_floor_log2(top, bottom) + 1 - dtype.precision, dtype.emin)
    if exponent < 0:
        count = _nearest_even(top << -exponent, bottom)
    else:
        count = _nearest_even(top, bottom << exponent)
        # Values near the overflow threshold have exponents above 0 in every format.
        if count << exponent > int(dtype.largest):
            return _overflowed(dtype, sign)
    return math.ldexp(sign * count, exponent)


def _overflowed(dtype: DType, sign: float) -> float:
    return math.copysign(math.inf, sign) if dtype.overflow == "inf" else math.nan


def _floor_log2(top: int, bottom: int) -> int:
    guess = top.bit_length() - bottom.bit_length()
    below = top << -guess < bottom if guess < 0 else top < bottom << guess
    return guess - 1 if below else guess


def _nearest_even(top: int, bottom: int) -> int:
    quotient, rest = divmod(top, bottom)
    return quotient + (2 * rest > bottom or (2 * rest == bottom and quotient & 1 == 1))


def cast(value: float, source: DType, target: DType, saturating: bool = False) -> float:
    """*value*, of type *source*, as a value of type *target* (a float, int or bool).

    To a float: one rounding. Float to integer: truncates, saturates, NaN gives 0. Integer to integer:
    wraps. To bool: ``value != 0``. *saturating* clamps to the target's range instead of overflowing (8- and
    16-bit floats, infinities included; NaN stays NaN) or wrapping (integers).
    """
    if target.is_bool:
        return value != 0
    if source.is_bool:
        value = int(value)
    if target.is_float:
        if saturating and target.bits <= 16:
            value = _clamp(value, -target.largest, target.largest)
        return round_to(target, value)
    if source.is_float:
        if math.isnan(value):
            return 0
        clamped = _clamp(value, target.least, target.greatest)
        return math.trunc(clamped)
    whole = int(value)
    return int(_clamp(whole, target.least, target.greatest)) if saturating else _wrap(whole, target)


def _clamp(value: float, low: float, high: float) -> float:
    # Comparisons between ints and floats are exact in Python; a NaN passes both.
    return low if value < low else high if value > high else value


def _wrap(value: int, dtype: DType) -> int:
    return (value - dtype.least) % (1 << dtype.bits) + dtype.least


def binary(op: str, a: float, b: float, dtype: DType) -> float:
    """``a op b`` in *dtype*: + - * / min max on floats, + - * // % min max on integers.

    Integers wrap, ``//`` and ``%`` floor, and both give 0 for a divisor of 0. min and max propagate NaN and
    order -0 below +0.

    Raises:
        ValueError: the type has no such operation.
    """
    if op in ("min", "max"):
        return _extreme(op, a, b)
    if dtype.is_float and not dtype.stores_only:
        return round_to(dtype, _double_arithmetic(op, a, b))
    if dtype.is_int:
        return _wrap(_integer_arithmetic(op, int(a), int(b)), dtype)
    raise ValueError(f"{dtype} has no operation {op!r}")


def _extreme(op: str, a: float, b: float) -> float:
    if math.isnan(a) or math.isnan(b):
        return math.nan
    a_is_less = a < b or (a == b and math.copysign(1.0, a) < math.copysign(1.0, b))
    return a if a_is_less == (op == "min") else b


def _double_arithmetic(op: str, a: float, b: float) -> float:
    """``a op b`` in double precision.

    Rounding this once more to a format of p bits equals rounding the exact result: 53 >= 2p + 2 holds for
    p <= 24 (Figueroa 1995). In the subnormal range sums and products are exact here, and a quotient of
    p-bit numbers that is no midpoint is further than 2^-2p of itself from one.
    """
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op != "/":
        raise ValueError(f"floats have no operation {op!r}")
    if b != 0.0:
        return a / b
    if a == 0.0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _integer_arithmetic(op: str, a: int, b: int) -> int:
    if op == "+":
        return a + b
    if op == "-":
        return a - b
    if op == "*":
        return a * b
    if op == "//":
        return a // b if b else 0
    if op == "%":
        return a % b if b else 0
    raise ValueError(f"integers have no operation {op!r}")


def unary(op: str, a: float, dtype: DType) -> float:
    """``op a`` in *dtype*: "-" and "abs" (integers wrap); on floats also floor, ceil, round, sqrt.

    round takes halves to the even neighbour; floor, ceil and round keep the sign of a zero result.

    Raises:
        ValueError: the type has no such operation.
    """
    if dtype.is_int and op in ("-", "abs"):
        return _wrap(int(-a if op == "-" else abs(a)), dtype)
    if not dtype.is_float or dtype.stores_only:
        raise ValueError(f"{dtype} has no operation {op!r}")
    if op == "-":
        return -a
    if op == "abs":
        return abs(a)
    if op == "sqrt":
        # Two roundings are one here as well: 53 >= 2p + 2, and no square root is subnormal.
        return math.nan if a < 0.0 else round_to(dtype, math.sqrt(a))
    steps = {"floor": math.floor, "ceil": math.ceil, "round": round}
    if op not in steps:
        raise ValueError(f"{dtype} has no operation {op!r}")
    return math.copysign(float(steps[op](a)), a) if math.isfinite(a) else a


def fma(a: float, b: float, c: float, dtype: DType) -> float:
    """``a * b + c`` in the float type *dtype* with a single rounding."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return a * b + c
    if not math.isfinite(c):
        return c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    # An exact zero takes its sign from the terms: -0 only when both are -0.
    return round_to(dtype, exact) if exact else a * b + c


def compare(op: str, a: float, b: float) -> bool:
    """``a op b`` for < <= == != >= >; with a NaN only != holds.

    Raises:
        ValueError: *op* is no comparison.
    """
    answers = {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b}
    if op not in answers:
        raise ValueError(f"no comparison {op!r}")
    return answers[op]
