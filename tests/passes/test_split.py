"""split and tile: the same iterations in blocks."""

from __future__ import annotations

import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import agrees, distinct, grid, kernel, lines, nest, points, recurrence, refused

PRODUCT = kernel("kernel f(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum(k) A[i, k] * B[k, j] }")
PLUS = kernel("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = X[i, j] + 1 }")
LOWER = kernel("kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = sum(k in 0..i) X[k] }")

DISTANCES = st.tuples(st.integers(0, 2), st.integers(-2, 2)).filter(lambda d: d > (0, 0))


def test_split_makes_a_loop_over_blocks_and_one_inside() -> None:
    schedule = tw.Schedule(PLUS)
    assert schedule.split("Y.i", 4) == ("Y.io", "Y.ii")
    assert schedule.loops == ("Y.io", "Y.ii", "Y.j")
    assert lines(schedule) == [
        "for Y.io in 0..(M + 3) // 4:",
        "    for Y.ii in 0..min(4, M - 4 * Y.io):",
        "        for Y.j in 0..N:",
        "            Y[i, j] = X[i, j] + 1   where i = 4 * Y.io + Y.ii",
    ]


def test_split_of_a_split_takes_new_names() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.split("Y.i", 4)
    assert schedule.split("Y.ii", 2) == ("Y.iio", "Y.iii")
    assert schedule.split("Y.j", 2, names=("i", "ii")) == ("Y.i", "Y.ii")
    assert schedule.split("Y.i", 2) == ("Y.io2", "Y.ii2")
    assert distinct(schedule.loops)


def test_split_by_1_and_by_more_than_the_range() -> None:
    for factor in (1, 100):
        schedule = tw.Schedule(PLUS)
        schedule.split("Y.j", factor)
        assert points(schedule, {"M": 2, "N": 3}, "S_Y") == grid(2, 3)


def test_tile_is_two_splits_and_a_reorder() -> None:
    schedule, other = tw.Schedule(PRODUCT), tw.Schedule(PRODUCT)
    assert schedule.tile("C.i", "C.j", 4, 2) == ("C.io", "C.jo", "C.ii", "C.ji")
    other.split("C.i", 4)
    other.split("C.j", 2)
    other.reorder("C.io", "C.jo", "C.ii", "C.ji")
    assert str(schedule) == str(other)
    assert schedule.trace == other.trace


def test_tile_takes_names_in_the_order_of_its_loops() -> None:
    schedule = tw.Schedule(PRODUCT)
    assert schedule.tile("C.i", "C.j", 4, 2, names=("a", "b", "c", "d")) == ("C.a", "C.b", "C.c", "C.d")
    assert schedule.loops == ("C.a", "C.b", "C.c", "C.d", "C.k")


@pytest.mark.parametrize("factor", [0, -1, True, 4.0, "4", None])
def test_a_factor_is_a_positive_whole_number(factor: object) -> None:
    refusal = refused(lambda s: s.split("C.i", factor), tw.Schedule(PRODUCT))  # pyright: ignore[reportArgumentType]
    assert (refusal.rule, "number" in refusal.message) == ("shape", True)


@pytest.mark.parametrize(
    "names", [("j", "x"), ("x", "k"), ("x", "x"), ("x",), ("x", "y", "z"), ("a b", "c"), ("", "c")]
)
def test_names_are_two_new_words(names: tuple[str, ...]) -> None:
    refusal = refused(lambda s: s.split("C.i", 4, names=names), tw.Schedule(PRODUCT))
    assert refusal.rule == "shape"
    assert "name" in refusal.message


def test_a_loop_that_is_none_is_named_with_its_neighbours() -> None:
    refusal = refused(lambda s: s.split("C.kk", 4), tw.Schedule(PRODUCT))
    assert refusal.message == "there is no loop C.kk"
    assert refusal.remedy is not None
    assert "C.k" in refusal.remedy


def test_a_refused_tile_takes_its_splits_back() -> None:
    schedule = tw.Schedule(recurrence(1, -1))
    refusal = refused(lambda s: s.tile("A.i", "A.j", 2, 2), schedule)
    assert (refusal.rule, refusal.step) == ("dependence", "tile(A.i, A.j, 2, 2)")
    refusal = refused(lambda s: s.tile("A.i", "A.j", 2, 0), schedule)
    assert (refusal.rule, refusal.step) == ("shape", "tile(A.i, A.j, 2, 0)")


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_split_keeps_the_order_of_every_instance(first: int, second: int, size: int) -> None:
    schedule = tw.Schedule(LOWER)
    schedule.split("Y.i", first)
    schedule.split("Y.k", second)
    assert points(schedule, {"N": size}, "S_Y_update") == [(i, k) for i in range(size) for k in range(i)]
    assert points(schedule, {"N": size}, "S_Y_finish") == [(i,) for i in range(size)]


@given(DISTANCES, st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_tile_agrees_with_running_every_instance(distance: tuple[int, int], rows: int, columns: int) -> None:
    order = sorted(grid(7, 7), key=lambda p: (p[0] // rows, p[1] // columns, p))
    agrees(nest(distance), lambda s: s.tile("A.i", "A.j", rows, columns), order, distance)
