"""Reductions whose order is free, in lanes: partial results of vectors, which are combined behind the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Binary, Call, Expr, Logic, Read
from ...compiler.ir.reduction import identity
from ...compiler.ir.tree import Leaf
from . import arithmetic
from .builder import Value, number
from .floats import fused, register_type

if TYPE_CHECKING:
    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program, Statement
    from ...compiler.ir.tree import Loop
    from .builder import Builder

# So many vectors of partial results: one alone would wait for itself.
SEVERAL = 4
OPERATORS = ("sum", "prod", "min", "max", "any", "all")


@dataclass(frozen=True)
class Free:
    """A step of a reduction in any order. *parts*: the element, or two factors of one; *fuses*: their product is added
    with one rounding."""

    statement: Statement
    op: str
    dtype: DType
    parts: tuple[Expr, ...]
    fuses: bool = False

    def start(self) -> Value:
        return number(identity(self.op, self.dtype), register_type(self.dtype))

    def stepped(self, b: Builder, held: Value, parts: list[Value]) -> Value:
        """A partial result with one more element."""
        if self.fuses:
            return fused(b, parts[0], parts[1], held, self.dtype)
        return self.combined(b, held, parts[0])

    def combined(self, b: Builder, x: Value, y: Value) -> Value:
        return arithmetic.combined(b, self.op, x, y, self.dtype)

    def across(self, b: Builder, value: Value) -> Value:
        """All lanes combined."""
        while value.lanes > 1:
            half = value.lanes // 2
            low = b.shuffled(value, value, range(half)) if half > 1 else b.lane(value, 0)
            high = b.shuffled(value, value, range(half, value.lanes)) if half > 1 else b.lane(value, 1)
            value = self.combined(b, low, high)
        return value


def free(program: Program, loop: Loop) -> Free | None:
    """The reduction that is all a loop does, if its elements may come in any order: of a vector loop where that is
    granted too, of a serial one only where it makes no difference."""
    leaf = loop.body[0]
    if loop.kind not in ("serial", "vector") or loop.descending or len(loop.body) != 1 or not isinstance(leaf, Leaf):
        return None
    statement = program.statement(leaf.statement)
    instance = dict(zip(statement.iterators, leaf.instance, strict=True))
    stays = all(loop.index not in a.substituted(instance).names() for a in statement.position)
    found = statement.reduction
    if statement.kind != "update" or found is None or not stays or found.op not in OPERATORS:
        return None
    dtype = program.tensors[statement.tensor].dtype
    granted = loop.kind == "vector" and program.free_order(statement)
    if found.order.kind != "ascending" or not (found.exact(dtype) or granted):
        return None
    match statement.value:
        case Binary(left=Read() as held, right=element) if held.tensor == statement.tensor:
            return Free(statement, found.op, dtype, (element,))
        case Logic(operands=(element, Read() as held)) if held.tensor == statement.tensor:
            return Free(statement, found.op, dtype, (element,))
        case Call(function="fma", arguments=(a, b, Read() as held)) if held.tensor == statement.tensor:
            return Free(statement, found.op, dtype, (a, b), fuses=True)
        case _:
            return None
