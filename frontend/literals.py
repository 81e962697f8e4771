"""Numbers without a type: exact until they meet one, then rounded once."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Const
from ..compiler.ir.scalar import round_to
from .diagnostic import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..compiler.ir.dtype import DType
    from .syntax import At

# Exact values may grow under folding; beyond this many bits a fold is refused rather than carried out.
BITS = 200_000
EXPONENT = 5000


@dataclass(frozen=True, eq=False)
class Literal:
    """An exact rational, or one of inf, -inf, nan, -0.0 as a float. *whole*: written as an integer."""

    value: Fraction | float
    whole: bool
    at: At
    # As the author wrote it, where it is one number; *vast*: its exponent lies beyond what is carried exactly.
    written: str = ""
    vast: bool = False

    @property
    def text(self) -> str:
        if self.written or isinstance(self.value, float):
            return self.written or str(self.value)
        if self.value.denominator == 1 and abs(self.value) < 10**20:
            return str(self.value.numerator)
        try:
            return f"{float(self.value):.10g}"
        except OverflowError:
            return "this constant"

    @property
    def integer(self) -> int | None:
        """The value, where it may stand for an integer."""
        if isinstance(self.value, Fraction) and self.whole and self.value.denominator == 1:
            return self.value.numerator
        return None


def number_literal(text: str, at: At) -> Literal:
    """The literal of a number token."""
    whole = not any(c in text for c in ".eE")
    mantissa, _, exponent = text.lower().partition("e")
    power = int(exponent or 0)
    digits = Fraction(mantissa)
    # No format reaches beyond 10^400: a larger exponent gives the same rounding, but is not folded.
    vast = abs(power) > EXPONENT
    if vast:
        power = EXPONENT if power > 0 else -EXPONENT
    return Literal(digits * Fraction(10) ** power, whole, at, text, vast)


def negated(literal: Literal, at: At) -> Literal:
    value = literal.value
    written = f"-{literal.written}" if literal.written and not literal.written.startswith("-") else ""
    negative = -0.0 if value == 0 and not literal.whole else -value
    return Literal(negative, literal.whole, at, written, literal.vast)


_FOLD: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": lambda a, b: Fraction(a // b),
    "%": lambda a, b: a - b * (a // b),
}


def fold(op: str, left: Literal, right: Literal, at: At) -> Literal:
    """The exact result of an operation of two literals.

    Raises:
        Fault: an operand is inf, nan or -0.0, the divisor is 0, or the exact value grows out of bounds.
    """
    a, b = left.value, right.value
    if isinstance(a, float) or isinstance(b, float):
        odd = left if isinstance(a, float) else right
        raise Fault(at, f"constant arithmetic with {odd.text}", "give one operand a type: f32(...)")
    if left.vast or right.vast:
        raise Fault(at, "this constant is too long to compute exactly", "write its value")
    if op in ("/", "//", "%") and b == 0:
        raise Fault(right.at, "a constant is divided by 0", "for inf write inf, for nan write nan")
    if a.numerator.bit_length() + b.numerator.bit_length() + b.denominator.bit_length() > BITS:
        raise Fault(at, "this constant is too long to compute exactly", "write its value")
    return Literal(_FOLD[op](Fraction(a), Fraction(b)), op != "/" and left.whole and right.whole, at)


def typed(literal: Literal, dtype: DType, whose: str) -> tuple[Const, str | None]:
    """The literal as a constant of a type, and a warning if it became 0. *whose* names the source of the type.

    Raises:
        Fault: it is not a value of the type.
    """
    value = literal.value
    if dtype.is_bool:
        raise Fault(literal.at, f"{literal.text} is a number and {whose} is bool", "write true, false or a comparison")
    if dtype.is_int:
        whole = literal.integer
        if whole is None:
            raise Fault(
                literal.at,
                f"{literal.text} is not an integer and {whose} is {dtype}",
                f"cast {whose}, or write a whole number",
            )
        if not dtype.least <= whole <= dtype.greatest:
            raise Fault(
                literal.at,
                f"{literal.text} does not fit {dtype}",
                f"{dtype} holds {dtype.least} to {dtype.greatest}",
            )
        return Const(whole, dtype), None
    if isinstance(value, float):
        if dtype.overflow == "nan" and math.isinf(value):
            raise Fault(literal.at, f"{dtype} has no infinity", "write its largest value")
        return Const(value, dtype), None
    rounded = round_to(dtype, value)
    if not math.isfinite(rounded):
        raise Fault(
            literal.at,
            f"{literal.text} is too large for {dtype}",
            f"the largest is {dtype.largest:g}; infinity is written inf",
        )
    vanished = rounded == 0 and value != 0
    return Const(rounded, dtype), f"this number becomes 0 in {dtype}" if vanished else None
