"""Loops that carry values, written as definitions (OPEN-12, 14 to 17)."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, call, f32, kernel_of, refused, run


def i32(values: object) -> Array:
    """An i32 array of these values."""
    return np.array(values, np.int32)


def test_open_12_mirrored_sum_of_the_old_values() -> None:
    kernel = kernel_of("kernel m(x: i32[N]) -> (y: i32[N]) {\n    y[i] = x[i] + x[N - 1 - i]\n}\n")
    assert call(kernel, x=i32([1, 2, 3, 4])).tolist() == [5, 5, 5, 5]
    assert set(call(kernel, x=np.arange(1, 1025, dtype=np.int32)).tolist()) == {1025}


def test_open_12_mirrored_sum_in_place_is_a_recurrence() -> None:
    text = """
kernel m(x: i32[N]) -> (y: i32[N]) {
    y[i] = x[i] + (y[N - 1 - i] if N - 1 - i < i else x[N - 1 - i])
}
"""
    assert run(text, x=i32([1, 2, 3, 4])).tolist() == [5, 5, 8, 9]
    assert run(text, x=i32([1, 2, 3, 4, 5])).tolist() == [6, 6, 6, 10, 11]


IN_PLACE = """
kernel m(x: i32[N]) -> (y: i32[N]) {
    U[0, i in 0..N] = x[i]
    U[1, i in 0..N] = U[0, i] + U[0, PARTNER]
    y[i] = U[1, i]
}
"""


def test_open_12_storage_is_not_reused_under_a_cell_still_to_be_read() -> None:
    schedule = tw.Schedule(kernel_of(IN_PLACE.replace("PARTNER", "N - 1 - i")))
    with tw.testing.refused("dependence", "before U[1, i] has read the old U[0, i]") as caught:
        schedule.store("U", fold={0: 1})
    assert caught.refusal.witness is not None
    assert caught.refusal.remedy == "store(U, fold={0: 2})"


def test_open_12_storage_is_reused_where_each_cell_reads_itself_alone() -> None:
    schedule = tw.Schedule(kernel_of(IN_PLACE.replace("PARTNER", "i")))
    schedule.store("U", fold={0: 1})
    schedule.parallel("U#2.i")
    assert np.asarray(tw.compile(schedule.kernel, schedule)(i32([1, 2, 3, 4]))).tolist() == [2, 4, 6, 8]


def test_open_14_producer_read_at_a_stride() -> None:
    text = """
kernel p1(A: i32[15]) -> (C: i32[5, 3]) {
    B[i] = A[i] + 1
    C[i, j] = 2 * B[i + 5 * j]
}
"""
    want = [[2, 12, 22], [4, 14, 24], [6, 16, 26], [8, 18, 28], [10, 20, 30]]
    assert run(text, A=np.arange(15, dtype=np.int32)).tolist() == want
    refused(text.replace("B[i + 5", "^B[i + 6"), "reads B outside its range at i=3, j=2")


def test_open_14_two_stencils_need_a_halo_of_two() -> None:
    text = """
kernel p2(a: i32[13]) -> (c: i32[9]) {
    b[i in 1..12] = a[i - 1] + a[i] + a[i + 1]
    c[i] = b[i + 1] + b[i + 2] + b[i + 3]
}
"""
    want = [48, 93, 156, 237, 336, 453, 588, 741, 912]
    assert run(text, a=np.arange(13, dtype=np.int32) ** 2).tolist() == want
    refused(text.replace("1..12] = a[i - 1]", "0..12] = ^a[i - 1]"), "reads a outside its range at i=0")
    refused(text.replace("b[i + 1]", "^b[i]"), "reads b outside its range at i=0")


@pytest.mark.parametrize("N", [1000, 1024, 33, 32, 31, 1, 0])
def test_open_14_producer_and_consumer_of_any_length(N: int) -> None:
    text = """
kernel p3(A: f32[N], B: f32[N]) -> (D: f32[N], E: f32[N]) {
    D[i] = 2 * (A[i] + B[i])
    E[i] = D[i] + A[i]
}
"""
    A = np.arange(N, dtype=np.float32)
    D, E = run(text, A=A, B=2 * A)
    assert D.tolist() == (6 * A).tolist()
    assert E.tolist() == (7 * A).tolist()


def test_open_15_neighbours_of_a_counter() -> None:
    text = """
kernel p1() -> (g: i32[16]) {
    start[i in 0..18] = i32(0)
    f[i in 0..18] = start[i] + 1
    g[i] = f[i] + f[i + 2]
}
"""
    assert run(text).tolist() == [2] * 16


def test_open_15_stencil_over_time_with_a_fixed_rim() -> None:
    text = """
kernel p2(s: i32[9], steps: size) -> (r: i32[9]) {
    u[0, x] = s[x]
    u[t in 1..steps + 1, x in 1..8] = u[t - 1, x - 1] + u[t - 1, x] + u[t - 1, x + 1]
    u[t in 1..steps + 1, 0] = 0
    u[t in 1..steps + 1, 8] = 0
    r[x] = u[steps, x]
}
"""
    kernel, s = kernel_of(text), i32([0, 0, 0, 0, 1, 0, 0, 0, 0])
    for _ in range(10):
        assert call(kernel, s=s, steps=3).tolist() == [0, 1, 3, 6, 7, 6, 3, 1, 0]
    assert call(kernel, s=s, steps=0).tolist() == s.tolist()
    both = text.replace("u[t - 1, x - 1] + u[t - 1, x] + u[t - 1, x + 1]", "u[t, x - 1] + u[t, x + 1]")
    with pytest.raises(tw.SourceError, match="a circle"):
        tw.parse(both)


def test_open_16_consumer_that_runs_backwards() -> None:
    text = """
kernel p() -> (g: i64[3, 5]) {
    f[y in 0..3, x in 0..5] = x + 10 * y
    g[y, x] = f[y, 4 - x]
}
"""
    assert run(text).tolist() == [[4, 3, 2, 1, 0], [14, 13, 12, 11, 10], [24, 23, 22, 21, 20]]


def test_open_16_differences_of_squares() -> None:
    text = """
kernel q() -> (r: i64[15]) {
    c[i in 0..16] = i * i
    r[i] = c[i + 1] - c[i]
}
"""
    assert run(text).tolist() == list(range(1, 30, 2))


def test_open_16_rows_that_depend_on_rows() -> None:
    text = """
kernel w() -> (A: i64[4, 4]) {
    A[0, j] = j
    A[i in 1..4, j] = A[i - 1, j] + 1
}
"""
    assert run(text).tolist() == [[i + j for j in range(4)] for i in range(4)]


def test_open_17_reads_of_the_row_below() -> None:
    text = """
kernel p1(A: i32[5, 5]) -> (B: i32[5, 5]) {
    B[i in 0..4, j in 1..5] = A[i + 1, j - 1]
    B[i in 0..4, 0] = A[i, 0]
    B[4, j] = A[4, j]
}
"""
    A = i32([[10 * i + j for j in range(5)] for i in range(5)])
    want = [
        [0, 10, 11, 12, 13],
        [10, 20, 21, 22, 23],
        [20, 30, 31, 32, 33],
        [30, 40, 41, 42, 43],
        [40, 41, 42, 43, 44],
    ]
    assert run(text, A=A).tolist() == want
    forward = text.replace("1..5] = A[i + 1, j - 1]", "0..4] = A[i + 1, j + 1]")
    forward = forward.replace("0] = A[i, 0]", "4] = A[i, 4]")
    assert run(forward, A=A).tolist() == [
        [11, 12, 13, 14, 4],
        [21, 22, 23, 24, 14],
        [31, 32, 33, 34, 24],
        [41, 42, 43, 44, 34],
        [40, 41, 42, 43, 44],
    ]


RISING = """
kernel p2(A: i32[5, 6]) -> (B: i32[5, 6]) {
    B[0, j] = A[0, j]
    B[i in 1..5, j in 0..4] = B[i - 1, j + 1] + 1
    B[i in 1..5, j in 4..6] = A[i, j]
}
"""


def test_open_17_dependence_with_a_distance_of_minus_one() -> None:
    A = i32([[10 * i + j for j in range(6)] for i in range(5)])
    assert run(RISING, A=A).tolist() == [
        [0, 1, 2, 3, 4, 5],
        [2, 3, 4, 5, 14, 15],
        [4, 5, 6, 15, 24, 25],
        [6, 7, 16, 25, 34, 35],
        [8, 17, 26, 35, 44, 45],
    ]


def test_open_17_order_that_runs_downwards() -> None:
    text = """
kernel down(A: f32[N]) -> (B: f32[N]) {
    B[i] = A[i] + (B[i + 1] if i < N - 1 else 0)
}
"""
    assert run(text, A=f32([1, 2, 3, 4])).tolist() == [10, 9, 7, 4]
