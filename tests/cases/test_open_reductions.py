"""Reductions: idle lanes, empty ranges, start values, the order of a sum (OPEN-02, 03, 04, 13, 25)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw

from .programs import call, f32, kernel_of, refused, run, ulps

ALL_REDUCTIONS = """
kernel reductions(x: f32[R, N])
    -> (M: f32[R], L: f32[R], P: f32[R], Q: f32[R], S: f32[R], A: bool[R], I: i64[R])
    where N >= 1 {
    M[r] = max(k) x[r, k]
    L[r] = min(k) x[r, k]
    P[r] = prod(k) x[r, k]
    Q[r] = min(k) (-x[r, k])
    S[r] = sum(k) exp(x[r, k] - M[r])
    A[r] = all(k) (x[r, k] < 0)
    I[r] = argmax(k) x[r, k]
}
"""
ROW = f32([-3.5, -1.5, -2.25, -7.0, -4.0])


@pytest.mark.parametrize("rows", [1, 3])
def test_open_02_negative_rows_of_five(rows: int) -> None:
    M, L, P, Q, S, A, place = run(ALL_REDUCTIONS, x=np.tile(ROW, (rows, 1)))
    assert M.tolist() == [-1.5] * rows
    assert L.tolist() == [-7.0] * rows
    assert P.tolist() == [-330.75] * rows
    assert Q.tolist() == [1.5] * rows
    assert (ulps(S, 1.69387360604) <= 4).all()
    assert A.tolist() == [True] * rows
    assert place.tolist() == [1] * rows
    assert place.dtype == np.int64


def test_open_02_one_element_and_nine() -> None:
    kernel = kernel_of(ALL_REDUCTIONS)
    one = call(kernel, x=ROW[None, 3:4])
    assert [value.tolist() for value in one] == [[-7.0], [-7.0], [-7.0], [7.0], [1.0], [True], [0]]
    nine = f32([[-2, -1, -2, -1, -2, -0.5, -2, -1, 3]])
    M, L, P, Q, S, A, place = call(kernel, x=nine)
    assert [M[0], L[0], P[0], Q[0], A[0], place[0]] == [3, -2, 24, -3, False, 8]
    assert (ulps(S, np.exp(nine.astype(float) - 3).sum()) <= 4).all()


CENTRED = """
kernel centred(A: f32[M, N]) -> (S: f32[M], Z: f32[M, N]) {
    S[i] = sum(j) A[i, j]
    Z[i, j] = A[i, j] - S[i]
}
"""


def test_open_03_sizes_of_zero_and_one_in_one_kernel() -> None:
    kernel = kernel_of(CENTRED)
    sums = {
        (1, 1): [1],
        (1, 5): [15],
        (5, 1): [1, 2, 3, 4, 5],
        (3, 5): [15, 40, 65],
        (5, 0): [0] * 5,
        (0, 5): [],
        (0, 0): [],
    }
    for (M, N), want in sums.items():
        A = np.arange(1, M * N + 1, dtype=np.float32).reshape(M, N)
        S, Z = call(kernel, A=A)
        assert S.tolist() == want
        assert Z.shape == (M, N)
        assert Z.tolist() == (A - f32(want)[:, None]).tolist()
        if (M, N) == (1, 5):
            assert Z.tolist() == [[-14, -13, -12, -11, -10]]
        if (M, N) == (3, 5):
            assert Z[1].tolist() == [-34, -33, -32, -31, -30]


def reduction(operator: str, source: str, result: str, body: str = "X[i, k]") -> str:
    """A kernel that reduces the rows of X; *operator* over k of *body*."""
    return f"kernel r(X: {source}[N, K]) -> (R: {result}[N]) {{\n    R[i] = {operator}(k) {body}\n}}\n"


EMPTY = [
    ("sum", "f32", "f32", "X[i, k]", 0.0),
    ("sum", "i32", "i32", "X[i, k]", 0),
    ("prod", "f32", "f32", "X[i, k]", 1.0),
    ("prod", "i32", "i32", "X[i, k]", 1),
    ("all", "f32", "bool", "(X[i, k] > 0)", True),
    ("any", "f32", "bool", "(X[i, k] > 0)", False),
    ("all", "i32", "bool", "(X[i, k] > 0)", True),
    ("any", "i32", "bool", "(X[i, k] > 0)", False),
    ("max", "f32", "f32", "X[i, k]", -np.inf),
    ("max", "i32", "i32", "X[i, k]", -(2**31)),
    ("min", "f32", "f32", "X[i, k]", np.inf),
    ("min", "i32", "i32", "X[i, k]", 2**31 - 1),
    ("max", "u8", "u8", "X[i, k]", 0),
    ("min", "u8", "u8", "X[i, k]", 255),
    ("max", "i64", "i64", "X[i, k]", -(2**63)),
    ("max", "bf16", "bf16", "X[i, k]", -np.inf),
    ("max", "f8e5m2", "f8e5m2", "X[i, k]", -np.inf),
]


@pytest.mark.parametrize(("operator", "source", "result", "body", "want"), EMPTY)
def test_open_04_reductions_of_nothing(operator: str, source: str, result: str, body: str, want: Any) -> None:
    kernel = kernel_of(reduction(operator, source, result, body))
    dtype = numpy_type(source)
    assert call(kernel, X=np.zeros((2, 0), dtype)).tolist() == [want, want]
    assert call(kernel, X=np.zeros((0, 2), dtype)).shape == (0,)


def numpy_type(name: str) -> Any:
    """The NumPy type of a type of the language."""
    import ml_dtypes

    special = {"bf16": ml_dtypes.bfloat16, "f8e5m2": ml_dtypes.float8_e5m2}
    plain = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "i64": np.int64}
    return {**special, **plain}[name]


@pytest.mark.parametrize("source", ["f32", "i32"])
@pytest.mark.parametrize("operator", ["argmax", "argmin"])
def test_open_04_argmax_of_nothing_is_refused(operator: str, source: str) -> None:
    text = reduction(operator, source, "i64")
    refused(text.replace(operator, "^" + operator), f"{operator} over an empty range at N=1, K=0", "where K >= 1")
    kernel = kernel_of(text.replace(" {\n", " where K >= 1 {\n"))
    dtype = numpy_type(source)
    assert call(kernel, X=np.zeros((0, 2), dtype)).shape == (0,)
    assert call(kernel, X=np.array([[1, 3, 2]], dtype)).tolist() == [{"argmax": 1, "argmin": 0}[operator]]
    with pytest.raises(tw.ArgumentError, match="K >= 1"):
        kernel(X=np.zeros((2, 0), dtype))


@pytest.mark.parametrize(
    ("operator", "source", "first", "rest"),
    [
        ("max", "f32", -np.inf, [3, 3, 3]),
        ("max", "i32", -(2**31), [3, 3, 3]),
        ("min", "f32", np.inf, [3, 1, 1]),
        ("min", "i32", 2**31 - 1, [3, 1, 1]),
    ],
)
def test_open_04_triangle_with_an_empty_first_range(operator: str, source: str, first: float, rest: list[int]) -> None:
    text = f"""
kernel triangle(V: {source}[N]) -> (T: {source}[N + 1]) {{
    T[i] = {operator}(k in 0..i) V[k]
}}
"""
    assert run(text, V=np.array([3, 1, 2], numpy_type(source))).tolist() == [first, *rest]
    refused(text.replace(operator, "^argmax").replace(f"T: {source}", "T: i64"), "argmax over an empty range")


def test_open_13_start_value_and_condition() -> None:
    counted = "kernel c() -> (c: i32) {\n    c = 2 + (sum(i in 0..100) (1 if i % 3 == 0 else 0))\n}\n"
    assert run(counted) == 36
    twice = "kernel c(n: size) -> (c: i32) {\n    c = sum(i in 0..n) (2 if i > 10 else 1)\n}\n"
    assert [int(run(twice, n=n)) for n in (0, 10, 14)] == [0, 10, 17]
    cell = """
kernel cell() -> (Y: i64[4]) {
    Y[0] = 0
    Y[1] = sum(i in 0..20, j in 0..20) (i * 20 + j if i != j else 0)
    Y[x in 2..4] = 0
}
"""
    assert run(cell).tolist() == [0, 75810, 0, 0]


def dot(options: str = "") -> str:
    """The dot product of f32 vectors."""
    return f"kernel dot(a: f32[K], b: f32[K]) -> (C: f32) {{\n    C = sum(k{options}) a[k] * b[k]\n}}\n"


@pytest.mark.parametrize(("options", "want"), [("", 1.0), (", blocks=2", 0.0), (", lanes=2", 2.0)])
def test_open_25_order_of_a_sum(options: str, want: float) -> None:
    a = f32([1e8, 1, -1e8, 1])
    kernel = kernel_of(dot(options))
    assert call(kernel, a=a, b=np.ones_like(a)) == want
    result = np.full((), 77, np.float32)
    for _ in range(3):
        kernel(a=a, b=np.ones_like(a), out=result)
        assert result == want


def test_open_25_partials_stay_in_the_accumulator() -> None:
    text = """
kernel dot(a: f16[K], b: f16[K]) -> (C: f16) {
    C = f16(sum(k) f32(a[k]) * f32(b[k]))
}
"""
    a = np.array([2048, 1, 1, 0], np.float16)
    assert run(text, a=a, b=np.ones_like(a)) == 2050
