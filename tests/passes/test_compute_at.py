"""compute_at and compute_root: a stage where it is needed, and what it needs of itself."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st

from .running import kernel, lines, refused, run

DOUBLE = kernel("kernel f(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] * 2\nY[i] = (T[i - 1] else 0) + T[i] }")
PRODUCT = kernel(
    "kernel f(A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]) {"
    " C[i, j] = sum(k) A[i, k] * B[k, j]\nY[i, j] = C[i, j] * 2 }"
)
FORK = kernel("kernel f(X: f32[N]) -> (Y: f32[N], Z: f32[N]) { T[i] = X[i] * 2\nY[i] = T[i] + 1\nZ[i] = T[i] - 1 }")
CHAIN = kernel(
    "kernel f(X: f32[N]) -> (Y: f32[N]) {"
    " S[i] = X[i] * 2\nT[i] = S[i] + (S[i + 1] else 0)\nY[i] = T[i] + (T[i + 1] else 0) }"
)
RUNNING = "kernel f(X: f32[N]) -> ({outs}Y: f32[N]) {{ S[i] = X[i] + (S[i - 1] if i > 0 else 0)\nY[i] = S[i] * 2 }}"


def test_an_intermediate_becomes_private_and_shrinks_to_what_is_read() -> None:
    schedule = tw.Schedule(DOUBLE)
    schedule.compute_at("T", "Y.i")
    assert lines(schedule) == [
        "for Y.i in 0..N:",
        "    buffer T: f32[2], 8 bytes, new in each iteration",
        "    for T.i in max(0, Y.i - 1)..Y.i + 1:",
        "        T[i] = X[i] * 2",
        "    Y[i] = (T[i - 1] else 0) + T[i]",
    ]


def test_a_sum_comes_along_whole() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.split("Y.i", 4)
    schedule.compute_at("C", "Y.io")
    assert schedule.loops == ("Y.io", "C.i", "C.j", "C.k", "Y.ii", "Y.j")
    names = [s for s, _ in run(schedule, {"M": 1, "N": 1, "K": 2})]
    assert names == ["S_C_init", "S_C_update", "S_C_update", "S_C_finish", "S_Y"]


def test_handles_may_name_the_stage() -> None:
    schedule, other = tw.Schedule(PRODUCT), tw.Schedule(PRODUCT)
    schedule.compute_at(schedule["C"], schedule["Y"]["j"])
    other.compute_at("C", "Y.j")
    assert str(schedule) == str(other)


def test_root_undoes_it() -> None:
    schedule = tw.Schedule(PRODUCT)
    before = str(schedule)
    schedule.compute_at("C", "Y.j")
    schedule.compute_root("C")
    assert str(schedule) == before


def test_an_output_stays_shared() -> None:
    shared = kernel("kernel f(X: f32[N]) -> (T: f32[N], Y: f32[N]) { T[i] = X[i] * 2\nY[i] = T[i] + 1 }")
    schedule = tw.Schedule(shared)
    schedule.compute_at("T", "Y.i")
    assert "buffer" not in str(schedule)


@pytest.mark.parametrize(
    ("stage", "loop", "word"),
    [
        ("D", "Y.i", "no stage D"),
        ("C", "Y.k", "no loop Y.k"),
        ("C", "C.k", "loop of C itself"),
        ("Y", "C.k", "nothing inside C.k reads Y"),
    ],
)
def test_stage_and_loop_must_fit(stage: str, loop: str, word: str) -> None:
    refusal = refused(lambda s: s.compute_at(stage, loop), tw.Schedule(PRODUCT))
    assert refusal.rule == "shape"
    assert word in refusal.message


def test_root_of_no_stage() -> None:
    assert refused(lambda s: s.compute_root("D"), tw.Schedule(PRODUCT)).message == "there is no stage D"


@pytest.mark.parametrize("loop", ["Y.i", "Z.i"])
def test_refuses_where_another_reader_stands_outside(loop: str) -> None:
    refusal = refused(lambda s: s.compute_at("T", loop), tw.Schedule(FORK))
    assert refusal.rule == "coverage"
    other = "Z" if loop == "Y.i" else "Y"
    assert refusal.instances == f"{other}[0] at ({other}.i=0)  reads T[0], which this iteration does not compute"


def test_refuses_a_running_sum_in_a_private_buffer_only() -> None:
    private = tw.Schedule(kernel(RUNNING.format(outs="")))
    assert refused(lambda s: s.compute_at("S", "Y.i"), private).rule == "coverage"
    shared = tw.Schedule(kernel(RUNNING.format(outs="S: f32[N], ")))
    shared.compute_at("S", "Y.i")
    assert [p[0] for p in run(shared, {"N": 3})] == ["S_S", "S_Y"] * 3


def test_refuses_half_of_a_recurrence() -> None:
    mutual = (
        "kernel f(X: f32[N]) -> (Y: f32[N]) { P[i] = X[i] + (Q[i - 1] if i > 0 else 0)\nQ[i] = P[i] * 2\nY[i] = Q[i] }"
    )
    for step in (lambda s: s.compute_at("Q", "Y.i"), lambda s: s.compute_root("P")):
        assert "recurrence" in refused(step, tw.Schedule(kernel(mutual))).message


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=3), st.integers(1, 4), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_computes_what_each_block_needs_and_no_more(offsets: list[int], factor: int, size: int) -> None:
    reads = " + ".join(f"(T[i + ({o})] else 0)" for o in offsets)
    schedule = tw.Schedule(kernel(f"kernel f(X: f32[N]) -> (Y: f32[N]) {{ T[i] = X[i] * 2\nY[i] = {reads} }}"))
    schedule.split("Y.i", factor)
    schedule.compute_at("T", "Y.io")
    wanted: list[tuple[str, tuple[int, ...]]] = []
    for block in range(0, size, factor):
        readers = range(block, min(block + factor, size))
        needed = sorted({i + o for i in readers for o in offsets if 0 <= i + o < size})
        wanted += [("S_T", (n,)) for n in needed]
        wanted += [("S_Y", (i,)) for i in readers]
    assert run(schedule, {"N": size}) == wanted


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
@settings(max_examples=25, deadline=None)
def test_a_chain_in_two_buffers_keeps_the_bits(outer: int, inner: int, size: int) -> None:
    schedule = tw.Schedule(CHAIN)
    schedule.split("Y.i", outer)
    schedule.compute_at("T", "Y.io")
    schedule.split("T.i", inner)
    schedule.compute_at("S", "T.io")
    X = np.arange(size, dtype=np.float32) - 3
    assert np.array_equal(tw.compile(CHAIN, schedule)(X), CHAIN(X))


def test_a_stage_goes_to_the_root_inside_the_buffers_that_it_reads() -> None:
    text = """kernel f(s: f32[N], T: size) -> (r: f32[N]) where N % 2 == 0 {
        u[0, x] = s[x]
        u[t in 1..T + 1, x in 0..N] = (u[t - 1, x - 1] if x > 0 else 0) + (u[t - 1, x + 1] if x < N - 1 else 1)
        r[x] = u[T, x]
    }"""
    found = tw.parse(text)["f"]
    schedule = tw.Schedule(found)
    schedule.store("u", fold={0: 2})
    schedule.split("r.x", 3)
    schedule.compute_root("r")
    compiled = tw.compile(found, schedule)
    x = np.arange(6, dtype=np.float32)
    for steps in (0, 1, 5):
        np.testing.assert_array_equal(compiled(x, T=steps), found(x, T=steps))
