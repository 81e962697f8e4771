"""The elementary functions on f64, each as one sequence of correctly rounded operations.

The devices are those of f32: rounding by a magic number, scaling by two exact powers of two. Words are
turned into floats through the bits of 2^52 + k, since few machines convert 64-bit words. The polynomials
of exp and log are minimax fits, the others weighted least-squares fits at Chebyshev points; coefficients are
rounded one after the other, lowest power first. Measured errors: docs/numerics-elementary.md.
"""

from __future__ import annotations

from ..dtype import F64
from .parts import (
    floats,
    fraction_to_angle,
    join_turns,
    log_specials,
    scaled,
    sign_and_magnitude,
    sin_or_cos,
    turn_by_parts,
    two_over_pi,
    with_sign,
)
from .sequence import Builder, Sequence, Value

_hex = float.fromhex
MAGIC = _hex("0x1.8p+52")
UNIT = 2.0**52
UNIT_BITS = 0x4330000000000000  # the bits of 2^52; or-ed with k < 2^52 they are those of 2^52 + k
FRACTION = (1 << 52) - 1
WORD = (1 << 32) - 1

LOG2_E = _hex("0x1.71547652b82fep+0")
LOG2_E_REST = _hex("0x1.777d0ffda0d24p-56")
LN2 = _hex("0x1.62e42fefa39efp-1")
LN2_REST = _hex("0x1.abc9e3b39803fp-56")
# (e^r - 1) / r on [-ln 2 / 2, ln 2 / 2]; (2^r - 1) / r on [-1/2, 1/2]
EXP = floats(
    "0x1p+0 0x1.0000000000001p-1 0x1.5555555555556p-3 0x1.5555555553d4fp-5 0x1.11111111109adp-7 "
    "0x1.6c16c17893833p-10 0x1.a01a01a7c8d47p-13 0x1.a019b8ef67c6cp-16 0x1.71de0d9c145dp-19 "
    "0x1.2891a8c1d838dp-22 0x1.af38d53857513p-26"
)
EXP2 = floats(
    "0x1.62e42fefa39efp-1 0x1.ebfbdff82c5a5p-3 0x1.c6b08d704a122p-5 0x1.3b2ab6fb9ffb3p-7 "
    "0x1.5d87fe78a111cp-10 0x1.4309130f139cbp-13 0x1.ffcbfc595bcf6p-17 0x1.62bfc71ea7788p-20 "
    "0x1.b5253f6036401p-24 0x1.e61c1058a1947p-28 0x1.e9471c875b804p-32"
)
# (ln(1 + f) - 2 s) / s^3 with s = f / (2 + f), in s^2, for sqrt(1/2) <= 1 + f <= sqrt 2
LOG = floats(
    "0x1.5555555555558p-1 0x1.99999999951f5p-2 0x1.2492492e0b70cp-2 0x1.c71c62c42db89p-3 "
    "0x1.7462be245eae3p-3 0x1.39fd25d62ab23p-3 0x1.2b6776a1bf0b9p-3"
)
ROOT_HALF_BITS = 0x3FE6A09E667F3BCD
# (tanh a - a) / a^3 on [0, 0.55], in a^2
TANH_SMALL = floats(
    "-0x1.555555555554fp-2 0x1.111111111079bp-3 -0x1.ba1ba1b97da3ap-5 0x1.664f485980bb6p-6 "
    "-0x1.226e2f175799cp-7 0x1.d6d29c1fb36cep-9 -0x1.7d8fdb476cc39p-10 0x1.3483f135adf4p-11 "
    "-0x1.e97289681d8dcp-13 0x1.5d7c816893372p-14 -0x1.472592f201266p-16"
)
# (erf a - a) / a on [0, 1.125], in a^2; erfc(a)^(1/4) on [1.125, 6], in a - 2
ERF_SMALL = floats(
    "0x1.06eba8214db69p-3 -0x1.812746b0379fbp-2 0x1.ce2f21a04346fp-4 -0x1.b82ce312a3ac3p-6 "
    "0x1.565bcd1168119p-8 -0x1.c02db469d5815p-11 0x1.f9a3308a46fb1p-14 -0x1.f4d2f22c725d2p-17 "
    "0x1.b9ed07e20e23ap-20 -0x1.5fa07a7fe1793p-23 0x1.fe4a452e01212p-27 -0x1.54f78f35b585p-30 "
    "0x1.97748c1b85f0fp-34 -0x1.504fd0aca5b62p-38"
)
ERFC_ROOT = floats(
    "0x1.0bcc87958808bp-2 -0x1.27cb716b7ee4bp-2 0x1.960e05aa2605ap-4 0x1.c3ff20293691ap-8 "
    "-0x1.90a0b5106c4c3p-7 0x1.9a303ffd20e3dp-10 0x1.89a72c22b10ddp-11 -0x1.cbf71353a153bp-13 "
    "-0x1.2a4141ce3dde6p-16 0x1.d2f3bfaed1134p-17 -0x1.37031617c760cp-21 -0x1.26c081debe98dp-21 "
    "0x1.1b0426af33fcp-24 0x1.154a23e1eedap-26 -0x1.de1d271714a83p-29 -0x1.620a7a74d419ap-32 "
    "0x1.3218e7a57803fp-33 -0x1.88d08995ecc77p-40 -0x1.1c94da8d45e01p-38 0x1.55bc91181a49fp-41 "
    "-0x1.0b8be553279eep-45"
)
# (sin r - r) / r^3 and cos r on [-pi/4, pi/4], in r^2
SIN = floats(
    "-0x1.5555555555548p-3 0x1.111111110f77dp-7 -0x1.a01a019bf7efap-13 0x1.71de3564d2b7bp-19 "
    "-0x1.ae5e594b78a4cp-26 0x1.5d8fa7fd5c9d2p-33"
)
COS = floats(
    "0x1p+0 -0x1p-1 0x1.555555555554bp-5 -0x1.6c16c16c1504bp-10 0x1.a01a019c97777p-16 "
    "-0x1.27e4f7f8eae3ap-22 0x1.1ee9e15f38979p-29 -0x1.8fa9952065738p-37"
)
TWO_OVER_PI = _hex("0x1.45f306dc9c883p-1")
# pi/2 in three parts, cut so that all are positive; and in two, rounded to nearest
HALF_PI = floats("0x1.921fb54442d18p+0 0x1.1a62633145c06p-54 0x1.c1cd129024e08p-107")
HALF_PI_NEAR = floats("0x1.921fb54442d18p+0 0x1.1a62633145c07p-54")
FAST_TURN_BITS = (1023 + 30) << 52  # 2^30: up to here the reduction by three parts of pi/2 is good
INF_BITS = 0x7FF << 52


def exp() -> Sequence:
    """e^x = 2^n e^r with n = round(x log2 e)."""
    b = Builder(F64)
    x = b.op("clamp_above", b.x, 710.0, name="x")
    x = b.op("clamp_below", x, -746.0, name="x")
    t = b.fma(x, b.const(LOG2_E, "log2_e"), b.const(MAGIC + 2046, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 2046, name="n")
    r = b.fma(n, b.const(-LN2, "minus_ln2"), x, name="r")
    r = b.fma(n, b.const(-LN2_REST, "minus_ln2_rest"), r, name="r")
    return b.finish("exp", scaled(b, t, r, b.horner(r, EXP, "u")))


def exp2() -> Sequence:
    """2^x = 2^n 2^r with n = round(x); x - n is exact."""
    b = Builder(F64)
    x = b.op("clamp_above", b.x, 1025.0, name="x")
    x = b.op("clamp_below", x, -1076.0, name="x")
    t = b.op("add", x, b.const(MAGIC + 2046, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 2046, name="n")
    r = b.op("sub", x, n, name="r")
    return b.finish("exp2", scaled(b, t, r, b.horner(r, EXP2, "u")))


def _split(b: Builder) -> tuple[Value, Value]:
    """(f, k) with x = (1 + f) 2^k and sqrt(1/2) <= 1 + f < sqrt 2."""
    tiny = b.op("lt", b.x, b.const(2.0**-1022, "least_normal"), name="tiny")
    lifted = b.select(tiny, b.op("mul", b.x, 2.0**54), b.x, name="lifted")
    start = b.select(tiny, ROOT_HALF_BITS + (54 << 52), ROOT_HALF_BITS, name="start")
    t = b.op("isub", b.op("bits", lifted), start, name="t")
    f = b.op("sub", b.op("float", b.op("iadd", b.op("and", t, FRACTION), ROOT_HALF_BITS)), 1.0, name="f")
    biased = b.op("shr", b.op("xor", t, 1 << 63), 52)  # k + 2048
    return f, b.op("sub", _unit_plus(b, biased), b.const(UNIT + 2048, "bias"), name="k")


def _log_parts(b: Builder, f: Value) -> tuple[Value, Value, Value]:
    """(h, s, w) with log(1 + f) = f - (h - s w) and h = f^2 / 2: the correction s w is small."""
    s = b.op("div", f, b.op("add", f, 2.0), name="s")
    z = b.op("mul", s, s, name="z")
    p = b.horner(z, LOG)
    h = b.op("mul", b.op("mul", f, 0.5), f, name="h")
    return h, s, b.fma(p, z, h, name="w")


def log() -> Sequence:
    """ln x = k ln 2 + ln(1 + f)."""
    b = Builder(F64)
    f, k = _split(b)
    h, s, w = _log_parts(b, f)
    rest = b.fma(s, w, b.op("mul", k, b.const(LN2_REST, "ln2_rest")), name="rest")
    part = b.op("sub", f, b.op("sub", h, rest), name="part")
    y = b.fma(k, b.const(LN2, "ln2"), part, name="y")
    return b.finish("log", log_specials(b, y))


def log2() -> Sequence:
    """log2 x = k + log2 e ln(1 + f), with ln(1 + f) and log2 e each in two parts."""
    b = Builder(F64)
    f, k = _split(b)
    h, s, w = _log_parts(b, f)
    high = b.op("sub", f, h, name="high")
    low = b.op("sub", b.op("sub", f, high), h, name="low")  # exact: what f - h lost
    low = b.fma(s, w, low, name="low")
    log2_e = b.const(LOG2_E, "log2_e")
    product = b.op("mul", high, log2_e, name="product")
    rest = b.fma(high, log2_e, b.op("neg", product), name="rest")
    rest = b.fma(high, b.const(LOG2_E_REST, "log2_e_rest"), rest, name="rest")
    rest = b.fma(low, log2_e, rest, name="rest")
    y = b.op("add", k, product, name="y")
    lost = b.op("add", b.op("sub", k, y), product, name="lost")  # exact: |k| >= 1 or k = 0
    y = b.op("add", y, b.op("add", lost, rest), name="y")
    return b.finish("log2", log_specials(b, y))


def tanh() -> Sequence:
    """A polynomial below 0.55, else 1 - 2 / (e^2a + 1), where e^2a + 1 is rounded once."""
    b = Builder(F64)
    sign, a = sign_and_magnitude(b)
    z = b.op("mul", a, a, name="z")
    small = b.fma(b.horner(z, TANH_SMALL, "s"), b.op("mul", z, a), a, name="small")
    c = b.op("clamp_above", a, 20.0, name="c")
    t = b.fma(c, b.const(2 * LOG2_E, "two_log2_e"), b.const(MAGIC + 1023, "magic"), name="t")
    n = b.op("sub", t, MAGIC + 1023, name="n")
    r = b.fma(n, b.const(-LN2 / 2, "minus_half_ln2"), c, name="r")
    v = b.horner(r, tuple(u * 2.0 ** (i + 1) for i, u in enumerate(EXP)), "v")
    q = b.op("float", b.op("shl", b.op("bits", t), 52), name="q")
    d = b.fma(v, b.op("mul", q, r), b.op("add", q, 1.0), name="d")
    large = b.op("sub", 1.0, b.op("div", 2.0, d), name="large")
    y = b.select(b.op("lt", a, b.const(0.55, "seam")), small, large, name="y")
    return b.finish("tanh", with_sign(b, y, sign))


def erf() -> Sequence:
    """A polynomial below 1.125, else 1 - p^4 with p close to erfc(a)^(1/4)."""
    b = Builder(F64)
    sign, a = sign_and_magnitude(b)
    z = b.op("mul", a, a, name="z")
    small = b.fma(b.horner(z, ERF_SMALL, "s"), a, a, name="small")
    c = b.op("sub", b.op("clamp_above", a, 6.0), 2.0, name="c")
    p = b.horner(c, ERFC_ROOT)
    p = b.op("mul", p, p, name="p")
    large = b.fma(b.op("neg", p), p, 1.0, name="large")
    y = b.select(b.op("lt", a, b.const(1.125, "seam")), small, large, name="y")
    return b.finish("erf", with_sign(b, y, sign))


def _reduce_large(b: Builder) -> tuple[Value, Value]:
    """(q, r) with |x| = q pi/2 + r (q modulo 4) for |x| > 2^30.

    As on f32: of the product of the significand and 192 bits of 2/pi the 128 leading bits below weight 4
    are kept. The two leading bits are q, the others are turned into three exact floats.
    """
    bits = b.op("and", b.op("bits", b.x), (1 << 63) - 1, name="magnitude")
    m = b.op("or", b.op("and", bits, FRACTION), 1 << 52, name="m")
    top, rest = _product(b, m, _window(b, b.op("shr", bits, 52, name="exponent")))
    q = b.op("shr", b.op("iadd", top, 1 << 61), 62, name="q")
    top = b.op("isub", top, b.op("shl", q, 62), name="top")  # the fraction: now within +-1/2
    biased = b.op("shr", b.op("iadd", top, 1 << 61), 10, name="biased")  # its 52 leading bits + 2^51
    middle = b.op("or", b.op("shl", b.op("and", top, 0x3FF), 42), b.op("shr", rest, 22), name="middle")
    high = b.op("sub", _unit_plus(b, biased), b.const(UNIT + 2.0**51, "bias"))
    high = b.op("mul", high, 2.0**-52, name="high")
    mid = b.op("mul", b.op("sub", _unit_plus(b, middle), UNIT), 2.0**-104, name="mid")
    low = b.op("sub", _unit_plus(b, b.op("and", rest, (1 << 22) - 1)), UNIT)
    low = b.op("mul", low, 2.0**-126, name="low")
    return q, fraction_to_angle(b, high, mid, low, HALF_PI_NEAR)


def _unit_plus(b: Builder, word: Value) -> Value:
    """2^52 + word as a float, for a word below 2^52."""
    return b.op("float", b.op("or", word, UNIT_BITS))


def _window(b: Builder, exponent: Value) -> list[Value]:
    """Six 32-bit words of 2/pi, lightest first; the heaviest begins with the bit that weighs 2 in x 2/pi."""
    index = b.op("and", b.op("shr", exponent, 5), 31, name="index")
    shift = b.op("and", exponent, 31, name="shift")
    pairs = [b.lookup(two_over_pi(53, k, 32, 64), index, name=f"pair{5 - k}") for k in reversed(range(6))]
    return [b.op("shr", b.op("shl", pair, shift), 32, name=f"w{k}") for k, pair in enumerate(pairs)]


def _product(b: Builder, m: Value, words: list[Value]) -> tuple[Value, Value]:
    """The upper 128 of the lower 192 bits of m times the window, as two 64-bit words.

    Schoolbook multiplication with 32-bit digits: each digit product and two carries fit in 64 bits. What
    the lowest column loses is below 2^-126 of a quarter turn.
    """
    low, high = b.op("and", m, WORD, name="m0"), b.op("shr", m, 32, name="m1")
    t = b.op("imul", low, words[0], name="t")
    column: list[Value] = []
    for word in words[1:]:
        t = b.op("iadd", b.op("imul", low, word), b.op("shr", t, 32), name="t")
        column.append(b.op("and", t, WORD, name=f"d{len(column)}"))
    t = b.op("iadd", b.op("imul", high, words[0]), column[0], name="t")
    digits: list[Value] = []
    for word, digit in zip(words[1:5], column[1:], strict=True):
        t = b.op("iadd", b.op("iadd", b.op("imul", high, word), digit), b.op("shr", t, 32), name="t")
        digits.append(b.op("and", t, WORD, name=f"d{len(digits)}"))
    return (
        b.op("or", b.op("shl", digits[3], 32), digits[2], name="top"),
        b.op("or", b.op("shl", digits[1], 32), digits[0], name="rest"),
    )


def _sin_or_cos(name: str) -> Sequence:
    b = Builder(F64)
    fast = turn_by_parts(b, MAGIC, TWO_OVER_PI, HALF_PI)
    turn = join_turns(b, fast, _reduce_large(b), (FAST_TURN_BITS, INF_BITS))
    return sin_or_cos(b, name, turn, SIN, COS)


def sin() -> Sequence:
    """sin x for every finite x; infinity gives NaN by the fast reduction."""
    return _sin_or_cos("sin")


def cos() -> Sequence:
    """cos x for every finite x; infinity gives NaN by the fast reduction."""
    return _sin_or_cos("cos")
