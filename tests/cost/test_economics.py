"""What pays: worked examples by their names."""

from __future__ import annotations

import pytest
from tilewright.cost.economics import break_even, mean, pays_from, sped_up, total, transfer, turning_size
from tilewright.cost.machine import machine
from tilewright.cost.roofline import above, reading

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


def test_the_host_beside_the_device() -> None:
    # inline-5.5.1-host-share, 5-2
    assert sped_up((33 + 29) / 100, float("inf")) == pytest.approx(2.6315789)
    submit, up, kernel, down = 3, 8, 20, 4
    whole = submit + up + kernel + down
    assert whole == 35
    assert sped_up(kernel / whole, 4) == pytest.approx(1.75)
    assert whole / sped_up(kernel / whole, 4) == pytest.approx(20)


def test_which_kernel_pays_hangs_on_the_calls() -> None:
    # 5-9, exp-5-6
    old, new = (10, 10), (5, 20)
    assert [mean(costs, (1, 1)) for costs in (old, new)] == [10, 12.5]
    assert mean(old, (100, 1)) * 101 / (mean(new, (100, 1)) * 101) == pytest.approx(1.9423077)
    assert mean(new, (2, 1)) == pytest.approx(10)  # from two thirds of the calls on
    assert break_even(20 - 10, 20 - 5) == pytest.approx(2 / 3)
    chosen = (5 + 1, 10 + 1)
    assert [mean(costs, (9, 1)) for costs in (new, chosen)] == pytest.approx([6.5, 6.5])
    assert [mean(chosen, shares) for shares in ((1, 1), (2, 1))] == pytest.approx([8.5, 7.6666667])
    assert (break_even(1, 10 - 5), break_even(20 - 10 - 1, 20 - 10)) == (0.2, 0.9)


def policies(small: int, rates: tuple[float, float, float]) -> list[float]:
    """Milliseconds of a group of calls by code for any shape, for buckets of shapes, and for each shape."""
    real, bucket = 256 * small + 1536 + 2048, 512 * small + 2048 + 2048
    return [1e3 * rows * 6 * 4096 * 12288 / rate for rows, rate in zip((real, bucket, real), rates, strict=True)]


def test_code_for_any_shape_for_some_or_for_each() -> None:
    # 5-12, own-5.5.3-unrounded-mfu, exp-5-7
    prepared = (100, 400, 900)
    for small, rates, first, second in (
        (8, (100e12, 200e12, 250e12), 65, 90),
        (8, (0.2 * 503.8e12, 0.4 * 503.8e12, 0.5 * 503.8e12), 66, 91),
        (4, (100e12, 200e12, 250e12), 65, 135),
    ):
        times = policies(small, rates)
        pays = [pays_from(prepared[k], times[k], prepared[k + 1], times[k + 1]) for k in (0, 1)]
        assert [above(p) for p in pays] == [first, second]
    times = policies(8, (100e12, 200e12, 250e12))
    assert times == pytest.approx([17.00807049, 12.36950581, 6.80322820])
    assert [total(p, t, 70) / 1e3 for p, t in zip(prepared, times, strict=True)] == pytest.approx(
        [1.29056493, 1.26586541, 1.37622598]
    )
    assert above(break_even(900, policies(4, (1, 200e12, 250e12))[1] - policies(4, (1, 1, 250e12))[2])) == 243


def test_graphs_and_the_copies_they_want() -> None:
    # 5-11, exp-5-8, inline-5.5.2-graph-counts
    eager, replayed = 20 + 20, 5 + 20
    for card, small, large, crossing in (
        ("rtx-5090", 27.3405714, 43.7245714, 13.44e6),
        ("rtx-4090", 29.1610159, 58.2881270, 7.56e6),
    ):
        one = machine(card)
        times = [replayed + reading(one, 2 * size * MiB) / us for size in (2, 16)]
        assert times == pytest.approx([small, large])
        assert turning_size(one.figure("memory_bandwidth").value, (eager - replayed) * us) / 2 == pytest.approx(
            crossing
        )
    assert above(13.44e6 / (4096 * 2)) == 1641
    assert [total(0, kernels, 3) for kernels in (6, 5, 1)] == [18, 15, 3]


def test_one_request_with_another_kernel() -> None:
    # table-5.6.3, exp-5-9
    old, new = total(11.218659, 2.369803, 1), total(11.244366, 0.920376, 1)
    assert (old, new, old - new) == pytest.approx((13.588462, 12.164742, 1.42372))
    assert 100 * old / 850.848989 == pytest.approx(1.59704745)
    each = (2.369803 - 0.920376) / 31
    assert pytest.approx(2.57482051) == 2.369803 / 0.920376
    assert total(11.218659 - 11.244366, each, 127) == pytest.approx(5.91226813)


def test_a_part_that_has_to_pay() -> None:
    # 4-3
    tokens = break_even(20e6, 0.5 / 1e6)
    year = 10_000 * 0.5 * 365 * 86_400
    assert (tokens, tokens / (100 * year)) == pytest.approx((4e13, 2.53678336))
    assert [-(-tokens // (year * share)) for share in (1, 0.5)] == [254, 508]


def test_what_cannot_be() -> None:
    for share, factor in ((-0.1, 2), (1.1, 2), (0.5, 0)):
        with pytest.raises(ValueError, match="a share is from 0 to 1"):
            sped_up(share, factor)
