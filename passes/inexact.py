"""Numbers that may be off: values in f64, with bounds on how far the permitted result lies from the defined one.

A value here is not quite the defined one itself: sums and elementary functions are evaluated in another way. How far it
may lie from that is its *slack*; what hangs on a value, a branch or an element chosen by it, is known only up to that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..compiler.ir.dtype import DType
    from ..compiler.ir.expr import Reduce

_FUNCTIONS: dict[str, Any] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip
# Our elementary functions are within 2 ulp: two of them within 4, and one for the f64 that stands in for them here.
_ULPS = 5
# Integers beyond this are not all f64 values.
_WHOLE = 2.0**53


@dataclass(frozen=True)
class Inexact:
    """*error*: how far the permitted result may lie from the defined one; *slack*: how far the value may from that."""

    value: Any
    error: Any = 0.0
    slack: Any = 0.0

    @property
    def size(self) -> Any:
        """A bound on the absolute value of what is defined and of what is permitted."""
        return np.abs(self.value) + self.error + self.slack


def off(wanted: Any, bound: Any) -> Any:
    """The bound where something is off; what is no number bounds nothing."""
    return np.where(np.asarray(wanted), np.where(np.isnan(bound), np.inf, bound), 0.0)


def _each(value: Any, operands: Sequence[Inexact], bound: Callable[..., Any]) -> Inexact:
    """An exact operation: the same formula bounds the error and the slack from those of the operands."""
    errors, slacks = [x.error for x in operands], [x.slack for x in operands]
    return Inexact(
        value,
        off(_any(errors), bound(*errors)),
        off(_any(slacks), bound(*slacks)),
    )


def _any(bounds: Sequence[Any]) -> Any:
    found: Any = np.asarray(False)
    for bound in bounds:
        found = found | (np.asarray(bound) > 0)
    return found


def rounded(x: Inexact, dtype: DType) -> Inexact:
    """After a rounding to a type: values that are off round on both sides."""
    if not dtype.is_float:
        return whole(x, dtype)
    value, again = _to(x.value, dtype)
    half = x.size * 2.0**-dtype.precision + 2.0 ** (dtype.emin - 1)
    slack = x.slack + np.where(again, 2 * half, 0)
    large = x.size + 2 * half > dtype.largest
    error = np.where(large, np.inf, x.error + 2 * half)
    slack = np.where((slack > 0) & large, np.inf, slack + np.where(x.slack > 0, 2 * half, 0))
    return Inexact(value, off(np.asarray(x.error) > 0, error), off(slack > 0, slack))


def _to(value: Any, dtype: DType) -> tuple[Any, Any]:
    """The value rounded to a float type, and where that took two roundings."""
    if dtype.bits == 64:
        return value, np.asarray(False)
    narrow = np.asarray(value).astype(np.float32)
    again = (narrow.astype(np.float64) != value) & (dtype.bits < 32)
    return narrow.astype(dtype.numpy).astype(np.float64), again


def whole(x: Inexact, dtype: DType) -> Inexact:
    """An integer in its type, where it wraps; a bool."""
    if not dtype.is_int:
        return x
    reach = (x.size > dtype.greatest) | (x.size > -dtype.least) if dtype.signed else np.asarray(x.value - x.size < 0)
    reach = reach | (x.size > dtype.greatest)
    value = x.value
    if dtype.bits < 64:
        value = (value - dtype.least) % 2.0**dtype.bits + dtype.least
    slack = np.where((x.size > _WHOLE) | ((x.slack > 0) & reach), np.inf, x.slack)
    return Inexact(value, np.where((np.asarray(x.error) > 0) & reach, np.inf, x.error), slack)


def given(value: Any) -> Inexact:
    """An input: known exactly, unless it is an integer that f64 does not hold."""
    array = np.asarray(value)
    large = (array.dtype.kind in "iu") & (np.abs(array.astype(np.float64)) >= _WHOLE)
    return Inexact(array.astype(np.float64), np.zeros(array.shape), np.where(large, np.inf, 0.0))


def combined(op: str, a: Inexact, b: Inexact) -> Inexact:
    """a + b or a - b, exactly."""
    return _each(a.value + b.value if op == "+" else a.value - b.value, (a, b), lambda x, y: x + y)


def product(a: Inexact, b: Inexact) -> Inexact:
    """a * b, exactly."""
    return _each(a.value * b.value, (a, b), lambda x, y: a.size * y + b.size * x)


def divided(a: Inexact, b: Inexact) -> Inexact:
    """a / b, exactly."""
    value = a.value / b.value
    least = np.abs(b.value) - b.error - b.slack

    def bound(x: Any, y: Any) -> Any:
        quotient = a.size / np.where(least > 0, least, 1)
        return np.where(least > 0, (x + quotient * y) / np.where(least > 0, least, 1), np.inf)

    return _each(value, (a, b), bound)


def least_or_greatest(op: str, a: Inexact, b: Inexact) -> Inexact:
    return _each((np.minimum if op == "min" else np.maximum)(a.value, b.value), (a, b), np.maximum)


def quotient_or_remainder(op: str, a: Inexact, b: Inexact) -> Inexact:
    """Integer `//` and `%`: anything once an operand is off."""
    divisor = np.where(b.value == 0, 1, b.value)
    value = np.where(b.value == 0, 0, a.value // divisor if op == "//" else a.value % divisor)
    return _each(value, (a, b), lambda x, y: np.inf)


def unary(op: str, x: Inexact, dtype: DType) -> Inexact:
    if op in ("-", "abs"):
        return whole(Inexact(-x.value if op == "-" else np.abs(x.value), x.error, x.slack), dtype)
    if op == "sqrt":
        return rounded(_monotone(np.sqrt, x), dtype)
    value = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[op](x.value)
    return _each(value, (x,), lambda e: e + 1)


def _monotone(evaluate: Callable[[Any], Any], x: Inexact) -> Inexact:
    """A monotone function: its values at the ends bound it; where an end has none, nothing does."""
    value = evaluate(x.value)

    def bound(e: Any) -> Any:
        reach = e + x.slack
        return np.maximum(np.abs(evaluate(x.value + reach) - value), np.abs(evaluate(x.value - reach) - value)) * 2

    return _each(value, (x,), bound)


def called(function: str, arguments: Sequence[Inexact], dtype: DType, permitted: int = 0) -> Inexact:
    """An elementary function, which may be off by some units in the last place by permission; fma."""
    x = arguments[0]
    if function == "fma":
        exact = combined("+", product(x, arguments[1]), arguments[2])
        return rounded(Inexact(exact.value, exact.error, exact.slack + exact.size * 2.0**-dtype.precision), dtype)
    evaluate = _FUNCTIONS.get(function, _erf)
    if function in ("sin", "cos"):
        found = _each(evaluate(x.value), (x,), lambda e: np.minimum(e, 2))
    else:
        found = _monotone(evaluate, x)
    ulps = _ULPS * 2 * 2.0**-dtype.wide.precision * found.size + 2.0 ** (dtype.wide.emin + 2)
    granted = permitted * (
        2 * 2.0**-dtype.wide.precision * found.size + 2.0 ** (dtype.wide.emin + 1 - dtype.wide.precision)
    )
    error = off((np.asarray(found.error) > 0) | (permitted > 0), found.error + ulps + granted)
    return rounded(Inexact(found.value, error, off(True, found.slack + ulps)), dtype)


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def summed(node: Reduce, term: Inexact, mask: Any, axes: tuple[int, ...], free: bool) -> Inexact:
    """A reduction of the terms where *mask* holds, in arrays of its shape; *free*: its order may be any."""
    error, slack = np.where(mask, term.error, 0), np.where(mask, term.slack, 0)
    loose = (slack.max(axes, initial=0) > 0, slack.max(axes, initial=0))
    worst = error.max(axes, initial=0)
    moved = (worst > 0) | ((mask.sum(axes) > 2) & free)
    if node.op in ("sum", "prod"):
        return (_total if node.op == "sum" else _power)(node, term.value, error, slack, mask, axes, moved)
    if node.op in ("min", "max"):
        pick, far = (np.min, np.inf) if node.op == "min" else (np.max, -np.inf)
        return Inexact(pick(np.where(mask, term.value, far), axis=axes, initial=far), worst, loose[1])
    if node.op in ("any", "all"):
        result = np.where(mask, term.value, node.op == "all")
        found = result.max(axes, initial=0) if node.op == "any" else result.min(axes, initial=1)
        return Inexact(found, (worst > 0).astype(np.float64), loose[0].astype(np.float64))
    # argmax, argmin: the first of equals, a NaN the greatest; another index once a value is off.
    end = -np.inf if node.op == "argmax" else np.inf
    flat = np.where(np.isnan(term.value), -end, term.value)
    flat = np.where(mask, flat, end)
    empty = not flat.shape[axes[0]]
    first = mask.sum(axes) * 0 if empty else flat.argmax(axes[0]) if node.op == "argmax" else flat.argmin(axes[0])
    return Inexact(first.astype(np.float64), np.where(worst > 0, np.inf, 0.0), np.where(loose[0], np.inf, 0.0))


def _total(node: Reduce, value: Any, error: Any, slack: Any, mask: Any, axes: tuple[int, ...], moved: Any) -> Inexact:
    result = np.where(mask, value, 0).sum(axes)
    size = np.where(mask, np.abs(value), 0) + error + slack
    reach = size.sum(axes)
    if node.dtype.is_int:
        total = whole(Inexact(result, 0.0, slack.sum(axes)), node.dtype)
        known = np.where(reach > _WHOLE, np.inf, total.slack)
        return Inexact(total.value, np.where(error.max(axes, initial=0) > 0, np.inf, 0.0), known)
    growth = _growth(node, mask, axes)
    large = reach * (1 + growth) > node.dtype.largest
    bound = np.where(large, np.inf, error.sum(axes) + 2 * growth * reach)
    known = np.where(large, np.inf, slack.sum(axes) + growth * reach)
    return Inexact(result, off(moved, bound), off((mask.sum(axes) > 1) | (slack.max(axes, initial=0) > 0), known))


def _growth(node: Reduce, mask: Any, axes: tuple[int, ...]) -> Any:
    """n u / (1 - n u) for as many roundings as there are terms."""
    count = np.maximum(mask.sum(axes), 1) * 2.0**-node.dtype.precision
    return np.where(count < 1, count / np.where(count < 1, 1 - count, 1), np.inf)


def _power(node: Reduce, value: Any, error: Any, slack: Any, mask: Any, axes: tuple[int, ...], moved: Any) -> Inexact:
    """A product: bounded relatively, as long as no part of it, in whatever order, can leave the normal numbers."""
    result = np.where(mask, value, 1).prod(axes)
    if node.dtype.is_int:
        known = np.where(
            (np.abs(result) > _WHOLE) | ~np.isfinite(result) | (slack.max(axes, initial=0) > 0), np.inf, 0.0
        )
        plain = whole(Inexact(result, 0.0, known), node.dtype)
        return Inexact(plain.value, np.where(error.max(axes, initial=0) > 0, np.inf, 0.0), plain.slack)
    size = np.where(mask, np.abs(value) + error + slack, 1)
    least = np.where(mask, np.abs(value) - error - slack, 1)
    high, low = np.maximum(size, 1).prod(axes), np.where(least > 0, np.minimum(least, 1), 0).prod(axes)
    normal = 2.0 ** (node.dtype.emin + node.dtype.precision - 1)
    # A factor that is exactly 0 makes it 0 in every order, unless another is infinite.
    zero = (mask & (value == 0) & (error + slack == 0)).any(axes) & (high < node.dtype.largest)
    lost = ((high > node.dtype.largest) | (low < normal)) & ~zero
    growth = _growth(node, mask, axes)

    def bound(each: Any) -> Any:
        relative = np.where(mask & (each > 0), each / np.where(least > 0, least, np.nan), 0)
        return np.where(lost, np.inf, np.abs(result) * ((1 + relative).prod(axes) * (1 + 2 * growth) - 1))

    loose = (mask.sum(axes) > 1) | (slack.max(axes, initial=0) > 0)
    found = Inexact(result, off(moved, bound(error)), off(loose, bound(slack)))
    return Inexact(found.value, np.where(zero, 0.0, found.error), np.where(zero, 0.0, found.slack))
