"""parallel, vectorize, unroll, bind: how a loop runs; and fuse."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import grid, kernel, lines, nest, points, recurrence, refused

PLUS = kernel("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = X[i, j] + 1 }")
PRODUCT = kernel("kernel f(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum(k) A[i, k] * B[k, j] }")
LOWER = kernel("kernel f(X: f32[N, N]) -> (Y: f32[N]) { T[i, j in 0..i + 1] = X[i, j] * 2\nY[i] = T[i, 0] + T[i, i] }")
TOTAL = "kernel f(X: {type}[N]) -> (y: {type}) {{ {allow} y = {op}(i) X[i] }}"
DISTANCES = st.tuples(st.integers(0, 2), st.integers(-2, 2)).filter(lambda d: d > (0, 0))


def test_marks_stand_behind_their_loops() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.split("Y.j", 8)
    schedule.bind("Y.i", "grid.y")
    schedule.parallel("Y.jo")
    schedule.vectorize("Y.ji")
    notes = [line.partition("# ")[2] for line in str(schedule).splitlines()[:3]]
    assert [n.split(", where")[0] for n in notes] == ["par, bind grid.y", "par, parallel", "par, vector"]


def test_unroll_is_always_legal() -> None:
    schedule = tw.Schedule(recurrence(1, 0))
    schedule.unroll("A.i")
    schedule.unroll("A.j")
    assert points(schedule, {"M": 2, "N": 2}, "S_A") == grid(2, 2)


def test_marks_change_no_bit() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.tile("C.i", "C.j", 4, 4)
    schedule.parallel("C.io")
    schedule.unroll("C.k")
    A, B = np.ones((9, 3), np.float32) / 3, np.ones((3, 9), np.float32) * 7
    assert np.array_equal(tw.compile(PRODUCT, schedule)(A, B), PRODUCT(A, B))


@pytest.mark.parametrize("step", ["parallel", "vectorize", "unroll"])
def test_a_loop_that_is_none(step: str) -> None:
    refusal = refused(lambda s: getattr(s, step)("Y.x"), tw.Schedule(PLUS))
    assert (refusal.rule, refusal.message) == ("shape", "there is no loop Y.x")
    assert refusal.step == f"{step}(Y.x)"


def test_vector_loops_hold_no_loops() -> None:
    refusal = refused(lambda s: s.vectorize("Y.i"), tw.Schedule(PLUS))
    assert (refusal.rule, refusal.step) == ("shape", "vectorize(Y.i)")
    two = kernel("kernel f(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] + 1\nY[i] = T[i] * 2 }")
    schedule = tw.Schedule(two)
    schedule.vectorize("Y.i")
    assert refused(lambda s: s.compute_at("T", "Y.i"), schedule).rule == "shape"


def test_grid_axes_are_three_and_each_is_used_once_in_a_nest() -> None:
    schedule = tw.Schedule(PLUS)
    for target in ("x", "grid.w", "", "grid.x "):
        assert refused(lambda s, target=target: s.bind("Y.i", target), schedule).rule == "shape"
    schedule.bind("Y.i", "grid.x")
    assert "grid.x" in refused(lambda s: s.bind("Y.j", "grid.x"), schedule).message
    schedule.bind("Y.j", "grid.z")


def test_two_nests_may_use_one_grid_axis() -> None:
    two = kernel("kernel f(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] + 1\nY[i] = T[i] * 2 }")
    schedule = tw.Schedule(two)
    schedule.bind("T.i", "grid.x")
    schedule.bind("Y.i", "grid.x")


@pytest.mark.parametrize("step", ["parallel", "vectorize"])
def test_refuses_a_recurrence(step: str) -> None:
    refusal = refused(lambda s: getattr(s, step)("A.j"), nest((0, 1)))
    assert refusal.rule == "race"
    assert refusal.instances == "A[0, 0] at (A.i=0, A.j=0)  and  A[0, 1] at (A.i=0, A.j=1)  run at once"
    assert refusal.witness is None


@pytest.mark.parametrize("kind", ["f64", "f32", "bf16"])
@pytest.mark.parametrize("step", ["parallel", "vectorize"])
def test_refuses_a_sum_that_rounds(kind: str, step: str) -> None:
    total = kernel(TOTAL.format(type=kind, op="sum", allow=""))
    assert refused(lambda s: getattr(s, step)("y.i"), tw.Schedule(total)).rule == "rounding"


@pytest.mark.parametrize(
    ("kind", "op", "allow"), [("i32", "sum", ""), ("f32", "max", ""), ("f32", "sum", "allow reassociate\n")]
)
def test_a_total_in_any_order_is_vectorized_but_not_shared(kind: str, op: str, allow: str) -> None:
    total = kernel(TOTAL.format(type=kind, op=op, allow=allow))
    refusal = refused(lambda s: s.parallel("y.i"), tw.Schedule(total))
    assert refusal.rule == "race"
    assert "rfactor" in (refusal.remedy or "")
    schedule = tw.Schedule(total)
    schedule.vectorize("y.i")
    assert schedule.classes().loop_class("y.i") == "red"


def test_a_race_proposes_loops_that_are_free() -> None:
    refusal = refused(lambda s: s.parallel("A.i"), tw.Schedule(recurrence(1, 0)))
    assert refusal.remedy is not None
    assert "A.j" in refusal.remedy


def test_fuse_is_one_loop_in_the_text() -> None:
    schedule = tw.Schedule(PLUS)
    assert schedule.fuse("Y.i", "Y.j") == "Y.i"
    assert "fused with the next" in str(schedule).splitlines()[0]
    assert points(schedule, {"M": 2, "N": 3}, "S_Y") == grid(2, 3)
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(tw.compile(PLUS, schedule)(X), X + 1)


@pytest.mark.parametrize(
    ("program", "loops", "word"),
    [
        (PRODUCT, ("C.j", "C.k"), "not the only thing"),
        (PRODUCT, ("C.j", "C.i"), "C.i is around C.j"),
        (PRODUCT, ("C.i", "C.k"), "not the only thing"),
        (PRODUCT, ("C.i", "C.x"), "no loop C.x"),
        (LOWER, ("T.i", "T.j"), "depends on"),
    ],
)
def test_fuse_takes_a_rectangle_of_two_loops(program: tw.Kernel, loops: tuple[str, str], word: str) -> None:
    refusal = refused(lambda s: s.fuse(*loops), tw.Schedule(program))
    assert refusal.rule == "shape"
    assert word in refusal.message


def test_fuse_takes_loops_that_run_alike() -> None:
    for step in (lambda s: s.reverse("Y.j"), lambda s: s.parallel("Y.i")):
        schedule = tw.Schedule(PLUS)
        step(schedule)
        assert "different ways" in refused(lambda s: s.fuse("Y.i", "Y.j"), schedule).message


@pytest.mark.parametrize("step", ["split", "reorder", "compute_at"])
def test_a_fused_loop_stays_whole(step: str) -> None:
    two = kernel("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { T[i, j] = X[i, j] + 1\nY[i, j] = T[i, j] * 2 }")
    schedule = tw.Schedule(two)
    schedule.fuse("Y.i", "Y.j")
    arguments = {"split": ("Y.i", 4), "reorder": ("Y.j", "Y.i"), "compute_at": ("T", "Y.i")}[step]
    assert refused(lambda s: getattr(s, step)(*arguments), schedule).rule == "shape"


def test_lines_of_a_fused_nest() -> None:
    schedule = tw.Schedule(PLUS)
    schedule.fuse("Y.i", "Y.j")
    assert lines(schedule) == ["for Y.i in 0..M:", "    for Y.j in 0..N:", "        Y[i, j] = X[i, j] + 1"]


@given(DISTANCES, st.sampled_from(["A.io", "A.ii", "A.jo", "A.ji"]), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_parallel_agrees_with_every_pair_of_instances(
    distance: tuple[int, int], loop: str, rows: int, columns: int
) -> None:
    schedule = nest(distance)
    schedule.split("A.i", rows)
    schedule.split("A.j", columns)
    level = schedule.loops.index(loop)
    where = {p: (p[0] // rows, p[0] % rows, p[1] // columns, p[1] % columns) for p in grid(7, 7)}
    pairs = [(p, (p[0] - distance[0], p[1] - distance[1])) for p in where]
    meet = any(
        b in where and where[a][:level] == where[b][:level] and where[a][level] != where[b][level] for a, b in pairs
    )
    if meet:
        assert refused(lambda s: s.parallel(loop), schedule).rule == "race"
        assert schedule.classes().loop_class(loop) == "seq"
    else:
        schedule.parallel(loop)
        assert schedule.classes().loop_class(loop) == "par"
