"""Races and dependences of programs that other compilers got wrong (OPEN-15, 16, 17)."""

from __future__ import annotations

import pytest
from tilewright.compiler.ir.tree import loops

from .scheduling import Wanted, denied, i32, kept, schedule_of

COUNTER = """
kernel p1() -> (g: i32[16]) {
    start[i in 0..18] = i32(0)
    f[i in 0..18] = start[i] + 1
    g[i] = f[i] + f[i + 2]
}
"""
TIME = """
kernel p2(s: i32[9], steps: size) -> (r: i32[9]) {
    u[0, x] = s[x]
    u[t in 1..steps + 1, x in 1..8] = u[t - 1, x - 1] + u[t - 1, x] + u[t - 1, x + 1]
    u[t in 1..steps + 1, 0] = 0
    u[t in 1..steps + 1, 8] = 0
    r[x] = u[steps, x]
}
"""
PULSE = i32([0, 0, 0, 0, 1, 0, 0, 0, 0])
TILES = (("split", "g.i", 4), ("parallel", "g.io"))


def test_open_15_a_producer_of_each_tile_is_its_own() -> None:
    assert kept(COUNTER, *TILES, ("compute_at", "f", "g.io")).tolist() == [2] * 16
    both = (("compute_at", "f", "g.io"), ("compute_at", "start", "g.io"))
    assert kept(COUNTER, *TILES, *both).tolist() == [2] * 16


def test_open_15_tiles_do_not_write_into_one_buffer() -> None:
    shared = COUNTER.replace("-> (g: i32[16])", "-> (f: i32[18], g: i32[16])")
    assert "f[i]" in denied("coverage", shared, *TILES, ("compute_at", "f", "g.io")).refusal.message


def test_open_15_a_buffer_outside_the_parallel_loop_is_shared() -> None:
    inside = (("split", "g.i", 4), ("compute_at", "f", "g.io"), ("parallel", "g.io"))
    message = denied("coverage", COUNTER, *inside, ("store", "f", "root")).refusal.message
    assert "f[" in message
    assert kept(COUNTER, *inside, ("store", "f", "g.io")).tolist() == [2] * 16


def test_open_15_tiles_of_space_wait_for_every_step_of_time() -> None:
    steps = (("split", "u#2.x", 3), ("parallel", "u#2.xo"))
    for _ in range(20):
        assert kept(TIME, *steps, s=PULSE, steps=3).tolist() == [0, 1, 3, 6, 7, 6, 3, 1, 0]
    assert kept(TIME, *steps, s=PULSE, steps=0).tolist() == PULSE.tolist()
    denied("race", TIME, ("parallel", "u#2.t"))


def test_open_15_tiles_of_space_do_not_run_ahead_in_time() -> None:
    tiles = ("split", "u#2.x", 3)
    assert denied("dependence", TIME, tiles, ("reorder", "u#2.xo", "u#2.t")).refusal.witness is not None
    # Slanted tiles may.
    slanted = (("skew", "u#2.x", "u#2.t", 1), tiles, ("reorder", "u#2.xo", "u#2.t"))
    assert kept(TIME, *slanted, s=PULSE, steps=3).tolist() == [0, 1, 3, 6, 7, 6, 3, 1, 0]


TURNED = """
kernel p() -> (g: i64[3, 5]) {
    f[y in 0..3, x in 0..5] = x + 10 * y
    g[y, x] = f[y, 4 - x]
}
"""
TURNED_RESULT = [[4, 3, 2, 1, 0], [14, 13, 12, 11, 10], [24, 23, 22, 21, 20]]
ROWS = ("merge", "f.y", "g.y")
SQUARES = """
kernel q() -> (r: i64[15]) {
    c[i in 0..16] = i * i
    r[i] = c[i + 1] - c[i]
}
"""
RULED = """
kernel w() -> (A: i64[4, 4]) {
    A[0, j] = j
    A[i in 1..4, j] = A[i - 1, j] + 1
}
"""


def test_open_16_a_consumer_that_runs_backwards() -> None:
    assert denied("dependence", TURNED, ROWS, ("merge", "f.x", "g.x")).refusal.witness is not None
    assert kept(TURNED, ROWS).tolist() == TURNED_RESULT
    assert kept(TURNED, ROWS, ("shift", "g.x", 4), ("merge", "f.x", "g.x")).tolist() == TURNED_RESULT
    backwards = (ROWS, ("reverse", "f.x"), ("reverse", "g.x"), ("merge", "f.x", "g.x"))
    denied("dependence", TURNED, *backwards)


def test_open_16_differences_in_one_loop() -> None:
    one = ("merge", "c.i", "r.i", 1)
    assert kept(SQUARES, one).tolist() == list(range(1, 30, 2))
    denied("dependence", SQUARES, one[:3])
    denied("race", SQUARES, one, ("parallel", "c.i"))
    # A mark is checked again by every later step.
    denied("race", SQUARES, ("parallel", "c.i"), ("parallel", "r.i"), one)


def test_open_16_the_mark_stays_with_its_loop() -> None:
    want = [[i + j for j in range(4)] for i in range(4)]
    inner = ("parallel", "A#2.j")
    assert kept(RULED, inner).tolist() == want
    assert kept(RULED, inner, ("reorder", "A#2.j", "A#2.i")).tolist() == want
    tree = schedule_of(RULED, inner, ("reorder", "A#2.j", "A#2.i")).state.tree
    assert [loop.index for loop in loops(tree) if loop.kind == "parallel"] == ["A#2.j"]
    denied("race", RULED, ("parallel", "A#2.i"))


SHIFTED = """
kernel p1(A: i32[5, 5]) -> (B: i32[5, 5]) {
    B[i in 0..4, j in 1..5] = A[i + 1, j - 1]
    B[i in 0..4, 0] = A[i, 0]
    B[4, j] = A[4, j]
}
"""
RISING = """
kernel p2(A: i32[5, 6]) -> (B: i32[5, 6]) {
    B[0, j] = A[0, j]
    B[i in 1..5, j in 0..4] = B[i - 1, j + 1] + 1
    B[i in 1..5, j in 4..6] = A[i, j]
}
"""
FALLING = """
kernel p3(A: i32[5, 5]) -> (B: i32[5, 5]) {
    B[4, j] = A[4, j]
    B[i in 0..4, 4] = A[i, 4]
    B[i in 0..4, j in 0..4] = B[i + 1, j + 1] + A[i, j]
}
"""
GRID = i32([[10 * i + j for j in range(6)] for i in range(5)])
RISING_RESULT = [
    [0, 1, 2, 3, 4, 5],
    [2, 3, 4, 5, 14, 15],
    [4, 5, 6, 15, 24, 25],
    [6, 7, 16, 25, 34, 35],
    [8, 17, 26, 35, 44, 45],
]


def test_open_17_reads_of_old_values_may_be_tiled() -> None:
    want = [[0, 10, 11, 12, 13], [10, 20, 21, 22, 23], [20, 30, 31, 32, 33], [30, 40, 41, 42, 43], [40, 41, 42, 43, 44]]
    for step in (("tile", "B#1.i", "B#1.j", 2, 2), ("reorder", "B#1.j", "B#1.i")):
        assert kept(SHIFTED, step, A=GRID[:, :5]).tolist() == want


def test_open_17_a_distance_of_minus_one_forbids_tiles() -> None:
    interchanged = denied("dependence", RISING, ("reorder", "B#2.j", "B#2.i")).refusal
    assert interchanged.instances is not None
    tiled = denied("dependence", RISING, ("tile", "B#2.i", "B#2.j", 2, 2)).refusal
    assert tiled.witness is not None
    assert tiled.step.startswith("tile(B#2.i, B#2.j, 2, 2")


@pytest.mark.parametrize(
    "last", [("tile", "B#2.i", "B#2.j", 2, 2), ("reorder", "B#2.j", "B#2.i")], ids=["tile", "interchange"]
)
def test_open_17_a_slant_allows_tiles(last: Wanted) -> None:
    assert kept(RISING, ("skew", "B#2.j", "B#2.i", 1), last, A=GRID).tolist() == RISING_RESULT


@pytest.mark.parametrize(
    "step", [("tile", "B#3.i", "B#3.j", 2, 2), ("reorder", "B#3.j", "B#3.i")], ids=["tile", "interchange"]
)
def test_open_17_a_distance_of_one_and_one_allows_both(step: Wanted) -> None:
    # The definition runs i downwards and j upwards: a distance of (1, -1) until j runs downwards, too.
    denied("dependence", FALLING, step)
    B = kept(FALLING, ("reverse", "B#3.j"), step, A=GRID[:, :5])
    assert B[0, 0] == sum(GRID[i, i] for i in range(5))
    assert B[3].tolist() == [*(GRID[3, :4] + GRID[4, 1:5]).tolist(), 34]
