"""What pays: worked examples by their names."""

from __future__ import annotations

import pytest
from tilewright.cost.economics import break_even, sped_up, total, transfer, turning_size
from tilewright.cost.machine import machine

MiB, us = 2**20, 1e-6


def test_a_part_made_faster() -> None:
    # inline-5.6.1-amdahl, intro-4, think-4.1.3
    assert sped_up(0.2, 2) == pytest.approx(1.1111111)
    assert sped_up(0.2, 10) == pytest.approx(1.2195122)
    assert sped_up(0.2, float("inf")) == pytest.approx(1.25)
    assert [100 / sped_up(share, factor) for share, factor in ((0.6, 2), (0.1, 2), (0.6, 4))] == pytest.approx(
        [70, 95, 55]
    )
    assert sped_up(0.6, float("inf")) == pytest.approx(2.5)
    assert sped_up(1, float("inf")) == float("inf")
    saved = 100 / sped_up(0.6, 2) - 100 / sped_up(0.6, 4), 100 - 100 / sped_up(0.4, 40 / 25)
    assert saved == pytest.approx((15, 15))


def test_a_fixed_cost_and_its_uses() -> None:
    # inline-5.1.4-compile-once, inline-5.5.3-autotune
    assert (total(100, 1, 1), total(100, 1, 100)) == (101, 200)
    calls = break_even(600, 5 * us)
    assert calls == pytest.approx(120e6)
    assert calls / 10_000 / 3600 == pytest.approx(3.3333333)
    assert calls / 100 / 86_400 == pytest.approx(13.8888889)
    assert break_even(1, 0) == float("inf")


def test_a_way_over_a_link() -> None:
    # 5-1, inline-4.5.3-link, think-4.5.3
    assert 1e3 * transfer(64 * MiB, 64e9) == pytest.approx(1.048576)
    assert 1e3 * transfer(32 * MiB, 64e9) == pytest.approx(0.524288)
    small, large = 4096 * 2, 256 * 4096 * 2
    assert [transfer(size, 450e9, 2 * us) / us for size in (small, large)] == pytest.approx([2.0182044, 6.6603378])
    assert [transfer(size, 300e9, 2 * us) / us for size in (small, large)] == pytest.approx([2.0273067, 8.9905067])
    assert turning_size(450e9, 2 * us) == pytest.approx(900_000)
    assert 3 + transfer(8192, 450e9, 2 * us) / us == pytest.approx(5.0182044)
    assert 3 + transfer(4 * 8192, 450e9, 2 * us) / us == pytest.approx(5.0728178)


def test_the_roofline_of_a_projection() -> None:
    # table-5.2.2
    one = machine("h100-sxm")
    balance = one.rate("bf16", "f32").value / one.figure("memory_bandwidth").value
    assert balance == pytest.approx(295.3433, abs=1e-4)


def test_what_cannot_be() -> None:
    for share, factor in ((-0.1, 2), (1.1, 2), (0.5, 0)):
        with pytest.raises(ValueError, match="a share is from 0 to 1"):
            sped_up(share, factor)
