"""Operators, comparisons and conditionals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import BOOL, I64, DType
from ..compiler.ir.expr import COMPARISONS, Binary, Cast, Compare, Const, Expr, Index, Logic, Select, Unary
from ..compiler.ir.quasiaffine import conjunction
from ..compiler.ir.trampoline import Deep
from . import syntax as s
from .diagnostic import Fault
from .drafts import Draft, Pending, as_index, implied, index_arithmetic, is_index_value, numeric, settled
from .literals import Literal, fold, negated
from .scope import Env, Scope

if TYPE_CHECKING:
    from fractions import Fraction

Elaborate = Callable[[s.Node, Env, Scope], Deep[Draft]]


def elaborate_unary(node: s.Unary, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """`-x` and `not x`."""
    draft = yield elaborate(node.operand, env, scope)
    span = scope.span(env.at(node))
    if node.op == "not":
        return Logic("not", (condition(draft, node.operand.at),), span)
    if isinstance(draft, Literal):
        return negated(draft, env.at(node))
    if isinstance(draft, Pending):

        def settle(dtype: DType, whose: str) -> Deep[Expr]:
            value = yield settled(draft, dtype, whose, scope)
            numeric(value, "-", node.at)
            return Unary("-", value, value.dtype, span)

        return Pending(settle, node.at)
    if isinstance(draft, Index):
        return Index(draft.affine.scaled(-1), span)
    numeric(draft, "-", node.at)
    return Unary("-", draft, draft.dtype, span)


def condition(draft: Draft, at: s.At) -> Expr:
    """The draft as a condition."""
    if isinstance(draft, (Literal, Pending)):
        raise Fault(at, "a condition is a bool; this is a number", "compare it: ... != 0")
    if not draft.dtype.is_bool:
        raise Fault(at, f"a condition is a bool; this is {draft.dtype}", "compare it: ... != 0")
    return draft


def elaborate_select(node: s.Select, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """`a if c else b`."""
    chosen = condition((yield elaborate(node.condition, env, scope)), node.condition.at)
    then_env = env.under(conjunction(env.guard, implied(chosen)))
    other_env = env.under(conjunction(env.guard, implied(chosen, positive=False)))
    then = yield elaborate(node.then, then_env, scope)
    other = yield elaborate(node.other, other_env, scope)
    span = scope.span(env.at(node))

    def build(dtype: DType, whose: str) -> Deep[Expr]:
        a = yield settled(then, dtype, whose, scope)
        b = yield settled(other, dtype, whose, scope)
        if a.dtype is not b.dtype:
            raise Fault(node.at, f"'if' joins {a.dtype} and {b.dtype}", _cast_hint(a, b))
        return Select(chosen, a, b, a.dtype, span)

    given = _type_of(then) or _type_of(other)
    if given is None:
        return Pending(build, node.at)
    result = yield build(given, "the other branch")
    return result


def _type_of(draft: Draft) -> DType | None:
    return None if isinstance(draft, (Literal, Pending)) else draft.dtype


def elaborate_binary(node: s.Binary, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """Arithmetic, a comparison, `and`, `or`."""
    left = yield elaborate(node.left, env, scope)
    if node.op in ("and", "or"):
        # The right side counts only where the left one leaves the answer open.
        first = condition(left, node.left.at)
        inner = env.under(conjunction(env.guard, implied(first, positive=node.op == "and")))
        second = condition((yield elaborate(node.right, inner, scope)), node.right.at)
        return Logic(node.op, (first, second), scope.span(env.at(node)))
    right = yield elaborate(node.right, env, scope)
    if node.op in COMPARISONS:
        result = yield _compare(node, left, right, env, scope)
        return result
    if isinstance(left, Literal) and isinstance(right, Literal):
        return fold(node.op, left, right, env.at(node))
    a, b = as_index(left), as_index(right)
    if a is not None and b is not None and node.op != "/":
        affine, _, _ = index_arithmetic(node.op, a, b)
        if affine is not None:
            return Index(affine, scope.span(env.at(node)))
    given = _type_of(left) or _type_of(right)
    if given is None:

        def settle(dtype: DType, whose: str) -> Deep[Expr]:
            result = yield _arithmetic(node, left, right, dtype, whose, env, scope)
            return result

        return Pending(settle, node.at)
    result = yield _arithmetic(node, left, right, given, "the other operand", env, scope)
    return result


def _arithmetic(
    node: s.Binary, left: Draft, right: Draft, dtype: DType, whose: str, env: Env, scope: Scope
) -> Deep[Expr]:
    a = yield settled(left, dtype, whose, scope)
    b = yield settled(right, dtype, whose, scope)
    same_type(node.op, a, b, node.at)
    numeric(a, node.op, node.at)
    if node.op == "/" and a.dtype.is_int:
        raise Fault(node.at, "'/' is for floats; integers use //", "write //, or cast: f32(a) / f32(b)")
    if node.op in ("//", "%") and a.dtype.is_float:
        raise Fault(node.at, f"'{node.op}' is for integers; this is {a.dtype}", "write floor(x / y)")
    return Binary(node.op, a, b, a.dtype, scope.span(env.at(node)))


def same_type(op: str, a: Expr, b: Expr, at: s.At) -> None:
    """Refuse two operands of different types."""
    if a.dtype is not b.dtype:
        raise Fault(at, f"'{op}' joins {a.dtype} and {b.dtype}" + _index_note(a, b), _cast_hint(a, b))


def _index_note(a: Expr, b: Expr) -> str:
    return ": an index is an i64" if isinstance(a, Index) or isinstance(b, Index) else ""


def _cast_hint(a: Expr, b: Expr) -> str:
    for x, other in ((a, b), (b, a)):
        if isinstance(x, Index):
            text = str(x.affine)
            return f"write {other.dtype}({text})" if len(text) < 40 else f"write {other.dtype}(...)"
    if a.dtype.is_bool or b.dtype.is_bool:
        number = b.dtype if a.dtype.is_bool else a.dtype
        return f"cast the bool: {number}(...)"
    return f"a cast is a rounding, so it is written: {b.dtype}(...) or {a.dtype}(...)"


def _compare(node: s.Binary, left: Draft, right: Draft, env: Env, scope: Scope) -> Deep[Draft]:
    span = scope.span(env.at(node))
    if isinstance(left, Literal) and isinstance(right, Literal):
        return Const(_compare_numbers(node.op, left.value, right.value), BOOL, span)
    a, b = as_index(left), as_index(right)
    if a is not None and b is not None:
        return Compare(node.op, Index(a, span), Index(b, span), span)
    given = _type_of(left) or _type_of(right)
    if given is None:
        raise Fault(node.at, "the type of this comparison is not determined", "write one side with a cast: f32(...)")
    x = yield settled(left, given, "the other operand", scope)
    y = yield settled(right, given, "the other operand", scope)
    if x.dtype.is_int and y.dtype.is_int and x.dtype is not y.dtype and (is_index_value(x) or is_index_value(y)):
        # An index is compared as a number with any integer type.
        x, y = _as_i64(x), _as_i64(y)
    same_type(node.op, x, y, node.at)
    if x.dtype.is_bool and node.op not in ("==", "!="):
        raise Fault(node.at, f"'{node.op}' does not order bools", "use == or !=, or cast: i32(...)")
    return Compare(node.op, x, y, span)


def _as_i64(x: Expr) -> Expr:
    return x if x.dtype is I64 else Cast(x, I64, span=x.span)


def _compare_numbers(op: str, a: Fraction | float, b: Fraction | float) -> bool:
    return {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b}[op]
