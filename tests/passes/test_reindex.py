"""skew, shift and reverse: iterations under other numbers, or from the end."""

from __future__ import annotations

import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import agrees, grid, kernel, lines, nest, points, recurrence, refused, run

PLUS = kernel("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = X[i, j] + 1 }")
TWO = kernel("kernel f(X: f32[N]) -> (Y: f32[N], Z: f32[N]) { Y[i] = X[i] + 1\nZ[i] = X[i] - 1 }")
TOTAL = "kernel f(X: {type}[N]) -> (y: {type}) {{ y = {op}(i) X[i] }}"
DISTANCES = st.tuples(st.integers(0, 2), st.integers(-2, 2)).filter(lambda d: d > (0, 0))


def test_shift_moves_the_numbers_only() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.shift("Y.i", 3)
    assert lines(schedule) == [
        "for Y.i in 3..M + 3:",
        "    for Y.j in 0..N:",
        "        Y[i, j] = X[i, j] + 1   where i = Y.i - 3",
    ]
    schedule.shift("Y.i", -3)
    assert str(schedule) == str(tw.Schedule(PLUS))


def test_skew_slants_the_inner_loop() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.skew("Y.j", "Y.i", 2)
    assert lines(schedule) == [
        "for Y.i in 0..M:",
        "    for Y.j in 2 * Y.i..2 * Y.i + N:",
        "        Y[i, j] = X[i, j] + 1   where j = Y.j - 2 * Y.i",
    ]
    schedule.skew("Y.j", "Y.i", -2)
    assert str(schedule) == str(tw.Schedule(PLUS))


def test_skew_is_by_1_where_nothing_is_said() -> None:
    schedule, other = tw.Schedule(PLUS), tw.Schedule(PLUS)
    schedule.skew("Y.j", "Y.i")
    other.skew("Y.j", "Y.i", 1)
    assert str(schedule) == str(other)
    assert schedule.trace == other.trace


def test_reverse_runs_downwards_and_back() -> None:
    schedule = tw.Schedule(TWO)
    schedule.reverse("Y.i")
    assert run(schedule, {"N": 2}) == [("S_Y", (1,)), ("S_Y", (0,)), ("S_Z", (0,)), ("S_Z", (1,))]
    assert lines(schedule)[0] == "for Y.i in 0..N, descending:"
    schedule.reverse("Y.i")
    assert str(schedule) == str(tw.Schedule(TWO))


def test_reverse_refuses_a_recurrence() -> None:
    refusal = refused(lambda s: s.reverse("A.i"), tw.Schedule(recurrence(1, 0)))
    assert refusal.rule == "dependence"
    assert refusal.instances is not None
    assert "comes before" in refusal.instances


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_reverse_refuses_what_rounds(kind: str, op: str) -> None:
    refusal = refused(lambda s: s.reverse("y.i"), tw.Schedule(kernel(TOTAL.format(type=kind, op=op))))
    assert refusal.rule == "rounding"


@pytest.mark.parametrize("kind", ["f64", "f32", "f16", "bf16", "i64", "i8", "u8"])
@pytest.mark.parametrize("op", ["sum", "prod", "min", "max"])
def test_reverse_takes_what_is_exact_in_any_order(kind: str, op: str) -> None:
    if op in ("min", "max") or kind in ("i64", "i8", "u8"):
        schedule = tw.Schedule(kernel(TOTAL.format(type=kind, op=op)))
        schedule.reverse("y.i")
        assert points(schedule, {"N": 3}, "S_y_update") == [(2,), (1,), (0,)]


def test_names_are_loops_and_the_other_one_lies_around() -> None:
    for step in (lambda s: s.reverse("Y.k"), lambda s: s.shift("Y.k", 1), lambda s: s.skew("Y.k", "Y.i")):
        assert refused(step, tw.Schedule(PLUS)).message == "there is no loop Y.k"
    for loop, by in (("Y.i", "Y.j"), ("Y.i", "Y.i")):
        refusal = refused(lambda s, loop=loop, by=by: s.skew(loop, by), tw.Schedule(PLUS))
        assert (refusal.rule, refusal.message) == ("shape", f"{by} is not around {loop}")
    assert refused(lambda s: s.skew("Z.i", "Y.i"), tw.Schedule(TWO)).rule == "shape"


@pytest.mark.parametrize("number", [1.5, "1", True, None])
def test_numbers_are_whole(number: object) -> None:
    for step in (lambda s: s.shift("Y.j", number), lambda s: s.skew("Y.j", "Y.i", number)):
        assert refused(step, tw.Schedule(PLUS)).rule == "shape"


def test_half_of_a_fused_loop_is_not_renumbered() -> None:
    for step in (lambda s: s.reverse("Y.j"), lambda s: s.reverse("Y.i"), lambda s: s.skew("Y.j", "Y.i")):
        schedule = tw.Schedule(PLUS)
        schedule.fuse("Y.i", "Y.j")
        assert refused(step, schedule).rule == "shape"


@given(st.integers(-4, 4), st.integers(-3, 3), st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_shift_and_skew_keep_the_order_of_every_instance(offset: int, factor: int, rows: int, columns: int) -> None:
    schedule = tw.Schedule(PLUS)
    schedule.shift("Y.i", offset)
    schedule.skew("Y.j", "Y.i", factor)
    assert points(schedule, {"M": rows, "N": columns}, "S_Y") == grid(rows, columns)


@given(DISTANCES, st.sampled_from(["A.i", "A.j"]))
@settings(max_examples=30, deadline=None)
def test_reverse_agrees_with_running_every_instance(distance: tuple[int, int], loop: str) -> None:
    signs = (-1, 1) if loop == "A.i" else (1, -1)
    order = sorted(grid(6, 6), key=lambda p: (signs[0] * p[0], signs[1] * p[1]))
    agrees(nest(distance), lambda s: s.reverse(loop), order, distance)


@given(DISTANCES, st.integers(-2, 3))
@settings(max_examples=40, deadline=None)
def test_a_skewed_reorder_agrees_with_running_every_instance(distance: tuple[int, int], factor: int) -> None:
    schedule = nest(distance)
    schedule.skew("A.j", "A.i", factor)
    order = sorted(grid(7, 7), key=lambda p: (p[1] + factor * p[0], p[0]))
    agrees(schedule, lambda s: s.reorder("A.j", "A.i"), order, distance)
