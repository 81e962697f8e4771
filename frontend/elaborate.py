"""From syntax to typed expressions: names, subscripts, operators, conditionals.

Functions and casts are in `calls.py`, reductions in `reductions.py`. Everything here is written for the
trampoline (`yield` for a recursive call), so that depth costs no stack.
"""

from __future__ import annotations

from dataclasses import replace

from ..compiler.ir.dtype import BOOL, I64, DType
from ..compiler.ir.expr import (
    Allow,
    Binary,
    Const,
    Expr,
    Index,
    Read,
    Scalar,
    postorder,
)
from ..compiler.ir.quasiaffine import Affine
from ..compiler.ir.trampoline import Deep, run
from . import syntax as s
from .calls import elaborate_call, elaborate_saturate
from .diagnostic import Fault
from .drafts import (
    Draft,
    Pending,
    as_index,
    index_arithmetic,
    settled,
)
from .literals import Literal, number_literal
from .operators import elaborate_binary, elaborate_select, elaborate_unary
from .reductions import elaborate_reduction, permission_names
from .scope import Env, Scope, TensorInfo, unknown


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
            result = yield elaborate_unary(node, env, scope, elaborate)
        case s.Binary():
            result = yield elaborate_binary(node, env, scope, elaborate)
        case s.Select():
            result = yield elaborate_select(node, env, scope, elaborate)
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
