"""Slots, pipelines and paths: worked examples by their names, and the formulas they follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright.cost.timeline import finished, least_slots, path, pipelined, through_slots

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
