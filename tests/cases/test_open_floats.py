"""NaN, signed zeros, infinities and roundings (OPEN-05 to OPEN-09)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .programs import f32, from_bits, hex_bits, run, ulps

BF16, E4M3, E5M2 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
NAN, INF = np.nan, np.inf

BOTH_ORDERS = """
kernel both(a: f32[N], b: f32[N]) -> (hi: f32[N], ih: f32[N], lo: f32[N], ol: f32[N]) {
    hi[i] = max(a[i], b[i])
    ih[i] = max(b[i], a[i])
    lo[i] = min(a[i], b[i])
    ol[i] = min(b[i], a[i])
}
"""


def test_open_05_nan_propagates_through_max_and_min() -> None:
    for result in run(BOTH_ORDERS, a=f32([1] * 11), b=f32([NAN] * 11)):
        assert np.isnan(result).all()


def test_open_05_zeros_are_ordered_at_every_place() -> None:
    minus, plus = f32([-0.0, 0.0] * 20), f32([0.0, -0.0] * 20)
    hi, ih, lo, ol = run(BOTH_ORDERS, a=minus, b=plus)
    assert set(hex_bits(hi) + hex_bits(ih)) == {"00000000"}
    assert set(hex_bits(lo) + hex_bits(ol)) == {"80000000"}


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_open_05_zeros_are_ordered_in_reductions(dtype: str) -> None:
    numpy_type: Any = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": BF16}[dtype]
    text = f"""
kernel ends(x: {dtype}[N]) -> (hi: {dtype}, lo: {dtype}) {{
    hi = max(k) x[k]
    lo = min(k) x[k]
}}
"""
    for zeros in ([-0.0, 0.0, -0.0], [0.0, -0.0], [-0.0, 0.0]):
        hi, lo = run(text, x=np.array(zeros, numpy_type))
        assert (np.signbit(hi), np.signbit(lo)) == (False, True)


def test_open_05_clamp_keeps_nan() -> None:
    text = "kernel c(x: f32[N]) -> (y: f32[N]) {\n    y[i] = clamp(x[i], 0, 1)\n}\n"
    assert str(run(text, x=f32([NAN, -1, 2, 0.5])).tolist()) == "[nan, 0.0, 1.0, 0.5]"


@pytest.mark.parametrize("data", [[1, NAN, 3], [NAN, 1, 3], [1, 3, NAN], [NAN]])
@pytest.mark.parametrize("options", ["", ", lanes=2", ", lanes=8", ", blocks=2", ", blocks=3"])
def test_open_05_nan_in_a_reduction(data: list[float], options: str) -> None:
    text = f"""
kernel ends(x: f32[N]) -> (hi: f32, lo: f32, merged: f32) {{
    hi = max(k{options}) x[k]
    lo = min(k{options}) x[k]
    merged = max(-1, max(k{options}) x[k])
}}
"""
    assert np.isnan(run(text, x=f32(data))).all()


def test_open_05_nan_among_constants() -> None:
    text = """
kernel constants() -> (a: f32, b: f32, c: f32) {
    a = max(1.0, nan)
    b = max(nan, 1.0)
    c = max(f32(1.0), f32(nan))
}
"""
    assert np.isnan(run(text)).all()


SOFTMAX = """
kernel softmax(x: f32[R, K], c: f32) -> (y: f32[R, K]) {
    m[r] = max(k) c * x[r, k]
    e[r, k] = exp(c * x[r, k] - m[r])
    s[r] = sum(k) e[r, k]
    y[r, k] = e[r, k] / s[r]
}
"""


@pytest.mark.parametrize(
    ("row", "scale", "want"),
    [
        ([-INF, -INF, 0, 0], 1, [0, 0, 0.5, 0.5]),
        ([-INF, 0, -INF, 0], 1, [0, 0.5, 0, 0.5]),
        ([-INF, -INF, -INF, -INF], 1, [NAN] * 4),
        ([INF, 0, 0, 0], 1, [NAN] * 4),
        ([NAN, 0, 0, 0], 1, [NAN] * 4),
        ([1, 2, 3], -1e30, [1, 0, 0]),
    ],
)
def test_open_06_softmax_rows(row: list[float], scale: float, want: list[float]) -> None:
    y = run(SOFTMAX, x=f32([row, row]), c=scale)
    np.testing.assert_array_equal(y, f32([want, want]))


def test_open_06_softmax_with_a_negative_scale() -> None:
    y = run(SOFTMAX, x=f32([[1, 2, 4]]), c=-2)
    weights = np.exp([0.0, -2.0, -6.0])
    assert (ulps(y, weights / weights.sum()) <= 4).all()
    np.testing.assert_allclose(y, [[0.878878, 0.118943, 0.002179]], rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("narrow", "y_bits", "s_bits"),
    [
        ("f16", "3e124000 3e924000 3edb6000 3f124000 3f36e000 3f5b6000", "403ff800"),
        ("bf16", "3e120000 3e920000 3edb0000 3f120000 3f370000 3f5b0000", "403fc000"),
    ],
)
def test_open_07_a_rounding_between_stages_stays(narrow: str, y_bits: str, s_bits: str) -> None:
    stages = f"""
kernel chain() -> (y: f32[6], s: f32) {{
    x[k in 0..6] = f32(k + 1) / 7.0
    h[k] = {narrow}(x[k])
    y[k] = f32(h[k])
    s = sum(k) y[k]
}}
"""
    at_once = f"""
kernel chain() -> (y: f32[6], s: f32) {{
    y[k] = f32({narrow}(f32(k + 1) / 7.0))
    s = sum(k in 0..6) f32({narrow}(f32(k + 1) / 7.0))
}}
"""
    for text in (stages, at_once):
        y, s = run(text)
        assert " ".join(hex_bits(y)) == y_bits
        assert hex_bits(s) == [s_bits]


def test_open_07_products_keep_all_bits() -> None:
    text = """
kernel matmul(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = sum(k) A[i, k] * B[k, j]
}
"""
    A = f32((1 + 2.0**-12) * np.eye(16))
    C = run(text, A=A, B=np.eye(16, dtype=np.float32))
    assert C.tolist() == A.tolist()
    assert C[3, 3] == 1.000244140625


def test_open_07_widening_and_narrowing_again_changes_nothing() -> None:
    text = "kernel back(z: f16[N]) -> (y: f16[N]) {\n    y[i] = f16(f32(z[i]))\n}\n"
    z = np.arange(2**16, dtype=np.uint16).view(np.float16)
    y = run(text, z=z)
    assert (np.isnan(y) == np.isnan(z)).all()
    assert (y.view(np.uint16) == z.view(np.uint16))[~np.isnan(z)].all()


NARROWING = [
    ("f64", "f16", 1 + 2.0**-11 + 2.0**-40, "3c01"),
    ("f64", "bf16", 1 + 2.0**-8 + 2.0**-40, "3f81"),
    ("f32", "f16", 1 + 2.0**-10, "3c01"),
    ("f32", "f16", 1.00390625, "3c04"),
    ("f32", "f16", 65519.0, "7bff"),
    ("i32", "bf16", 16842753, "4b81"),
    ("i32", "bf16", 33685506, "4c01"),
    ("i32", "bf16", 259, "4382"),
    ("i32", "bf16", 511, "4400"),
]


@pytest.mark.parametrize(("source", "target", "value", "want"), NARROWING)
def test_open_08_one_rounding_from_the_source(source: str, target: str, value: Any, want: str) -> None:
    text = f"""
kernel narrow(x: {source}[N]) -> (y: {target}[N], z: {target}[N], c: {target}[3]) {{
    y[i] = {target}(x[i])
    t[i] = x[i] * 1
    z[i] = {target}(t[i])
    c[i] = {target}({source}({decimal(value)}))
}}
"""
    dtype = {"f64": np.float64, "f32": np.float32, "i32": np.int32}[source]
    for result in run(text, x=np.full(37, value, dtype)):
        assert set(hex_bits(result)) == {want}


@pytest.mark.parametrize(("target", "value", "want"), [(t, v, w) for s, t, v, w in NARROWING if s != "i32"])
def test_open_08_a_literal_is_rounded_once(target: str, value: float, want: str) -> None:
    text = f"kernel literal() -> (y: {target}) {{\n    y = {decimal(value)}\n}}\n"
    assert hex_bits(run(text)) == [want]


def decimal(value: float) -> str:
    """All decimal digits of a positive number: dyadic fractions have finitely many."""
    whole, rest = divmod(Fraction(value), 1)
    if not rest:
        return str(whole) if isinstance(value, int) else f"{whole}.0"
    digits = rest.denominator.bit_length() - 1
    return f"{whole}.{rest.numerator * 5**digits:0{digits}d}"


CODES = {
    "f8e4m3": [
        (448, "7e", "7e"),
        (464, "7e", "7e"),
        (464.03125, "7f", "7e"),
        (465, "7f", "7e"),
        (1000, "7f", "7e"),
        (-1000, "ff", "fe"),
        (INF, "7f", "7e"),
        (-INF, "ff", "fe"),
        (2.0**-9, "01", "01"),
        (2.0**-10, "00", "00"),
        (1.5 * 2.0**-10, "01", "01"),
        (-(2.0**-11), "80", "80"),
    ],
    "f8e5m2": [
        (57344, "7b", "7b"),
        (61439, "7b", "7b"),
        (61440, "7c", "7b"),
        (65536, "7c", "7b"),
        (-70000, "fc", "fb"),
        (INF, "7c", "7b"),
        (2.0**-16, "01", "01"),
        (2.0**-17, "00", "00"),
        (1.5 * 2.0**-17, "01", "01"),
    ],
}
F8 = {"f8e4m3": E4M3, "f8e5m2": E5M2}


@pytest.mark.parametrize("target", CODES)
def test_open_09_overflow_and_rounding_to_8_bits(target: str) -> None:
    text = f"""
kernel quantise(x: f32[N]) -> (plain: {target}[N], clamped: {target}[N]) {{
    plain[i] = {target}(x[i])
    clamped[i] = sat {target}(x[i])
}}
"""
    plain, clamped = run(text, x=f32([value for value, _, _ in CODES[target]]))
    nan = {"7f", "ff"} if target == "f8e4m3" else {"7d", "7e", "7f", "fd", "fe", "ff"}
    for got, (value, want, _) in zip(hex_bits(plain), CODES[target], strict=True):
        assert got == want or (want in nan and got in nan), f"{value} became {got}"
    assert hex_bits(clamped) == [want for _, _, want in CODES[target]]
    for result in run(text, x=f32([NAN])):
        assert hex_bits(result)[0] in nan


@pytest.mark.parametrize("source", F8)
def test_open_09_decoding_every_code(source: str) -> None:
    text = f"""
kernel decode(q: {source}[N]) -> (y: f32[N], z: bf16[N], w: f32[N]) {{
    y[i] = f32(q[i])
    z[i] = bf16(q[i])
    w[i] = f32(bf16(q[i]))
}}
"""
    q = np.arange(256, dtype=np.uint8).view(F8[source])
    want = q.astype(np.float32)
    for result in run(text, q=q):
        np.testing.assert_array_equal(result.astype(np.float32), want)
        assert (np.signbit(result) == np.signbit(want))[~np.isnan(want)].all()
    special = {"f8e4m3": "7f ff", "f8e5m2": "7c fc 7d 7f"}[source]
    y, _, _ = run(text, q=from_bits(special, F8[source]))
    assert str(y.tolist()) == {"f8e4m3": "[nan, nan]", "f8e5m2": "[inf, -inf, nan, nan]"}[source]
