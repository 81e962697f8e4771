"""Expressions whose type is still open, and how they meet one.

An elaborated expression is a *draft*: a typed expression, a literal, or a `Pending` form of literals
(`1 if c else 0`) that waits for the type of its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import BOOL, I64, DType
from ..compiler.ir.expr import Allow, Binary, Compare, Const, Expr, Index, Logic
from ..compiler.ir.quasiaffine import (
    FALSE,
    NEGATED,
    TRUE,
    Affine,
    Comparison,
    Formula,
    conjunction,
    disjunction,
)
from .diagnostic import Fault
from .literals import Literal, typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..compiler.ir.trampoline import Deep
    from .scope import Scope
    from .syntax import At

GUARD_PARTS = 64


@dataclass(frozen=True, eq=False)
class Pending:
    """A form without a type of its own; *settle* builds it in the type of its place."""

    settle: Callable[[DType, str], Deep[Expr]]
    at: At
    # An argument of a `def` may be named many times; it is built once for each type.
    built: dict[DType, Expr] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]


Draft = Expr | Literal | Pending


def settled(draft: Draft, dtype: DType, whose: str, scope: Scope) -> Deep[Expr]:
    """The draft in a type, where it has none of its own. *whose* says where the type comes from."""
    if isinstance(draft, Literal):
        constant, warning = typed(draft, dtype, whose)
        if warning:
            scope.warn(draft.at, warning)
        return constant
    if isinstance(draft, Pending):
        if dtype not in draft.built:
            draft.built[dtype] = yield draft.settle(dtype, whose)
        return draft.built[dtype]
    return draft


def as_index(draft: Draft) -> Affine | None:
    """The draft as an affine expression, where it is one."""
    if isinstance(draft, Index):
        return draft.affine
    if isinstance(draft, Literal) and draft.integer is not None and I64.least <= draft.integer <= I64.greatest:
        return Affine.number(draft.integer)
    return None


def index_arithmetic(op: str, a: Affine, b: Affine) -> tuple[Affine | None, str, str | None]:
    """The affine result of an operation, or None with the message and hint that say why it is not affine."""
    if op == "+":
        return _fitting(a + b)
    if op == "-":
        return _fitting(a - b)
    if op == "*":
        if a.is_number or b.is_number:
            return _fitting(b.scaled(a.constant) if a.is_number else a.scaled(b.constant))
        return None, "a product of two names is not affine", "one factor must be a number or a const"
    if not b.is_number:
        return None, f"'{op}' by a name is not affine", "divide by a number or a const"
    if b.constant <= 0:
        return None, f"'{op}' in a subscript needs a positive divisor", None
    return _fitting(a.divided(op, b.constant))


def _fitting(result: Affine) -> tuple[Affine | None, str, str | None]:
    if result.too_large():
        return None, "this index expression is too large", "smaller factors, or fewer nested divisions"
    return result, "", None


def implied(condition: Expr, positive: bool = True) -> Formula:
    """An affine condition that holds wherever *condition* is true (false, if not *positive*)."""
    formula = _implied(condition, positive, 0)
    return formula if _size(formula) <= GUARD_PARTS else TRUE


def _implied(condition: Expr, positive: bool, depth: int) -> Formula:
    if depth > 100:
        return TRUE  # knowing less is sound
    match condition:
        case Compare(op, Index() as left, Index() as right):
            return Comparison(op if positive else NEGATED[op], left.affine, right.affine)
        case Const(value=value) if condition.dtype is BOOL:
            return TRUE if bool(value) == positive else FALSE
        case Logic("not", (operand,)):
            return _implied(operand, not positive, depth + 1)
        case Logic(op):
            parts = [_implied(o, positive, d) for o, d in _chained(condition, op, depth)]
            return conjunction(*parts) if (op == "and") == positive else disjunction(*parts)
        case Allow():
            return _implied(condition.operand, positive, depth + 1)
        case _:
            return TRUE


def _chained(condition: Logic, op: str, depth: int) -> Iterator[tuple[Expr, int]]:
    """The operands of a condition with those of operands that are joined alike, in order, and how deep each stands: a
    chain is put together once, and not link by link."""
    stack = [(o, depth + 1) for o in reversed(condition.operands)]
    while stack:
        operand, level = stack.pop()
        if isinstance(operand, Logic) and operand.op == op and level <= 100:
            stack += [(o, level + 1) for o in reversed(operand.operands)]
        else:
            yield operand, level


def _size(formula: Formula) -> int:
    return 1 if isinstance(formula, Comparison) else sum(map(_size, formula.parts)) + 1


def is_index_value(expr: Expr) -> bool:
    """Whether the value is made of indices and sizes alone (its comparisons are of numbers, whatever the type)."""
    stack, budget = [expr], 1000
    while stack:
        node = stack.pop()
        budget -= 1
        if isinstance(node, Binary) and node.dtype is I64 and budget:
            stack += [node.left, node.right]
        elif not isinstance(node, (Index, Const)):
            return False
    return True


def numeric(expr: Expr, op: str, at: At) -> None:
    """Refuse arithmetic on bool and on the types that only store."""
    if expr.dtype.is_bool:
        raise Fault(at, f"'{op}' takes numbers; this is bool", "cast it: i32(...)")
    if expr.dtype.stores_only:
        raise Fault(at, f"{expr.dtype} only stores: cast to f32 first", "write f32(...)")
