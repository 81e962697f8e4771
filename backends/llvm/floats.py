"""Rounding to the narrow floats, and their bits in memory.

In registers a value of f16, bf16 or an 8-bit float is an f32 (LLVM's `float`) that the type holds exactly; so only what
rounds has to be made, and by integer operations where processors have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .builder import Value, number

if TYPE_CHECKING:
    from ...compiler.ir.dtype import DType
    from .builder import Builder

NAN = number(float("nan"), "float")


def rounded(b: Builder, x: Value, dtype: DType) -> Value:
    """An f32 rounded once to a float type of 16 bits or fewer, as an f32."""
    if dtype.name == "f16" and b.halves:
        return b.converted("fpext", b.converted("fptrunc", x, "half"), "float")
    near = _to_even(b, x, dtype)
    if dtype.name == "bf16":
        return near
    size = b.called("fabs", x)
    # Adding this constant rounds what is below the least normal number to a multiple of the least subnormal one.
    magic = number(1.5 * 2.0 ** (dtype.emin + 23), "float")
    small = b.binary("fsub", b.binary("fadd", size, magic), magic)
    small = b.called("copysign", small, x)
    normal = b.compared("fcmp oge", size, number(2.0 ** (dtype.emin + dtype.precision - 1), "float"))
    near = b.selected(normal, near, small)
    beyond = b.compared("fcmp ogt", b.called("fabs", near), number(dtype.largest, "float"))
    far = NAN if dtype.overflow == "nan" else b.called("copysign", number(float("inf"), "float"), x)
    near = b.selected(beyond, far, near)
    return b.selected(b.compared("fcmp uno", x, x), NAN, near)


def _to_even(b: Builder, x: Value, dtype: DType) -> Value:
    """An f32 with as many significant bits as the type has, if it is a normal number there; NaN stays NaN."""
    drop = 24 - dtype.precision
    bits = b.converted("bitcast", x, "i32")
    last = b.binary("and", b.binary("lshr", bits, number(drop, "i32")), number(1, "i32"))
    up = b.binary("add", b.binary("add", bits, number((1 << drop - 1) - 1, "i32")), last)
    kept = b.binary("and", up, number(-1 << drop, "i32"))
    near = b.converted("bitcast", kept, "float")
    return b.selected(b.compared("fcmp uno", x, x), NAN, near)


def odd_f32(b: Builder, x: Value) -> Value:
    """A double as an f32, an inexact one as the neighbour with an odd last bit: rounding that again, to 22 bits or
    fewer, equals rounding the double (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008)."""
    near = b.converted("fptrunc", x, "float")
    back = b.converted("fpext", near, "double")
    bits = b.converted("bitcast", near, "i32")
    over = b.compared("fcmp ogt", b.called("fabs", back), b.called("fabs", x))
    toward_zero = b.binary("sub", bits, b.converted("zext", over, "i32"))
    inexact = b.compared("fcmp une", back, x)
    odd = b.binary("or", toward_zero, b.converted("zext", inexact, "i32"))
    return b.converted("bitcast", odd, "float")


def fused(b: Builder, x: Value, y: Value, z: Value, dtype: DType) -> Value:
    """x * y + z with one rounding to the type."""
    if dtype.bits >= 32:
        return b.called("fma", x, y, z)
    # The product of two narrow numbers is exact in f64; the sum goes to the neighbour with an odd last bit.
    wide = [b.converted("fpext", v, "double") for v in (x, y, z)]
    product = b.binary("fmul", wide[0], wide[1])
    total = b.binary("fadd", product, wide[2])
    part = b.binary("fsub", total, product)
    error = b.binary("fadd", b.binary("fsub", product, b.binary("fsub", total, part)), b.binary("fsub", wide[2], part))
    bits = b.converted("bitcast", total, "i64")
    even = b.compared("icmp eq", b.binary("and", bits, number(1, "i64")), number(0, "i64"))
    zero = number(0.0, "double")
    # An error that is no number belongs to a sum that is none, or infinite.
    inexact = b.compared("fcmp one", error, zero)
    moves = b.binary("and", even, inexact)
    above, positive = b.compared("fcmp ogt", error, zero), b.compared("fcmp ogt", total, zero)
    outward = b.selected(b.compared("icmp eq", above, positive), number(1, "i64"), number(-1, "i64"))
    odd = b.binary("add", bits, b.selected(moves, outward, number(0, "i64")))
    return rounded(b, odd_f32(b, b.converted("bitcast", odd, "double")), dtype)


def stored(b: Builder, x: Value, dtype: DType) -> Value:
    """The value as it lies in memory."""
    match dtype.name:
        case "bf16":
            return b.converted("trunc", b.binary("lshr", b.converted("bitcast", x, "i32"), number(16, "i32")), "i16")
        case "f16":
            return _half(b, x)
        case "f8e5m2":
            return b.converted("trunc", b.binary("lshr", _half(b, x), number(8, "i16")), "i8")
        case "f8e4m3":
            return _e4m3(b, x)
        case "bool":
            return b.converted("zext", x, "i8")
        case _:
            return x


def _half(b: Builder, x: Value) -> Value:
    """The sixteen bits of an f32 that is a value of f16."""
    if b.halves:
        return b.converted("bitcast", b.converted("fptrunc", x, "half"), "i16")
    size = b.called("fabs", x)
    # Times 2^-112 its exponent is that of the narrow format, subnormals included.
    scaled = b.converted("bitcast", b.binary("fmul", size, number(2.0**-112, "float")), "i32")
    code = b.binary("lshr", scaled, number(13, "i32"))
    infinite = b.compared("fcmp oeq", size, number(float("inf"), "float"))
    code = b.selected(infinite, number(0x7C00, "i32"), code)
    code = b.selected(b.compared("fcmp uno", x, x), number(0x7E00, "i32"), code)
    sign = b.binary("lshr", b.converted("bitcast", x, "i32"), number(16, "i32"))
    code = b.binary("or", code, b.binary("and", sign, number(0x8000, "i32")))
    return b.converted("trunc", code, "i16")


def _of_half(b: Builder, x: Value) -> Value:
    """The f32 that sixteen bits of an f16 are."""
    if b.halves:
        return b.converted("fpext", b.converted("bitcast", x, "half"), "float")
    word = b.converted("zext", x, "i32")
    size = b.binary("shl", b.binary("and", word, number(0x7FFF, "i32")), number(13, "i32"))
    value = b.binary("fmul", b.converted("bitcast", size, "float"), number(2.0**112, "float"))
    # Infinities and NaN have the greatest exponent there and here.
    top = b.binary("or", size, number(0x7F800000, "i32"))
    beyond = b.compared("icmp uge", b.binary("and", word, number(0x7FFF, "i32")), number(0x7C00, "i32"))
    bits = b.selected(beyond, top, b.converted("bitcast", value, "i32"))
    sign = b.binary("shl", b.binary("and", word, number(0x8000, "i32")), number(16, "i32"))
    return b.converted("bitcast", b.binary("or", bits, sign), "float")


def _e4m3(b: Builder, x: Value) -> Value:
    """The eight bits of an f32 that is a value of f8e4m3."""
    bits = b.converted("bitcast", x, "i32")
    # Times 2^-120 its exponent is that of the narrow format, subnormals included.
    scaled = b.converted("bitcast", b.binary("fmul", b.called("fabs", x), number(2.0**-120, "float")), "i32")
    code = b.binary("lshr", scaled, number(20, "i32"))
    code = b.selected(b.compared("fcmp uno", x, x), number(0x7F, "i32"), code)
    sign = b.binary("and", b.binary("lshr", bits, number(24, "i32")), number(0x80, "i32"))
    return b.converted("trunc", b.binary("or", code, sign), "i8")


def loaded(b: Builder, x: Value, dtype: DType) -> Value:
    """The value that lies in memory as these bits."""
    match dtype.name:
        case "bf16":
            wide = b.binary("shl", b.converted("zext", x, "i32"), number(16, "i32"))
            return b.converted("bitcast", wide, "float")
        case "f16":
            return _of_half(b, x)
        case "f8e5m2":
            return _of_half(b, b.binary("shl", b.converted("zext", x, "i16"), number(8, "i16")))
        case "f8e4m3":
            word = b.converted("zext", x, "i32")
            size = b.binary("shl", b.binary("and", word, number(0x7F, "i32")), number(20, "i32"))
            value = b.binary("fmul", b.converted("bitcast", size, "float"), number(2.0**120, "float"))
            none = b.compared("icmp eq", b.binary("and", word, number(0x7F, "i32")), number(0x7F, "i32"))
            value = b.selected(none, NAN, value)
            sign = b.binary("shl", b.binary("and", word, number(0x80, "i32")), number(24, "i32"))
            bits = b.binary("or", b.converted("bitcast", value, "i32"), sign)
            return b.converted("bitcast", bits, "float")
        case "bool":
            return b.compared("icmp ne", x, number(0, "i8"))
        case _:
            return x


def register_type(dtype: DType) -> str:
    """What a value is in a register."""
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    return "i1" if dtype.is_bool else f"i{dtype.bits}"


def memory_type(dtype: DType) -> str:
    """What an element is in memory."""
    return register_type(dtype) if dtype.is_float and dtype.bits >= 32 else f"i{dtype.bits}"
