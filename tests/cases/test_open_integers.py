"""Large indices, floor division, result types (OPEN-10, 11, 24)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, f32, hex_bits, kernel_of, refused, run

if TYPE_CHECKING:
    from pathlib import Path

FAR = 2**31


def test_open_10_offsets_are_64_bit_numbers() -> None:
    text = """
kernel offsets(B: size, S: size, C: size) -> (p: i64[1], last: i64) {
    p[i] = (i + 319) * 2560 * 3072
    last = (B - 1) * S * C
}
"""
    p, last = run(text, B=320, S=2560, C=3072)
    assert p.tolist() == [2508718080]
    assert last == 2508718080
    _, last = run(text, B=2, S=65536, C=65537)
    assert last == 4295032832


@pytest.fixture(scope="module")
def far_bytes(tmp_path_factory: pytest.TempPathFactory) -> Array:
    """2^31 + 16 bytes of a sparse file, mapped: element 3 is 1, element 2^31 + 3 is 7, the others are 0."""
    path: Path = tmp_path_factory.mktemp("far") / "bytes"
    with path.open("wb") as file:
        file.truncate(FAR + 16)
    data = np.memmap(path, np.int8, "r+")
    data[3], data[FAR + 3] = 1, 7
    return data


def test_open_10_reads_beyond_2_to_the_31(far_bytes: Array) -> None:
    text = f"kernel far(X: i8[N]) -> (Y: i8[8]) where N >= {FAR + 8} {{\n    Y[j] = X[{FAR} + j]\n}}\n"
    assert kernel_of(text)(X=far_bytes).tolist() == [0, 0, 0, 7, 0, 0, 0, 0]


def test_open_10_gathers_beyond_2_to_the_31(far_bytes: Array) -> None:
    kernel = kernel_of("kernel far(X: i8[N], at: i64[T]) -> (Y: i8[T]) {\n    Y[t] = X[at[t]]\n}\n")
    assert kernel(X=far_bytes, at=np.array([3, FAR + 3, FAR, 0])).tolist() == [1, 7, 0, 0]
    with pytest.raises(tw.ArgumentError, match=rf"at\[1\] = {FAR + 16} is outside 0..{FAR + 16} of X"):
        kernel(X=far_bytes, at=np.array([3, FAR + 16]))


def test_open_10_strides_that_only_together_pass_2_to_the_31(far_bytes: Array) -> None:
    X = np.lib.stride_tricks.as_strided(far_bytes, (3, 4), (2**30, 1))
    text = "kernel rows(X: i8[M, N]) -> (Y: i8[M, N]) {\n    Y[i, j] = X[i, j]\n}\n"
    assert run(text, X=X).tolist() == [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 7]]


DIVIDENDS = [-7, -6, -1, 0, 1, 6, 7]
QUOTIENTS = {
    2: ([-4, -3, -1, 0, 0, 3, 3], [1, 0, 1, 0, 1, 0, 1]),
    -2: ([3, 3, 0, 0, -1, -3, -4], [-1, 0, -1, 0, -1, 0, -1]),
    3: ([-3, -2, -1, 0, 0, 2, 2], [2, 0, 2, 0, 1, 0, 1]),
    -3: ([2, 2, 0, 0, -1, -2, -3], [-1, 0, -1, 0, -2, 0, -2]),
    0: ([0] * 7, [0] * 7),
}
SIGNED = {"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8}
BY_DATA = """
kernel divide(a: T[N], b: T[N]) -> (q: T[N], r: T[N]) {
    q[i] = a[i] // b[i]
    r[i] = a[i] % b[i]
}
"""


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("divisor", QUOTIENTS)
def test_open_11_division_floors(divisor: int, dtype: str) -> None:
    a = np.array(DIVIDENDS, SIGNED[dtype])
    by_constant = f"""
kernel divide(a: {dtype}[N]) -> (q: {dtype}[N], r: {dtype}[N]) {{
    q[i] = a[i] // {divisor}
    r[i] = a[i] % {divisor}
}}
"""
    want = QUOTIENTS[divisor]
    by_data = run(BY_DATA.replace("T", dtype), a=a, b=np.full_like(a, divisor))
    assert tuple(result.tolist() for result in by_data) == want
    if divisor:
        assert tuple(result.tolist() for result in run(by_constant, a=a)) == want


@pytest.mark.parametrize("dtype", SIGNED)
def test_open_11_the_least_integer_and_zero_in_every_lane(dtype: str) -> None:
    least = np.iinfo(SIGNED[dtype]).min
    for place in range(9):
        a, b = np.full(9, 7, SIGNED[dtype]), np.full(9, 2, SIGNED[dtype])
        for divisor, quotient in ((-1, least), (0, 0)):
            a[place], b[place] = least, divisor
            q, r = run(BY_DATA.replace("T", dtype), a=a, b=b)
            assert (q[place], r[place]) == (quotient, 0)
            assert np.delete(q, place).tolist() == [3] * 8
            assert np.delete(r, place).tolist() == [1] * 8


def test_open_11_the_least_integer_by_a_constant() -> None:
    text = """
kernel divide(a: i32[N]) -> (q: i32[N], r: i32[N]) {
    q[i] = a[i] // -1
    r[i] = a[i] % -1
}
"""
    q, r = run(text, a=np.array([-(2**31), 5], np.int32))
    assert (q.tolist(), r.tolist()) == ([-(2**31), -5], [0, 0])


def test_open_11_remainders_in_a_subscript() -> None:
    text = "kernel turn(X: i32[5]) -> (Y: i32[7]) {\n    Y[i] = X[(i - 3) % 5]\n}\n"
    assert run(text, X=np.arange(10, 15, dtype=np.int32)).tolist() == [12, 13, 14, 10, 11, 12, 13]


def elementwise(dtype: str, expression: str) -> str:
    """y[i] = *expression* for x of one type."""
    return f"kernel e(x: {dtype}[N]) -> (y: {dtype}[N]) {{\n    y[i] = {expression}\n}}\n"


@pytest.mark.parametrize(
    ("dtype", "values", "expression", "want"),
    [
        (np.uint8, [200, 100], "x[i] + 100", [44, 200]),
        (np.int8, [1, 127], "x[i] + 1", [2, -128]),
        (np.uint8, [5], "x[i] - 7", [254]),
        (np.int8, [-128, 3], "-x[i]", [-128, -3]),
        (np.int8, [-128, -3], "abs(x[i])", [-128, 3]),
    ],
)
def test_open_24_integers_keep_their_type_and_wrap(
    dtype: Any, values: list[int], expression: str, want: list[int]
) -> None:
    name = {np.uint8: "u8", np.int8: "i8"}[dtype]
    y = run(elementwise(name, expression), x=np.array(values, dtype))
    assert (y.dtype, y.tolist()) == (np.dtype(dtype), want)


def test_open_24_a_literal_that_does_not_fit_is_refused() -> None:
    refused(elementwise("i8", "x[i] + ^200"), "200 does not fit i8")


def test_open_24_a_condition_becomes_a_number_by_a_cast() -> None:
    text = "kernel a(X: u8[N]) -> (y: i64) {\n    y = i64(any(k) (X[k] != 0)) * 200 + 100\n}\n"
    assert run(text, X=np.array([0, 3], np.uint8)) == 300
    assert run(text, X=np.array([0, 0], np.uint8)) == 100


def test_open_24_a_narrow_accumulator_wraps_with_a_warning() -> None:
    narrow = kernel_of("kernel s(x: i8[N]) -> (y: i8) {\n    y = sum(k) x[k]\n}\n")
    (warning,) = narrow.warnings
    assert (warning.line, warning.column, warning.severity) == (2, 9, "warning")
    assert "sum accumulates in i8" in warning.message
    assert narrow(x=np.array([100, 100], np.int8)) == -56
    wide = kernel_of("kernel s(x: i8[N]) -> (y: i64) {\n    y = sum(k) i64(x[k])\n}\n")
    assert wide.warnings == ()
    assert wide(x=np.array([100, 100], np.int8)) == 200


@pytest.mark.parametrize(("first", "second", "operator"), [("i32", "f32", "*"), ("i64", "f32", "+")])
def test_open_24_mixed_types_are_refused(first: str, second: str, operator: str) -> None:
    text = f"""
kernel m(a: {first}[N], b: {second}[N]) -> (y: {second}[N]) {{
    y[i] = a[i] {operator} b[i]
}}
"""
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(text)
    (only,) = caught.value.diagnostics
    assert f"'{operator}' joins {first} and {second}" in only.message
    assert f"{first}(...)" in only.hint
    assert f"{second}(...)" in only.hint
    assert only.line == 3
    cast = text.replace("a[i]", f"{second}(a[i])")
    values = {"i32": (16777217, 1, 16777216), "i64": (2**53 + 1, 0, 2**53)}[first]
    a, b = np.array(values[:1], {"i32": np.int32, "i64": np.int64}[first]), f32([values[1]])
    assert run(cast, a=a, b=b).tolist() == [values[2]]


def test_open_24_literals_follow_the_tensor_and_fold_exactly() -> None:
    assert hex_bits(run(elementwise("f16", "x[i] * 0.1"), x=np.array([1], np.float16))) == ["2e66"]
    one = f32([1])
    assert hex_bits(run(elementwise("f32", "x[i] * (0.7 * 0.3)"), x=one)) == ["3e570a3d"]
    assert hex_bits(run(elementwise("f32", "x[i] * 0.7 * 0.3"), x=one)) == ["3e570a3e"]


def test_open_24_the_mean_of_large_f16_numbers() -> None:
    x = np.array([40000] * 4, np.float16)
    wide = "kernel m(x: f16[N]) -> (y: f16) where N >= 1 {\n    y = f16((sum(k) f32(x[k])) / f32(N))\n}\n"
    assert run(wide, x=x) == 40000
    narrow = kernel_of("kernel m(x: f16[N]) -> (y: f16) where N >= 1 {\n    y = (sum(k) x[k]) / f16(N)\n}\n")
    assert "sum accumulates in f16" in narrow.warnings[0].message
    assert narrow(x=x) == np.inf
