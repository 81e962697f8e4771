"""The language's scalar operations as LLVM instructions, on values as registers hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.dtype import F32, F64
from .builder import Value, number
from .floats import odd_f32, register_type, rounded

if TYPE_CHECKING:
    from ...compiler.ir.dtype import DType
    from .builder import Builder

FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
INTEGERS = {"+": "add", "-": "sub", "*": "mul"}
# Those of reductions.
OPERATORS = {"sum": "+", "prod": "*"}
WORDS = {"any": "or", "all": "and"}
COMPARED = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">=": "ge", ">": "gt"}


def binary(b: Builder, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """x op y in the type, rounded once (see `compiler.ir.scalar.binary`)."""
    if op in ("min", "max"):
        return _extreme(b, op, x, y, dtype)
    if dtype.is_float:
        # Of two narrow numbers the f32 result, rounded again, is the exact one rounded once: 24 >= 2p + 2.
        made = b.binary(FLOATS[op], x, y)
        return made if dtype.bits >= 32 else rounded(b, made, dtype)
    if op in INTEGERS:
        return b.binary(INTEGERS[op], x, y)
    return _divided(b, op, x, y, dtype)


def _extreme(b: Builder, op: str, x: Value, y: Value, dtype: DType) -> Value:
    if dtype.is_float:
        # These pass a NaN on, and order -0 below +0.
        return b.called(f"{op}imum", x, y)
    return b.called(f"{'s' if dtype.signed else 'u'}{op}", x, y)


def _divided(b: Builder, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """// and %, which floor; both give 0 for a divisor of 0, and the least number by -1 wraps."""
    kind = register_type(dtype)
    zero, one = number(0, kind), number(1, kind)
    none = b.compared("icmp eq", y, zero)
    if not dtype.signed:
        safe = b.selected(none, one, y)
        return b.selected(none, zero, b.binary("udiv" if op == "//" else "urem", x, safe))
    minus = b.compared("icmp eq", y, number(-1, kind))
    # By -1 nothing is left, and the quotient is the number negated.
    safe = b.selected(b.binary("or", none, minus), one, y)
    quotient = b.binary("sdiv", x, safe)
    rest = b.binary("sub", x, b.binary("mul", quotient, safe))
    differ = b.compared("icmp slt", b.binary("xor", rest, safe), zero)
    floors = b.binary("and", differ, b.compared("icmp ne", rest, zero))
    if op == "//":
        found = b.binary("sub", quotient, b.converted("zext", floors, kind))
        found = b.selected(minus, b.binary("sub", zero, x), found)
    else:
        found = b.selected(floors, b.binary("add", rest, safe), rest)
        found = b.selected(minus, zero, found)
    return b.selected(none, zero, found)


def combined(b: Builder, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """Two partial results of a reduction as one."""
    if op in WORDS:
        return b.binary(WORDS[op], x, y)
    return binary(b, OPERATORS.get(op, op), x, y, dtype)


def unary(b: Builder, op: str, x: Value, dtype: DType) -> Value:
    """op x in the type (see `compiler.ir.scalar.unary`)."""
    if dtype.is_int:
        minus = b.binary("sub", number(0, x.type), x)
        if op == "-":
            return minus
        return b.selected(b.compared("icmp slt", x, number(0, x.type)), minus, x) if dtype.signed else x
    if op == "-":
        return b.negated(x)
    made = b.called({"abs": "fabs", "round": "roundeven"}.get(op, op), x)
    return rounded(b, made, dtype) if op == "sqrt" and dtype.bits < 32 else made


def compared(b: Builder, op: str, x: Value, y: Value, dtype: DType) -> Value:
    """x op y; with a NaN only != holds."""
    word = COMPARED[op]
    if dtype.is_float:
        return b.compared(f"fcmp {'une' if op == '!=' else 'o' + word}", x, y)
    sign = "" if op in ("==", "!=") else "s" if dtype.is_int and dtype.signed else "u"
    return b.compared(f"icmp {sign}{word}", x, y)


def cast(b: Builder, x: Value, source: DType, target: DType, saturating: bool = False) -> Value:
    """x as a value of another type (see `compiler.ir.scalar.cast`)."""
    if target.is_bool:
        if source.is_bool:
            return x
        return compared(b, "!=", x, number(0.0 if source.is_float else 0, x.type), source)
    if target.is_int:
        return _to_integer(b, x, source, target, saturating)
    if saturating and target.bits <= 16:
        return _clamped(b, x, source, target)
    return _to_float(b, x, source, target)


def _to_integer(b: Builder, x: Value, source: DType, target: DType, saturating: bool) -> Value:
    kind = register_type(target)
    if source.is_float:
        word = f"fpto{'s' if target.signed else 'u'}i.sat"
        lanes = "" if x.lanes == 1 else f"v{x.lanes}"
        short = "f64" if x.type == "double" else "f32"
        full = kind if x.lanes == 1 else f"<{x.lanes} x {kind}>"
        name = f"llvm.{word}.{lanes}{kind}.{lanes}{short}"
        b.declared[name] = f"declare {full} @{name}({x.full})"
        return b.made(f"call {full} @{name}({x})", kind, x.lanes)
    if saturating and not source.is_bool:
        x = _within(b, x, source, target)
    if source.bits == target.bits and not source.is_bool:
        return x
    if source.bits > target.bits:
        return b.converted("trunc", x, kind)
    return b.converted("sext" if source.signed and not source.is_bool else "zext", x, kind)


def _within(b: Builder, x: Value, source: DType, target: DType) -> Value:
    """An integer clamped to the ends of another type, as far as its own type has them."""
    sign = "s" if source.signed else "u"
    if target.greatest < source.greatest:
        x = b.called(f"{sign}min", x, number(target.greatest, x.type))
    if target.least > source.least:
        x = b.called(f"{sign}max", x, number(target.least, x.type))
    return x


def _clamped(b: Builder, x: Value, source: DType, target: DType) -> Value:
    """A cast that ends at the target's greatest and least numbers."""
    if not source.is_float:
        # An integer or a bool has no infinity: what is too large for the type is too large as an f64 too.
        x, source = _to_float(b, x, source, F64), F64
    most = number(target.largest, x.type)
    least = number(-target.largest, x.type)
    x = b.selected(b.compared("fcmp ogt", x, most), most, x)
    x = b.selected(b.compared("fcmp olt", x, least), least, x)
    return _to_float(b, x, source, target)


def _to_float(b: Builder, x: Value, source: DType, target: DType) -> Value:
    if not source.is_float:
        return _from_integer(b, x, source, target)
    if source.bits == 64:
        if target.bits == 64:
            return x
        return b.converted("fptrunc", x, "float") if target is F32 else rounded(b, odd_f32(b, x), target)
    if target.bits >= 32:
        return x if target is F32 else b.converted("fpext", x, "double")
    return x if source is target else rounded(b, x, target)


def _from_integer(b: Builder, x: Value, source: DType, target: DType) -> Value:
    op = "sitofp" if source.is_int and source.signed else "uitofp"
    if target.bits >= 32:
        return b.converted(op, x, register_type(target))
    if source.bits <= 16:
        return rounded(b, b.converted(op, x, "float"), target)
    if source.bits == 64:
        # From 2^53 on, bit 10 stands in for the bits below it: 53 bits stay, and no tie appears or is lost.
        low = b.binary("and", x, number(0x3FF, "i64"))
        some = b.converted("zext", b.compared("icmp ne", low, number(0, "i64")), "i64")
        sticky = b.binary("or", b.binary("and", x, number(~0x3FF, "i64")), b.binary("shl", some, number(10, "i64")))
        size = b.called("abs", x, extra="i1 false")
        exact = b.compared("icmp ult", size, number(1 << 53, "i64"))
        x = b.selected(exact, x, sticky)
    return rounded(b, odd_f32(b, b.converted(op, x, "double")), target)
