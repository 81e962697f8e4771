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
from ..compiler.ir.fold import factors_of
from ..compiler.ir.nest import bind_indices
from ..compiler.ir.permissions import ulps
from ..compiler.ir.program import Shared
from ..compiler.ir.trampoline import Deep, run
from .fold_error import fold_total, tf32_loss
from .grids import Grid, about, entered, integer, spread
from .inexact import (
    Inexact,
    called,
    combined,
    divided,
    given,
    least_or_greatest,
    off,
    product,
    quotient_or_remainder,
    rounded,
    summed,
    unary,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Nested, Program, Stage

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
    tensors: dict[str, Inexact] = field(default_factory=dict)  # pyright: ignore
    first: dict[str, tuple[int, ...]] = field(default_factory=dict)  # pyright: ignore


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
            data.tensors[name] = given(arrays[name])
        elif tensor.role == "constant":
            data.tensors[name] = Inexact(
                np.array(tensor.values, np.float64).reshape(shape), np.zeros(shape), np.zeros(shape)
            )
        else:
            data.tensors[name] = Inexact(np.zeros(shape), np.zeros(shape), np.zeros(shape))
    with np.errstate(all="ignore"):
        _order(data, program.order, {})
    found: dict[str, Array] = {}
    for name in program.outputs:
        held = data.tensors[name]
        # What is not finite on both sides is equal, or off by anything.
        wild = (held.error > 0) & ~np.isfinite(held.value)
        found[name] = np.where(wild | np.isnan(held.error), np.inf, held.error * (1 + 2.0**-10))
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
        spans[found.index] = max(
            about(found.upper, {**data.sizes, **spans}) - min(0, about(found.lower, data.sizes)), 1
        )
    free = [r for r in stage.ranges if r.index not in bind_indices(stage, {p: n for p, (n, _) in loops.items()}).bound]
    if not free or math.prod(spans.values()) <= POINTS:
        _part(data, stage, loops, None)
        return
    step = max(1, POINTS // max(1, math.prod(spans.values()) // spans[free[0].index]))
    low = min(0, about(free[0].lower, data.sizes))
    for start in range(low, low + spans[free[0].index], step):
        _part(data, stage, loops, (free[0].index, start, start + step))


def _part(data: _Data, stage: Stage, loops: Mapping[int, tuple[str, int]], window: tuple[str, int, int] | None) -> None:
    binding = bind_indices(stage, {position: name for position, (name, _) in loops.items()})
    known: dict[str, Any] = dict(loops.values())
    for name, affine in binding.bound.items():
        known[name] = integer(data.sizes, affine, known)
    allowed = frozenset(data.program.permissions) & data.used
    grid = Grid(known, np.array(True), 0, allowed)
    for found in stage.ranges:
        if found.index not in binding.bound:
            grid = entered(data.sizes, grid, found, window)
    mask = grid.mask
    for condition in binding.conditions:
        left, right = (integer(data.sizes, side, grid.values) for side in (condition.left, condition.right))
        mask = mask & {"<": np.less, "<=": np.less_equal, "==": np.equal, "!=": np.not_equal, ">=": np.greater_equal,
                       ">": np.greater}[condition.op](left, right)  # fmt: skip
    value = run(_value(data, stage.value, replace(grid, mask=mask)))
    value = _kept(data, stage, value, allowed)
    shape = np.broadcast_shapes(mask.shape, np.shape(value.value))
    wanted = np.broadcast_to(mask, shape)
    at = [np.broadcast_to(integer(data.sizes, left, grid.values), shape) - low
          for left, low in zip(stage.lefts, data.first[stage.tensor], strict=True)]  # fmt: skip
    held = data.tensors[stage.tensor]
    for array, new in ((held.value, value.value), (held.error, value.error), (held.slack, value.slack)):
        if at:
            array[tuple(a[wanted] for a in at)] = np.broadcast_to(new, shape)[wanted]
        elif wanted.all():
            array[()] = new


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
        half = 2.0**-root.dtype.precision * value.size + 2.0 ** (root.dtype.emin - 1)
        # What rounding made of a value too large is not what it was.
        return Inexact(
            value.value, off(True, np.where(np.isfinite(value.value), value.error + half, np.inf)), value.slack
        )
    return value


def _value(data: _Data, node: Expr, grid: Grid) -> Deep[Inexact]:
    match node:
        case Const():
            return Inexact(np.float64(node.value))
        case Index():
            return given(integer(data.sizes, node.affine, grid.values))
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
            apart, error, slack = np.abs(a.value - b.value), a.error + b.error, a.slack + b.slack
            turned = (error > 0) & ~(apart > error + slack)
            unknown = (slack > 0) & ~(apart > slack)
            return Inexact(
                test(a.value, b.value).astype(np.float64), turned.astype(np.float64), unknown.astype(np.float64)
            )
        case Logic():
            parts: list[Inexact] = []
            for operand in node.operands:
                parts.append((yield _value(data, operand, grid)))
            value = {"and": np.minimum, "or": np.maximum}.get(node.op)
            result = 1 - parts[0].value if value is None else value(parts[0].value, parts[1].value)
            turned = np.asarray(sum((p.error for p in parts), np.float64(0)) > 0, np.float64)
            unknown = np.asarray(sum((p.slack for p in parts), np.float64(0)) > 0, np.float64)
            return Inexact(result, turned, unknown)
        case Select():
            test = yield _value(data, node.condition, grid)
            then = yield _value(data, node.then, grid)
            other = yield _value(data, node.other, grid)
            return _chosen(test, then, other)
        case Cast():
            x = yield _value(data, node.operand, grid)
            return _cast(node, x)
        case Call():
            arguments: list[Inexact] = []
            for argument in node.arguments:
                arguments.append((yield _value(data, argument, grid)))
            return called(node.function, arguments, node.dtype, ulps(grid.allowed))
        case _:
            raise TypeError(f"{type(node).__name__} does not stand in an equation")


def _chosen(test: Inexact, then: Inexact, other: Inexact) -> Inexact:
    """One of two values: both count where it is not known which is defined, or where permitted results may choose."""
    first = test.value != 0
    both = np.maximum(then.error, other.error)
    error = np.where(test.slack > 0, both, np.where(first, then.error, other.error))
    apart = np.abs(then.value - other.value) + then.slack + other.slack
    error = np.where(test.error > 0, off(True, both + apart), error)
    slack = np.where(test.slack > 0, off(True, apart), np.where(first, then.slack, other.slack))
    return Inexact(np.where(first, then.value, other.value), error, slack)


def _binary(node: Binary, a: Inexact, b: Inexact, grid: Grid) -> Inexact:
    if node.op in ("+", "-"):
        result = combined(node.op, a, b)
        if "contract" in grid.allowed and node.dtype.is_float:
            for side, value in ((node.left, a), (node.right, b)):
                if _may_be_product(side):
                    result = Inexact(result.value, off(True, result.error + _half(value, node)), result.slack)
        return rounded(result, node.dtype)
    if node.op == "*":
        return rounded(product(a, b), node.dtype)
    if node.op == "/":
        return rounded(divided(a, b), node.dtype)
    if node.op in ("min", "max"):
        return least_or_greatest(node.op, a, b)
    return quotient_or_remainder(node.op, a, b)


def _may_be_product(node: Expr) -> bool:
    """Whether an operand is a product, or may stand for one that is written in."""
    while isinstance(node, Allow):
        node = node.operand
    return isinstance(node, Read) or (isinstance(node, Binary) and node.op == "*")


def _half(value: Inexact, node: Binary | Reduce) -> Any:
    """Half an ulp of a product, which one side rounds and the other does not."""
    half = value.size * 2.0**-node.dtype.precision + 2.0 ** (node.dtype.emin - 1)
    return np.where(value.size > node.dtype.largest, np.inf, half)


def _cast(node: Cast, x: Inexact) -> Inexact:
    source, target = node.operand.dtype, node.dtype
    if target.is_bool:
        # What is off may be 0 or not.
        near = np.abs(x.value) <= x.error + x.slack
        turned, unknown = (x.error > 0) & near, (x.slack > 0) & near
        return Inexact((x.value != 0).astype(np.float64), turned.astype(np.float64), unknown.astype(np.float64))
    if target.is_int:
        if not source.is_float:
            clipped = np.clip(x.value, target.least, target.greatest) if node.saturating else x.value
            return whole(Inexact(clipped, x.error, x.slack), target)
        value = np.clip(np.trunc(np.where(np.isnan(x.value), 0, x.value)), target.least, target.greatest)
        error, slack = (np.where(np.asarray(e) > 0, np.ceil(e) + 1, 0.0) for e in (x.error, x.slack))
        return Inexact(value, error, np.where(np.abs(value) > 2.0**53, np.inf, slack))
    if node.saturating:
        x = Inexact(np.clip(x.value, -target.largest, target.largest), x.error, x.slack)
    return rounded(x, target)


def _read(data: _Data, node: Read, grid: Grid) -> Deep[Inexact]:
    held = data.tensors[node.tensor]
    at: list[Any] = []
    moved: Any = np.asarray(False)
    unknown: Any = np.asarray(False)
    inside: Any = np.asarray(True)
    for sub, low, count in zip(node.subscripts, data.first[node.tensor], held.value.shape, strict=True):
        found = yield _value(data, sub, grid)
        position = np.clip(found.value, -(2.0**62), 2.0**62).astype(np.int64) - low
        moved = moved | (np.asarray(found.error) > 0)
        unknown = unknown | (np.asarray(found.slack) > 0)
        inside = inside & (position >= 0) & (position < count)
        at.append(np.clip(position, 0, max(count - 1, 0)))
    empty = held.value.size == 0
    parts = [np.zeros(np.shape(inside)) if empty else a[tuple(at)] for a in (held.value, held.error, held.slack)]
    if node.fill is not None:
        fill = yield _value(data, node.fill, grid)
        parts = [np.where(inside, p, f) for p, f in zip(parts, (fill.value, fill.error, fill.slack), strict=True)]
    # Where it is not known which element is read, nothing is known of it.
    error = np.where(moved | (unknown & ((held.error > 0).any() if held.error.size else False)), np.inf, parts[1])
    return Inexact(parts[0], error, np.where(unknown, np.inf, parts[2]))


def _reduce(data: _Data, node: Reduce, grid: Grid) -> Deep[Inexact]:
    inner = grid
    for found in node.ranges:
        inner = entered(data.sizes, inner, found)
    allowed = grid.allowed | (frozenset(node.permissions) & data.used)
    term = yield _value(data, node.body, replace(inner, allowed=allowed))
    axes = tuple(range(grid.rank, inner.rank))
    shape = inner.mask.shape
    value, error, slack = (np.broadcast_to(spread(p, inner.rank), shape) for p in (term.value, term.error, term.slack))
    body = node.body
    while isinstance(body, Allow):
        body = body.operand
    terms = Inexact(value, error, slack)
    if node.order.kind == "mma":
        sides: list[Inexact] = []
        for factor in factors_of(node.body):
            found = yield _value(data, factor, replace(inner, allowed=allowed))
            parts = (np.broadcast_to(spread(p, inner.rank), shape) for p in (found.value, found.error, found.slack))
            sides.append(Inexact(*parts))
        return fold_total(node, terms, sides, inner.mask, axes)
    if "contract" in allowed and node.op == "sum" and node.dtype.is_float and _may_be_product(body):
        terms = Inexact(value, off(True, error + _half(terms, node)), slack)
    if "tf32" in allowed and node.op == "sum" and node.dtype.name == "f32" and _may_be_product(body):
        # Matrix units drop the last 13 bits of each factor, and the product is not rounded.
        terms = Inexact(value, off(True, terms.error + tf32_loss(terms.size)), slack)
    free = "reassociate" in allowed and node.dtype.is_float
    return summed(node, terms, inner.mask, axes, free)
