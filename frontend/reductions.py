"""Reductions: indices and their ranges, orders, types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import BF16, F8E4M3, F8E5M2, F16, F32, I64, DType
from ..compiler.ir.expr import Binary, Cast, Expr, Order, Reduce
from ..compiler.ir.fold import FAMILIES, unit_of
from ..compiler.ir.trampoline import Deep
from . import syntax as s
from .diagnostic import Fault
from .drafts import Draft, Pending, numeric, settled
from .explain import REDUCTIONS
from .literals import Literal
from .ranges import index_range, written_range
from .scope import INDICES, PERMISSIONS, Env, Scope, new_name, unknown

if TYPE_CHECKING:
    from ..compiler.ir.quasiaffine import Range

Elaborate = Callable[[s.Node, Env, Scope], Deep[Draft]]

LANES = 1 << 16


def permission_names(permissions: tuple[s.Permission, ...]) -> tuple[str, ...]:
    """The permissions of an `allow`, checked; `approx(4)` keeps its number."""
    names: list[str] = []
    for permission in permissions:
        name = permission.name.text
        if name not in PERMISSIONS:
            raise Fault(permission.name.at, f"unknown permission '{name}'", f"one of {', '.join(PERMISSIONS)}")
        if name == "approx":
            if permission.number is None or not permission.number.text.isdigit():
                raise Fault(permission.name.at, "'approx' needs its number", "write approx(4): within 4 ulp")
            name = f"approx({int(permission.number.text)})"
        elif permission.number is not None:
            raise Fault(permission.name.at, f"'{name}' takes no number", f"write {name}")
        names.append(name)
    return tuple(names)


@dataclass(frozen=True)
class _Head:
    """What stands between the parentheses of a reduction."""

    ranges: tuple[Range, ...]
    order: Order


def elaborate_reduction(node: s.Reduction, env: Env, scope: Scope, elaborate: Elaborate) -> Deep[Draft]:
    """`sum(k) body` and its kin."""
    name = node.call.function
    if env.arguments is not None:
        raise Fault(node.at, "a def holds no reductions", "write the reduction in the equation")
    if name.text not in REDUCTIONS:
        if scope.function(name.text) is not None or name.text in scope.tensors:
            raise Fault(node.body.at, "an operator is missing before this")
        raise unknown("reduction", name, REDUCTIONS, scope)
    head, inner = _head(node, env, scope)
    body = yield elaborate(node.body, inner, scope)

    def build(dtype: DType, whose: str) -> Deep[Expr]:
        value = yield settled(body, dtype, whose, scope)
        return _reduce(node, head, value, env, scope)

    if isinstance(body, (Literal, Pending)):
        if name.text in ("argmax", "argmin"):
            raise Fault(node.body.at, f"'{name.text}' of a bare number has no type", "write f32(...)")
        if name.text in ("any", "all"):
            raise Fault(node.body.at, f"'{name.text}' takes a condition", "compare it: ... != 0")
        return Pending(build, node.at)
    result = yield build(body.dtype, "")
    return result


def _head(node: s.Reduction, env: Env, scope: Scope) -> tuple[_Head, Env]:
    indices = dict(env.indices)
    ranges: list[Range] = []
    options: list[s.Option] = []
    names = [a.name if isinstance(a, s.Binder) else a for a in node.call.arguments if not isinstance(a, s.Option)]
    for argument in node.call.arguments:
        if isinstance(argument, s.Option):
            options.append(argument)
            continue
        index = argument.name if isinstance(argument, s.Binder) else argument
        if not isinstance(index, s.Name):
            hint = "write sum(k in 0..K) ..." if names else None
            raise Fault(argument.at, "a reduction runs over names of indices", hint)
        if options:
            raise Fault(
                argument.at,
                "indices come before options",
                f"write {node.call.function.text}({index.text}, ..)",
            )
        check_index(index, indices, scope)
        inner = replace(env, indices=indices)
        if isinstance(argument, s.Binder):
            found = written_range(argument, inner, scope)
        else:
            found = index_range(index, [node.body], None, inner, scope)
        indices[index.text] = found
        ranges.append(found)
    if not ranges:
        raise Fault(
            node.call.at,
            f"'{node.call.function.text}' has no index",
            f"write {node.call.function.text}(k) ...",
        )
    if len(indices) > INDICES:
        raise Fault(node.call.at, f"an equation has at most {INDICES} indices")
    order = _order(node, options, scope)
    return _Head(tuple(ranges), order), replace(env, indices=indices)


def check_index(index: s.Name, indices: object, scope: Scope) -> None:
    """Refuse an index name that already means something."""
    name = index.text
    new_name(index, "index")
    if name in indices:  # type: ignore[operator]  # a mapping or a list of names
        raise Fault(index.at, f"'{name}' is already taken", "give this index a name of its own")
    for kind, names in (
        ("a size", scope.sizes),
        ("a scalar", scope.scalars),
        ("a const", scope.constants),
        ("a tensor", scope.tensors),
    ):
        if name in names:
            raise Fault(index.at, f"'{name}' is already taken: it is {kind}", "give the index its own name")


def _order(node: s.Reduction, options: list[s.Option], scope: Scope) -> Order:
    op = node.call.function.text
    order = Order()
    promote = 0
    for option in options:
        kind = option.name.text
        if kind not in ("lanes", "blocks", "mma", "promote"):
            raise Fault(option.name.at, f"unknown option '{kind}'", "one of lanes, blocks, mma, promote")
        if op in ("argmax", "argmin", "any", "all"):
            raise Fault(option.at, f"'{op}' has no order to choose", f"write {op} without {kind}=")
        if kind != "promote" and order.kind != "ascending":
            raise Fault(option.at, "a reduction has one order", f"keep {order.kind}= or {kind}=")
        if kind == "mma":
            if not isinstance(option.value, s.Name) or option.value.text not in FAMILIES:
                raise Fault(option.value.at, "mma= names a chip family", f"write mma={' or mma='.join(FAMILIES)}")
            order = Order("mma", family=option.value.text)
            continue
        size = _size(option, scope)
        if kind == "lanes" and size & (size - 1):
            raise Fault(
                option.value.at,
                f"lanes are a power of two; this is {size}",
                f"write lanes={1 << size.bit_length() - 1}",
            )
        if kind == "promote":
            promote = size
        else:
            order = Order(kind, size)  # type: ignore[arg-type]  # lanes or blocks
    if promote:
        if order.kind != "mma":
            raise Fault(node.call.at, "promote= belongs to mma=", "write mma=sm_90, promote=128")
        order = replace(order, promote=promote)
    return order


def _size(option: s.Option, scope: Scope) -> int:
    value = option.value
    number = None
    if isinstance(value, s.Number) and value.text.isdigit():
        number = int(value.text)
    elif isinstance(value, s.Name) and value.text in scope.constants:
        number = scope.constants[value.text].integer
    if number is None or not 1 <= number <= LANES:
        raise Fault(value.at, f"{option.name.text}= is a number from 1 to {LANES}", f"write {option.name.text}=128")
    return number


def _reduce(node: s.Reduction, head: _Head, body: Expr, env: Env, scope: Scope) -> Expr:
    op, span, dtype = node.call.function.text, scope.span(node.at), body.dtype
    if op in ("any", "all"):
        if not dtype.is_bool:
            raise Fault(node.body.at, f"'{op}' takes a condition; this is {dtype}", "compare it: ... != 0")
    elif dtype.is_bool:
        raise Fault(node.body.at, f"'{op}' takes numbers; this is bool", "cast it: i32(...)")
    if op in ("sum", "prod"):
        numeric(body, op, node.body.at)
        if dtype.bits < 32:
            scope.warn(
                node.at,
                f"{op} accumulates in {dtype}",
                f"write {op}({head.ranges[0].index}) {'i32' if dtype.is_int else 'f32'}(...)",
            )
    result = dtype
    if op in ("argmax", "argmin"):
        result = I64
        if len(head.ranges) != 1:
            raise Fault(node.call.at, f"'{op}' takes one index", "flatten the range by hand, or reduce in two steps")
    order = head.order
    if order.kind == "mma":
        _check_mma(node, body, op, order)
    elif dtype.is_int or op in ("min", "max"):
        order = Order()  # every order gives the same bits
    return Reduce(op, head.ranges, body, result, order, env.permissions, span, env.guard)


def _check_mma(node: s.Reduction, body: Expr, op: str, order: Order) -> None:
    """An mma sum is f32(a) * f32(b) with a, b of one narrow type, or a product of two f32 (read as tf32)."""
    hint = "write sum(k, mma=sm_90) f32(A[i, k]) * f32(B[k, j])"
    if op != "sum" or not isinstance(body, Binary) or body.op != "*" or body.dtype is not F32:
        raise Fault(node.body.at, "mma= orders a sum of products in f32", hint)
    sides = [x.operand.dtype if isinstance(x, Cast) else x.dtype for x in (body.left, body.right)]
    if sides[0] is not sides[1] or sides[0] not in (F16, BF16, F8E4M3, F8E5M2, F32):
        raise Fault(node.body.at, f"the matrix units do not multiply {sides[0]} by {sides[1]}", hint)
    block = unit_of(order, body).block
    if order.promote % block:
        text = f"promote={order.promote} ends inside a step: the matrix units add {block} products at once"
        raise Fault(node.call.at, text, f"write promote={-(-order.promote // block) * block}")
