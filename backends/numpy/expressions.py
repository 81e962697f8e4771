"""Text of a stage's expressions over arrays: one line for what a person would write on one line."""

from __future__ import annotations

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
    with_gathers,
)
from .casts import binary_text, cast_text, fma_text, unary_text
from .reads import Reads
from .text import AND, ATOM, COMPARED, OR, SIGN, STRENGTH, WIDTH, Value, constant_text, number_text, tidy

if TYPE_CHECKING:
    from ...compiler.ir.trampoline import Deep


@dataclass
class Expressions(Reads):
    """Emits the expressions of one stage; reductions are handed to *reduce*."""

    done: dict[tuple[int, str | None], Value] = field(default_factory=dict[tuple[int, "str | None"], Value])
    uses: dict[int, int] = field(default_factory=dict[int, int])
    gathers: set[int] = field(default_factory=set[int])

    def prepare(self, root: Expr) -> None:
        """Count how often each node is used, and find what contains a gather that must be checked."""
        for node in postorder(root):
            for child in children(node):
                self.uses[id(child)] = self.uses.get(id(child), 0) + 1
        self.gathers |= with_gathers(root)

    def emit(self, node: Expr, mask: str | None = None) -> Deep[Value]:
        """The value of an expression; *mask* is where it matters (None: everywhere)."""
        # What a gather checks depends on where it matters; everything else is the same everywhere.
        key = id(node), mask if id(node) in self.gathers else None
        if key in self.done:
            return self.done[key]
        value: Value = yield self._emit(node, mask)
        shared = self.uses.get(id(node), 0) > 1 and not isinstance(node, (Const, Index, Scalar))
        if shared or value.depth > 12 or len(value.text) > WIDTH:
            value = self.named(value, "t")
        if shared:
            self.done[key] = value
        return value

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
                result = yield self.read(node, mask)
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
                if x.python:
                    x = Value(f"np.bool_({x.text})")  # Python's own bool has no astype
                text = tidy(cast_text(x.atomic, node.operand.dtype, node.dtype, node.saturating))
                result = Value(text, x.axes, depth=x.depth + 1)
            case Call():
                result = yield self._call(node, mask)
            case Allow():
                result = yield self.emit(node.operand, mask)
            case Reduce():
                result = yield self.reduce(node, mask)
            case Partial():
                result = yield self.merged(node)
        return result

    def merged(self, node: Partial) -> Deep[Value]:
        """Given by the emission of scheduled statements; a stage's own expression has none."""
        raise NotImplementedError
        yield

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
        return Value(text, a.axes | b.axes, COMPARED, a.python or b.python, max(a.depth, b.depth) + 1)

    def _logic(self, node: Logic, mask: str | None) -> Deep[Value]:
        values: list[Value] = [(yield self.emit(node.operands[0], mask))]
        if node.op != "not":
            second = node.operands[1]
            inner = mask
            if id(second) in self.gathers:
                # The second operand only counts where the first leaves the answer open.
                values[0] = self.named(values[0], "first")
                open_ = values[0].text if node.op == "and" else f"np.logical_not({values[0].text})"
                inner = _both(mask, open_)
            values.append((yield self.emit(second, inner)))
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


def _both(mask: str | None, condition: str) -> str:
    return condition if mask is None else f"({mask}) & ({condition})"
