"""Launches in waves, the order of their programs, and what a second cache keeps for them."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright.cost.launches import launches, order, waves
from tilewright.cost.reuse import Reads, from_memory, panels

TEXT = """kernel product(A: bf16[M, K], W: bf16[K, N]) -> (C: bf16[M, N]) {
    C[i, j] = bf16(allow reassociate in sum(k) f32(A[i, k]) * f32(W[k, j]))
}"""


def grouped(size: int) -> tw.Schedule:
    schedule = tw.Schedule(tw.parse(TEXT)["product"])
    row, column, ri, ci = schedule.tile("C.i", "C.j", 4, 8)
    schedule.reorder(row, column, "C.k", ri, ci)
    groups, column, within = schedule.group(row, column, size)
    for loop in (groups, column, within):
        schedule.parallel(loop)
    return schedule


def test_waves_and_their_tail() -> None:
    found = waves(384, 132)
    assert (found.waves, found.tail, found.busy) == (3, 120, 384 / 396)
    assert str(found) == "3 waves of 132 programs, the last of 120: 97 % of the slots busy"
    assert str(waves(96, 132)) == "1 wave of 96 programs: 72.7 % of 132 slots busy"
    with pytest.raises(ValueError, match="one program or more"):
        waves(0, 132)


def test_programs_are_numbered_as_the_loops_run() -> None:
    schedule = grouped(2)
    program = schedule.state.program
    (launch,) = launches(program, schedule.state.tree)
    assert str(launch.programs) == "ceiling(M/4)*ceiling(N/8)"
    sizes = {"M": 11, "N": 17, "K": 1}
    rows = order(program, launch, sizes)
    assert rows.tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 2, 0], [0, 2, 1], [1, 0, 0], [1, 1, 0], [1, 2, 0]
    ]  # fmt: skip
    assert launch.count(program, sizes) == len(rows)


def test_a_second_cache_keeps_what_programs_share() -> None:
    # Eight row panels of 1 and sixteen column panels of 2, eight programs at a time.
    plain = np.array([(r, c) for r in range(8) for c in range(16)])
    groups = np.array([(g * 4 + r, c) for g in range(2) for c in range(16) for r in range(4)])
    for rows, wanted in ((plain, 8 * 32), (groups, 2 * 32)):
        reads = [Reads("A", panels(rows, [0]), 1.0), Reads("W", panels(rows, [1]), 2.0)]
        assert from_memory(reads, 8, cache=0.0)["W"] == wanted
        assert from_memory(reads, 8, cache=1e9) == {"A": 8.0, "W": 32.0}
    assert panels(plain, []).tolist() == [0] * 128
