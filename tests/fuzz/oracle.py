"""An evaluator of programs that shares nothing with the NumPy reference: one element at a time, on demand.

It finds the equation of an element by trying all indices, follows reads wherever they lead, and so knows no
order of evaluation, no storage and no masks. A read that the front end should have refused (outside a tensor,
of an element that nothing defines, of itself) is an `UnsoundError`; a gather out of range is a `GatherError`.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from tilewright.compiler.ir import expr as e
from tilewright.compiler.ir import scalar
from tilewright.compiler.ir.elementary import sequence
from tilewright.compiler.ir.elementary.evaluate import evaluate
from tilewright.compiler.ir.quasiaffine import holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np
    from tilewright.compiler.ir.dtype import DType
    from tilewright.compiler.ir.program import Program, Stage
    from tilewright.compiler.ir.quasiaffine import Range

Value = float | int | bool
Element = tuple[str, tuple[int, ...]]


class UnsoundError(AssertionError):
    """The front end accepted what it should have refused."""


class GatherError(Exception):
    """Data asked for an element outside a tensor."""


class UnsupportedError(Exception):
    """A form that this evaluator leaves out."""


class Oracle:
    """One program at given sizes and inputs."""

    def __init__(
        self,
        program: Program,
        sizes: Mapping[str, int],
        scalars: Mapping[str, Value],
        inputs: Mapping[str, np.ndarray[Any, Any]],
    ) -> None:
        self.program, self.sizes, self.scalars, self.inputs = program, dict(sizes), scalars, inputs
        self.known: dict[Element, Value] = {}
        self.open: set[Element] = set()
        self.defined: dict[Element, tuple[Stage, dict[str, int]]] = {}

    def define(self) -> None:
        """Find the equation of every element."""
        for stage in self.program.stages:
            for env in self.points(stage.ranges, {}):
                at = tuple(a.evaluate({**self.sizes, **env}) for a in stage.lefts)
                if (stage.tensor, at) in self.defined:
                    raise UnsoundError(f"{stage.tensor}{list(at)} is defined twice at {self.sizes}")
                self.defined[stage.tensor, at] = stage, env

    def points(self, ranges: Sequence[Range], env: dict[str, int]) -> Iterator[dict[str, int]]:
        """Every value of the indices, in lexicographic order."""
        if not ranges:
            yield env
            return
        first = ranges[0]
        values = {**self.sizes, **env}
        low = max(a.evaluate(values) for a in first.lower)
        high = min(a.evaluate(values) for a in first.upper)
        for i in range(low, high):
            yield from self.points(ranges[1:], {**env, first.index: i})

    def run(self) -> dict[str, list[Value]]:
        """The elements of every output, in row-major order, after computing whatever is defined."""
        self.define()
        results = {name: self.output(name) for name in self.program.outputs}
        for element in self.defined:
            self.element(element, False)
        return results

    def output(self, name: str) -> list[Value]:
        """All elements of an output, in row-major order."""
        tensor = self.program.tensors[name]
        shape = [x.interval(self.sizes)[1] for x in tensor.extents]
        inside = set(product(*map(range, shape)))
        for tensor_name, at in self.defined:
            if tensor_name == name and at not in inside:
                raise UnsoundError(f"{name}{list(at)} is defined outside the shape {shape}")
        return [self.element((name, at), False) for at in product(*map(range, shape))]

    def element(self, element: Element, gathered: bool) -> Value:
        """The value of one element."""
        if element in self.known:
            return self.known[element]
        name, at = element
        if not self.exists(element):
            raise GatherError(element) if gathered else UnsoundError(f"{name}{list(at)} read at {self.sizes}")
        tensor = self.program.tensors[name]
        if tensor.role == "input":
            return plain(self.inputs[name][at])
        if tensor.role == "constant":
            flat = 0
            for position, extent in zip(at, tensor.extents, strict=True):
                flat = flat * extent.interval({})[1] + position
            return tensor.values[flat]
        if element in self.open:
            raise UnsoundError(f"{name}{list(at)} needs itself at {self.sizes}")
        self.open.add(element)
        stage, env = self.defined[element]
        value = self.value(stage.value, env)
        self.open.remove(element)
        self.known[element] = value
        return value

    def exists(self, element: Element) -> bool:
        name, at = element
        tensor = self.program.tensors[name]
        if tensor.role in ("input", "constant"):
            spans = [x.interval(self.sizes) for x in tensor.extents]
            return all(low <= p < low + count for p, (low, count) in zip(at, spans, strict=True))
        return element in self.defined

    def value(self, node: e.Expr, env: dict[str, int]) -> Value:
        match node:
            case e.Const():
                return node.value
            case e.Index():
                return node.affine.evaluate({**self.sizes, **env})
            case e.Scalar():
                return self.scalars[node.name]
            case e.Read():
                return self.read(node, env)
            case e.Select():
                return self.value(node.then if self.value(node.condition, env) else node.other, env)
            case e.Allow():
                return self.value(node.operand, env)
            case e.Logic(op="and" | "or"):
                first, second = node.operands
                decided = self.value(first, env) == (node.op == "or")
                return node.op == "or" if decided else self.value(second, env)
            case e.Reduce():
                return self.reduction(node, env)
            case _:
                return self.operation(node, [self.value(child, env) for child in e.children(node)])

    def operation(self, node: e.Expr, values: list[Value]) -> Value:
        match node:
            case e.Unary():
                return scalar.unary(node.op, values[0], node.dtype)
            case e.Binary():
                return scalar.binary(node.op, values[0], values[1], node.dtype)
            case e.Compare():
                return scalar.compare(node.op, values[0], values[1])
            case e.Logic():
                return not values[0]
            case e.Cast():
                return scalar.cast(values[0], node.operand.dtype, node.dtype, node.saturating)
            case e.Call(function="fma"):
                a, b, c = values
                return scalar.fma(a, b, c, node.dtype)
            case e.Call():
                exact = evaluate(sequence(node.function, node.dtype.wide), float(values[0]))
                return scalar.round_to(node.dtype, exact)
            case _:
                raise UnsupportedError(type(node).__name__)

    def read(self, node: e.Read, env: dict[str, int]) -> Value:
        if not holds(node.guard, {**self.sizes, **env}):
            raise UnsoundError(f"{node.tensor} is read where its guard {node.guard} fails")
        at = tuple(int(self.value(sub, env)) for sub in node.subscripts)
        if node.fill is not None and not self.exists((node.tensor, at)):
            return self.value(node.fill, env)
        return self.element((node.tensor, at), not all(isinstance(s, e.Index) for s in node.subscripts))

    def reduction(self, node: e.Reduce, env: dict[str, int]) -> Value:
        points = list(self.points(node.ranges, env))
        inner = node.ranges[-1].index
        values = [self.value(node.body, point) for point in points]
        if node.op in ("any", "all"):
            return (any if node.op == "any" else all)(values)
        if node.op in ("argmax", "argmin"):
            if not values:
                raise UnsoundError(f"{node.op} of nothing at {self.sizes}")
            op = "max" if node.op == "argmax" else "min"
            best = 0
            for i in range(1, len(values)):
                if not same(values[best], scalar.binary(op, values[best], values[i], node.body.dtype)):
                    best = i
            return points[best][inner]
        order = node.order
        if order.kind == "mma":
            raise UnsupportedError("mma")
        if order.kind == "ascending":
            return fold(node.op, values, node.dtype)
        parts: dict[tuple[int, ...], list[Value]] = {}
        if order.kind == "lanes":
            parts = {(lane,): [] for lane in range(order.size)}
        for point, value in zip(points, values, strict=True):
            outer = tuple(point[r.index] for r in node.ranges[:-1])
            lane, block = (point[inner] % order.size,), (*outer, point[inner] // order.size)
            parts.setdefault(lane if order.kind == "lanes" else block, []).append(value)
        sums = [fold(node.op, part, node.dtype) for _, part in sorted(parts.items())]
        join = fold if order.kind == "blocks" else merged
        return join(node.op, sums, node.dtype)


def fold(op: str, values: Sequence[Value], dtype: DType) -> Value:
    """The values combined from the start value on, in their order."""
    if op == "sum":
        total: Value = 0.0 if dtype.is_float else 0
    elif op == "prod":
        total = 1.0 if dtype.is_float else 1
    elif dtype.is_float:
        total = float("-inf") if op == "max" else float("inf")
    else:
        total = dtype.least if op == "max" else dtype.greatest
    operator = {"sum": "+", "prod": "*"}.get(op, op)
    for value in values:
        total = scalar.binary(operator, total, value, dtype)
    return total


def merged(op: str, lanes: list[Value], dtype: DType) -> Value:
    """Neighbours combined until one value is left."""
    operator = {"sum": "+", "prod": "*"}.get(op, op)
    while len(lanes) > 1:
        pairs = zip(lanes[::2], lanes[1::2], strict=True)
        lanes = [scalar.binary(operator, a, b, dtype) for a, b in pairs]
    return lanes[0]


def same(a: Value, b: Value) -> bool:
    """Equal; NaN equals NaN, and +0 equals -0 (for argmax they are equals, of which the first counts)."""
    return a == b or (a != a and b != b)


def plain(value: Any) -> Value:
    """A NumPy scalar as a Python one."""
    return value.item() if value.dtype.kind in "biu" else float(value)
