"""Casts, functions and the expansion of `def`s."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..compiler.ir.dtype import DTYPES, I64, DType
from ..compiler.ir.expr import Binary, Call, Cast, Expr, Unary
from ..compiler.ir.trampoline import Deep
from . import syntax as s
from .diagnostic import Fault
from .drafts import Draft, Pending, numeric, settled
from .explain import REDUCTIONS
from .literals import Literal
from .scope import ELEMENTARY, FUNCTIONS, Env, Scope, unknown

Elaborate = Callable[[s.Node, Env, Scope], Deep[Draft]]


def elaborate_call(node: s.Call, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """`type(x)`, a function of the language, or a `def`."""
    name = node.function.text
    if name in DTYPES:
        result = yield _cast(node, DTYPES[name], False, env, scope, elaborate)
        return result
    if name in REDUCTIONS and (name not in ("min", "max") or len(node.arguments) < 2 or _has_binders(node)):
        hint = (
            "a body that begins with '-' needs parentheses"
            if name not in ("min", "max")
            else "write max(a, b) or max(k) X[k]"
        )
        raise Fault(node.at, f"'{name}' has no body", hint)
    if name in FUNCTIONS:
        result = yield _function(node, env, scope, elaborate)
        return result
    function = scope.function(name)
    if function is not None:
        result = yield _expanded(node, function, env, scope, elaborate)
        return result
    if name in scope.tensors:
        raise Fault(node.function.at, f"'{name}' is a tensor: its subscripts stand in [ ]", f"write {name}[..]")
    raise unknown(
        "function", node.function, (*DTYPES, *FUNCTIONS, *REDUCTIONS, *scope.functions, *scope.prelude), scope
    )


def _has_binders(node: s.Call) -> bool:
    return any(isinstance(a, (s.Binder, s.Option)) for a in node.arguments)


def _expect(node: s.Call, count: int) -> None:
    if len(node.arguments) != count:
        plural = "s" if count != 1 else ""
        raise Fault(node.at, f"'{node.function.text}' takes {count} argument{plural}, not {len(node.arguments)}")


def elaborate_saturate(node: s.Saturate, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """`sat type(x)`."""
    name = node.call.function.text
    dtype = DTYPES.get(name)
    if dtype is None:
        raise Fault(node.call.function.at, f"'sat' stands before a cast; '{name}' is no type", "write sat f8e4m3(x)")
    if (dtype.bits > 16 and dtype.is_float) or dtype.is_bool:
        raise Fault(node.at, f"there is no saturating cast to {dtype}", f"write {name}(...)")
    result = yield _cast(node.call, dtype, True, env, scope, elaborate)
    return result


def _cast(node: s.Call, dtype: DType, saturating: bool, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    _expect(node, 1)
    draft = yield elaborate(node.arguments[0], env, scope)
    span = scope.span(env.at(node))
    if isinstance(draft, (Literal, Pending)):
        value = yield settled(draft, dtype, "the cast", scope)
        # A comparison has a type of its own even among numbers.
        return value if value.dtype is dtype else Cast(value, dtype, saturating, span)
    return Cast(draft, dtype, saturating, span)


def _function(node: s.Call, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    name = node.function.text
    if name not in ("min", "max"):
        _expect(node, 3 if name == "fma" else 1)
    drafts: list[Draft] = []
    for argument in node.arguments:
        drafts.append((yield elaborate(argument, env, scope)))
    given = next((d.dtype for d in drafts if not isinstance(d, (Literal, Pending))), None)

    def settle(dtype: DType, whose: str) -> Deep[Expr]:
        values: list[Expr] = []
        for draft in drafts:
            values.append((yield settled(draft, dtype, whose, scope)))
        return _applied(node, values, env, scope)

    if given is None:
        if name in ("min", "max", "abs"):
            return Pending(settle, node.at)
        raise Fault(node.at, f"'{name}' of a bare number has no type", f"write {name}(f32(...))")
    result = yield settle(given, "the other argument")
    return result


def _applied(node: s.Call, values: list[Expr], env: Env, scope: Scope) -> Expr:
    """The function applied to arguments that have types."""
    name, dtype, span = node.function.text, values[0].dtype, scope.span(env.at(node))
    for value in values[1:]:
        if value.dtype is not dtype:
            raise Fault(node.at, f"'{name}' joins {dtype} and {value.dtype}", f"cast one of them: {dtype}(...)")
    if name in ("min", "max"):
        if dtype.is_bool:
            raise Fault(node.at, f"'{name}' takes numbers; this is bool", "use and, or")
        result = values[0]
        for value in values[1:]:
            result = Binary(name, result, value, dtype, span)
        return result
    numeric(values[0], name, node.at)
    if name != "abs" and not dtype.is_float:
        hint = "an index is an i64: write f32(...)" if dtype is I64 else "cast it: f32(...)"
        raise Fault(node.at, f"'{name}' takes a float; this is {dtype}", hint)
    if name in ELEMENTARY or name == "fma":
        return Call(name, tuple(values), dtype, span)
    return Unary(name, values[0], dtype, span)


def _expanded(node: s.Call, function: s.Function, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """The body of a `def` with its parameters bound; a fault inside is shown at the outermost call."""
    _expect(node, len(function.parameters))
    arguments: dict[str, Draft] = {}
    for parameter, argument in zip(function.parameters, node.arguments, strict=True):
        if isinstance(argument, (s.Binder, s.Option)):
            raise Fault(argument.at, "a def takes values")
        arguments[parameter.text] = yield elaborate(argument, env, scope)
    inner = replace(env, arguments=arguments, call=env.at(node))
    try:
        result = yield elaborate(function.body, inner, scope)
    except Fault as fault:
        raise _at_call(fault, node, function) from None
    if isinstance(result, Pending):
        return _relocated(result, node, function)
    return result


def _at_call(fault: Fault, node: s.Call, function: s.Function) -> Fault:
    message = fault.message if fault.message.startswith("in ") else f"in {function.name.text}: {fault.message}"
    return Fault(node.at, message, fault.hint)


def _relocated(pending: Pending, node: s.Call, function: s.Function) -> Pending:
    def settle(dtype: DType, whose: str) -> Deep[Expr]:
        try:
            result = yield pending.settle(dtype, whose)
        except Fault as fault:
            raise _at_call(fault, node, function) from None
        return result

    return Pending(settle, node.at)
