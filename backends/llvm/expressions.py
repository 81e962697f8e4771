"""The expression of one leaf as instructions: one value for each operation, shared where the expression is."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import UndecidedError, make_set
from ...compiler.ir.dtype import F32
from ...compiler.ir.elementary import NONPOSITIVE, sequence
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
    Scalar,
    Select,
    Unary,
    children,
    with_gathers,
)
from ...compiler.ir.quasiaffine import TRUE, Comparison, conjunction
from ...compiler.ir.trampoline import Deep, run
from . import arithmetic
from .builder import Value, is_constant, number
from .elementary import applied
from .floats import fused, register_type, rounded
from .memory import load, places_of
from .merges import merged
from .quotients import row_quotient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...compiler.ir.program import Program, Statement
    from ...compiler.ir.quasiaffine import Affine
    from ...passes.ranges import Ranges
    from .builder import Builder
    from .memory import Buffer, Place
    from .positions import Positions


@lru_cache(maxsize=4096)
def always_inside(program: Program, statement: Statement, tensor: str, dimension: int, at: Affine) -> bool:
    """Whether a position lies within an input's dimension wherever a statement runs. Of a private tensor a buffer holds
    a part, of which this says nothing."""
    if program.tensors[tensor].role != "input":
        return False
    extent = program.tensors[tensor].extents[dimension]
    ends = [Comparison(">", a, at) for a in extent.lower] + [Comparison(">=", at, b) for b in extent.upper]
    where = (conjunction(program.context, statement.condition, end) for end in ends)
    try:
        return all(make_set(program.sizes, statement.iterators, w).is_empty() for w in where)
    except (UndecidedError, isl.Error):
        return False


@dataclass
class Expressions:
    """Emits the value of a leaf. *bound*: its statement's iterators over loops; *scalars*: the kernel's parameters;
    *failed*: the slot that says that data gave a position outside its tensor; *statement*: the leaf's;
    *ranges*: what is known of operands."""

    program: Program
    p: Positions
    buffers: Mapping[str, Buffer]
    scalars: Mapping[str, Value]
    bound: Mapping[str, Affine]
    failed: str
    statement: Statement
    ranges: Ranges
    done: dict[tuple[int, str | None], Value] = field(default_factory=dict[tuple[int, "str | None"], Value])
    gathers: set[int] = field(default_factory=set[int])

    @property
    def b(self) -> Builder:
        return self.p.b

    def value(self, root: Expr) -> Value:
        """The value of an expression."""
        self.gathers |= with_gathers(root)
        return run(self._emit(root, self.p.mask))

    def _emit(self, node: Expr, mask: Value | None) -> Deep[Value]:
        """*mask*: where it matters (None: everywhere); it counts for what data give alone."""
        key = id(node), mask.text if mask is not None and id(node) in self.gathers else None
        if key not in self.done:
            value: Value = yield self._made(node, mask)
            self.done[key] = value
        return self.done[key]

    def _made(self, node: Expr, mask: Value | None) -> Deep[Value]:
        match node:
            case Const():
                return number(node.value, register_type(node.dtype))
            case Index():
                return self.p.spread(node.affine.substituted(self.bound))
            case Scalar():
                return self.scalars[node.name]
            case Allow():
                result = yield self._emit(node.operand, mask)
                return result
            case Read():
                result = yield self._read(node, mask)
                return result
            case Partial():
                places = places_of(self.p, self.buffers[node.tensor], self._prefix(node))
                return merged(self.p, self.buffers[node.tensor], places, node)
            case Logic():
                result = yield self._logic(node, mask)
                return result
            case Select():
                result = yield self._select(node, mask)
                return result
            case _:
                values: list[Value] = []
                for child in children(node):
                    values.append((yield self._emit(child, mask)))
                return self._applied(node, values)

    def _applied(self, node: Expr, values: list[Value]) -> Value:
        x, y = values[0], values[-1]
        match node:
            case Unary():
                return arithmetic.unary(self.b, node.op, x, node.dtype)
            case Binary(op="/") if self._of_a_row(node, x, y):
                return row_quotient(self.b, x, y)
            case Binary():
                return arithmetic.binary(self.b, node.op, x, y, node.dtype)
            case Compare():
                return arithmetic.compared(self.b, node.op, x, y, node.left.dtype)
            case Cast():
                return arithmetic.cast(self.b, x, node.operand.dtype, node.dtype, node.saturating)
            case Call(function="fma"):
                return fused(self.b, x, values[1], y, node.dtype)
            case Call():
                wide, name = node.dtype.wide, node.function
                if wide == F32 and name in NONPOSITIVE and self.ranges.nonpositive(node.arguments[0]):
                    name = NONPOSITIVE[name]
                found = applied(self.b, sequence(name, wide), values[0])
                return found if node.dtype.bits >= 32 else rounded(self.b, found, node.dtype)
            case _:
                raise TypeError(f"{type(node).__name__} is no operation of a leaf")

    def _of_a_row(self, node: Binary, x: Value, y: Value) -> bool:
        """Whether a quotient is of numbers from 0 to 1 by one for all lanes, on a processor that fuses products."""
        one = x.lanes > 1 and y.lanes == 1 and not is_constant(y)
        return one and node.dtype == F32 and self.p.wide > 4 and self.ranges.within_one(node.left)

    def _prefix(self, node: Partial) -> list[Place]:
        """The position of the first lane of a merge."""
        lows = self.buffers[node.tensor].lows
        return [*(s.affine.substituted(self.bound) for s in node.prefix), lows[-1]]

    def _logic(self, node: Logic, mask: Value | None) -> Deep[Value]:
        first = yield self._emit(node.operands[0], mask)
        if node.op == "not":
            return self.b.inverted(first)
        second = node.operands[1]
        inner = mask
        if id(second) in self.gathers:
            # The second operand only counts where the first leaves the answer open.
            inner = self._both(mask, first if node.op == "and" else self.b.inverted(first))
        other = yield self._emit(second, inner)
        return self.b.binary(node.op, first, other)

    def _select(self, node: Select, mask: Value | None) -> Deep[Value]:
        test = yield self._emit(node.condition, mask)
        then_mask = other_mask = mask
        if id(node.then) in self.gathers or id(node.other) in self.gathers:
            then_mask, other_mask = self._both(mask, test), self._both(mask, self.b.inverted(test))
        then = yield self._emit(node.then, then_mask)
        other = yield self._emit(node.other, other_mask)
        return self.b.selected(test, then, other)

    def _both(self, mask: Value | None, test: Value) -> Value:
        return test if mask is None else self.b.binary("and", mask, test)

    def _read(self, node: Read, mask: Value | None) -> Deep[Value]:
        buffer = self.buffers[node.tensor]
        position: list[Place] = []
        inside: Value | None = None
        beyond: Value | None = None
        sure: set[int] = set()
        for dimension, (sub, low, count) in enumerate(zip(node.subscripts, buffer.lows, buffer.counts, strict=True)):
            if isinstance(sub, Index):
                at: Place = sub.affine.substituted(self.bound)
                # What the checker proved of a read holds at every point of its leaves, but for guarded ones.
                tested = node.guard != TRUE or node.fill is not None
                if tested and always_inside(self.program, self.statement, node.tensor, dimension, sub.affine):
                    tested = False
                    sure.add(dimension)
            else:
                given = yield self._emit(sub, mask)
                at = arithmetic.cast(self.b, given, sub.dtype, Index(low).dtype)
                tested = True
            position.append(at)
            if not tested:
                continue
            held = self._within(at, low, count)
            if not isinstance(sub, Index) and node.fill is None:
                beyond = held if beyond is None else self.b.binary("and", beyond, held)
            inside = held if inside is None else self.b.binary("and", inside, held)
        if beyond is not None:
            self._fail(self.b.inverted(beyond), mask)
        found = load(self.p, buffer, places_of(self.p, buffer, position), inside, sure)
        if node.fill is not None and inside is not None:
            fill = yield self._emit(node.fill, mask)
            if sure and self.p.lanes > 1:
                found = self.b.spread(found, self.p.lanes)
            found = self.b.selected(self._in_shape(node, position, inside), found, fill)
        return found

    def _within(self, at: Place, low: Affine, count: Value) -> Value:
        """Whether a position is one of a buffer's: one comparison, of unsigned numbers."""
        place = self.b.binary("sub", at, self.p.scalar(low)) if isinstance(at, Value) else self.p.spread(at - low)
        return self.b.compared("icmp ult", place, count)

    def _in_shape(self, node: Read, position: list[Place], inside: Value) -> Value:
        """Whether a position is one of the tensor's: of a private one the buffer holds a part."""
        extents = self.program.tensors[node.tensor].extents
        if all(e.lower == (low,) for e, low in zip(extents, self.buffers[node.tensor].lows, strict=True)):
            return inside
        total = number(True, "i1")
        for at, extent in zip(position, extents, strict=True):
            low, high = self.p.ends(extent.low_word, extent.lower), self.p.ends(extent.high_word, extent.upper)
            place = at if isinstance(at, Value) else self.p.spread(at)
            held = self.b.binary(
                "and", self.b.compared("icmp sge", place, low), self.b.compared("icmp slt", place, high)
            )
            total = held if is_constant(total) else self.b.binary("and", total, held)
        return total

    def _fail(self, outside: Value, mask: Value | None) -> None:
        """Remember that data gave a position outside, where that matters."""
        bad = outside if mask is None else self.b.binary("and", outside, mask)
        held = self.b.made(f"load i1, ptr {self.failed}", "i1")
        self.b.line(f"store {self.b.binary('or', held, self.b.any_of(bad))}, ptr {self.failed}")
