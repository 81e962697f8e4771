"""Pieces of emitted NumPy: values with their axes, numbers and types."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...compiler.ir.dtype import DType
    from ...compiler.ir.quasiaffine import Affine

WIDTH = 88

# How tightly Python's operators bind, loosest first.
COMPARED, OR, AND, SUM, PRODUCT, SIGN, ATOM = range(7)
STRENGTH = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "//": PRODUCT, "%": PRODUCT}


@dataclass(frozen=True)
class Value:
    """Text of an expression: *axes* it varies along (none: a scalar), how tightly its operator binds, how deep it is.

    *python*: a Python int or bool, not an array or a NumPy scalar.
    """

    text: str
    axes: frozenset[str] = frozenset()
    strength: int = ATOM
    python: bool = False
    depth: int = 0

    @property
    def atomic(self) -> str:
        return self.within(ATOM)

    def within(self, strength: int) -> str:
        """The text as an operand of an operator of that strength."""
        return self.text if self.strength >= strength else f"({self.text})"


def index_strength(affine: Affine) -> int:
    if affine.bare is not None or (affine.is_number and affine.constant >= 0):
        return ATOM
    if len(affine.terms) == 1 and affine.constant == 0 and affine.terms[0][1] > 0:
        return PRODUCT
    return SUM


def tidy(text: str) -> str:
    """`f((a + b))` as `f(a + b)`."""
    start = text.find("((")
    if start <= 0 or not text.endswith("))") or not text[:start].replace(".", "").replace("_", "").isalnum():
        return text
    depth = 0
    for position in range(start + 1, len(text) - 1):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            whole = position == len(text) - 2
            return f"{text[: start + 1]}{text[start + 2 : -2]})" if whole else text
    return text


def number_text(value: float | int | bool) -> str:
    """A number as Python text; an integer-valued float without its `.0`."""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "np.nan"
        if math.isinf(value):
            return "np.inf" if value > 0 else "-np.inf"
        if value.is_integer() and abs(value) < 2**53 and str(value) != "-0.0":
            return str(int(value))
        return repr(value)
    return str(value)


def type_text(dtype: DType) -> str:
    """`np.float32`, `ml_dtypes.bfloat16`: the NumPy type of a scalar type, as text."""
    module = "ml_dtypes" if dtype.name in ("bf16", "f8e4m3", "f8e5m2") else "np"
    return f"{module}.{'bool_' if dtype.is_bool else dtype.numpy.name}"


def constant_text(value: float | int | bool, dtype: DType) -> str:
    """A constant with its type."""
    return f"{type_text(dtype)}({number_text(value)})"
