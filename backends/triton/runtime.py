"""The language's scalar operations on tiles, where Triton has no operation with that meaning.

Emitted modules carry copies of these functions, so each may name only `tl`, `triton` and its neighbours in this file.
Every float operation here rounds once: modules are compiled with enable_fp_fusion=False.
"""
# The source is shown to users, and read as text: nothing imports this file.

from __future__ import annotations

import triton
import triton.language as tl

# ---- casts ----


@triton.jit
def float_to_int(x, dtype: tl.constexpr, least: tl.constexpr, greatest: tl.constexpr):
    """Truncate x (f32 or f64) to an integer type; beyond its range: the nearest end; NaN: 0."""
    low = x <= least * 1.0
    high = x >= greatest * 1.0
    inside = tl.where(low | high | (x != x), 0.0, x).to(dtype)
    return tl.where(low, tl.full((), least, dtype), tl.where(high, tl.full((), greatest, dtype), inside))


@triton.jit
def f32_to_f8e4m3(x):
    """Round x (f32) to f8e4m3; what is too large becomes NaN."""
    return tl.where(tl.abs(x) > 464.0, float("nan"), x).to(tl.float8e4nv)


@triton.jit
def f32_to_f8e5m2(x):
    """Round x (f32) to f8e5m2; what is too large becomes infinite."""
    near = x.to(tl.float8e5).to(tl.uint8, bitcast=True)
    infinity = tl.where(x < 0, tl.full((), 0xFC, tl.uint8), tl.full((), 0x7C, tl.uint8))
    return tl.where(tl.abs(x) >= 61440.0, infinity, near).to(tl.float8e5, bitcast=True)


@triton.jit
def f64_to_odd_f32(x):
    """Round x (f64) to f32, an inexact one to the neighbour with an odd last bit.

    Rounding that again, to a format of 22 bits or fewer, equals rounding x itself.
    """
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    word = near.to(tl.int32, bitcast=True)
    toward_zero = tl.where(tl.abs(back) > tl.abs(x), word - 1, word)
    return tl.where(back != x, toward_zero | 1, word).to(tl.float32, bitcast=True)


@triton.jit
def int_to_odd_f32(x):
    """Round x (i32 or i64) to f32, an inexact one to the neighbour with an odd last bit."""
    x = x.to(tl.int64)
    # From 2^53 on, bit 10 stands in for the bits below it: 53 bits stay, and no tie appears or is lost.
    low = x & 0x3FF
    sticky = (x - low) | tl.where(low != 0, tl.full((), 0x400, tl.int64), tl.full((), 0, tl.int64))
    exact = (x > -9007199254740992) & (x < 9007199254740992)
    return f64_to_odd_f32(tl.where(exact, x, sticky).to(tl.float64))


# ---- a * b + c with one rounding, where f32 has none that is ----


@triton.jit
def odd_sum(a, b):
    """a + b (f64), an inexact one rounded to the neighbour with an odd last bit."""
    total = a + b
    part = total - a
    rest = (a - (total - part)) + (b - part)
    word = total.to(tl.int64, bitcast=True)
    toward = tl.where((rest > 0) == (total > 0), 1, -1)
    wrong = (rest != 0) & ((word & 1) == 0) & (tl.abs(total) < float("inf"))
    return tl.where(wrong, word + toward, word).to(tl.float64, bitcast=True)


@triton.jit
def fma_bf16(a, b, c):
    """a * b + c (bf16) with one rounding: the f64 product is exact."""
    total = odd_sum(a.to(tl.float64) * b.to(tl.float64), c.to(tl.float64))
    return f64_to_odd_f32(total).to(tl.bfloat16)


@triton.jit
def fma_f16(a, b, c):
    """a * b + c (f16) with one rounding: the f64 product is exact."""
    total = odd_sum(a.to(tl.float64) * b.to(tl.float64), c.to(tl.float64))
    return f64_to_odd_f32(total).to(tl.float16)


# ---- whole numbers ----


@triton.jit
def floor_div(a, b):
    """a // b, toward minus infinity; x // 0 is 0, and the least integer // -1 is itself."""
    safe = tl.where((b == 0) | (b == -1), 1, b)
    quotient = a // safe
    rest = a - quotient * safe
    quotient = tl.where((rest != 0) & ((rest < 0) != (safe < 0)), quotient - 1, quotient)
    return tl.where(b == 0, 0, tl.where(b == -1, 0 - a, quotient))


@triton.jit
def floor_mod(a, b):
    """a % b with the sign of b; x % 0 is 0."""
    safe = tl.where((b == 0) | (b == -1), 1, b)
    rest = a % safe
    rest = tl.where((rest != 0) & ((rest < 0) != (safe < 0)), rest + safe, rest)
    return tl.where((b == 0) | (b == -1), 0, rest)


@triton.jit
def unsigned_div(a, b):
    """a // b of unsigned integers; x // 0 is 0."""
    return tl.where(b == 0, 0, a // tl.where(b == 0, 1, b)).to(a.dtype)


@triton.jit
def unsigned_mod(a, b):
    """a % b of unsigned integers; x % 0 is 0."""
    return tl.where(b == 0, 0, a % tl.where(b == 0, 1, b)).to(a.dtype)


# ---- roundings to whole numbers ----


@triton.jit
def floor_f32(x):
    """The greatest whole number that is not above x; below 0 that is never 0."""
    whole = tl.floor(x)
    return tl.where((x < 0.0) & (whole == 0.0), -1.0, whole)


@triton.jit
def ceil_f32(x):
    """The least whole number that is not below x; above 0 that is never 0."""
    whole = tl.ceil(x)
    return tl.where((x > 0.0) & (whole == 0.0), 1.0, whole)


@triton.jit
def round_even_f32(x):
    """The nearest whole number, of two the even one; the sign of zero stays."""
    size = tl.abs(x)
    near = (size + 8388608.0) - 8388608.0
    sign = x.to(tl.uint32, bitcast=True) & 0x80000000
    whole = (near.to(tl.uint32, bitcast=True) | sign).to(tl.float32, bitcast=True)
    return tl.where(size < 8388608.0, whole, x)


@triton.jit
def round_even_f64(x):
    """The nearest whole number, of two the even one; the sign of zero stays."""
    size = tl.abs(x)
    near = (size + 4503599627370496.0) - 4503599627370496.0
    sign = x.to(tl.uint64, bitcast=True) & 0x8000000000000000
    whole = (near.to(tl.uint64, bitcast=True) | sign).to(tl.float64, bitcast=True)
    return tl.where(size < 4503599627370496.0, whole, x)


# ---- least and greatest: NaN propagates, -0 is below +0 ----


@triton.jit
def minimum(a, b):
    """The lesser of two numbers of one type."""
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def maximum(a, b):
    """The greater of two numbers of one type."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# ---- a / b without the detour that tl.div_rn takes for results near the ends of the range ----


@triton.jit
def reciprocal(x):
    """1 / x (f32) within one unit in the last place, where that is a normal number; beyond, 0 and infinity."""
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def quotient(a, b):
    """a / b (f32), rounded once: tried for every a and b that occur."""
    r = reciprocal(b)
    near = a * r
    return tl.fma(tl.fma(near, b * -1.0, a), r, near)


@triton.jit
def quotient_far(a, b):
    """a / b (f32), rounded once, for 0, infinities, and b beyond 2^126 too: tried for every a and b that occur."""
    r = reciprocal(b * 0.0625) * 0.0625
    near = a * r
    rest = tl.fma(near, b * -1.0, a)
    return tl.where(tl.abs(rest) > 0.0, tl.fma(rest, r, near), near)


@triton.jit
def quotient_fine(a, b):
    """a / b (f32), rounded once, for those close to a tie besides: tried for every a and b that occur."""
    r = reciprocal(b * 0.0625)
    # A little too much, and corrected by a little too little: errors of one sign would meet at the tie.
    near = a * 0.06250000745058060 * r
    rest = tl.fma(near, b * -1.0, a)
    return tl.where(tl.abs(rest) > 0.0, tl.fma(rest, r * 0.06249999254941940, near), near)


@triton.jit
def row_quotient(a, b):
    """a / b (f32), rounded once, for 0 <= a <= 1 and one b for all of them, of which the reciprocal is taken once.

    The quotient that the reciprocal in two parts gives is off by less than a unit, and its remainder exact: corrected
    by it, the quotient is rounded to nearest (Markstein 1990), of subnormal numbers too, unless it is a tie. There are
    none among normal numbers; among others, only where b is an even integer.
    """
    half = b * 0.5
    if (b >= 5.9604644775390625e-08) & (b <= 16777216.0) & (half != tl.floor(half)):
        r = tl.div_rn(1.0, b)
        near = tl.fma(a, r, a * (tl.fma(r, b * -1.0, 1.0) * r))
        # 2^64 keeps the remainder of subnormal numbers from being rounded.
        rest = tl.fma(near, b * -18446744073709551616.0, a * 18446744073709551616.0)
        found = tl.fma(rest, r * 5.421010862427522e-20, near)
    else:
        found = tl.div_rn(a, b)
    return found


# ---- functions of the hardware, which `approx` permits ----


@triton.jit
def fast_exp2(x):
    """2^x (f32) within 4 units in the last place."""
    return tl.inline_asm_elementwise("ex2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def fast_rsqrt(x):
    """1 / sqrt(x) (f32) within 4 units in the last place."""
    return tl.inline_asm_elementwise("rsqrt.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def fast_exp(x):
    """e^x (f32) within 6 units in the last place: 2^(x log2 e), and what the product lost."""
    x = tl.minimum(x, 89.0, propagate_nan=tl.PropagateNan.ALL)
    x = tl.maximum(x, -104.0, propagate_nan=tl.PropagateNan.ALL)
    t = x * 1.4426950216293335
    lost = tl.fma(x, 1.9259629911266175e-08, tl.fma(x, 1.4426950216293335, t * -1.0))
    near = fast_exp2(t)
    return tl.fma(near, lost * 0.6931471824645996, near)


# ---- parts of tiles ----


@triton.jit
def lane_halves(x):
    """The first and the second half of x [lanes]."""
    return tl.split(tl.permute(tl.reshape(x, (2, x.shape[0] // 2)), (1, 0)))


@triton.jit
def column_halves(x):
    """The left and the right half of the columns of x [rows, columns]."""
    return tl.split(tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)))


# ---- steps of reductions: one rounding each ----


@triton.jit
def add(a, b):
    """a + b."""
    return a + b


@triton.jit
def multiply(a, b):
    """a * b."""
    return a * b


@triton.jit
def add_bf16(a, b):
    """a + b, rounded once."""
    return (a.to(tl.float32) + b.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def add_f16(a, b):
    """a + b, rounded once."""
    return (a.to(tl.float32) + b.to(tl.float32)).to(tl.float16)


@triton.jit
def multiply_bf16(a, b):
    """a * b, rounded once."""
    return (a.to(tl.float32) * b.to(tl.float32)).to(tl.bfloat16)


@triton.jit
def multiply_f16(a, b):
    """a * b, rounded once."""
    return (a.to(tl.float32) * b.to(tl.float32)).to(tl.float16)
