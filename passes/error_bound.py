"""How far a permitted result may lie from the defined one, element by element, for given inputs.

A running error analysis (Wilkinson; Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., sections 3.3 and
4.2): every value is carried with a bound on how far it may be off. What no permission touches is off by nothing. A
sum of n terms t in two orders differs by at most 2 g (|t1| + .. + |tn|) with g = n u / (1 - n u); an operation on
values that are off adds what its derivative makes of that, and a rounding on each side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ir.expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Read,
    Reduce,
    Scalar,
    Select,
    Unary,
    postorder,
)
from ..compiler.ir.nest import bind_indices
from ..compiler.ir.program import Shared
from ..compiler.ir.trampoline import Deep, run
from .inexact import Inexact, called, combined, divided, product, quotient_or_remainder, rounded, summed, unary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Nested, Program, Stage
    from ..compiler.ir.quasiaffine import Affine, Range

Array = np.ndarray[Any, Any]
# So many points are computed at once.
POINTS = 1 << 22


@dataclass
class _Data:
    """The tensors known so far, each with its bounds, and the position of its first element."""

    program: Program
    sizes: Mapping[str, int]
    scalars: Mapping[str, float | int | bool]
    used: frozenset[str]
    tensors: dict[str, tuple[Array, Array]] = field(default_factory=dict)  # pyright: ignore
    first: dict[str, tuple[int, ...]] = field(default_factory=dict)  # pyright: ignore


@dataclass(frozen=True)
class _Grid:
    """Index values as arrays that broadcast against each other, one axis for each index in turn; which points exist."""

    values: Mapping[str, Any]
    mask: Array
    rank: int
    allowed: frozenset[str]


def error_bounds(
    program: Program,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    scalars: Mapping[str, float | int | bool],
    used: frozenset[str],
) -> dict[str, Array]:
    """For each output a bound on |result - defined result|, where the permissions *used* are used wherever granted.

    0 where nothing permitted touches an element; inf where it may be off by anything.
    """
    data = _Data(program, sizes, scalars, used)
    for name, tensor in program.tensors.items():
        box = [e.interval(sizes) for e in tensor.extents]
        shape = tuple(count for _, count in box)
        data.first[name] = tuple(low for low, _ in box)
        if tensor.role == "input":
            value = np.asarray(arrays[name]).astype(np.float64)
        elif tensor.role == "constant":
            value = np.array(tensor.values, np.float64).reshape(shape)
        else:
            value = np.zeros(shape)
        data.tensors[name] = value, np.zeros(shape)
    with np.errstate(all="ignore"):
        _order(data, program.order, {})
    found: dict[str, Array] = {}
    for name in program.outputs:
        value, error = data.tensors[name]
        # What is not finite on both sides is equal, or off by anything.
        found[name] = np.where((error > 0) & ~np.isfinite(value), np.inf, error * (1 + 2.0**-10))
    return found


def _order(data: _Data, order: Sequence[Nested], loops: dict[int, tuple[str, int]]) -> None:
    for item in order:
        if not isinstance(item, Shared):
            _stage(data, data.program.stage(item), loops)
            continue
        assert item.extent is not None
        low, count = item.extent.interval(data.sizes)
        steps = range(low, low + count)
        for step in reversed(steps) if item.descending else steps:
            _order(data, item.members, {**loops, item.position: (f"step {item.position}", step)})


def _stage(data: _Data, stage: Stage, loops: Mapping[int, tuple[str, int]]) -> None:
    """Compute an equation, at one point of the common loops of its recurrence; in parts, where it is large."""
    spans: dict[str, int] = {}
    reductions = [n for n in postorder(stage.value) if isinstance(n, Reduce)]
    for found in (*stage.ranges, *(r for n in reductions for r in n.ranges)):
        spans[found.index] = max(_end(found.upper, {**data.sizes, **spans}) - min(0, _end(found.lower, data.sizes)), 1)
    free = [r for r in stage.ranges if r.index not in bind_indices(stage, {p: n for p, (n, _) in loops.items()}).bound]
    if not free or math.prod(spans.values()) <= POINTS:
        _part(data, stage, loops, None)
        return
    step = max(1, POINTS // max(1, math.prod(spans.values()) // spans[free[0].index]))
    low = min(0, _end(free[0].lower, data.sizes))
    for start in range(low, low + spans[free[0].index], step):
        _part(data, stage, loops, (free[0].index, start, start + step))


def _end(ends: Sequence[Affine], values: Mapping[str, int]) -> int:
    """About where a range ends, unknown indices being 0."""
    return max(end.evaluate({**dict.fromkeys(end.names(), 0), **values}) for end in ends)


def _part(data: _Data, stage: Stage, loops: Mapping[int, tuple[str, int]], window: tuple[str, int, int] | None) -> None:
    binding = bind_indices(stage, {position: name for position, (name, _) in loops.items()})
    known: dict[str, Any] = dict(loops.values())
    for name, affine in binding.bound.items():
        known[name] = _integer(data, affine, known)
    allowed = frozenset(data.program.permissions) & data.used
    grid = _Grid(known, np.array(True), 0, allowed)
    for found in stage.ranges:
        if found.index not in binding.bound:
            grid = _entered(data, grid, found, window)
    mask = grid.mask
    for condition in binding.conditions:
        left, right = (_integer(data, side, grid.values) for side in (condition.left, condition.right))
        mask = mask & {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">=": np.greater_equal,
                       ">": np.greater}[condition.op](left, right)  # fmt: skip
    value = run(_value(data, stage.value, replace(grid, mask=mask)))
    value = _kept(data, stage, value, allowed)
    shape = np.broadcast_shapes(mask.shape, np.shape(value.value))
    wanted = np.broadcast_to(mask, shape)
    at = [np.broadcast_to(_integer(data, left, grid.values), shape) - low
          for left, low in zip(stage.lefts, data.first[stage.tensor], strict=True)]  # fmt: skip
    for held, new in zip(data.tensors[stage.tensor], (value.value, value.error), strict=True):
        if at:
            held[tuple(a[wanted] for a in at)] = np.broadcast_to(new, shape)[wanted]
        elif wanted.all():
            held[()] = new


def _kept(data: _Data, stage: Stage, value: Inexact, allowed: frozenset[str]) -> Inexact:
    """An equation's value where its last rounding may be dropped."""
    root, granted = stage.value, allowed
    while isinstance(root, Allow):
        granted |= frozenset(root.permissions) & data.used
        root = root.operand
    if (
        "elide" in granted
        and isinstance(root, Cast)
        and root.dtype.is_float
        and stage.tensor not in data.program.outputs
    ):
        half = 2.0**-root.dtype.precision
        return Inexact(
            value.value, value.error + half * (np.abs(value.value) + value.error) + 2.0 ** (root.dtype.emin - 1)
        )
    return value


def _integer(data: _Data, affine: Affine, values: Mapping[str, Any]) -> Any:
    """An index expression on arrays of index values."""
    total: Any = affine.constant
    for term, factor in affine.terms:
        if isinstance(term, str):
            total = total + factor * (values[term] if term in values else data.sizes[term])
            continue
        inner = _integer(data, term.numerator, values)
        total = total + factor * (inner // term.divisor if term.kind == "//" else inner % term.divisor)
    return total


def _entered(data: _Data, grid: _Grid, found: Range, window: tuple[str, int, int] | None = None) -> _Grid:
    """The grid with one more index, along an axis of its own at the end; *window*: an index, and what of it to keep."""
    values = {n: v[..., None] if isinstance(v, np.ndarray) else v for n, v in grid.values.items()}
    lows = [np.asarray(_integer(data, a, values)) for a in found.lower]
    highs = [np.asarray(_integer(data, b, values)) for b in found.upper]
    low, high = lows[0], highs[0]
    for other in lows[1:]:
        low = np.maximum(low, other)
    for other in highs[1:]:
        high = np.minimum(high, other)
    start, stop = (int(low.min()), int(high.max())) if low.size and high.size else (0, 0)
    if window is not None and window[0] == found.index:
        start, stop = max(start, window[1]), min(stop, window[2])
    index = np.arange(start, max(start, stop)).reshape((1,) * grid.rank + (-1,))
    mask = grid.mask[..., None] & (index >= low) & (index < high)
    return _Grid({**values, found.index: index}, mask, grid.rank + 1, grid.allowed)


def _value(data: _Data, node: Expr, grid: _Grid) -> Deep[Inexact]:
    match node:
        case Const():
            return Inexact(np.float64(node.value))
        case Index():
            return Inexact(np.asarray(_integer(data, node.affine, grid.values), np.float64))
        case Scalar():
            return Inexact(np.float64(data.scalars[node.name]))
        case Allow():
            inner = replace(grid, allowed=grid.allowed | (frozenset(node.permissions) & data.used))
            result = yield _value(data, node.operand, inner)
            return result
        case Read():
            result = yield _read(data, node, grid)
            return result
        case Reduce():
            result = yield _reduce(data, node, grid)
            return result
        case Unary():
            x = yield _value(data, node.operand, grid)
            return unary(node.op, x, node.dtype)
        case Binary():
            a = yield _value(data, node.left, grid)
            b = yield _value(data, node.right, grid)
            return _binary(node, a, b, grid)
        case Compare():
            a = yield _value(data, node.left, grid)
            b = yield _value(data, node.right, grid)
            test = {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">=": np.greater_equal,
                    ">": np.greater}[node.op]  # fmt: skip
            unsure = (a.error + b.error > 0) & ~(np.abs(a.value - b.value) > a.error + b.error)
            return Inexact(test(a.value, b.value).astype(np.float64), unsure.astype(np.float64))
        case Logic():
            parts: list[Inexact] = []
            for operand in node.operands:
                parts.append((yield _value(data, operand, grid)))
            value = {"and": np.minimum, "or": np.maximum}.get(node.op)
            unsure = np.asarray(sum((p.error for p in parts), np.float64(0)) > 0, np.float64)
            return Inexact(1 - parts[0].value if value is None else value(parts[0].value, parts[1].value), unsure)
        case Select():
            test = yield _value(data, node.condition, grid)
            then = yield _value(data, node.then, grid)
            other = yield _value(data, node.other, grid)
            error = np.where(test.value != 0, then.error, other.error)
            either = np.maximum(then.error, other.error) + np.abs(then.value - other.value)
            unsure = np.where(np.isnan(either), np.inf, either)
            return Inexact(np.where(test.value != 0, then.value, other.value), np.where(test.error > 0, unsure, error))
        case Cast():
            x = yield _value(data, node.operand, grid)
            return _cast(node, x)
        case Call():
            arguments: list[Inexact] = []
            for argument in node.arguments:
                arguments.append((yield _value(data, argument, grid)))
            return called(node.function, arguments, node.dtype)
        case _:
            raise TypeError(f"{type(node).__name__} does not stand in an equation")


def _binary(node: Binary, a: Inexact, b: Inexact, grid: _Grid) -> Inexact:
    if node.op in ("+", "-"):
        result = combined(node.op, a, b)
        if "contract" in grid.allowed and node.dtype.is_float:
            for side, value in ((node.left, a), (node.right, b)):
                if isinstance(side, Binary) and side.op == "*":
                    result = Inexact(result.value, result.error + _half(value.value, node))
        return rounded(result, node.dtype)
    if node.op == "*":
        return rounded(product(a, b), node.dtype)
    if node.op == "/":
        return rounded(divided(a, b), node.dtype)
    if node.op in ("min", "max"):
        pick = np.minimum if node.op == "min" else np.maximum
        return Inexact(pick(a.value, b.value), np.maximum(a.error, b.error))
    return quotient_or_remainder(node.op, a, b)


def _half(value: Any, node: Binary | Reduce) -> Any:
    """Half an ulp of a product, which one side rounds and the other does not."""
    return np.abs(value) * 2.0**-node.dtype.precision + 2.0 ** (node.dtype.emin - 1)


def _cast(node: Cast, x: Inexact) -> Inexact:
    source, target = node.operand.dtype, node.dtype
    if target.is_bool:
        return Inexact((x.value != 0).astype(np.float64), (x.error > 0).astype(np.float64))
    if target.is_int:
        value = np.trunc(np.where(np.isnan(x.value), 0, x.value))
        value = np.clip(value, target.least, target.greatest) if source.is_float or node.saturating else value
        return Inexact(value, np.where(x.error > 0, np.ceil(x.error) + 1, 0))
    return rounded(x, target)


def _read(data: _Data, node: Read, grid: _Grid) -> Deep[Inexact]:
    value, error = data.tensors[node.tensor]
    at: list[Any] = []
    unsure: Any = np.float64(0)
    inside: Any = np.array(True)
    for sub, low, count in zip(node.subscripts, data.first[node.tensor], value.shape, strict=True):
        found = yield _value(data, sub, grid)
        position = found.value.astype(np.int64) - low
        unsure = unsure + found.error
        inside = inside & (position >= 0) & (position < count)
        at.append(np.clip(position, 0, max(count - 1, 0)))
    empty = value.size == 0
    result = Inexact(np.zeros(np.shape(inside))) if empty else Inexact(value[tuple(at)], error[tuple(at)])
    if node.fill is not None:
        fill = yield _value(data, node.fill, grid)
        result = Inexact(np.where(inside, result.value, fill.value), np.where(inside, result.error, fill.error))
    return Inexact(result.value, np.where(unsure > 0, np.inf, result.error))


def _reduce(data: _Data, node: Reduce, grid: _Grid) -> Deep[Inexact]:
    inner = grid
    for found in node.ranges:
        inner = _entered(data, inner, found)
    allowed = grid.allowed | (frozenset(node.permissions) & data.used)
    term = yield _value(data, node.body, replace(inner, allowed=allowed))
    axes = tuple(range(grid.rank, inner.rank))
    shape = inner.mask.shape
    value = np.broadcast_to(_spread(term.value, inner.rank), shape)
    error = np.broadcast_to(_spread(term.error, inner.rank), shape)
    body = node.body
    while isinstance(body, Allow):
        body = body.operand
    if "contract" in allowed and isinstance(body, Binary) and body.op == "*":
        error = error + _half(value, node)
    free = "reassociate" in allowed and node.order.kind in ("ascending", "lanes", "blocks")
    return summed(node, value, error, inner.mask, axes, free)


def _spread(value: Any, rank: int) -> Any:
    """A value with axes at its end for indices that it does not have."""
    array = np.asarray(value)
    return array if array.ndim in (0, rank) else array.reshape(array.shape + (1,) * (rank - array.ndim))
