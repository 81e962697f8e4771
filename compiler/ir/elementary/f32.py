"""The elementary functions on f32, each as one sequence of correctly rounded operations.

Polynomials are minimax fits with rounded coefficients, lowest power first. Two devices recur:

* ``t = fma(x, 1 / period, MAGIC + b); n = t - (MAGIC + b)`` rounds to the nearest integer n, and the low
  bits of t hold n + b as a word: no float-to-int conversion is needed;
* 2^n is multiplied in as two factors, s1 and s2, whose exponents are halves of n. Each product by a
  power of two is exact, so overflow, gradual underflow and infinity need no special case.

Measured errors: docs/numerics-elementary.md.
"""

from __future__ import annotations

from itertools import pairwise

from ..dtype import F32
from .parts import (
    UP,
    floats,
    fraction_to_angle,
    join_turns,
    lifted,
    log_specials,
    lowered,
    scaled,
    sign_and_magnitude,
    sin_or_cos,
    turn_by_parts,
    two_over_pi,
    with_sign,
)
from .sequence import Builder, Sequence, Value

_hex = float.fromhex
MAGIC = _hex("0x1.8p+23")

LOG2_E = _hex("0x1.715476p+0")
LN2 = _hex("0x1.62e430p-1")  # fma(n, -LN2, x) is exact, and LN2 itself is good to 2^-29
LN2_REST = _hex("-0x1.05c610p-29")
# (e^r - 1) / r on [-ln 2 / 2, ln 2 / 2]; (2^r - 1) / r on [-1/2, 1/2]
EXP = floats("0x1p+0 0x1.fffffcp-2 0x1.555492p-3 0x1.5558aap-5 0x1.12396cp-7 0x1.6a5234p-10")
EXP2 = floats("0x1.62e43p-1 0x1.ebfbdcp-3 0x1.c6af7cp-5 0x1.3b2dep-7 0x1.5f082ep-10 0x1.416b5ep-13")
# (ln(1 + f) - f) / f^2 on [-1/3, 1/3]; (log2(1 + f) - f log2 e) / f^2 on [sqrt(1/2) - 1, sqrt 2 - 1]
LOG = floats(
    "-0x1p-1 0x1.555506p-2 -0x1.fffefcp-3 0x1.99d044p-3 -0x1.559c46p-3 0x1.1ed66p-3 -0x1.f332a6p-4 "
    "0x1.1e67a2p-3 -0x1.07c962p-3"
)
LOG2 = floats(
    "-0x1.71547p-1 0x1.ec7094p-2 -0x1.715afep-2 0x1.277f44p-2 -0x1.eaa24ap-3 0x1.a2c9d8p-3 -0x1.87f7e2p-3 "
    "0x1.7f283ep-3 -0x1.c39c52p-4"
)
LOG2_E_REST = _hex("0x1.4ae0c0p-26")
TWO_THIRDS_BITS = 0x3F2AAAAB
ROOT_HALF_BITS = 0x3F3504F3
# (tanh a - a) / a^3 on [0, 0.6], in a^2
TANH_SMALL = floats("-0x1.55553ep-2 0x1.1109bep-3 -0x1.b89abap-5 0x1.54c3c2p-6 -0x1.828776p-8")
# (erf a - a) / a on [0, 1.13], in a^2; erfc(a)^(1/4) on [1.13, 4]
ERF_SMALL = floats(
    "0x1.06eba8p-3 -0x1.81272cp-2 0x1.ce2922p-4 -0x1.b7b5d4p-6 0x1.5205b6p-8 -0x1.962afep-11 0x1.2609c8p-14"
)
ERFC_ROOT = floats(
    "0x1.0169c8p+0 -0x1.3c47ep-2 -0x1.0342bp-4 -0x1.9e717cp-5 0x1.0f112ap-4 -0x1.6c386ap-6 0x1.a8453p-9 -0x1.78d1f8p-13"
)
ERF_SEAM = _hex("0x1.2147aep+0")
# (sin r - r) / r^3 and cos r on [-pi/4, pi/4], in r^2
SIN = floats("-0x1.555546p-3 0x1.110778p-7 -0x1.9953f2p-13")
COS = floats("0x1p+0 -0x1p-1 0x1.55554ap-5 -0x1.6c0c28p-10 0x1.99e80cp-16")
TWO_OVER_PI = _hex("0x1.45f306p-1")
HALF_PI = floats("0x1.921fb4p+0 0x1.4442dp-24 0x1.846988p-48")
HALF_PI_NEAR = floats("0x1.921fb6p+0 -0x1.777a5cp-25")
FAST_TURN_BITS = 0x48000000  # 131072: up to here the reduction by three parts of pi/2 is good
INF_BITS = 0x7F800000


def exp() -> Sequence:
    """e^x = 2^n e^r with n = round(x log2 e)."""
    b = Builder(F32)
    x = b.op("clamp_above", b.x, 89.0, name="x")
    x = b.op("clamp_below", x, -104.0, name="x")
    t = b.fma(x, b.const(LOG2_E, "log2_e"), b.const(MAGIC + 254, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 254, name="n")
    r = b.fma(n, b.const(-LN2, "minus_ln2"), x, name="r")
    r = b.fma(n, b.const(-LN2_REST, "minus_ln2_rest"), r, name="r")
    return b.finish("exp", scaled(b, t, r, b.horner(r, EXP, "u")))


def exp_normal(half: bool) -> Sequence:
    """exp with the same bits from -86 on, and e^-86 below that. *half*: half of it, and that of e^89 for NaN."""
    b = Builder(F32)
    x = b.op("fmin" if half else "clamp_above", b.x, 89.0, name="x")
    x = b.op("fmax" if half else "clamp_below", x, -86.0, name="x")
    t = b.fma(x, b.const(LOG2_E, "log2_e"), b.const(MAGIC - 1, "magic"), name="t")
    n = b.op("sub", t, MAGIC - 1, name="n")
    r = b.fma(n, b.const(-LN2, "minus_ln2"), x, name="r")
    r = b.fma(n, b.const(-LN2_REST, "minus_ln2_rest"), r, name="r")
    return b.finish(f"exp_{'half' if half else 'normal'}", lifted(b, t, r, b.horner(r, EXP, "u"), half))


def exp_nonpositive() -> Sequence:
    """exp with the same bits for all numbers that are not above 0, and NaN."""
    b = Builder(F32)
    x = b.op("clamp_below", b.x, -104.0, name="x")
    t = b.fma(x, b.const(LOG2_E, "log2_e"), b.const(MAGIC + UP, "magic"), name="t")
    n = b.op("sub", t, MAGIC + UP, name="n")
    r = b.fma(n, b.const(-LN2, "minus_ln2"), x, name="r")
    r = b.fma(n, b.const(-LN2_REST, "minus_ln2_rest"), r, name="r")
    return b.finish("exp_nonpositive", lowered(b, t, r, b.horner(r, EXP, "u")))


def exp2() -> Sequence:
    """2^x = 2^n 2^r with n = round(x); x - n is exact."""
    b = Builder(F32)
    x = b.op("clamp_above", b.x, 129.0, name="x")
    x = b.op("clamp_below", x, -151.0, name="x")
    t = b.op("add", x, b.const(MAGIC + 254, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 254, name="n")
    r = b.op("sub", x, n, name="r")
    return b.finish("exp2", scaled(b, t, r, b.horner(r, EXP2, "u")))


def exp2_normal(half: bool) -> Sequence:
    """exp2 with the same bits from -124 on, and 2^-124 below that. *half*: half of it, and that of 2^129 for NaN."""
    b = Builder(F32)
    x = b.op("fmin" if half else "clamp_above", b.x, 129.0, name="x")
    x = b.op("fmax" if half else "clamp_below", x, -124.0, name="x")
    t = b.op("add", x, b.const(MAGIC - 1, "magic"), name="t")
    n = b.op("sub", t, MAGIC - 1, name="n")
    r = b.op("sub", x, n, name="r")
    return b.finish(f"exp2_{'half' if half else 'normal'}", lifted(b, t, r, b.horner(r, EXP2, "u"), half))


def exp2_nonpositive() -> Sequence:
    """exp2 with the same bits for all numbers that are not above 0, and NaN."""
    b = Builder(F32)
    x = b.op("clamp_below", b.x, -151.0, name="x")
    t = b.op("add", x, b.const(MAGIC + UP, "magic"), name="t")
    n = b.op("sub", t, MAGIC + UP, name="n")
    r = b.op("sub", x, n, name="r")
    return b.finish("exp2_nonpositive", lowered(b, t, r, b.horner(r, EXP2, "u")))


def _split(b: Builder, start_bits: int) -> tuple[Value, Value]:
    """(f, k) with x = (1 + f) 2^(k / 2^23), where 1 + f starts at the float with *start_bits*."""
    tiny = b.op("lt", b.x, b.const(2.0**-126, "least_normal"), name="tiny")
    lifted = b.select(tiny, b.op("mul", b.x, 2.0**23), b.x, name="lifted")
    start = b.select(tiny, start_bits + (23 << 23), start_bits, name="start")
    t = b.op("isub", b.op("bits", lifted), start, name="t")
    f = b.op("sub", b.op("float", b.op("iadd", b.op("and", t, 0x007FFFFF), start_bits)), 1.0, name="f")
    return f, b.op("int_to_float", b.op("and", t, 0xFF800000), name="k")


def log() -> Sequence:
    """ln x = k ln 2 + ln(1 + f), |f| <= 1/3."""
    b = Builder(F32)
    f, k = _split(b, TWO_THIRDS_BITS)
    p = b.horner(f, LOG)
    part = b.fma(p, b.op("mul", f, f), f, name="part")
    y = b.fma(k, b.const(LN2 * 2.0**-23, "ln2_scaled"), part, name="y")
    return b.finish("log", log_specials(b, y))


def log2() -> Sequence:
    """log2 x = k + log2(1 + f), with log2 e in two parts, so that powers of two are exact."""
    b = Builder(F32)
    f, k = _split(b, ROOT_HALF_BITS)
    p = b.horner(f, LOG2)
    w = b.op("mul", b.fma(p, f, b.const(LOG2_E_REST, "log2_e_rest")), f, name="w")
    part = b.fma(f, b.const(LOG2_E, "log2_e"), w, name="part")
    y = b.fma(k, b.const(2.0**-23, "unit"), part, name="y")
    return b.finish("log2", log_specials(b, y))


def tanh() -> Sequence:
    """A polynomial below 0.6, else 1 - 2 / (e^2a + 1), where e^2a + 1 is rounded once."""
    b = Builder(F32)
    sign, a = sign_and_magnitude(b)
    z = b.op("mul", a, a, name="z")
    small = b.fma(b.horner(z, TANH_SMALL, "s"), b.op("mul", z, a), a, name="small")
    c = b.op("clamp_above", a, 9.125, name="c")
    t = b.fma(c, b.const(2 * LOG2_E, "two_log2_e"), b.const(MAGIC + 127, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 127, name="n")
    r = b.fma(n, b.const(-LN2 / 2, "minus_half_ln2"), c, name="r")
    v = b.horner(r, tuple(u * 2.0 ** (i + 1) for i, u in enumerate(EXP)), "v")
    q = b.op("float", b.op("shl", b.op("bits", t), 23), name="q")
    d = b.fma(v, b.op("mul", q, r), b.op("add", q, 1.0), name="d")
    large = b.op("sub", 1.0, b.op("div", 2.0, d), name="large")
    y = b.select(b.op("lt", a, b.const(_hex("0x1.333334p-1"), "seam")), small, large, name="y")
    return b.finish("tanh", with_sign(b, y, sign))


def erf() -> Sequence:
    """A polynomial below 1.13, else 1 - p^4 with p close to erfc(a)^(1/4)."""
    b = Builder(F32)
    sign, a = sign_and_magnitude(b)
    z = b.op("mul", a, a, name="z")
    small = b.fma(b.horner(z, ERF_SMALL, "s"), a, a, name="small")
    p = b.horner(b.op("clamp_above", a, 4.0, name="c"), ERFC_ROOT)
    p = b.op("mul", p, p, name="p")
    large = b.fma(b.op("neg", p), p, 1.0, name="large")
    y = b.select(b.op("lt", a, b.const(ERF_SEAM, "seam")), small, large, name="y")
    return b.finish("erf", with_sign(b, y, sign))


def _reduce_large(b: Builder) -> tuple[Value, Value]:
    """(q, r) with |x| = q pi/2 + r (q modulo 4) for |x| > 131072.

    With the significand m of |x|, the bits of 2/pi that weigh 4 or more in the product x 2/pi are left
    out; the next 96 are multiplied by m modulo 2^96. The two leading bits of the product are q, the rest
    is the fraction, whose 62 leading bits are turned into three exact floats.
    """
    bits = b.op("and", b.op("bits", b.x), 0x7FFFFFFF, name="magnitude")
    m = b.op("or", b.op("and", bits, 0x007FFFFF), 0x00800000, name="m")
    w2, w1, w0 = _window(b, b.op("shr", bits, 23, name="exponent"))
    partial = b.op("imul", m, w1, name="partial")
    rest = b.op("iadd", partial, b.op("umulhi", m, w0), name="rest")
    top = b.op("iadd", b.op("imul", m, w2), b.op("umulhi", m, w1), name="top")
    top = b.op("iadd", top, b.select(b.op("ult", rest, partial), 1, 0), name="top")
    q = b.op("shr", b.op("iadd", top, 0x20000000), 30, name="q")
    top = b.op("isub", top, b.op("shl", q, 30), name="top")  # the fraction: now signed, within +-1/2
    middle = b.op("or", b.op("shl", b.op("and", top, 0xFF), 16), b.op("shr", rest, 16), name="middle")
    high = b.op("mul", b.op("int_to_float", b.op("and", top, 0xFFFFFF00)), 2.0**-30, name="high")
    mid = b.op("mul", b.op("int_to_float", middle), 2.0**-46, name="mid")
    low = b.op("mul", b.op("int_to_float", b.op("and", rest, 0xFFFF)), 2.0**-62, name="low")
    return q, fraction_to_angle(b, high, mid, low, HALF_PI_NEAR)


def _window(b: Builder, exponent: Value) -> list[Value]:
    """Three words of 2/pi, heaviest first, from the bit that weighs 2 in x 2/pi (x > 2^17)."""
    index = b.op("and", b.op("shr", exponent, 5), 3, name="index")
    shift = b.op("and", exponent, 31, name="shift")
    back = b.op("xor", shift, 31, name="back")  # 31 - shift
    words = [b.lookup(two_over_pi(24, k, 4, 32), index, name=f"word{k}") for k in range(4)]
    return [
        b.op("or", b.op("shl", one, shift), b.op("shr", b.op("shr", two, 1), back), name=f"w{2 - k}")
        for k, (one, two) in enumerate(pairwise(words))
    ]


def _sin_or_cos(name: str) -> Sequence:
    b = Builder(F32)
    fast = turn_by_parts(b, MAGIC, TWO_OVER_PI, HALF_PI)
    turn = join_turns(b, fast, _reduce_large(b), (FAST_TURN_BITS, INF_BITS))
    return sin_or_cos(b, name, turn, SIN, COS)


def sin() -> Sequence:
    """sin x for every finite x; infinity gives NaN by the fast reduction."""
    return _sin_or_cos("sin")


def cos() -> Sequence:
    """cos x for every finite x; infinity gives NaN by the fast reduction."""
    return _sin_or_cos("cos")
