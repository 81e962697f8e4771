"""Shorter forms of operations, with the same bits, for what their operands can be.

What a number of 16 bits can be is few enough to try it all: an expression whose only varying operand has 16 bits has
65,536 arguments at most. Here it is computed for all of them, by the definition and with a shorter sequence in place
of an operation, which is taken where no bit of the whole differs. The bits of a reciprocal are not known, but the PTX
manual bounds it (`rcp.approx`: 1 unit in the last place), and each value that it may have is tried. Of other operands
it is known of some that they are not above 0, or within 0..1.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.ir.bits import same_bits
from ...compiler.ir.dtype import DTYPES, F32
from ...compiler.ir.elementary import NONPOSITIVE, NORMAL, SEQUENCES, sequence
from ...compiler.ir.expr import Binary, Call, Expr, Scalar, label
from ...compiler.ir.quasiaffine import Affine
from ...passes.ranges import Ranges
from ..embed import names_used, runtime_text
from ..load import load_function
from ..lower.tile import Elem, For, Full, If, Load, Ref, operands, statements_of, values_of
from ..numpy.elementary import function_text
from ..numpy.text import constant_text
from ..numpy.tiles import operation_text
from .operations import is_fast
from .quotients import QUOTIENTS, RECIPROCALS

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from ..lower.tile import Stmt, Value

# Bits of an argument of which all values are tried.
NARROW = 16
# Quotients in one expression that are tried together.
SEVERAL = 2


def shorter_forms(program: Program, body: Sequence[Stmt]) -> dict[int, str]:
    """The functions to call for some of the operations in statements, by the identity of the operation."""
    ranges = Ranges(program)
    found = {id(v): name for v in values_of(body) if isinstance(v, Elem) and (name := _by_range(v, ranges))}
    for stmt in statements_of(body):
        if not isinstance(stmt, (For, If)):
            for whole, leaf in _functions_of_one(stmt.value):
                found |= _shorter(whole, leaf)
    return found


def _by_range(value: Elem, ranges: Ranges) -> str:
    """The function for an operation on operands of which something is known, or "" where there is none."""
    node = value.node
    if isinstance(node, Call) and node.function in NONPOSITIVE and node.dtype.wide == F32 and not is_fast(value):
        return NONPOSITIVE[node.function] if ranges.nonpositive(node.arguments[0]) else ""
    if isinstance(node, Binary) and node.op == "/" and node.dtype == F32:
        _, divisor = value.operands
        one = not divisor.axes and value.axes and not isinstance(divisor, Full)
        return "row_quotient" if one and ranges.within_one(node.left) else ""
    return ""


def _functions_of_one(value: Value) -> Iterator[tuple[Elem, Value]]:
    """The largest expressions that one narrow number decides, each with that number."""
    leaves = {key: leaf for operand in operands(value) for key, leaf in _leaves(operand).items()}
    if isinstance(value, Elem) and len(leaves) == 1 and not is_fast(value):
        (leaf,) = leaves.values()
        if leaf.dtype.bits <= NARROW:
            yield value, leaf
            return
    for operand in operands(value):
        yield from _functions_of_one(operand)


def _leaves(value: Value) -> dict[Hashable, Value]:
    """What an expression is made of, by what makes two of them alike. A narrow part of more than one is one itself."""
    if isinstance(value, Full):
        return {}
    if not isinstance(value, Elem) or isinstance(value.node, Scalar) or is_fast(value):
        return {_alike(value): value}
    found = {key: leaf for operand in value.operands for key, leaf in _leaves(operand).items()}
    narrow = len(found) == 1 and next(iter(found.values())).dtype.bits <= NARROW
    return {_alike(value): value} if value.dtype.bits <= NARROW and not narrow else found


def _alike(value: Value) -> Hashable:
    match value:
        case Ref():
            return value.name
        case Load() if all(isinstance(i, Affine) for i in value.index):
            return value.tensor, value.index, value.mask, value.fill
        case Full():
            return repr(value.value), value.dtype
        case Elem():
            return label(value.node), tuple(_alike(o) for o in value.operands)
        case _:
            return id(value)


# ---- trying


@dataclass(frozen=True)
class _Tried:
    """Functions to stand for operations, by identity; of a quotient, which of the reciprocals it is to meet."""

    functions: Mapping[int, str]
    reciprocals: Mapping[int, int]


def _shorter(whole: Elem, leaf: Value) -> dict[int, str]:
    """The functions that stand for operations of an expression with all its bits the same."""
    chosen: dict[int, str] = {}
    quotients: list[int] = []
    for operation in _operations(whole, leaf):
        for name in _candidates(operation.node) if operation.dtype.wide == F32 else ():
            tried = chosen | {id(operation): name}
            met = [*quotients, id(operation)] if name in QUOTIENTS else quotients
            if len(met) <= SEVERAL and _proven(whole, leaf, tried, met):
                chosen, quotients = tried, met
                break
    return chosen


def _candidates(node: Expr) -> tuple[str, ...]:
    """The functions that may stand for an operation, the shortest first."""
    if isinstance(node, Call):
        half, whole = NORMAL.get(node.function, ("", ""))
        # Of a narrower function what is doubled would be rounded before.
        return (half, whole) if half and node.dtype == F32 else (whole,) if whole else ()
    return tuple(QUOTIENTS) if isinstance(node, Binary) and node.op == "/" and node.dtype == F32 else ()


def _proven(whole: Elem, leaf: Value, functions: Mapping[int, str], quotients: Sequence[int]) -> bool:
    """Whether the expression has its bits whatever the reciprocals in its quotients come to."""
    wanted = _values(_lines(whole, leaf, _Tried({}, {})), leaf.dtype)
    for numbers in itertools.product(range(RECIPROCALS), repeat=len(quotients)):
        tried = _Tried(functions, dict(zip(quotients, numbers, strict=True)))
        if not same_bits(wanted, _values(_lines(whole, leaf, tried), leaf.dtype)):
            return False
    return True


def _operations(whole: Elem, leaf: Value) -> list[Elem]:
    """The operations between an expression and its leaf, operands first, those that occur twice once."""
    found: dict[int, Elem] = {}

    def visit(value: Value) -> None:
        if isinstance(value, Elem) and id(value) not in found and _alike(value) != _alike(leaf):
            for operand in value.operands:
                visit(operand)
            found[id(value)] = value

    visit(whole)
    return list(found.values())


def _lines(whole: Elem, leaf: Value, tried: _Tried) -> tuple[str, ...]:
    """An expression as NumPy text of its leaf, x, a line for each operation."""
    names: dict[int, str] = {}
    lines: list[str] = []

    def text(value: Value) -> str:
        if isinstance(value, Full):
            return constant_text(value.value, value.dtype)
        return names.get(id(value), "x")

    for operation in _operations(whole, leaf):
        texts = [text(o) for o in operation.operands]
        function = tried.functions.get(id(operation))
        if id(operation) in tried.reciprocals:
            made = f'quotients["{function}"]({texts[0]}, {texts[1]}, {tried.reciprocals[id(operation)]})'
        else:
            made = operation_text(operation, texts, function)
        if function is not None and function.endswith("_half"):
            made = f"({made} * np.float32(2))"
        names[id(operation)] = f"v{len(lines)}"
        lines.append(f"v{len(lines)} = {made}")
    return tuple(lines)


@cache
def _values(lines: tuple[str, ...], dtype: DType) -> Any:
    """What the last line comes to, for every number of a type."""
    body = "\n".join(f"    {line}" for line in (*lines, f"return {lines[-1].split(' ')[0]}"))
    main = f'@np.errstate(all="ignore")\ndef values(x, quotients):\n{body}\n'
    called = [sequence(f, DTYPES[t]) for f, t in SEQUENCES if f"{f}_{t}(" in main]
    functions = "\n\n\n".join([*(function_text(s) for s in called), main])
    helpers = runtime_text("numpy", names_used("numpy", functions))
    source = f"import ml_dtypes\nimport numpy as np\n\n\n{helpers}\n\n\n{functions}"
    return load_function(source, "values")(every(dtype), QUOTIENTS)


def every(dtype: DType) -> Any:
    """All numbers of a type of 16 bits or fewer."""
    if dtype.is_bool:
        return np.array([False, True])
    return np.arange(1 << dtype.bits, dtype=f"u{dtype.bits // 8}").view(dtype.numpy)
