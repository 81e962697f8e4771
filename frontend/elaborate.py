"""From syntax to typed expressions: names, subscripts, operators, conditionals.

Functions and casts are in `calls.py`, reductions in `reductions.py`. Everything here is written for the
trampoline (`yield` for a recursive call), so that depth costs no stack.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import BOOL, I64, DType
from ..compiler.ir.expr import (
    COMPARISONS,
    Allow,
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Read,
    Scalar,
    Select,
    Unary,
    postorder,
)
from ..compiler.ir.quasiaffine import Affine, conjunction
from ..compiler.ir.trampoline import Deep, run
from . import syntax as s
from .calls import elaborate_call, elaborate_saturate
from .diagnostic import Fault
from .drafts import (
    Draft,
    Pending,
    as_index,
    implied,
    index_arithmetic,
    is_index_value,
    numeric,
    settled,
)
from .literals import Literal, fold, negated, number_literal
from .reductions import elaborate_reduction, permission_names
from .scope import Env, Scope, TensorInfo, unknown

if TYPE_CHECKING:
    from fractions import Fraction


def elaborate(node: s.Node, env: Env, scope: Scope) -> Deep[Draft]:
    """The typed form of an expression, or its draft where its place must give the type."""
    scope.count(node.at)
    match node:
        case s.Number():
            return number_literal(node.text, env.at(node))
        case s.Name():
            return _name(node, env, scope)
        case s.Access():
            result = yield _access(node, env, scope, None)
        case s.Padded():
            result = yield _access(node.access, env, scope, node.fill)
        case s.Unary():
            result = yield _unary(node, env, scope)
        case s.Binary():
            result = yield _binary(node, env, scope)
        case s.Select():
            result = yield _select(node, env, scope)
        case s.Call():
            result = yield elaborate_call(node, env, scope, elaborate)
        case s.Saturate():
            result = yield elaborate_saturate(node, env, scope, elaborate)
        case s.Reduction():
            result = yield elaborate_reduction(node, env, scope, elaborate)
        case s.Granted():
            result = yield _granted(node, env, scope)
        case s.Binder():
            raise Fault(node.at, "a range belongs to a reduction or to the left of an equation")
        case s.Option():
            raise Fault(node.at, f"'{node.name.text}=' belongs to a reduction")
    return result


def _name(node: s.Name, env: Env, scope: Scope) -> Draft:
    name = node.text
    if env.arguments is not None and name in env.arguments:
        return env.arguments[name]
    if env.arguments is None and (name in env.indices or name in scope.sizes):
        scope.used.add(name)
        return Index(Affine.name(name), scope.span(env.at(node)))
    if name in scope.constants:
        return replace(scope.constants[name], at=env.at(node))
    if env.arguments is None and name in scope.scalars:
        scope.used.add(name)
        return Scalar(name, scope.scalars[name], scope.span(env.at(node)))
    if name in ("inf", "nan"):
        return Literal(float(name), False, env.at(node))
    if name in ("true", "false"):
        return Const(name == "true", BOOL, scope.span(env.at(node)))
    tensor = scope.tensors.get(name)
    if tensor and env.arguments is None:
        if tensor.rank:
            hint = f"write {name}[{', '.join('ijkl'[: tensor.rank] if tensor.rank < 5 else ['..'])}]"
            raise Fault(node.at, f"'{name}' is a tensor: its subscripts stand in [ ]", hint)
        return _read(tensor, (), node.at, env, scope, None)
    if env.arguments is not None:
        known = [*env.arguments, *scope.constants]
        raise unknown("name", node, known, scope)
    known = [
        *env.indices,
        *scope.sizes,
        *scope.scalars,
        *scope.constants,
        *scope.tensors,
        "inf",
        "nan",
        "true",
        "false",
    ]
    raise unknown("name", node, known, scope)


def _access(node: s.Access, env: Env, scope: Scope, fill: s.Node | None) -> Deep[Draft]:
    name = node.tensor.text
    tensor = scope.tensors.get(name)
    if env.arguments is not None:
        raise Fault(node.at, "a def takes scalars: it reads no tensors", "pass the element as an argument")
    if tensor is None:
        for kind, names in (
            ("an index", env.indices),
            ("a size", scope.sizes),
            ("a scalar", scope.scalars),
            ("a const", scope.constants),
        ):
            if name in names:
                raise Fault(node.tensor.at, f"'{name}' is {kind}: it takes no subscripts")
        raise unknown("tensor", node.tensor, scope.tensors, scope)
    if len(node.subscripts) != tensor.rank:
        shown = f"{tensor.rank} dimension{'s' if tensor.rank != 1 else ''}, {len(node.subscripts)} subscripts here"
        raise Fault(node.at, f"'{name}' has {shown}")
    subscripts: list[Expr] = []
    for sub in node.subscripts:
        subscripts.append((yield subscript(sub, env, scope)))
    fill_draft: Draft | None = None
    if fill is not None:
        fill_draft = yield elaborate(fill, env, scope)
        if not isinstance(fill_draft, (Literal, Scalar, Const)):
            raise Fault(fill.at, "what stands outside the tensor is a constant or a scalar", "write (X[i] else 0)")
    return _read(tensor, tuple(subscripts), node.at, env, scope, fill_draft)


def _read(
    tensor: TensorInfo, subscripts: tuple[Expr, ...], at: s.At, env: Env, scope: Scope, fill: Draft | None
) -> Draft:
    tensor.used = True

    def build(dtype: DType, whose: str) -> Deep[Expr]:
        value = None
        if fill is not None:
            value = yield settled(fill, dtype, f"'{tensor.name}'", scope)
            if value.dtype is not dtype:
                raise Fault(at, f"'{tensor.name}' is {dtype}, the value outside it is {value.dtype}")
        return Read(tensor.name, subscripts, dtype, scope.span(at), env.guard, value)

    def assume(dtype: DType, whose: str) -> Deep[Expr]:
        scope.assumed.append((tensor.name, dtype, at))
        result = yield build(dtype, whose)
        return result

    if tensor.dtype is None:
        return Pending(assume, at)
    # No recursion is left to do: the fill is a literal, a constant or a scalar.
    return run(build(tensor.dtype, ""))


def subscript(node: s.Node, env: Env, scope: Scope) -> Deep[Expr]:
    """A subscript: an `Index`, or any other integer expression where it depends on data (a gather)."""
    draft = yield elaborate(node, env, scope)
    affine = as_index(draft)
    if affine is not None:
        return Index(affine, scope.span(env.at(node)))
    value = yield settled(draft, I64, "a subscript", scope)
    if not value.dtype.is_int:
        raise Fault(node.at, f"a subscript is an integer; this is {value.dtype}", "cast it: i64(...)")
    if not _depends_on_data(node, scope):
        raise _not_affine(node, value, scope)
    return value


def _depends_on_data(root: s.Node, scope: Scope) -> bool:
    stack: list[s.Node] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (s.Access, s.Call, s.Select, s.Reduction, s.Saturate)):
            return True
        if isinstance(node, s.Name) and (node.text in scope.scalars or node.text in scope.tensors):
            return True
        stack.extend(s.parts(node))
    return False


def _not_affine(node: s.Node, value: Expr, scope: Scope) -> Fault:
    """Why a subscript made of indices and numbers alone is not affine: its first operation that is not."""
    for part in postorder(value):
        if isinstance(part, Binary) and isinstance(part.left, Index) and isinstance(part.right, (Index, Const)):
            right = part.right.affine if isinstance(part.right, Index) else Affine.number(int(part.right.value))
            result, message, hint = index_arithmetic(part.op, part.left.affine, right)
            if result is None:
                return Fault(node.at, message, hint)
        if isinstance(part, Binary) and isinstance(part.right, Index):
            return Fault(
                node.at,
                f"'{part.op}' by a name is not affine" if part.op != "*" else "a product of two names is not affine",
            )
    return Fault(
        node.at,
        "this subscript is not affine in indices and sizes",
        "write it as a sum of indices times numbers",
    )


def _granted(node: s.Granted, env: Env, scope: Scope) -> Deep[Draft]:
    names = permission_names(node.permissions)
    inner = replace(env, permissions=(*env.permissions, *names))
    draft = yield elaborate(node.operand, inner, scope)
    span = scope.span(env.at(node))
    if isinstance(draft, (Literal, Pending)):

        def settle(dtype: DType, whose: str) -> Deep[Expr]:
            value = yield settled(draft, dtype, whose, scope)
            return Allow(names, value, value.dtype, span)

        return Pending(settle, node.at)
    return Allow(names, draft, draft.dtype, span)


def _unary(node: s.Unary, env: Env, scope: Scope) -> Deep[Draft]:
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


def _select(node: s.Select, env: Env, scope: Scope) -> Deep[Draft]:
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


def _binary(node: s.Binary, env: Env, scope: Scope) -> Deep[Draft]:
    left = yield elaborate(node.left, env, scope)
    right = yield elaborate(node.right, env, scope)
    if node.op in ("and", "or"):
        operands = (condition(left, node.left.at), condition(right, node.right.at))
        return Logic(node.op, operands, scope.span(env.at(node)))
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
