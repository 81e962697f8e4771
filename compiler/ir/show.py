"""Programs and loop trees as text, in the words of the language."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import islpy as isl

from .expr import (
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
)
from .trampoline import Deep, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dtype import DType
    from .program import Program, Statement
    from .quasiaffine import Affine

# How tightly the language's operators bind, loosest first.
_CHOICE, _OR, _AND, _NOT, _COMPARED, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)
_STRENGTH = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}

Shown = tuple[str, int]


def expression_text(expr: Expr) -> str:
    """An expression as the language writes it; constants without their type."""
    return run(_text(expr))[0]


def _within(shown: Shown, strength: int) -> str:
    return shown[0] if shown[1] >= strength else f"({shown[0]})"


def _text(node: Expr) -> Deep[Shown]:
    match node:
        case Const():
            text = number_text(node.value, node.dtype)
            return text, _SIGN if text.startswith("-") else _ATOM
        case Index():
            text = str(node.affine)
            return text, _ATOM if text.isidentifier() or text.isdigit() else _SUM
        case Scalar():
            return node.name, _ATOM
        case Partial():
            prefix = "".join(f"{s.affine}, " for s in node.prefix)
            return f"merge(lane in 0..{node.count}) {node.tensor}[{prefix}lane]", _CHOICE
        case Read():
            result = yield _read(node)
            return result
        case Unary():
            x = yield _text(node.operand)
            if node.op == "-":
                return f"-{_within(x, _SIGN)}", _SIGN
            return f"{node.op}({x[0]})", _ATOM
        case Binary():
            a = yield _text(node.left)
            b = yield _text(node.right)
            strength = _STRENGTH.get(node.op)
            if strength is None:
                return f"{node.op}({a[0]}, {b[0]})", _ATOM
            return f"{_within(a, strength)} {node.op} {_within(b, strength + 1)}", strength
        case Compare():
            a = yield _text(node.left)
            b = yield _text(node.right)
            return f"{_within(a, _SUM)} {node.op} {_within(b, _SUM)}", _COMPARED
        case Logic():
            a = yield _text(node.operands[0])
            if node.op == "not":
                return f"not {_within(a, _NOT)}", _NOT
            b = yield _text(node.operands[1])
            strength = _AND if node.op == "and" else _OR
            return f"{_within(a, strength)} {node.op} {_within(b, strength + 1)}", strength
        case Select():
            then = yield _text(node.then)
            condition = yield _text(node.condition)
            other = yield _text(node.other)
            return (
                f"{_within(then, _OR)} if {_within(condition, _OR)} else {_within(other, _CHOICE)}",
                _CHOICE,
            )
        case Cast():
            x = yield _text(node.operand)
            return f"{'sat ' if node.saturating else ''}{node.dtype}({x[0]})", _ATOM
        case Call():
            arguments: list[str] = []
            for argument in node.arguments:
                arguments.append((yield _text(argument))[0])
            return f"{node.function}({', '.join(arguments)})", _ATOM
        case Reduce():
            body = yield _text(node.body)
            heads = ", ".join(map(str, node.ranges)) + (f", {node.order}" if node.order.kind != "ascending" else "")
            return f"({node.op}({heads}) {_within(body, _PRODUCT)})", _ATOM
        case Allow():
            x = yield _text(node.operand)
            return f"(allow {', '.join(node.permissions)} in {x[0]})", _ATOM


def _read(node: Read) -> Deep[Shown]:
    if not node.subscripts:
        return node.tensor, _ATOM
    subscripts: list[str] = []
    for sub in node.subscripts:
        subscripts.append((yield _text(sub))[0])
    text = f"{node.tensor}[{', '.join(subscripts)}]"
    if node.fill is None:
        return text, _ATOM
    fill = yield _text(node.fill)
    return f"({text} else {_within(fill, _SIGN)})", _ATOM


def number_text(value: float | int | bool, dtype: DType) -> str:
    """A constant as a literal of the language."""
    if dtype.is_bool:
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value) or math.isinf(value):
            return str(value)
        if value.is_integer() and abs(value) < 1e16 and str(value) != "-0.0":
            return str(int(value))
        return repr(value)
    return str(value)


def element_text(tensor: str, position: Sequence[Affine]) -> str:
    """`C[i, j]`, or just the name of a tensor of rank 0."""
    return f"{tensor}[{', '.join(map(str, position))}]" if position else tensor


def statement_text(statement: Statement) -> str:
    """`C.acc[i, j] = C.acc[i, j] + f32(A[i, k]) * f32(W[k, j])`."""
    order = f" ({statement.reduction.order})" if statement.folds and statement.reduction else ""
    return f"{element_text(statement.tensor, statement.position)} = {expression_text(statement.value)}{order}"


def domains_text(program: Program) -> str:
    """Every statement with its domain, in the order of the definition."""
    lines: list[str] = []
    for statement in program.statements:
        ranges = ", ".join(map(str, statement.ranges))
        lines.append(f"{statement.name}[{', '.join(statement.iterators)}]" + (f"   {ranges}" if ranges else ""))
    return "\n".join(lines)


def accesses_text(program: Program) -> str:
    """Every access relation: the write of a statement, then its reads."""
    lines: list[str] = []
    for statement in program.statements:
        instance = f"{statement.name}[{', '.join(statement.iterators)}]"
        for access in statement.accesses:
            positions = ["?" if a is None else str(a) for a in access.affine]
            element = f"{access.tensor}[{', '.join(positions)}]" if positions else access.tensor
            notes = [f"{r}" for r in access.free]
            notes += [str(access.guard)] if str(access.guard) != "true" else []
            notes += ["inside only"] if access.padded else []
            tail = f"   where {'; '.join(notes)}" if notes else ""
            lines.append(f"{access.kind:5} {instance} -> {element}{tail}")
    return "\n".join(lines)


def relation_text(relation: isl.Map, source: Sequence[str], target: Sequence[str], context: isl.Set) -> str:
    """A relation between instances, the target's iterators primed, without parameters and what *context* ensures."""
    for position, name in enumerate(source):
        relation = relation.set_dim_name(isl.dim_type.in_, position, name)
    for position, name in enumerate(target):
        relation = relation.set_dim_name(isl.dim_type.out, position, f"{name}'")
    text = str(relation.gist_params(context).coalesce())
    return "{" + text.partition("-> {")[2] if text.startswith("[") else text


def tensors_text(program: Program) -> str:
    """Every tensor with its type, extents and role."""
    lines: list[str] = []
    for tensor in program.tensors.values():
        sides: list[str] = []
        for extent in tensor.extents:
            low = ", ".join(map(str, extent.lower))
            high = str(extent.upper[0]) if len(extent.upper) == 1 else f"max({', '.join(map(str, extent.upper))})"
            sides.append(high if low == "0" else f"{low if len(extent.lower) == 1 else f'min({low})'}..{high}")
        shape = f"[{', '.join(sides)}]" if sides else ""
        lines.append(f"{tensor.role:12} {tensor.name}: {tensor.dtype}{shape}")
    return "\n".join(lines)
