"""Pieces of sequences that both float types use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .sequence import Builder, Sequence, Value

if TYPE_CHECKING:
    from ..dtype import DType

INF = float("inf")
NAN = float("nan")
# By how much `lowered` holds exponents higher than they are, for which normal numbers have room.
UP = 64

# The first 1280 bits of the fraction of 2/pi: enough for the greatest f64 and the 192 bits below it.
_TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D",
    16,
)


def floats(text: str) -> tuple[float, ...]:
    """The hexadecimal floats of *text*, which stand between spaces."""
    return tuple(map(float.fromhex, text.split()))


def two_over_pi(leading_zeros: int, first: int, count: int, width: int) -> tuple[int, ...]:
    """*count* overlapping words of the bits of 2/pi behind *leading_zeros* zero bits.

    Word k holds the *width* bits from bit 32 * (first + k) on, the heaviest first.
    """
    shifts = (1280 + leading_zeros - 32 * (first + k) - width for k in range(count))
    return tuple((_TWO_OVER_PI >> shift) & ((1 << width) - 1) for shift in shifts)


def scaled(b: Builder, t: Value, r: Value, u: Value) -> Value:
    """(1 + r u) 2^n, where the low bits of t hold n + 2 * bias of the exponent field."""
    fraction = b.dtype.precision - 1
    bits = b.op("bits", t)
    half = b.op("shr", bits, 1, name="half")
    s1 = b.op("float", b.op("shl", half, fraction), name="s1")
    s2 = b.op("float", b.op("shl", b.op("isub", bits, half), fraction), name="s2")
    y = b.fma(u, b.op("mul", s1, r), s1, name="y")
    return b.op("mul", y, s2, name="y")


def lifted(b: Builder, t: Value, r: Value, u: Value, half: bool) -> Value:
    """(1 + r u) 2^n as twice a normal number, where the low bits of t hold n - 1 and n is at least -124.

    *half*: that normal number. What is added to the bits of a NaN may make a number of it: r brings it back.
    """
    bits = b.op("bits", b.fma(u, r, 1.0, name="p"))
    y = b.op("float", b.op("iadd", bits, b.op("shl", b.op("bits", t), b.dtype.precision - 1)), name="half")
    return y if half else b.fma(y, 2.0, b.op("mul", r, 0.0), name="y")


def lowered(b: Builder, t: Value, r: Value, u: Value) -> Value:
    """(1 + r u) 2^n for n of 0 and below, where the low bits of t hold n + UP; r brings a NaN back, as in `lifted`."""
    bits = b.op("bits", b.fma(u, r, 1.0, name="p"))
    high = b.op("float", b.op("iadd", bits, b.op("shl", b.op("bits", t), b.dtype.precision - 1)), name="high")
    return b.fma(high, 2.0**-UP, b.op("mul", r, 0.0), name="y")


def sign_and_magnitude(b: Builder) -> tuple[Value, Value]:
    """The sign bit of x as a word, and |x|."""
    bits = b.op("bits", b.x)
    sign = b.op("and", bits, 1 << (b.dtype.bits - 1), name="sign")
    return sign, b.op("float", b.op("xor", bits, sign), name="a")


def with_sign(b: Builder, y: Value, sign: Value) -> Value:
    """The non-negative y with the sign bit put back."""
    return b.op("float", b.op("or", b.op("bits", y), sign), name="y")


def log_specials(b: Builder, y: Value) -> Value:
    """y for positive finite x; -inf at zero, NaN below it, x itself at infinity and NaN."""
    special = b.select(b.op("eq", b.x, 0.0), b.const(-INF, "minus_inf"), b.const(NAN, "nan"), name="special")
    y = b.select(b.op("le", b.x, 0.0), special, y, name="y")
    return b.select(b.op("lt", b.x, b.const(INF, "inf")), y, b.x, name="y")


def rsqrt(dtype: DType) -> Sequence:
    """1 / sqrt(x), corrected by the exact residual of x y^2 = 1; as it is where the residual is NaN."""
    b = Builder(dtype)
    y = b.op("div", 1.0, b.op("sqrt", b.x), name="y")
    p = b.op("neg", b.op("mul", b.x, y), name="p")
    e = b.fma(b.x, y, p, name="e")  # exact: what the product x y lost
    r = b.fma(p, y, 1.0, name="r")
    r = b.fma(e, b.op("neg", y), r, name="r")
    z = b.fma(b.op("mul", y, 0.5), r, y, name="z")
    return b.finish("rsqrt", b.select(b.op("eq", z, z), z, y, name="y"))


def turn_by_parts(
    b: Builder,
    magic: float,
    turns: float,
    half_pi: tuple[float, ...],
) -> tuple[Value, Value]:
    """(q, r) with x = q pi/2 + r, |r| little above pi/4, for an |x| that is not too large.

    The low bits of the word q count the quarter turns. *turns* is 2/pi; *half_pi* is pi/2 in parts, all
    positive, so that the angle of -0 is -0.
    """
    t = b.fma(b.x, b.const(turns, "two_over_pi"), b.const(magic, "magic"), name="t")
    n = b.op("sub", t, magic, name="n")
    r = b.x
    for k, part in enumerate(half_pi):
        r = b.fma(n, b.const(-part, f"minus_half_pi_{k}"), r, name="r")
    return b.op("bits", t), r


def fraction_to_angle(b: Builder, high: Value, mid: Value, low: Value, half_pi: tuple[float, ...]) -> Value:
    """(high + mid + low) pi/2 for exact parts; high is zero or outweighs mid, which outweighs low.

    *half_pi* is pi/2 rounded to nearest, and the rest. The relative error is little above half an ulp.
    """
    h = b.op("add", high, mid, name="h")
    rest = b.op("add", b.op("sub", mid, b.op("sub", h, high)), low, name="rest")
    near = b.const(half_pi[0], "half_pi")
    p = b.op("mul", h, near, name="p")
    e = b.fma(h, near, b.op("neg", p), name="e")
    e = b.fma(h, b.const(half_pi[1], "half_pi_rest"), e, name="e")
    e = b.fma(rest, near, e, name="e")
    return b.op("add", p, e, name="r_large")


def join_turns(
    b: Builder,
    fast: tuple[Value, Value],
    large: tuple[Value, Value],
    bounds: tuple[int, int],
) -> tuple[Value, Value]:
    """The (quadrant, angle) of x: *large*, that of |x|, where its bits are inside *bounds*, else *fast*."""
    sign = b.op("and", b.op("bits", b.x), 1 << (b.dtype.bits - 1), name="sign")
    magnitude = b.op("xor", b.op("bits", b.x), sign, name="magnitude")
    q = b.select(b.op("ieq", sign, 0), large[0], b.op("isub", 0, large[0]), name="q")
    r_large = b.op("float", b.op("xor", b.op("bits", large[1]), sign), name="r_large")
    low, high = bounds
    is_large = b.op("ult", b.op("isub", magnitude, low + 1), high - low - 1, name="is_large")
    return b.select(is_large, q, fast[0], name="i"), b.select(is_large, r_large, fast[1], name="r")


def sin_or_cos(
    b: Builder,
    name: str,
    turn: tuple[Value, Value],
    sine: tuple[float, ...],
    cosine: tuple[float, ...],
) -> Sequence:
    """The sine or cosine of a turn: its quadrant and an angle r, |r| <= pi/4; polynomials in r^2."""
    i, r = turn
    if name == "cos":
        i = b.op("iadd", i, 1, name="i")
    z = b.op("mul", r, r, name="z")
    s = b.fma(b.horner(z, sine, "s"), b.fma(z, r, 0.0, name="zr"), r, name="s")  # + 0 keeps the sign of -0
    c = b.horner(z, cosine, "c")
    y = b.select(b.op("ieq", b.op("and", i, 1), 0), s, c, name="y")
    flip = b.op("shl", b.op("and", i, 2), b.dtype.bits - 2, name="flip")
    return b.finish(name, b.op("float", b.op("xor", b.op("bits", y), flip), name="y"))
