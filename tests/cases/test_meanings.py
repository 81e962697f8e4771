"""The fixed meanings of the language where two readings are close: each case tells them apart."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

from .programs import Array, f32, hex_bits, kernel_of, run

BF16 = ml_dtypes.bfloat16
RNG = np.random.default_rng(5)


def spread(*shape: int) -> Array:
    """f32 of many magnitudes, so that the order of a sum shows."""
    return np.ldexp(RNG.standard_normal(shape), RNG.integers(-9, 10, shape)).astype(np.float32)


def add(start: Any, terms: Any) -> Any:
    """Left to right."""
    for term in terms:
        start = start + term
    return start


def pairs(lanes: list[Any]) -> Any:
    """Neighbours merged until one is left."""
    while len(lanes) > 1:
        lanes = [a + b for a, b in zip(lanes[::2], lanes[1::2], strict=True)]
    return lanes[0]


ZERO = np.float32(0)


@pytest.mark.parametrize(("low", "high"), [(0, 37), (3, 37), (5, 6), (7, 7), (6, 9)])
def test_a_lane_is_the_index_modulo_the_lanes_wherever_the_range_begins(low: int, high: int) -> None:
    text = f"kernel s(x: f32[40]) -> (y: f32) {{\n    y = sum(k in {low}..{high}, lanes=4) x[k]\n}}\n"
    x = spread(40)
    want = pairs([add(ZERO, [x[k] for k in range(low, high) if k % 4 == lane]) for lane in range(4)])
    assert hex_bits(run(text, x=x)) == hex_bits(np.asarray(want))


@pytest.mark.parametrize(("low", "high"), [(0, 37), (3, 37), (5, 6), (7, 7), (6, 9)])
def test_a_block_is_the_index_divided_by_the_size_wherever_the_range_begins(low: int, high: int) -> None:
    text = f"kernel s(x: f32[40]) -> (y: f32) {{\n    y = sum(k in {low}..{high}, blocks=4) x[k]\n}}\n"
    x = spread(40)
    blocks = [add(ZERO, [x[k] for k in range(low, high) if k // 4 == block]) for block in range(low // 4, 10)]
    assert hex_bits(run(text, x=x)) == hex_bits(np.asarray(add(ZERO, blocks)))


def test_lanes_of_negative_indices() -> None:
    text = "kernel s(x: f32[9]) -> (y: f32) {\n    y = sum(k in 0 - 6..3, lanes=4) x[k + 6]\n}\n"
    x = spread(9)
    want = pairs([add(ZERO, [x[k + 6] for k in range(-6, 3) if k % 4 == lane]) for lane in range(4)])
    assert hex_bits(run(text, x=x)) == hex_bits(np.asarray(want))


def test_of_several_indices_the_innermost_is_cut_into_lanes_or_blocks() -> None:
    text = """
kernel s(x: f32[R, K]) -> (plain: f32, l: f32, b: f32, rows: f32) {
    plain = sum(r, k) x[r, k]
    l = sum(r, k, lanes=4) x[r, k]
    b = sum(r, k, blocks=4) x[r, k]
    rows = sum(r) sum(k) x[r, k]
}
"""
    x = spread(5, 11)
    lanes = [add(ZERO, [x[r, k] for r in range(5) for k in range(lane, 11, 4)]) for lane in range(4)]
    blocks = [add(ZERO, x[r, k : k + 4]) for r in range(5) for k in range(0, 11, 4)]
    rows = add(ZERO, [add(ZERO, row) for row in x])
    want = [add(ZERO, x.reshape(-1)), pairs(lanes), add(ZERO, blocks), rows]
    got = run(text, x=x)
    assert [hex_bits(value) for value in got] == [hex_bits(np.asarray(value)) for value in want]


def test_lanes_of_a_triangle() -> None:
    text = "kernel s(x: f32[N]) -> (y: f32[N]) {\n    y[i] = sum(k in i // 2..i + 1, lanes=2) x[k]\n}\n"
    x = spread(13)
    want = [
        pairs([add(ZERO, [x[k] for k in range(i // 2, i + 1) if k % 2 == lane]) for lane in range(2)])
        for i in range(13)
    ]
    assert hex_bits(run(text, x=x)) == hex_bits(f32(want))


def test_products_in_lanes_begin_with_one() -> None:
    text = "kernel p(x: f32[N]) -> (y: f32) {\n    y = prod(k, lanes=4) x[k]\n}\n"
    x = f32([1.1, 1.7, 1.3, 0.9, 1.9, 1.2])
    want = (x[0] * x[4] * (x[1] * x[5])) * (x[2] * x[3])
    assert hex_bits(run(text, x=x)) == hex_bits(np.asarray(want))
    assert run(text, x=x[:0]) == 1


def test_a_sum_starts_at_plus_zero() -> None:
    text = """
kernel s(x: f32[N]) -> (y: f32, l: f32, b: f32) {
    y = sum(k) x[k]
    l = sum(k, lanes=2) x[k]
    b = sum(k, blocks=2) x[k]
}
"""
    assert [hex_bits(value) for value in run(text, x=f32([-0.0] * 5))] == [["00000000"]] * 3


def test_argmax_gives_the_index_and_puts_nan_above_everything() -> None:
    text = """
kernel a(x: f32[N]) -> (i: i64, j: i64) where N >= 4 {
    i = argmax(k in 2..N) x[k]
    j = argmin(k in 2..N) x[k]
}
"""
    i, j = run(text, x=f32([9, -9, 1, 3, 3, 0, 0]))
    assert (i, j) == (3, 5)
    i, _ = run(text, x=f32([9, -9, 1, np.nan, np.inf, np.nan]))
    assert i == 3
    zeros = "kernel a(x: f32[N]) -> (i: i64) where N >= 1 {\n    i = argmax(k) x[k]\n}\n"
    assert run(zeros, x=f32([1, 1, 1])) == 0


@pytest.mark.parametrize(
    ("target", "values", "want"),
    [
        (
            "i8",
            [127.9, 128, -128.9, -129, np.nan, np.inf, -np.inf, 0.99, -0.99],
            [127, 127, -128, -128, 0, 127, -128, 0, 0],
        ),
        ("u8", [255.9, 256, -0.5, -1, np.nan, 1e30], [255, 255, 0, 0, 0, 255]),
        (
            "i32",
            [2147483520, 2147483648, -2147483648, -1e10, np.nan],
            [2147483520, 2**31 - 1, -(2**31), -(2**31), 0],
        ),
        (
            "i64",
            [9.2e18, 9.3e18, -9.3e18, np.nan, np.inf],
            [int(np.float32(9.2e18)), 2**63 - 1, -(2**63), 0, 2**63 - 1],
        ),
        ("bool", [0.0, -0.0, np.nan, 1e-45], [False, False, True, True]),
    ],
)
def test_float_to_integer_truncates_and_saturates(target: str, values: list[float], want: list[int]) -> None:
    text = f"kernel c(x: f32[N]) -> (y: {target}[N]) {{\n    y[i] = {target}(x[i])\n}}\n"
    assert run(text, x=f32(values)).tolist() == want


def test_integers_become_narrower_by_wrapping_or_by_clamping() -> None:
    text = """
kernel c(x: i32[N]) -> (y: i8[N], z: i8[N], u: u8[N], v: u8[N]) {
    y[i] = i8(x[i])
    z[i] = sat i8(x[i])
    u[i] = u8(x[i])
    v[i] = sat u8(x[i])
}
"""
    got = [value.tolist() for value in run(text, x=np.array([127, 128, -129, 300, -1], np.int32))]
    assert got == [
        [127, -128, 127, 44, -1],
        [127, 127, -128, 127, -1],
        [127, 128, 127, 44, 255],
        [127, 128, 0, 255, 0],
    ]


def test_saturating_casts_to_floats() -> None:
    text = """
kernel c(x: f32[N]) -> (h: f16[N], s: f16[N], b: bf16[N], t: bf16[N]) {
    h[i] = f16(x[i])
    s[i] = sat f16(x[i])
    b[i] = bf16(x[i])
    t[i] = sat bf16(x[i])
}
"""
    h, s, b, t = (value.astype(np.float64).tolist() for value in run(text, x=f32([1e5, -np.inf, 3.4e38])))
    top = float(ml_dtypes.finfo(BF16).max)
    assert (h, s) == ([np.inf, -np.inf, np.inf], [65504, -65504, 65504])
    assert (b, t) == ([99840, -np.inf, np.inf], [99840, -top, top])


def test_an_index_is_rounded_once_from_the_exact_integer() -> None:
    text = """
kernel c(N: size) -> (a: f32[2], b: bf16[2], h: f16[2]) {
    a[i] = f32(N + i)
    b[i] = bf16(N + i)
    h[i] = f16(i + N - 33685400)
}
"""
    a, b, h = run(text, N=33685504)
    assert a.tolist() == [33685504, 33685504]
    assert hex_bits(b) == ["4c00", "4c01"]
    assert h.tolist() == [104, 105]


def test_a_branch_that_is_not_chosen_is_not_read() -> None:
    text = """
kernel g(x: f32[N], at: i32[T]) -> (y: f32[T], z: f32[T]) {
    y[t] = x[at[t]] if at[t] >= 0 and at[t] < N else -1
    z[t] = (x[at[t]] else 7)
}
"""
    y, z = run(text, x=f32([1, 2, 3]), at=np.array([-1, 0, 2, 3, 2**31 - 1], np.int32))
    assert (y.tolist(), z.tolist()) == ([-1, 1, 3, -1, -1], [7, 1, 3, 7, 7])
    y, z = run(text, x=f32([]), at=np.array([0, -1], np.int32))
    assert (y.tolist(), z.tolist()) == ([-1, -1], [7, 7])


def test_a_gather_out_of_range_is_an_error_before_anything_is_written() -> None:
    kernel = kernel_of("kernel g(x: f32[N], at: i32[T]) -> (y: f32[T]) {\n    y[t] = x[at[t]]\n}\n")
    for bad in (3, -1):
        out = f32([5, 5, 5, 5])
        with pytest.raises(tw.ArgumentError, match=rf"at\[3\] = {bad} is outside 0..3 of x"):
            kernel(x=f32([1, 2, 3]), at=np.array([0, 1, 2, bad], np.int32), out=out)
        assert out.tolist() == [5, 5, 5, 5]
    assert kernel(x=f32([]), at=np.array([], np.int32)).tolist() == []


def test_rounding_functions_and_fma() -> None:
    text = """
kernel r(x: f32[N]) -> (f: f32[N], c: f32[N], r: f32[N], m: f32[N], p: f32[N]) {
    f[i] = floor(x[i])
    c[i] = ceil(x[i])
    r[i] = round(x[i])
    m[i] = fma(x[i], x[i], -1)
    p[i] = x[i] * x[i] - 1
}
"""
    x = f32([0.5, 1.5, -0.5, 2.5, -2.5, 1 + 2.0**-12])
    f, c, r, m, p = run(text, x=x)
    assert f.tolist() == [0, 1, -1, 2, -3, 1]
    assert c.tolist() == [1, 2, 0, 3, -2, 2]
    assert hex_bits(r[:5]) == hex_bits(f32([0, 2, -0.0, 2, -2]))
    assert (m[5], p[5]) == (np.float32(2.0**-11 + 2.0**-24), np.float32(2.0**-11))


def test_comparisons_with_an_index_are_comparisons_of_numbers() -> None:
    text = """
kernel h(x: u8[N]) -> (h: i32[300], below: i32[300]) {
    h[b] = sum(n) (1 if x[n] == b else 0)
    below[b] = sum(n) (1 if x[n] < b - 20 else 0)
}
"""
    x = np.array([0, 255, 255, 44], np.uint8)
    h, below = run(text, x=x)
    assert (h[0], h[255], h[44], h[256], h[299], h.sum()) == (1, 2, 1, 0, 0, 4)
    assert [below[b] for b in (0, 20, 21, 65, 275, 276)] == [0, 0, 1, 2, 2, 4]


def test_comparisons_with_nan_and_the_empty_conditions() -> None:
    text = """
kernel n(x: f32[N]) -> (e: bool[N], d: bool[N], l: bool[N], g: bool[N], v: f32[N]) {
    e[i] = x[i] == x[i]
    d[i] = x[i] != x[i]
    l[i] = not (x[i] < 1)
    g[i] = x[i] >= 1
    v[i] = 1 if x[i] > 0 or not (x[i] <= 0) else 2
}
"""
    e, d, l, g, v = (value.tolist() for value in run(text, x=f32([np.nan, 0, 1])))  # noqa: E741
    assert (e, d) == ([False, True, True], [True, False, False])
    assert (l, g) == ([True, False, True], [False, False, True])
    assert v == [1, 2, 1]
