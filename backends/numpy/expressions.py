"""Text of a stage's expressions over arrays: one line for what a person would write on one line."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...compiler.ir.expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Partial,
    Read,
    Reduce,
    Scalar,
    Select,
    Unary,
    children,
    postorder,
)
from ...compiler.ir.quasiaffine import Affine, Comparison, Some
from .axes import Axes, substitution
from .casts import binary_text, cast_text, fma_text, unary_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Extent, Program
    from ...compiler.ir.trampoline import Deep
    from .naming import Names

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


@dataclass
class Writer:
    """Lines of Python, at an indentation."""

    lines: list[str] = field(default_factory=list[str])
    indent: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text if text else "")


@dataclass
class Expressions:
    """Emits the expressions of one stage; reductions are handed to *reduce*."""

    program: Program
    names: Names
    axes: Axes
    writer: Writer
    bound: dict[str, Affine] = field(default_factory=dict[str, Affine])
    arrays: set[str] = field(default_factory=set[str])
    done: dict[int, Value] = field(default_factory=dict[int, Value])
    uses: dict[int, int] = field(default_factory=dict[int, int])
    gathers: set[int] = field(default_factory=set[int])

    def prepare(self, root: Expr) -> None:
        """Count how often each node is used, and find what contains a gather that must be checked."""
        for node in postorder(root):
            for child in children(node):
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
            gather = isinstance(node, Read) and not all(isinstance(s, Index) for s in node.subscripts)
            if gather or any(id(c) in self.gathers for c in children(node)):
                self.gathers.add(id(node))

    # ---- integers

    def substituted(self, affine: Affine) -> Affine:
        return substitution(self.bound)(affine)

    def integer(self, affine: Affine) -> Value:
        """An index expression: a Python int, or an i64 array where it mentions vector indices."""
        affine = self.substituted(affine)
        found = frozenset(n for n in affine.names() if n in self.axes.vector)
        self.arrays |= found
        text = str(affine.renamed({n: self.names[n] for n in set(affine.names())}))
        return Value(text, found, _index_strength(affine), not found)

    def ends(self, function: str, ends: Sequence[Affine]) -> str:
        """An end of a range as Python text."""
        texts = [self.integer(e).text for e in ends]
        return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"

    def index_array(self, name: str) -> str:
        """The line that makes the array of a vector index."""
        lower, upper = self.axes.box[name]
        low, high = self.ends("max", lower), self.ends("min", upper)
        span = high if low == "0" else f"{low}, {high}"
        after = len(self.axes.vector) - self.axes.position(name) - 1
        shape = "".join([f".reshape(-1{', 1' * after})" if after else ""])
        return f"{self.names[name]} = np.arange({span}){shape}"

    # ---- expressions

    def emit(self, node: Expr, mask: str | None = None) -> Deep[Value]:
        """The value of an expression; *mask* is where it matters (None: everywhere)."""
        if id(node) in self.done:
            return self.done[id(node)]
        value: Value = yield self._emit(node, mask)
        shared = self.uses.get(id(node), 0) > 1 and not isinstance(node, (Const, Index, Scalar))
        if shared or value.depth > 12 or len(value.text) > WIDTH:
            value = self.named(value, "t")
        if shared:
            self.done[id(node)] = value
        return value

    def named(self, value: Value, wanted: str) -> Value:
        """The value under a name of its own."""
        if value.text.isidentifier():
            return value
        name = self.names.fresh(wanted)
        self.writer.line(f"{name} = {value.text}")
        return Value(name, value.axes, python=value.python)

    def _emit(self, node: Expr, mask: str | None) -> Deep[Value]:
        match node:
            case Const():
                return Value(constant_text(node.value, node.dtype))
            case Index():
                value = self.integer(node.affine)
                return (
                    replace(value, text=f"np.int64({value.text})", strength=ATOM, python=False)
                    if value.python
                    else value
                )
            case Scalar():
                return Value(self.names[node.name])
            case Read():
                result = yield self._read(node, mask)
            case Unary():
                x = yield self.emit(node.operand, mask)
                text = tidy(unary_text(node.op, x.atomic, node.dtype))
                result = Value(text, x.axes, SIGN if node.op == "-" else ATOM, depth=x.depth + 1)
            case Binary():
                result = yield self._binary(node, mask)
            case Compare():
                result = yield self._compare(node, mask)
            case Logic():
                result = yield self._logic(node, mask)
            case Select():
                result = yield self._select(node, mask)
            case Cast():
                x = yield self.emit(node.operand, mask)
                text = tidy(cast_text(x.atomic, node.operand.dtype, node.dtype, node.saturating))
                result = Value(text, x.axes, depth=x.depth + 1)
            case Call():
                result = yield self._call(node, mask)
            case Allow():
                result = yield self.emit(node.operand, mask)
            case Reduce():
                result = yield self.reduce(node, mask)
            case Partial():
                raise TypeError("a merge belongs to statements")
        return result

    def reduce(self, node: Reduce, mask: str | None) -> Deep[Value]:
        """Replaced by the stage emitter."""
        raise NotImplementedError
        yield

    def _binary(self, node: Binary, mask: str | None) -> Deep[Value]:
        # A number beside an array needs no type of its own: NumPy gives it the array's.
        a = yield self._operand(node.left, node.right, node.op, mask)
        b = yield self._operand(node.right, node.left, node.op, mask)
        strength = STRENGTH.get(node.op)
        depth = max(a.depth, b.depth) + 1
        if strength is None:
            return Value(binary_text(node.op, a.text, b.text, node.dtype), a.axes | b.axes, depth=depth)
        # Operators of one strength group from the left, as the expression does.
        text = binary_text(node.op, a.within(strength), b.within(strength + 1), node.dtype)
        return Value(text, a.axes | b.axes, strength, depth=depth)

    def _operand(self, node: Expr, other: Expr, op: str, mask: str | None) -> Deep[Value]:
        plain = op in ("+", "-", "*", "/", "//", "%") and not isinstance(other, (Const, Index))
        if isinstance(node, Const) and plain and node.dtype.name in ("f64", "f32", "i64", "i32", "i16", "i8", "u8"):
            return Value(number_text(node.value), strength=SIGN)
        if isinstance(node, Index) and plain:
            return self.integer(node.affine)
        result = yield self.emit(node, mask)
        return result

    def _compare(self, node: Compare, mask: str | None) -> Deep[Value]:
        if isinstance(node.left, Index) and isinstance(node.right, Index):
            a, b = self.integer(node.left.affine), self.integer(node.right.affine)
            return Value(f"{a.text} {node.op} {b.text}", a.axes | b.axes, COMPARED, a.python and b.python)
        sides: list[Value] = []
        for side, other in ((node.left, node.right), (node.right, node.left)):
            if (
                isinstance(side, Const)
                and not isinstance(other, Const)
                and side.dtype.name in ("f64", "f32", "i64", "i32", "i16", "i8", "u8")
            ):
                sides.append(Value(number_text(side.value)))
            elif isinstance(side, Index):
                sides.append(self.integer(side.affine))
            else:
                sides.append((yield self.emit(side, mask)))
        a, b = sides
        text = f"{a.within(OR)} {node.op} {b.within(OR)}"
        return Value(text, a.axes | b.axes, COMPARED, depth=max(a.depth, b.depth) + 1)

    def _logic(self, node: Logic, mask: str | None) -> Deep[Value]:
        values: list[Value] = []
        for operand in node.operands:
            values.append((yield self.emit(operand, mask)))
        axes = frozenset[str]().union(*(v.axes for v in values))
        depth = max(v.depth for v in values) + 1
        if node.op == "not":
            return Value(f"np.logical_not({values[0].text})", axes, depth=depth)
        symbol, strength = ("&", AND) if node.op == "and" else ("|", OR)
        text = f"{values[0].within(strength)} {symbol} {values[1].within(strength + 1)}"
        return Value(text, axes, strength, all(v.python for v in values), depth)

    def _select(self, node: Select, mask: str | None) -> Deep[Value]:
        condition = yield self.emit(node.condition, mask)
        then_mask = other_mask = mask
        if id(node.then) in self.gathers or id(node.other) in self.gathers:
            condition = self.named(condition, "chosen")
            then_mask = _both(mask, condition.text)
            other_mask = _both(mask, f"np.logical_not({condition.text})")
        then = yield self.emit(node.then, then_mask)
        other = yield self.emit(node.other, other_mask)
        axes = condition.axes | then.axes | other.axes
        depth = max(condition.depth, then.depth, other.depth) + 1
        text = f"np.where({condition.text}, {then.text}, {other.text})"
        if not axes:
            text += "[()]"  # a scalar, not an array without dimensions
        return Value(text, axes, depth=depth)

    def _call(self, node: Call, mask: str | None) -> Deep[Value]:
        values: list[Value] = []
        for argument in node.arguments:
            values.append((yield self.emit(argument, mask)))
        axes = frozenset[str]().union(*(v.axes for v in values))
        depth = max(v.depth for v in values) + 1
        if node.function == "fma":
            a, b, c = (v.text for v in values)
            return Value(fma_text(a, b, c, node.dtype), axes, depth=depth)
        wide = node.dtype.wide
        inner = cast_text(values[0].atomic, node.dtype, wide) if node.dtype is not wide else values[0].text
        text = cast_text(f"{node.function}_{wide}({inner})", wide, node.dtype)
        return Value(text, axes, depth=depth)

    # ---- reads

    def _read(self, node: Read, mask: str | None) -> Deep[Value]:
        tensor = self.program.tensors[node.tensor]
        name = self.names[node.tensor]
        if not node.subscripts:
            return Value(f"{name}[()]")
        safe = self.axes.inside(node, self.substituted)
        affine = [self.substituted(s.affine) if isinstance(s, Index) else None for s in node.subscripts]
        if all(safe) and None not in affine and node.fill is None:
            sliced = self.sliced(node, [a for a in affine if a is not None])
            if sliced is not None:
                return sliced
        wanted = mask
        positions: list[Value] = []
        outside: list[Value] = []
        for sub, extent, fine in zip(node.subscripts, tensor.extents, safe, strict=True):
            value = self.integer(sub.affine) if isinstance(sub, Index) else (yield self.emit(sub, mask))
            value = self._from_origin(value, extent)
            size = self.extent_text(extent)
            if not isinstance(sub, Index):
                value = self.named(value, "p")
                if node.fill is None:
                    value = self._checked(value, size, node, sub, wanted)
            if node.fill is not None and not (isinstance(sub, Index) and fine):
                value = self.named(value, "p") if not value.python else value
                outside += [replace(value, text=t, strength=COMPARED) for t in self._inside(value, size, sub, extent)]
            positions.append(value)
        axes = frozenset[str]().union(*(v.axes for v in positions))
        data = [v for v, sub in zip(positions, node.subscripts, strict=True) if not isinstance(sub, Index)]
        texts = ", ".join(v.text for v in positions)
        gathered = bool(data)
        # Where a gather does not matter (a guard, another axis without positions), its tensor may even be empty.
        always = wanted is None and all(self._never_empty(self.axes.box[n]) or all(n in v.axes for v in data) for n in self.axes.vector)
        reach = all(safe) and node.fill is None and (always or not gathered)
        text = f"{name}[{texts}]" if reach else f"clipped({name}, {texts})"
        value = Value(text, axes)
        if outside:
            fill = yield self.emit(node.fill, mask) if node.fill is not None else self._none()
            inside = " & ".join(o.atomic for o in outside)
            text = f"np.where({inside}, {text}, {fill.text})" + ("" if axes else "[()]")
            value = Value(text, axes)
        return value

    def _none(self) -> Deep[Value]:
        return Value("")
        yield

    def _from_origin(self, value: Value, extent: Extent) -> Value:
        if extent.lower == (Affine(),):
            return value
        low = self.ends("min", extent.lower)
        return replace(value, text=f"{value.text} - ({low})", strength=SUM)

    def extent_text(self, extent: Extent) -> str:
        """The number of positions of a dimension."""
        high = self.ends("max", extent.upper)
        if extent.lower != (Affine(),):
            high = f"{high} - ({self.ends('min', extent.lower)})"
        if len(extent.upper) == 1 and extent.lower == (Affine(),) and self.axes.nonnegative(extent.upper[0]):
            return high
        return f"max(0, {high})"

    def _inside(self, value: Value, size: str, sub: Expr, extent: Extent) -> list[str]:
        """The conditions under which a position lies inside, without those that always hold."""
        tests: list[str] = []
        affine = self.substituted(sub.affine) if isinstance(sub, Index) else None
        low_sure = affine is not None and all(self.axes.never(Comparison("<", affine, a)) for a in extent.lower)
        high_sure = affine is not None and all(self.axes.never(Comparison(">=", affine, b)) for b in extent.upper)
        if not low_sure:
            tests.append(f"{value.within(OR)} >= 0")
        if not high_sure:
            tests.append(f"{value.within(OR)} < {size}")
        return tests

    def _checked(self, value: Value, size: str, node: Read, sub: Expr, wanted: str | None) -> Value:
        span = sub.span
        text = node.tensor
        if span is not None:
            line = self.program.source.split("\n")[span.line - 1]
            text = line[span.column - 1 : span.column - 1 + span.width]
        names = sorted({n for n in self.axes.box if n in _words(text)})
        keywords = "".join(f", {n}={self.integer(Affine.name(n)).text}" for n in names if n.isidentifier())
        # Where another axis has no positions, nothing is read.
        empty = [self.axes.box[n] for n in self.axes.vector if n not in value.axes]
        tests = [f"({self._length_text(*ends)} > 0)" for ends in empty if not self._never_empty(ends)]
        wanted = " & ".join([*([wanted] if wanted else []), *tests]) or "True"
        call = f"checked({value.text}, {size}, {node.tensor!r}, {text!r}, {wanted}{keywords})"
        return self.named(Value(call, value.axes), "p")

    def _length_text(self, lower: tuple[Affine, ...], upper: tuple[Affine, ...]) -> str:
        low, high = self.ends("max", lower), self.ends("min", upper)
        return high if low == "0" else f"{high} - ({low})"

    def _never_empty(self, ends: tuple[tuple[Affine, ...], tuple[Affine, ...]]) -> bool:
        empty = Some(tuple(Comparison("<=", b, a) for a in ends[0] for b in ends[1]))
        return self.axes.never(empty, loops_only=True)

    def sliced(self, node: Read, positions: list[Affine]) -> Value | None:
        """The read by basic slicing, or None where some position is no plain slice."""
        tensor = self.program.tensors[node.tensor]
        parts: list[str] = []
        order: list[str] = []
        for affine, extent in zip(positions, tensor.extents, strict=True):
            if extent.lower != (Affine(),):
                if len(extent.lower) != 1:
                    return None
                affine = affine - extent.lower[0]
            found = [n for n in affine.names() if n in self.axes.vector]
            if not found:
                if not self.axes.nonnegative(affine):
                    return None
                parts.append(self.integer(affine).text)
                continue
            text = self._slice(affine, found, extent)
            if text is None or found[0] in order:
                return None
            order.append(found[0])
            parts.append(text)
        name = self.names[node.tensor]
        whole = all(p == ":" for p in parts)
        ranked = sorted(order, key=self.axes.position)
        if order != ranked:
            text = name if whole else f"{name}[{', '.join(parts)}]"
            if len(order) == 2:
                text = f"{text}.T"
            else:
                text = f"{text}.transpose({', '.join(str(order.index(n)) for n in ranked)})"
            return self._spread(text, ranked)
        if not order:
            return Value(f"{name}[{', '.join(parts)}]")
        # New axes go where the other vector indices stand.
        with_axes: list[str] = []
        queue = list(ranked)
        remaining = list(self.axes.vector[self.axes.position(ranked[0]) :])
        for part, affine in zip(parts, positions, strict=True):
            vector = [n for n in affine.names() if n in self.axes.vector]
            if vector:
                while remaining and remaining[0] != queue[0]:
                    with_axes.append("None")
                    remaining.pop(0)
                remaining.pop(0)
                queue.pop(0)
            with_axes.append(part)
        with_axes += ["None"] * len(remaining)
        if all(p == ":" for p in with_axes):
            return Value(name, frozenset(order))
        return Value(f"{name}[{', '.join(with_axes)}]", frozenset(order))

    def _spread(self, text: str, order: list[str]) -> Value:
        """An array whose axes are *order*, with axes of size 1 for the vector indices after the first."""
        tail = self.axes.vector[self.axes.position(order[0]) :]
        if list(tail) == order:
            return Value(text, frozenset(order))
        parts = [":" if n in order else "None" for n in tail]
        return Value(f"{text}[{', '.join(parts)}]", frozenset(order))

    def _slice(self, affine: Affine, found: list[str], extent: Extent) -> str | None:
        """`lo:hi:step` for a position `step * index + rest`, or None."""
        step = dict(affine.terms).get(found[0], 0)
        if len(found) != 1 or step <= 0:
            return None
        rest = affine - Affine.name(found[0]).scaled(step)
        lower, upper = self.axes.box[found[0]]
        if len(lower) != 1 or len(upper) != 1:
            return None
        start = lower[0].scaled(step) + rest
        stop = (upper[0] - 1).scaled(step) + rest + 1
        size = extent.size
        if start == Affine() and stop == size and step == 1:
            return ":"
        first = self._bound_text(start)
        last = self._bound_text(stop)
        return f"{'' if first == '0' else first}:{last}" + (f":{step}" if step != 1 else "")

    def _bound_text(self, value: Affine) -> str:
        # A negative bound would count from the end.
        text = self.integer(value).text
        return text if self.axes.nonnegative(value) else f"max(0, {text})"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def _both(mask: str | None, condition: str) -> str:
    return condition if mask is None else f"{mask} & {condition}"


def _index_strength(affine: Affine) -> int:
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
