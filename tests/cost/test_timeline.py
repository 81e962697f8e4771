"""Slots, pipelines and paths: worked examples by their names, and the formulas they follow."""

from __future__ import annotations

import pytest
import tilewright as tw
from hypothesis import given
from hypothesis import strategies as st
from tilewright.cost.capacity import fits
from tilewright.cost.economics import transfer
from tilewright.cost.roofline import stages
from tilewright.cost.timeline import Step, finished, handed_on, least_slots, path, pipelined, through_slots
from tilewright.cost.traffic import moved
from tilewright.cost.work import work

TIMES = st.integers(0, 50)


def test_blocks_through_slots() -> None:
    # table-4.4.2-slots
    ends = [through_slots(4, 64, 128, slots, 128).end for slots in (1, 2, 3, 4)]
    assert ends == [1280, 768, 704, 704]
    assert least_slots(4, 64, 128, 128) == 3
    two, three = (through_slots(4, 64, 128, slots, 128).blocks for slots in (2, 3))
    assert (two[2].ready, two[1].done, two[2].begun - two[1].done) == (512, 448, 64)
    assert (three[3].ready, three[2].done) == (512, 576)


def test_a_faster_unit_wants_more_slots() -> None:
    # inline-4.4.2-doubled-rate
    assert [through_slots(4, 64, 64, slots, 128).end for slots in (1, 2, 3, 4)] == [1024, 576, 512, 448]
    assert least_slots(4, 64, 64, 128) == 4
    last = through_slots(4, 64, 64, 3, 128).blocks
    assert (last[3].issued, last[3].ready, last[2].done) == (256, 448, 384)


def test_a_longer_way_wants_more_slots() -> None:
    # think-4.4.2
    assert [through_slots(4, 64, 128, slots, 256).end for slots in (3, 4)] == [896, 832]
    last = through_slots(4, 64, 128, 3, 256).blocks
    assert (last[3].ready, last[2].done, last[3].begun - last[2].done) == (768, 704, 64)


def test_two_stages_side_by_side() -> None:
    # 5-5, 5-10, inline-4.4.2-eight-blocks
    assert through_slots(4, 1.29, 0.28, 1).end == pytest.approx(6.28)
    for slots in (2, 3):
        found = through_slots(4, 1.29, 0.28, slots)
        assert found.end == pytest.approx(5.44)
        assert 100 * 4 * 0.28 / found.end == pytest.approx(20.5882, abs=1e-4)
        assert [b.begun for b in found.blocks][:2] == pytest.approx([1.29, 2.58])
        assert found.idle == pytest.approx(3 * 1.01)
    assert (pipelined(100, 20, 20), pipelined(100, 20, 5), pipelined(100, 5, 5)) == (2020, 2005, 505)
    assert (pipelined(8, 2, 1), pipelined(8, 2, 0.5)) == (17, 16.5)


def attention(rows: int, slots: int, direct: bool) -> list[list[tuple[float, float]]]:
    """128 rows of attention in groups: scores, hand-over, softmax, hand-over, values; three units, ticks."""
    n = d = 128

    def ticks(amount: int, each: int) -> int:
        return -(-amount // each)

    softmax = ticks(rows * (3 * n - 1), 128) + ticks(rows * (n - 1), 128) + 2 * ticks(rows * n, 16)
    product, ways = ticks(2 * rows * n * d, 8192), 1 if direct else 2
    over, back = ways * ticks(rows * n * 4, 128), ways * ticks(rows * n * 2, 128)
    units = (("matrix", product), ("way", over), ("vector", softmax), ("way", back), ("matrix", product))
    return handed_on([[Step(unit, t) for unit, t in units]] * (128 // rows), slots)


def test_groups_of_rows_from_unit_to_unit() -> None:
    # table-4.4.3-rowgroups, exp-4-4
    found = [attention(*one) for one in ((128, 1, False), (32, 1, False), (32, 2, False), (32, 2, True), (32, 4, True))]
    assert [times[0][2][0] for times in found] == [1536, 384, 384, 256, 256]
    assert [max(job[-1][1] for job in times) for times in found] == [5118, 5120, 3200, 3008, 3008]
    assert [least_slots(4, 64, compute, 128) for compute in (128, 64)] == [3, 4]
    assert [fits(100, 24, 1), fits(100, 16, 1 + 2 * 24)] == [4, 3]
    with pytest.raises(ValueError, match="one slot or more"):
        handed_on([], 0)


def test_the_units_of_attention() -> None:
    # 4-1, exp-4-1, inline-4.6.2-cv-interface
    text = """kernel attention(Q: bf16[M, D], K: bf16[N, D], V: bf16[N, D]) -> (O: bf16[M, D]) {
        S[i, j] = sum(d) f32(Q[i, d]) * f32(K[j, d])
        P[i, j] = exp(S[i, j])
        O[i, d] = bf16(sum(j) P[i, j] * f32(V[j, d]))
    }"""
    state = tw.Schedule(tw.parse(text)["attention"]).state
    amounts, loads = work(state.program, state.tree), moved(state.program, state.tree)

    def cycles(m: int, n: int) -> tuple[float, float, float]:
        sizes = {"M": m, "N": n, "D": 128}
        flops = sum(w.flops * w.times.at(sizes) for w in amounts)
        exponentials = sum(w.times.at(sizes) for w in amounts if w.statement == "S_P")
        loaded = sum(b.there.at(sizes) for b in loads if b.tensor in "QKV")
        return flops / 8192, loaded / 128, exponentials / 16

    matrix, shared, exponential = cycles(128, 128)
    assert (matrix, shared, exponential) == (1024, 768, 1024)
    assert [stages(one) for one in ((512, 768, 1024), (512, 768, 512), (512, 384, 512))] == [1024, 768, 512]
    wide, tall = cycles(128, 256), cycles(256, 128)
    assert (wide, tall) == ((2048, 1280, 2048), (2048, 1024, 2048))
    assert [stages((m / 2, s, e / 2)) for m, s, e in (wide, tall)] == [1280, 1024]
    scores = 128 * 128 * 4
    budget = matrix * 1e-9
    assert [ways * scores / budget / 1e9 for ways in (4, 2, 1)] == pytest.approx([256, 128, 64])
    assert 1e6 * transfer(4 * scores, 94e9) == pytest.approx(2.78876597)


def test_one_kernel_that_goes_from_task_to_task() -> None:
    # inline-5.5.4-persistent
    project, activate = 1e6 * 2 * 64 * 4096 * 12288 / 503.8e12, 1e6 * 64 * 12288 * 4 / 1792e9
    coarse = 2 * 5 + 8 * (project + activate)
    fine = 5 + pipelined(8, project + 0.7, activate + 0.7)
    assert (coarse, fine, coarse / fine) == pytest.approx((126.34515059, 115.35715059, 1.09525201))
    assert 5 + through_slots(8, project + 0.7, activate + 0.7, 1).end == pytest.approx(132.54515059)


@given(st.integers(1, 12), TIMES, TIMES, st.integers(1, 14), TIMES)
def test_slots_are_bounded_by_the_formulas(count: int, move: int, compute: int, slots: int, settle: int) -> None:
    found = through_slots(count, move, compute, slots, settle)
    assert found.end >= move + settle + (count - 1) * max(move, compute) + compute
    assert found.end <= count * (move + settle + compute)
    assert through_slots(count, move, compute, count, settle).end <= found.end
    for number, block in enumerate(found.blocks):
        held = [b for b in found.blocks[:number] if b.done > block.issued]
        assert len(held) < slots


def test_the_longest_path() -> None:
    # inline-5.6.2-critical-path
    after = {"a": ["prepare"], "b": ["prepare"], "end": ["a", "b"]}
    before = {"prepare": 10, "a": 60, "b": 40, "end": 10}
    assert finished(before, after)["end"] == 80
    assert path(before, after) == ["prepare", "a", "end"]
    assert finished({**before, "a": 15}, after)["end"] == 60
    assert path({**before, "a": 15}, after) == ["prepare", "b", "end"]
    assert finished({**before, "a": 15, "b": 90}, after)["end"] == 110


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="one slot or more"):
        through_slots(4, 1, 1, 0)
    with pytest.raises(ValueError, match="waits for itself"):
        finished({"a": 1, "b": 1}, {"a": ["b"], "b": ["a"]})
    with pytest.raises(ValueError, match="there is no stage c"):
        finished({"a": 1}, {"a": ["c"]})
