"""merge and distribute: two neighbouring loops as one, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import kernel, lines, refused, run

THREE = kernel(
    "kernel f(X: f32[N], Z: f32[M]) -> (R: f32[N], S: f32[M], T: f32[N]) {"
    " R[i] = X[i] + 1\nS[j] = Z[j] + 2\nT[i] = X[i] + 3 }"
)
PLUS = kernel("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { T[i, j] = X[i, j] + 1\nY[i, j] = T[i, j] * 2 }")


def reading(*offsets: int) -> tw.Kernel:
    """Y[i] reads T[i + o] for each offset o, as far as T reaches."""
    reads = " + ".join(f"(T[i + ({o})] else 0)" for o in offsets)
    return kernel(f"kernel f(X: f32[N]) -> (Y: f32[N]) {{ T[i] = X[i] * 2\nY[i] = {reads} }}")


def test_each_part_runs_where_its_own_range_reaches() -> None:
    schedule = tw.Schedule(THREE)
    assert schedule.merge("R.i", "S.j") == "R.i"
    assert [p for p in run(schedule, {"N": 1, "M": 3}) if p[0] != "S_T"] == [
        ("S_R", (0,)),
        ("S_S", (0,)),
        ("S_S", (1,)),
        ("S_S", (2,)),
    ]


def test_a_shift_delays_the_second() -> None:
    schedule = tw.Schedule(reading(2))
    schedule.merge("T.i", "Y.i", 2)
    ran = run(schedule, {"N": 3})
    assert ran == [("S_T", (0,)), ("S_T", (1,)), ("S_T", (2,)), ("S_Y", (0,)), ("S_Y", (1,)), ("S_Y", (2,))]


def test_inner_loops_merge_after_the_outer_ones() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.merge("T.i", "Y.i")
    schedule.merge("T.j", "Y.j")
    assert lines(schedule) == [
        "for T.i in 0..M:",
        "    for T.j in 0..N:",
        "        T[i, j] = X[i, j] + 1",
        "        Y[i, j] = T[i, j] * 2   where i = T.i, j = T.j",
    ]


def test_distribute_takes_it_back() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.merge("T.i", "Y.i")
    assert schedule.distribute("T.i") == ("T.i", "T.i2")
    assert schedule.loops == ("T.i", "T.j", "T.i2", "Y.j")


def test_distribute_a_sum_into_start_terms_and_end() -> None:
    total = kernel("kernel f(X: f32[N, K]) -> (Y: f32[N]) { Y[i] = sum(k) X[i, k] }")
    schedule = tw.Schedule(total)
    assert schedule.distribute("Y.i") == ("Y.i", "Y.i2", "Y.i3")
    assert [s for s, _ in run(schedule, {"N": 2, "K": 1})] == [
        *["S_Y_init"] * 2,
        *["S_Y_update"] * 2,
        *["S_Y_finish"] * 2,
    ]


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        ("R.i", "T.i", "behind"),
        ("S.j", "R.i", "behind"),
        ("R.i", "R.i", "behind"),
        ("R.i", "Q.i", "no loop Q.i"),
        ("R", "S.j", "no loop R"),
    ],
)
def test_loops_must_be_neighbours(first: str, second: str, word: str) -> None:
    refusal = refused(lambda s: s.merge(first, second), tw.Schedule(THREE))
    assert refusal.rule == "shape"
    assert word in refusal.message


@pytest.mark.parametrize("step", ["parallel", "vectorize", "unroll"])
def test_loops_must_run_alike(step: str) -> None:
    schedule = tw.Schedule(THREE)
    getattr(schedule, step)("S.j")
    assert "different ways" in refused(lambda s: s.merge("R.i", "S.j"), schedule).message
    getattr(schedule, step)("R.i")
    schedule.merge("R.i", "S.j")


@pytest.mark.parametrize("reversed_loop", ["R.i", "S.j"])
def test_a_reversed_loop_takes_the_direction_of_the_other(reversed_loop: str) -> None:
    schedule = tw.Schedule(THREE)
    schedule.reverse(reversed_loop)
    schedule.merge("R.i", "S.j")
    assert "descending" not in str(schedule)
    x, z = np.arange(9, dtype=np.float32), np.arange(5, dtype=np.float32)
    for got, wanted in zip(tw.compile(THREE, schedule)(x, z), THREE(x, z), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("shift", [0.5, "1", True])
def test_a_shift_is_a_whole_number(shift: Any) -> None:
    refusal = refused(lambda s: s.merge("R.i", "S.j", shift), tw.Schedule(THREE))
    assert refusal.rule == "shape"


def test_distribute_needs_two_members_and_no_buffer() -> None:
    schedule = tw.Schedule(PLUS)
    assert "one member" in refused(lambda s: s.distribute("T.i"), schedule).message
    assert "no loop T" in refused(lambda s: s.distribute("T"), schedule).message
    schedule.compute_at("T", "Y.i")
    assert "private" in refused(lambda s: s.distribute("Y.i"), schedule).message


def test_parallel_marks_are_checked_again_after_a_merge() -> None:
    schedule = tw.Schedule(reading(0, -1))
    schedule.parallel("T.i")
    schedule.parallel("Y.i")
    assert refused(lambda s: s.merge("T.i", "Y.i"), schedule).rule == "race"


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=3), st.integers(-4, 4))
@settings(max_examples=50, deadline=None)
def test_merge_agrees_with_running_every_instance(offsets: list[int], shift: int) -> None:
    size, schedule = 9, tw.Schedule(reading(*offsets))
    order: list[tuple[str, tuple[int, ...]]] = []
    for at in range(-4, size + 4):
        order += [("S_T", (at,))] * (0 <= at < size) + [("S_Y", (at - shift,))] * (0 <= at - shift < size)
    rank = {instance: n for n, instance in enumerate(order)}
    needed = [(("S_T", (i + o,)), ("S_Y", (i,))) for i in range(size) for o in offsets if 0 <= i + o < size]
    if all(rank[writer] < rank[reader] for writer, reader in needed):
        schedule.merge("T.i", "Y.i", shift)
        assert run(schedule, {"N": size}) == order
    else:
        assert refused(lambda s: s.merge("T.i", "Y.i", shift), schedule).rule == "dependence"


@given(st.integers(0, 3), st.integers(1, 3), st.booleans())
@settings(max_examples=30, deadline=None)
def test_distribute_agrees_with_running_every_instance(near: int, far: int, back: bool) -> None:
    """P and Q in one loop, Q reading P behind it; *back*: P reads Q behind it as well."""
    P = f" + (Q[i - {far}] if i >= {far} else 0)" if back else ""
    text = f"P[i] = X[i]{P}\nQ[i] = X[i] * 2 + (P[i - {near}] if i >= {near} else 0)"
    schedule = tw.Schedule(kernel(f"kernel f(X: f32[N]) -> (P: f32[N], Q: f32[N]) {{ {text} }}"))
    if not back:
        schedule.merge("P.i", "Q.i")
    order = [(name, (i,)) for name in ("S_P", "S_Q") for i in range(7)]
    needed = [(("S_P", (i - near,)), ("S_Q", (i,))) for i in range(near, 7)]
    needed += [(("S_Q", (i - far,)), ("S_P", (i,))) for i in range(far, 7)] if back else []
    if all(order.index(writer) < order.index(reader) for writer, reader in needed):
        schedule.distribute("P.i")
        assert run(schedule, {"N": 7}) == order
    else:
        assert refused(lambda s: s.distribute("P.i"), schedule).rule == "dependence"
