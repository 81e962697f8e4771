"""reorder: the loops of a nest in another order."""

from __future__ import annotations

from itertools import permutations

import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import agrees, grid, kernel, lines, nest, points, recurrence, refused, run

PRODUCT = kernel("kernel f(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum(k) A[i, k] * B[k, j] }")
TAPS = kernel("kernel f(X: f32[N, 4, 4]) -> (Y: f32[N]) { Y[n] = sum(r in 0..4, s in 0..4) X[n, r, s] }")
LOWER = kernel("kernel f(X: f32[N, N]) -> (Y: f32[N, N]) { Y[i, j] = sum(k in i..j) X[i, k] }")
DISTANCES = st.tuples(st.integers(0, 2), st.integers(-2, 2)).filter(lambda d: d > (0, 0))


def test_two_data_loops_change_places() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.reorder("C.j", "C.i")
    assert schedule.loops == ("C.j", "C.i", "C.k")


def test_start_and_end_of_a_sum_keep_the_loops_that_they_have() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.reorder("C.k", "C.i", "C.j")
    assert lines(schedule) == [
        "for C.i_a in 0..M:",
        "    for C.j_a in 0..N:",
        "        C.acc[i, j] = 0   where i = C.i_a, j = C.j_a",
        "for C.k in 0..K:",
        "    for C.i in 0..M:",
        "        for C.j in 0..N:",
        "            C.acc[i, j] = C.acc[i, j] + A[i, k] * B[k, j]",
        "for C.i_b in 0..M:",
        "    for C.j_b in 0..N:",
        "        C[i, j] = C.acc[i, j]   where i = C.i_b, j = C.j_b",
    ]


def test_loops_that_are_not_named_keep_their_places() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.split("C.i", 4)
    schedule.reorder("C.k", "C.io")
    inner = [line.split()[1] for line in lines(schedule) if "for C.k" in line or "for C.ii " in line]
    assert inner == ["C.k", "C.ii"]
    assert schedule.loops[:1] != ("C.k",), "the start of the sum comes first"


def test_reorder_and_back_is_the_schedule_before() -> None:
    schedule = tw.Schedule(PRODUCT)
    before = str(schedule)
    schedule.reorder("C.j", "C.i")
    schedule.reorder("C.i", "C.j")
    assert str(schedule) == before


def test_refuses_an_order_that_a_distance_forbids() -> None:
    refusal = refused(lambda s: s.reorder("A.j", "A.i"), tw.Schedule(recurrence(1, -1)))
    assert refusal.rule == "dependence"
    assert refusal.case == "M=2 N=2"
    assert refusal.instances == "A[1, 0] at (A.j=0, A.i=1)  comes before  A[0, 1] at (A.j=1, A.i=0)"


def test_refuses_another_order_of_a_sum() -> None:
    refusal = refused(lambda s: s.reorder("Y.s", "Y.r"), tw.Schedule(TAPS))
    assert refusal.rule == "rounding"
    assert refusal.remedy is not None
    assert "reassociate" in refusal.remedy


@pytest.mark.parametrize(
    ("names", "word"),
    [
        ((), "two or more"),
        (("C.i",), "two or more"),
        (("C.i", "C.i"), "different"),
        (("C.i", "C.x"), "no loop C.x"),
        (("C.i", "j"), "no loop j"),
    ],
)
def test_names_are_two_or_more_loops(names: tuple[str, ...], word: str) -> None:
    refusal = refused(lambda s: s.reorder(*names), tw.Schedule(PRODUCT))
    assert refusal.rule == "shape"
    assert word in refusal.message


def test_loops_of_two_nests_are_refused() -> None:
    two = kernel("kernel f(X: f32[N]) -> (Y: f32[N], Z: f32[N]) { Y[i] = X[i] + 1\nZ[i] = X[i] - 1 }")
    assert refused(lambda s: s.reorder("Y.i", "Z.i"), tw.Schedule(two)).rule == "shape"


@pytest.mark.parametrize("order", list(permutations(("C.i", "C.j", "C.k"))), ids="-".join)
def test_every_order_of_a_product_keeps_the_order_of_each_sum(order: tuple[str, ...]) -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.reorder(*order)
    at = [("C.i", "C.j", "C.k").index(name) for name in order]
    everything = [(i, j, k) for i in range(2) for j in range(3) for k in range(4)]
    wanted = sorted(everything, key=lambda p: [p[n] for n in at])
    ran = run(schedule, {"M": 2, "N": 3, "K": 4})
    assert [p for s, p in ran if s == "S_C_update"] == wanted
    for i, j in grid(2, 3):
        own = [(s.rpartition("_")[2], p[2:]) for s, p in ran if p[:2] == (i, j)]
        assert own == [("init", ()), *(("update", (k,)) for k in range(4)), ("finish", ())]


@pytest.mark.parametrize("order", list(permutations(("Y.i", "Y.j", "Y.k"))), ids="-".join)
def test_a_triangle_in_every_order(order: tuple[str, ...]) -> None:
    schedule = tw.Schedule(LOWER)
    schedule.reorder(*order)
    at = [("Y.i", "Y.j", "Y.k").index(name) for name in order]
    everything = [(i, j, k) for i, j in grid(4, 4) for k in range(i, j)]
    assert points(schedule, {"N": 4}, "S_Y_update") == sorted(everything, key=lambda p: [p[n] for n in at])


@given(DISTANCES)
@settings(max_examples=30, deadline=None)
def test_agrees_with_running_every_instance(distance: tuple[int, int]) -> None:
    order = sorted(grid(6, 6), key=lambda p: (p[1], p[0]))
    agrees(nest(distance), lambda s: s.reorder("A.j", "A.i"), order, distance)


@given(DISTANCES, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_strips_agree_with_running_every_instance(distance: tuple[int, int], factor: int) -> None:
    schedule = nest(distance)
    schedule.split("A.j", factor)
    order = sorted(grid(6, 7), key=lambda p: (p[1] // factor, p))
    agrees(schedule, lambda s: s.reorder("A.jo", "A.i"), order, distance)
