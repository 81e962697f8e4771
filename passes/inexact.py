"""Numbers that may be off: values in f64 with bounds on how far the permitted result lies from the defined one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.dtype import DType
    from ..compiler.ir.expr import Reduce

_FUNCTIONS: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
# Our elementary functions are within 2 ulp: two of them within 4, and one for the f64 that stands in for them here.
_ULPS = 5


@dataclass(frozen=True)
class Inexact:
    """*error*: 0 where the value is the defined one; inf where it may be anything."""

    value: Any
    error: Any = 0.0


def rounded(x: Inexact, dtype: DType) -> Inexact:
    """After a rounding to a type: values that are off round on both sides."""
    if not dtype.is_float:
        reach = np.abs(x.value) + x.error > dtype.greatest if dtype.is_int else np.array(False)
        return Inexact(_wrapped(x.value, dtype), np.where((x.error > 0) & reach, np.inf, x.error))
    value = _to(x.value, dtype)
    size = np.abs(x.value) + x.error
    error = x.error + 2 * (size * 2.0**-dtype.precision + 2.0 ** (dtype.emin - 1))
    error = np.where(size > dtype.largest, np.inf, error)
    return Inexact(value, np.where(x.error > 0, error, 0))


def _to(value: Any, dtype: DType) -> Any:
    """The value rounded to a float type, near enough for a bound."""
    return value if dtype.bits == 64 else np.asarray(value).astype(np.float32).astype(dtype.numpy).astype(np.float64)


def _wrapped(value: Any, dtype: DType) -> Any:
    if not dtype.is_int or dtype.bits == 64:
        return value
    count = 2.0**dtype.bits
    return (value - dtype.least) % count + dtype.least


def combined(op: str, a: Inexact, b: Inexact) -> Inexact:
    """a + b or a - b, exactly."""
    return Inexact(a.value + b.value if op == "+" else a.value - b.value, a.error + b.error)


def product(a: Inexact, b: Inexact) -> Inexact:
    """a * b, exactly."""
    error = np.abs(a.value) * b.error + np.abs(b.value) * a.error + a.error * b.error
    return Inexact(a.value * b.value, _sure(error, a.error + b.error))


def divided(a: Inexact, b: Inexact) -> Inexact:
    """a / b, exactly."""
    value = a.value / b.value
    least = np.abs(b.value) - b.error
    error = np.where(least > 0, (a.error + np.abs(value) * b.error) / np.where(least > 0, least, 1), np.inf)
    return Inexact(value, np.where(a.error + b.error > 0, error, 0))


def quotient_or_remainder(op: str, a: Inexact, b: Inexact) -> Inexact:
    """Integer `//` and `%`: anything once an operand is off."""
    divisor = np.where(b.value == 0, 1, b.value)
    value = np.where(b.value == 0, 0, a.value // divisor if op == "//" else a.value % divisor)
    return Inexact(value, np.where(a.error + b.error > 0, np.inf, 0.0))


def unary(op: str, x: Inexact, dtype: DType) -> Inexact:
    if op in ("-", "abs"):
        return Inexact(-x.value if op == "-" else np.abs(x.value), x.error)
    if op == "sqrt":
        low, high = np.sqrt(np.maximum(x.value - x.error, 0)), np.sqrt(x.value + x.error)
        value = np.sqrt(x.value)
        return rounded(Inexact(value, _sure(np.maximum(high - value, value - low), x.error)), dtype)
    value = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[op](x.value)
    return Inexact(value, np.where(x.error > 0, x.error + 1, 0))


def called(function: str, arguments: Sequence[Inexact], dtype: DType) -> Inexact:
    """An elementary function; fma."""
    x = arguments[0]
    if function == "fma":
        return rounded(combined("+", product(x, arguments[1]), arguments[2]), dtype)
    evaluate = _FUNCTIONS.get(function, _erf)
    value = evaluate(x.value)
    if function in ("sin", "cos"):
        spread = np.minimum(x.error, 2)
    else:
        # Monotone: the ends of the interval bound it.
        spread = np.maximum(np.abs(evaluate(x.value + x.error) - value), np.abs(evaluate(x.value - x.error) - value))
    spread = spread + _ULPS * 2 * 2.0**-dtype.wide.precision * (np.abs(value) + spread)
    return rounded(Inexact(value, _sure(spread, x.error)), dtype)


def _erf(x: Any) -> Any:
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sure(error: Any, wanted: Any) -> Any:
    """The bound where something is off; what is no number bounds nothing."""
    return np.where(wanted > 0, np.where(np.isnan(error), np.inf, error), 0)


def summed(node: Reduce, value: Any, error: Any, mask: Any, axes: tuple[int, ...], free: bool) -> Inexact:
    """A reduction of the terms where *mask* holds; *free*: its order may be any."""
    count = np.maximum(mask.sum(axes), 1)
    off = np.where(mask, error, 0).max(axes, initial=0) > 0
    if node.op in ("sum", "prod"):
        total = np.where(mask, value, node.op == "prod")
        result = total.sum(axes) if node.op == "sum" else total.prod(axes)
        if node.dtype.is_int:
            return Inexact(_wrapped(result, node.dtype), np.where(off, np.inf, 0.0))
        unit = 2.0**-node.dtype.precision
        growth = np.where(count * unit < 1, count * unit / (1 - count * unit), np.inf)
        if node.op == "sum":
            own = np.where(mask, error, 0).sum(axes)
            size = np.where(mask, np.abs(value) + error, 0).sum(axes)
            bound = own + 2 * growth * size
        else:
            relative = np.where(mask & (error > 0), error / np.where(value == 0, np.inf, np.abs(value)), 0)
            relative = np.where(mask & (error > 0) & (value == 0), np.inf, relative)
            bound = np.abs(result) * ((1 + relative).prod(axes) * (1 + 2 * growth) - 1) + count * 2.0**node.dtype.emin
        several = (mask.sum(axes) > 2) & free
        return Inexact(result, np.where(off | several, np.where(np.isnan(bound), np.inf, bound), 0.0))
    if node.op in ("min", "max"):
        pick = np.min if node.op == "min" else np.max
        far = np.inf if node.op == "min" else -np.inf
        worst = np.where(mask, error, 0).max(axes, initial=0)
        return Inexact(pick(np.where(mask, value, far), axis=axes, initial=far), worst)
    if node.op in ("any", "all"):
        result = np.where(mask, value, node.op == "all")
        found = result.max(axes, initial=0) if node.op == "any" else result.min(axes, initial=1)
        return Inexact(found, off.astype(np.float64))
    # argmax, argmin: the first of equals, a NaN the greatest; another index once a value is off.
    flat = np.where(mask, value, -np.inf if node.op == "argmax" else np.inf)
    flat = np.where(np.isnan(flat), np.inf if node.op == "argmax" else -np.inf, flat)
    first = (
        (flat.argmax(axes[0]) if node.op == "argmax" else flat.argmin(axes[0])) if flat.shape[axes[0]] else count * 0
    )
    return Inexact(first.astype(np.float64), np.where(off, np.inf, 0.0))
