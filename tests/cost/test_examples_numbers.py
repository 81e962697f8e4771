"""What worked examples say of numbers, by their names: kernels run by their definition."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.ir.dtype import DTYPES


def run(text: str, **arrays: Any) -> Any:
    (kernel,) = tw.parse(text).values()
    return np.asarray(kernel(**arrays))


def f32(*values: float) -> Any:
    return np.array(values, np.float32)


def test_two_orders_of_three_numbers() -> None:
    # inline-5.2.4-fp32-associativity
    text = "kernel s(X: f32[N]) -> (Y: f32[1]) { Y[i in 0..1] = sum(n) X[n] }"
    first, other = (run(text, X=f32(*x))[0] for x in ((1, 2**-24, 2**-24), (2**-24, 2**-24, 1)))
    assert (float(first), float(other)) == (1, 1.0000001192092896)
    assert int(np.float32(other).view(np.int32) - np.float32(first).view(np.int32)) == 1


def surrogate() -> Any:
    index = np.arange(1, 4097, dtype=np.uint64) * 2654435761 % 2**32
    sign, power, fraction = index >> 19 & 1, index >> 20 & 3, index >> 25
    return ((1 - 2.0 * sign) * 2.0 ** -power.astype(float) * (1 + fraction / 128)).astype(np.float32)


def test_a_row_in_segments() -> None:
    # own-5.2.4-surrogate-row
    row = surrogate()
    exact = math.fsum(float(x) ** 2 for x in row)
    assert exact == pytest.approx(3166.292676925659, abs=1e-12)
    text = """kernel s(X: f32[S, K]) -> (Y: f32[1]) {
        p[s] = sum(k) X[s, k] * X[s, k]
        Y[i in 0..1] = sum(s) p[s]
    }"""
    ulp = 2.0**-12  # of numbers from 2048 on
    errors = [(float(run(text, X=row.reshape(n, -1))[0]) - exact) / ulp for n in (1, 2, 4, 8, 16, 32)]
    assert errors == [-32.8046875, -20.8046875, -11.8046875, -10.8046875, -4.8046875, -3.8046875]
    assert errors[3] - errors[0] == 22
    parts = run("kernel p(X: f32[S, K]) -> (P: f32[S]) { P[s] = sum(k) X[s, k] * X[s, k] }", X=row.reshape(8, -1))
    orders = np.array(list(itertools.permutations(parts)), np.float32)
    totals = orders[:, 0]
    for column in range(1, 8):
        totals = totals + orders[:, column]
    assert len(orders) == math.factorial(8) == 40320
    assert sorted(Counter(totals.tolist()).values()) == [1216, 5944, 33160]


def test_a_function_of_parts_is_not_the_function_of_their_sum() -> None:
    # inline-5.4.3-silu-inside-ko, exp-5-4
    whole = "kernel s(X: f32[N]) -> (Y: f32[1]) { C[i in 0..1] = sum(n) X[n]\n Y[i in 0..1] = silu(C[i]) }"
    inside = "kernel s(X: f32[N]) -> (Y: f32[1]) { Y[i in 0..1] = sum(n) silu(X[n]) }"
    assert float(run(whole, X=f32(1, -1))[0]) == 0
    assert float(run(inside, X=f32(1, -1))[0]) == pytest.approx(0.4621171572, abs=1e-7)
    text = "kernel r(A: f32[1]) -> (Y: bf16[1]) { C[i] = bf16(A[i])\n Y[i] = bf16(silu(f32(C[i]))) }"
    kept = float(run(text, A=f32(1052672 / 1048576))[0])
    dropped = float(run(text.replace("C[i] = bf16(A[i])", "C[i] = A[i]"), A=f32(1052672 / 1048576))[0])
    assert (kept, dropped) == (0.73046875, 0.734375)


def test_online_softmax() -> None:
    # 5-6, inline-5.4.3-normalised-partials
    text = """kernel o(S: f32[N], V: f32[N]) -> (Y: f32[1]) where N >= 1 {
        m[i in 0..1] = max(n) S[n]
        l[i in 0..1] = sum(n) exp(S[n] - m[i])
        u[i in 0..1] = sum(n) exp(S[n] - m[i]) * V[n]
        Y[i in 0..1] = u[i] / l[i]
    }"""
    assert run(text, S=np.log(f32(1, 2)), V=f32(1, 3))[0] == pytest.approx(7 / 3)
    assert run(text, S=np.log(f32(1, 2, 4)), V=f32(1, 3, 5))[0] == pytest.approx(27 / 7)
    # What blocks have come to alone, without their weights, does not say which of these it is.
    assert run(text, S=np.log(f32(2, 1)), V=f32(1, 3))[0] == pytest.approx(5 / 3)


def test_a_scale_of_a_row_or_of_its_beginning() -> None:
    # 5-7
    text = """kernel q(X: f32[N], T: size) -> (Y: f32[N]) where T >= 1, T <= N {
        a[i in 0..1] = max(n in 0..T) abs(X[n])
        Y[n] = f32(sat f8e4m3(X[n] / a[0] * 448)) * a[0] / 448
    }"""
    row = f32(1, *[0.5] * 127, 10, *[0.5] * 127)
    late, early = (float(run(text, X=row, T=t)[0]) for t in (256, 128))
    assert (late, early) == (pytest.approx(0.9821428571), 1)
    assert 100 * (early - late) == pytest.approx(1.7857142857, rel=1e-5)


def test_range_and_spacing_of_formats() -> None:
    # inline-4.6.1-formats
    for name, least, spacing in (("bf16", 2.0**-126, 2.0**-7), ("f16", 2.0**-14, 2.0**-10)):
        kind = DTYPES[name]
        assert 2.0 ** (kind.emin + kind.precision - 1) == least
        assert 2.0 ** (1 - kind.precision) == spacing
    assert 2.0 ** DTYPES["f16"].emin == 5.960464477539063e-08
    assert float(np.float16(1e-8)) == 0
    assert float(np.asarray(1e-8).astype(ml_dtypes.bfloat16)) > 0
