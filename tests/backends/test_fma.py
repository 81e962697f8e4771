"""The NumPy fma of every type against the scalar one and against fractions."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tilewright.backends.numpy import runtime
from tilewright.compiler.ir import scalar
from tilewright.compiler.ir.dtype import BF16, F16, F32, F64, DType

Array = np.ndarray[Any, Any]
FMA = {F64: runtime.fma_f64, F32: runtime.fma_f32, F16: runtime.fma_f16, BF16: runtime.fma_bf16}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def pool(dtype: DType, count: int, seed: int = 0) -> Array:
    """Random codes, then zeros, infinities, NaN and the largest values."""
    codes = np.random.default_rng(seed).bytes(count * dtype.bits // 8)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, dtype.largest, -dtype.largest], dtype.numpy)
    return np.concatenate([np.frombuffer(codes, dtype.numpy), edges])


def by_scalar(dtype: DType, a: Array, b: Array, c: Array) -> Array:
    """What `scalar.fma` says, in f64 (which holds the values of every type)."""
    columns = (x.astype(np.float64).tolist() for x in (a, b, c))
    return np.array([scalar.fma(*triple, dtype) for triple in zip(*columns, strict=True)])


def assert_same(got: Any, want: Array, dtype: DType, *given_: Any) -> None:
    """The type and shape, and the bits of each value; one NaN is like another."""
    assert got.dtype == dtype.numpy
    assert got.shape == want.shape
    wide = np.asarray(got).astype(np.float64)
    same = (wide.view(np.int64) == want.view(np.int64)) | ((wide != wide) & (want != want))
    assert same.all(), [np.asarray(x)[~same][:5] for x in (wide, want, *given_)]


def triples_of(dtype: DType, count: int) -> tuple[Array, Array, Array]:
    """Random codes, cancellation, ties that a speck breaks either way or not, and all specials."""
    draw, p = np.random.default_rng(7), dtype.precision

    def narrow(x: Array) -> Array:
        return x.astype(dtype.numpy)

    anywhere = [pool(dtype, count // 2, seed) for seed in (11, 12, 13)]
    x, y = (narrow(draw.normal(size=count // 4) * 2.0 ** draw.integers(-6, 6, count // 4)) for _ in "xy")
    cancel = (x, y, narrow(-(x.astype(np.float64) * y.astype(np.float64))))
    # c + a * b with a * b half an ulp of c, or a speck less or more: ulp(c) = 2^(1 - p) for c in [1, 2).
    c = narrow(1 + draw.integers(0, 2 ** (p - 1), count // 4) * 2.0 ** (1 - p))
    speck = narrow(1 + draw.integers(-1, 2, count // 4) * 2.0 ** (1 - p))
    half = (narrow(np.full(c.size, 2.0**-p)), speck, c)
    # a * b = (1 + 2^-h)(1 + k 2^(h - p)) has its last bit at 2^-p: a tie for odd k, until c breaks it.
    h = p // 2
    odd = narrow(1 + (2 * draw.integers(0, 2 ** (p - h - 2), count // 4) + 1) * 2.0 ** (h - p))
    least = draw.choice([0.0, 1.0, -1.0], odd.size) * 2.0 ** (dtype.emin + draw.integers(0, 4, odd.size))
    tie = (narrow(np.full(odd.size, 1 + 2.0**-h)), odd, narrow(least))
    # The same among subnormals: (1 - e)(1 + e) is a speck under 1.
    near = dtype.emin // 2, dtype.emin - 1 - dtype.emin // 2
    under, over = ((1 + sign * 2.0 ** (1 - p)) * 2.0**e for sign, e in zip((-1, 1), near, strict=True))
    c = narrow(draw.integers(-(2 ** (p - 1)), 2 ** (p - 1), c.size) * 2.0**dtype.emin)
    deep = (narrow(np.full(c.size, under)), narrow(np.full(c.size, over)), c)
    grid = np.concatenate([anywhere[0][:4], pool(dtype, 0)])
    parts = [anywhere, cancel, half, tie, deep, [axis.ravel() for axis in np.meshgrid(grid, grid, grid)]]
    a, b, c = (np.concatenate([part[k] for part in parts]) for k in range(3))
    return a, b, c


@pytest.mark.parametrize("dtype", list(FMA), ids=str)
def test_fma_agrees_with_the_scalar(dtype: DType) -> None:
    a, b, c = triples_of(dtype, 70_000 if dtype is F32 else 40_000)
    fma, want = FMA[dtype], by_scalar(dtype, a, b, c)
    assert_same(fma(a, b, c), want, dtype, a, b, c)
    for k in range(0, a.size, 1999):  # NumPy scalars, 0-d arrays, both
        x, y, z = (array[k : k + 1].reshape(()) for array in (a, b, c))
        assert_same(fma(a[k], b[k], c[k]), want[k], dtype)
        assert_same(fma(x, y, z), want[k], dtype)
        assert_same(fma(x, b[k], z), want[k], dtype)
    assert fma(a[:3].reshape(3, 1), b[0], c[:2]).shape == (3, 2)
    assert fma(a[:0], b[0], c[:1]).shape == (0,)
    assert_same(fma(a[::-3], b[::-3], c[::-3]), np.ascontiguousarray(want[::-3]), dtype)


def test_fma_f32_repairs_each_element_that_needs_it() -> None:
    a, b, c = triples_of(F32, 20_000)
    naive = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)
    want = by_scalar(F32, a, b, c)
    wrong = (naive != want) & (want == want)
    subnormal = np.abs(want) < 2.0**-126
    for group in (wrong & subnormal, wrong & ~subnormal):
        chosen = np.flatnonzero(group)[:500]
        assert chosen.size > 100
        for k in chosen:
            assert runtime.fma_f32(a[k], b[k], c[k]) == want[k], (a[k], b[k], c[k])


@given(*[st.floats(width=32)] * 3)
@example(float(np.float32(1 + 2**-23)), float(np.float32(1 + 2**-23)), 2.0**-100)
@example(2.0**-100, 2.0**-49, -(2.0**-149))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_fma_f32_by_fractions(a: float, b: float, c: float) -> None:
    got = float(runtime.fma_f32(np.float32(a), np.float32(b), np.float32(c)))
    if not all(map(math.isfinite, (a, b, c))):
        assert math.isnan(got) == math.isnan(a * b + c)
        return
    error = abs(Fraction(a) * Fraction(b) + Fraction(c) - Fraction(got)) if math.isfinite(got) else None
    if error is None:
        assert abs(Fraction(a) * Fraction(b) + Fraction(c)) >= Fraction(2) ** 128 - Fraction(2) ** 103
        return
    code = struct.unpack("i", struct.pack("f", got))[0]
    for other in (code + 1, code - 1 if code & 0x7FFFFFFF else code + 1):
        neighbour = struct.unpack("f", struct.pack("i", other))[0]
        if math.isfinite(neighbour):
            distance = abs(Fraction(a) * Fraction(b) + Fraction(c) - Fraction(neighbour))
            assert error < distance or (error == distance and code % 2 == 0)


@pytest.mark.parametrize("scale", [997, -480, -500, -530])
def test_fma_f64_at_the_ends_of_the_exponents(scale: int) -> None:
    draw = np.random.default_rng(5)
    a, b = (np.ldexp(draw.uniform(1, 2, 3000), scale if scale < 0 else k) for k in (scale, 20))
    addend = np.ldexp(draw.uniform(-2, 2, 3000), 2 * scale if scale < 0 else 1017)
    c = np.where(draw.random(3000) < 0.3, -(a * b), addend)
    want = []
    for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True):
        exact = Fraction(x) * Fraction(y) + (Fraction(z) if math.isfinite(z) else 0)
        try:
            want.append(float(exact) if math.isfinite(z) else z)
        except OverflowError:
            want.append(math.copysign(math.inf, exact))
    got = runtime.fma_f64(a, b, c)
    assert got.tolist() == want
