"""Index expressions and conditions as instructions on i64, for one iteration or for the lanes of a vector loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import islpy as isl

from ...compiler.ir.codegen import Bounds, without
from ...compiler.ir.quasiaffine import Affine, Division
from ..lower.lanes import simplified
from .builder import Value, is_constant, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.codegen import Bound
    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Loop
    from .builder import Builder


class VariesError(Exception):
    """What runs, or where a loop ends, differs from lane to lane: the loop is no vector loop."""


@dataclass
class Positions:
    """The integers of a function. *names*: what sizes and loop indices are; *fixed*: indices of iterations that are
    written out; *vector*: the index that the lanes run over, whose name stands for the first lane's, or ""; *first*:
    what that is, where it is a number.
    """

    b: Builder
    names: dict[str, Value] = field(default_factory=dict[str, Value])
    fixed: dict[str, Affine] = field(default_factory=dict[str, Affine])
    vector: str = ""
    lanes: int = 1
    # The lanes of a register of f32.
    wide: int = 8
    first: Affine | None = None
    # The lanes that take part (None: all of them).
    mask: Value | None = None
    # Whether stores of whole registers, at addresses that are multiples of them, go past the caches.
    streams: bool = False
    # Of iterations that repeat the last one: what an index is where a register is meant.
    repeated: dict[str, Affine] = field(default_factory=dict[str, Affine])
    # How many values loop indices that are never below 0 have at most.
    reach: dict[str, int] = field(default_factory=dict[str, int])

    def resolved(self, affine: Affine) -> Affine:
        """With numbers for the indices of iterations that are written out, and divisions carried out that are known."""
        affine = affine.substituted(self.fixed) if self.fixed else affine
        if all(isinstance(term, str) for term, _ in affine.terms):
            return affine
        return simplified(affine, self.reach)

    def step(self, affine: Affine) -> int | None:
        """By how much an expression grows from lane to lane; None where it does not do so evenly."""
        total = 0
        for term, factor in self.resolved(affine).terms:
            if isinstance(term, str):
                total += factor * self._step_of(term)
            elif any(self._step_of(n) for n in term.numerator.names()):
                return None
        return total

    def _step_of(self, name: str) -> int:
        return 1 if name == self.vector else 0

    def scalar(self, affine: Affine) -> Value:
        """An expression in the first lane."""
        return self._total(self.resolved(affine), {})

    def spread(self, affine: Affine) -> Value:
        """An expression in every lane, one lane where it is the same in all."""
        affine = self.resolved(affine)
        if not self.vector or self.vector not in affine.names():
            return self._total(affine, {})
        return self._total(affine, {self.vector: self.counted(self.names[self.vector])})

    def counted(self, first: Value) -> Value:
        """first, first + 1, first + 2, .."""
        steps = ", ".join(f"i64 {n}" for n in range(self.lanes))
        return self.b.binary("add", first, Value(f"<{steps}>", "i64", self.lanes))

    def _total(self, affine: Affine, lanes: Mapping[str, Value]) -> Value:
        total: Value | None = None
        for term, factor in affine.terms:
            value = lanes.get(term) or self.names[term] if isinstance(term, str) else self._division(term, lanes)
            if factor != 1:
                value = self.times(value, number(factor, "i64"))
            total = value if total is None else self.plus(total, value)
        if total is None:
            return number(affine.constant, "i64")
        return total if not affine.constant else self.plus(total, number(affine.constant, "i64"))

    def plus(self, x: Value, y: Value) -> Value:
        if is_constant(x) and is_constant(y) and x.lanes == y.lanes == 1:
            return number(int(x.text) + int(y.text), "i64")
        if y.text == "0":
            return x
        return y if x.text == "0" else self.b.binary("add nsw", x, y)

    def times(self, x: Value, y: Value) -> Value:
        if is_constant(x) and is_constant(y) and x.lanes == y.lanes == 1:
            return number(int(x.text) * int(y.text), "i64")
        if y.text == "1":
            return x
        return y if x.text == "1" else self.b.binary("mul nsw", x, y)

    def _division(self, term: Division, lanes: Mapping[str, Value]) -> Value:
        return self.divided(term.kind, self._total(term.numerator, lanes), term.divisor)

    def divided(self, kind: str, value: Value, divisor: int) -> Value:
        """// and % by a number above 0, toward minus infinity."""
        if is_constant(value) and value.lanes == 1:
            whole, rest = divmod(int(value.text), divisor)
            return number(whole if kind == "//" else rest, "i64")
        if divisor & (divisor - 1) == 0:
            if kind == "//":
                return self.b.binary("ashr", value, number(divisor.bit_length() - 1, "i64"))
            return self.b.binary("and", value, number(divisor - 1, "i64"))
        by = number(divisor, "i64")
        rest = self.b.binary("srem", value, by)
        below = self.b.compared("icmp slt", rest, number(0, "i64"))
        if kind == "%":
            return self.b.selected(below, self.b.binary("add", rest, by), rest)
        whole = self.b.binary("sdiv", value, by)
        return self.b.binary("sub", whole, self.b.converted("zext", below, "i64"))

    def ends(self, word: str, ends: Sequence[Affine]) -> Value:
        """The least (min) or greatest (max) of some ends."""
        total = self.scalar(ends[0])
        for end in ends[1:]:
            total = self.b.called(f"s{word}", total, self.scalar(end))
        return total


class LoopBounds(Bounds):
    """Bounds of loops and guards of leaves as instructions: what is written is the text of an operand."""

    def __init__(self, program: Program, positions: Positions) -> None:
        super().__init__(program)
        self.positions = positions

    def written(self, node: isl.AstExpr) -> str:
        return self._value(node).text

    def _bound(self, loop: Loop, outer: Sequence[str], known: isl.Set) -> Bound:
        """With a test before the loop of what does not hang on its index."""
        guard, low, high, inside = super()._bound(loop, outer, known)
        some = without(self.values(loop, outer), [loop.index])
        runs = without(inside, [loop.index])
        if guard is None and outer and low is not None and not runs.is_subset(some):
            guard = isl.AstBuild.from_context(known).expr_from_set(some.gist(runs).coalesce())
            inside = inside.intersect(some)
        return guard, low, high, inside

    def _value(self, node: Any) -> Value:
        kind, p, b = node.get_type(), self.positions, self.positions.b
        if kind == isl.ast_expr_type.int:
            return number(int(node.get_val().to_python()), "i64")
        if kind == isl.ast_expr_type.id:
            name = node.get_id().get_name()
            if name == p.vector:
                raise VariesError
            return p.scalar(Affine.name(name))
        op = node.get_op_type()
        values = [self._value(node.get_op_arg(i)) for i in range(node.get_op_n_arg())]
        match op:
            case isl.ast_expr_op_type.add:
                return p.plus(*values)
            case isl.ast_expr_op_type.sub:
                return b.binary("sub nsw", *values)
            case isl.ast_expr_op_type.minus:
                return b.binary("sub nsw", number(0, "i64"), *values)
            case isl.ast_expr_op_type.mul:
                return p.times(*values)
            case isl.ast_expr_op_type.min | isl.ast_expr_op_type.max:
                total = values[0]
                for value in values[1:]:
                    total = b.called("smin" if op == isl.ast_expr_op_type.min else "smax", total, value)
                return total
            case isl.ast_expr_op_type.cond | isl.ast_expr_op_type.select:
                return b.selected(*values)
            case _ if op in _DIVISIONS:
                return p.divided(_DIVISIONS[op], values[0], int(values[1].text))
            case _ if op in _TESTS:
                return b.compared(f"icmp {_TESTS[op]}", *values)
            case _:
                return b.binary(_LOGIC[op], *values)


_DIVISIONS: dict[Any, str] = {
    isl.ast_expr_op_type.div: "//",
    isl.ast_expr_op_type.fdiv_q: "//",
    isl.ast_expr_op_type.pdiv_q: "//",
    isl.ast_expr_op_type.pdiv_r: "%",
    isl.ast_expr_op_type.zdiv_r: "%",
}
_TESTS: dict[Any, str] = {
    isl.ast_expr_op_type.eq: "eq",
    isl.ast_expr_op_type.le: "sle",
    isl.ast_expr_op_type.lt: "slt",
    isl.ast_expr_op_type.ge: "sge",
    isl.ast_expr_op_type.gt: "sgt",
}
_LOGIC: dict[Any, str] = {
    isl.ast_expr_op_type.and_: "and",  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks it
    isl.ast_expr_op_type.or_: "or",  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks it
}
