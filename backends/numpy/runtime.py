"""The language's scalar operations on arrays, where NumPy has no operator with that meaning.

Arguments are NumPy arrays or NumPy scalars of the types a name or docstring says; results have the exact
type. Emitted modules carry copies of these functions, so each may name only `np`, `ml_dtypes` and its
neighbours in this file. Callers silence floating-point warnings.
"""
# The parameters are not annotated: the source is shown to users, and runs where only numpy is imported.
# pyright: reportMissingParameterType=false

from __future__ import annotations

import re

import ml_dtypes
import numpy as np

# ---- casts ----


def to_bf16(x):
    """Round x (f32, f16, an 8-bit float, an integer under 32 bits, or bool) to bf16."""
    return x.astype(ml_dtypes.bfloat16)


def to_f8e4m3(x):
    """Round x (any type but f64) to f8e4m3; what is too large becomes NaN."""
    return x.astype(ml_dtypes.float8_e4m3fn)


def to_f8e5m2(x):
    """Round x (any type but f64) to f8e5m2; what is too large becomes infinite."""
    return x.astype(ml_dtypes.float8_e5m2)


def f64_to_odd_f32(x):
    """Round x (f64) to f32, an inexact one to the neighbour with an odd last bit.

    Rounding that again, to a format of 22 bits or fewer, equals rounding x itself.
    """
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    inexact = back != x  # a NaN as well: it stays one with its last bit set
    toward_zero = near.view(np.int32) - (np.abs(back) > np.abs(x))
    return (toward_zero | inexact).view(np.float32)


def f64_to_bf16(x):
    """Round x (f64) once to bf16."""
    return to_bf16(f64_to_odd_f32(x))


def f64_to_f8e4m3(x):
    """Round x (f64) once to f8e4m3; what is too large becomes NaN."""
    return to_f8e4m3(f64_to_odd_f32(x))


def f64_to_f8e5m2(x):
    """Round x (f64) once to f8e5m2; what is too large becomes infinite."""
    return to_f8e5m2(f64_to_odd_f32(x))


def int_to_bf16(x):
    """Round x (i32 or i64) once to bf16."""
    x = x.astype(np.int64)
    # From 2^53 on, bit 10 stands in for the bits below it: 53 bits stay, and no tie appears or is lost.
    sticky = (x & ~0x3FF) | (((x & 0x3FF) != 0).astype(np.int64) << 10)
    exact_in_f64 = (x > -(2**53)) & (x < 2**53)
    return f64_to_bf16(np.where(exact_in_f64, x, sticky).astype(np.float64))


def float_to_int(x, dtype):
    """Truncate x (any float) to the integer type dtype; beyond its range: the nearest end; NaN: 0."""
    x = x.astype(np.float64)
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    low, high = x <= float(least), x >= float(greatest)
    inside = np.where(low | high | (x != x), 0.0, x).astype(dtype)
    return np.where(low, dtype(least), np.where(high, dtype(greatest), inside))


def saturate_int(x, dtype):
    """Clamp x (any integer) to the range of the integer type dtype."""
    ends = np.iinfo(dtype), np.iinfo(x.dtype)
    least = max(end.min for end in ends)
    greatest = min(end.max for end in ends)
    return np.clip(x, least, greatest).astype(dtype)


# ---- least and greatest ----


def minimum(a, b):
    """Elementwise least of two floats of one type: NaN propagates, -0 is below +0."""
    least = np.minimum(a, b)
    if ((least == 0) & ~np.signbit(least)).any():  # of two zeros NumPy returns either
        least = np.where(np.signbit(a) | np.signbit(b), -np.abs(least), least)
    return least


def maximum(a, b):
    """Elementwise greatest of two floats of one type: NaN propagates, +0 is above -0."""
    greatest = np.maximum(a, b)
    if ((greatest == 0) & np.signbit(greatest)).any():  # of two zeros NumPy returns either
        greatest = np.where(np.signbit(a) & np.signbit(b), greatest, np.abs(greatest))
    return greatest


# ---- a * b + c with one rounding ----


def two_sum(a, b):
    """The f64 sum of a and b, and the exact error of that sum (Knuth)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def two_product(a, b):
    """The f64 product of a and b, and the exact error of that product (Dekker)."""
    product = a * b
    a_scaled, b_scaled = a * 134217729.0, b * 134217729.0  # 2^27 + 1 splits 53 bits into 26 and 26
    a_high, b_high = a_scaled - (a_scaled - a), b_scaled - (b_scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def odd_sum(a, b):
    """The f64 sum of a and b; an inexact one goes to the neighbour with an odd last bit."""
    total, error = two_sum(a, b)
    bits = total.view(np.int64)
    even = ((bits & 1) == 0) & (error != 0) & np.isfinite(total)
    outward = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + np.where(even, outward, 0)).view(np.float64)


def fma_f64(a, b, c):
    """a * b + c in f64 with one rounding (Boldo and Melquiond)."""
    product, product_low = two_product(a, b)
    middle, low = two_sum(c, product_low)
    high, middle = two_sum(product, middle)
    near = high + odd_sum(middle, low)
    near = np.where(near == 0, product + c, near)  # a zero is exact; the plain sum knows its sign
    size = np.abs(product)
    usual = (np.abs(a) < 2.0**990) & (np.abs(b) < 2.0**990) & (np.abs(c) < 2.0**1000) & (size < 2.0**1000)
    usual &= (size > 2.0**-960) | (a == 0) | (b == 0)
    if usual.all():
        return near
    a, b, c, near = (np.array(x) for x in np.broadcast_arrays(a, b, c, near))
    for k in np.flatnonzero(~usual):
        near.flat[k] = exact_fma(float(a.flat[k]), float(b.flat[k]), float(c.flat[k]))
    return near


def exact_fma(a, b, c):
    """a * b + c of three Python floats with one rounding, through exact integers."""
    if not (np.isfinite(a) and np.isfinite(b)):
        return a * b + c
    if not np.isfinite(c):
        return c
    (a_top, a_bottom), (b_top, b_bottom), (c_top, c_bottom) = (x.as_integer_ratio() for x in (a, b, c))
    top = a_top * b_top * c_bottom + c_top * a_bottom * b_bottom
    if top == 0:
        return a * b + c
    try:
        return top / (a_bottom * b_bottom * c_bottom)  # a quotient of Python integers is rounded once
    except OverflowError:
        return np.inf if top > 0 else -np.inf


def fma_f32(a, b, c):
    """a * b + c in f32 with one rounding."""
    product, c = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + c
    # Rounding twice goes wrong only where the first rounding made a tie of the second.
    tie = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    subnormal = (np.abs(total) < 2.0**-126) & (total != 0)
    if (tie | subnormal).any():
        total = odd_sum(product, c)
    return total.astype(np.float32)


def fma_f16(a, b, c):
    """a * b + c in f16 with one rounding: the f64 sum is exact wherever it comes near a tie."""
    return (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float16)


def fma_bf16(a, b, c):
    """a * b + c in bf16 with one rounding."""
    return f64_to_bf16(odd_sum(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)))


# ---- reads ----


def clipped(array, *index):
    """array[index] with every position moved inside; what is read outside is never used."""
    if array.size == 0:
        return np.zeros(np.broadcast_shapes(*(np.shape(i) for i in index)), array.dtype)
    return array[tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))]


def checked(position, low, high, tensor, text, wanted, indices):
    """position - low, clipped to fit low..high; where *wanted*, a position outside raises LookupError and names it."""
    outside = wanted & ((position < low) | (position >= high))
    if np.any(outside):
        shape = np.shape(outside)
        first = np.unravel_index(np.argmax(outside), shape)
        value = int(np.broadcast_to(position, shape)[first])
        for name, index in indices.items():
            at = int(np.broadcast_to(index, shape)[first])
            text = re.sub(rf"\b{name}\b", str(at), text)
        raise LookupError(f"{text} = {value} is outside {low}..{high} of {tensor}")
    return np.clip(position, low, max(high - 1, low)).astype(np.int64) - low


# ---- reductions in lanes ----


def pairwise_sum(lanes):
    """Adjacent lanes added until one is left."""
    while len(lanes) > 1:
        lanes = lanes[0::2] + lanes[1::2]
    return lanes[0]


def pairwise_prod(lanes):
    """Adjacent lanes multiplied until one is left."""
    while len(lanes) > 1:
        lanes = lanes[0::2] * lanes[1::2]
    return lanes[0]


# ---- stores ----


def scatter(array, wanted, value, *index):
    """array[index] = value where *wanted*; the other positions may lie outside the array."""
    shape = np.broadcast_shapes(np.shape(wanted), np.shape(value), *(np.shape(i) for i in index))
    wanted = np.broadcast_to(wanted, shape)
    places = tuple(np.broadcast_to(i, shape)[wanted] for i in index)
    array[places] = np.broadcast_to(value, shape)[wanted]


# ---- tiles


def load(array, index, mask=True, fill=None):
    """array[index] in the lanes of *mask*, *fill* in the others: None stands for what shows where it is used."""
    if fill is None:
        extreme = np.iinfo(array.dtype).max if array.dtype.kind in "iu" else True if array.dtype.kind == "b" else np.nan
        fill = array.dtype.type(extreme)
    outside = False
    for i, n in zip(index, array.shape, strict=True):
        outside = outside | (i < 0) | (i >= n)
    if np.any(mask & outside):
        raise IndexError("a tile is loaded from outside its array")
    shape = np.broadcast_shapes(np.shape(mask), *(np.shape(i) for i in index))
    if array.size == 0:
        return np.full(shape, fill, array.dtype)[()]
    inside = array[tuple(np.clip(i, 0, n - 1) for i, n in zip(index, array.shape, strict=True))]
    return np.where(mask, inside, fill)[()]


def gathered(tensor, array, index, mask, fill=None):
    """`load` where data decide the position: one outside the array raises LookupError."""
    inside = True
    for i, n in zip(index, array.shape, strict=True):
        inside = inside & (i >= 0) & (i < n)
    if np.any(mask & np.logical_not(inside)):
        raise LookupError(f"a position that data give is outside {tensor}, whose shape is {array.shape}")
    return load(array, index, mask, fill)


def store(array, index, mask, value):
    """array[index] = value in the lanes of *mask*."""
    outside = False
    for i, n in zip(index, array.shape, strict=True):
        outside = outside | (i < 0) | (i >= n)
    if np.any(mask & outside):
        raise IndexError("a tile is stored outside its array")
    shape = np.broadcast_shapes(np.shape(mask), np.shape(value), *(np.shape(i) for i in index))
    wanted = np.broadcast_to(mask, shape)
    if not index:
        array[wanted] = np.broadcast_to(value, shape)
        return
    array[tuple(np.broadcast_to(i, shape)[wanted] for i in index)] = np.broadcast_to(value, shape)[wanted]


def combined(lanes, axes, combine):
    """Adjacent lanes of some axes combined until one is left; the number of lanes is a power of two."""
    rest = [n for n in range(lanes.ndim) if n not in axes]
    shape = [lanes.shape[n] for n in rest]
    lanes = lanes.transpose(*axes, *rest).reshape(-1, *shape)
    while len(lanes) > 1:
        lanes = combine(lanes[0::2], lanes[1::2])
    return lanes[0]


# ---- matrix units ----


def fold_step(total, left, right, align, bits, least, cut):
    """One step of a matrix unit: total (f32) with the products of left and right, lists of arrays, added to it.

    Every term is cut to a multiple of 2**(greatest exponent - align), and their exact sum to so many significant bits.
    least is the exponent of the inputs' subnormals; cut: they lose their last 13 bits first.
    """
    pairs = [(fold_input(a, least, cut), fold_input(b, least, cut)) for a, b in zip(left, right, strict=True)]
    total, last = fold_input(total, -126, False)
    last = np.maximum(last, -133)
    for (_, i), (_, j) in pairs:
        last = np.maximum(last, i + j)
    last = last - align
    up = np.ldexp(1.0, -last)
    result = np.trunc(total * up)
    for (a, _), (b, _) in pairs:
        result = result + np.trunc(a * b * up)  # exact: the sum has less than 53 bits
    result = (np.asarray(result).view(np.int64) & np.int64(-1 << 53 - bits)).view(np.float64) * np.ldexp(1.0, last)
    # An f32 has no bit below 2**-149, and a fold no negative zero.
    return (np.trunc(result * 2.0**149) * 2.0**-149 + 0.0).astype(np.float32)[()]


def fold_input(x, least, cut):
    """x as f64, and its exponent as a matrix unit sees it: that of a zero is below all others."""
    x = np.asarray(x).astype(np.float32)
    if cut:
        x = np.where(x == x, (x.view(np.int32) & np.int32(-1 << 13)).view(np.float32), x)
    exponent = np.maximum((x.view(np.int32) >> 23 & 255) - 127, least)
    return x.astype(np.float64), np.where(x == 0, -4096, exponent)


def fold(total, left, right, block, promote, align, bits, least, cut):
    """A matrix unit's sum over the last axis of left and right, added to total, by steps of *block* elements.

    With *promote* those of each so many elements are added up first, and then to total in f32.
    """
    count = left.shape[-1]
    for part in range(0, count, promote or count):
        inner = np.float32(0) if promote else total
        for step in range(part, min(part + (promote or count), count), block):
            terms = range(step, min(step + block, count))
            pair = [left[..., k] for k in terms], [right[..., k] for k in terms]
            inner = fold_step(inner, *pair, align, bits, least, cut)
        total = total + inner if promote else inner
    return total
