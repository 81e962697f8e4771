"""What pays: worked examples by their names."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from statistics import median

import pytest
import tilewright as tw
from tilewright.cost.economics import (
    break_even,
    brought,
    mean,
    sped_up,
    submitted,
    total,
    transfer,
    turning_size,
    uploaded,
)
from tilewright.cost.launches import launches
from tilewright.cost.machine import MachineError, machine
from tilewright.cost.policies import Policy, cheapest, executed, switches
from tilewright.cost.reports import Calls, paired, report, saved
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


def policies(small: int, rates: tuple[float, float, float], prepared: tuple[float, float, float]) -> list[Policy]:
    """A group of calls, most of them small, by code for any shape, for buckets of shapes, and for each shape."""
    calls = {256: small, 1536: 1, 2048: 1}
    rows = (executed(calls), executed(calls, (512, 2048)), executed(calls))
    times = (n * 6 * 4096 * 12288 / rate for n, rate in zip(rows, rates, strict=True))
    names = ("any", "buckets", "each")
    return [Policy(n, p / 1e3, t) for n, p, t in zip(names, prepared, times, strict=True)]


def test_code_for_any_shape_for_some_or_for_each() -> None:
    # 5-12, own-5.5.3-unrounded-mfu, exp-5-7
    prepared, rates = (100.0, 400.0, 900.0), (100e12, 200e12, 250e12)
    assert (executed({256: 8, 1536: 1, 2048: 1}), executed({256: 8, 1536: 1, 2048: 1}, (512, 2048))) == (5632, 8192)
    for small, own, first, second in (
        (8, rates, 65, 90),
        (8, (0.2 * 503.8e12, 0.4 * 503.8e12, 0.5 * 503.8e12), 66, 91),
        (4, rates, 65, 135),
    ):
        found = switches(policies(small, own, prepared))
        assert [(above(at), one.name) for at, one in found[1:]] == [(first, "buckets"), (second, "each")]
    found = policies(8, rates, prepared)
    assert [1e3 * p.each for p in found] == pytest.approx([17.00807049, 12.36950581, 6.80322820])
    assert [p.seconds(70) for p in found] == pytest.approx([1.29056493, 1.26586541, 1.37622598])
    assert [cheapest(found, n).name for n in (64, 65, 89, 90)] == ["any", "buckets", "buckets", "each"]
    ready = policies(8, rates, (0.0, 0.0, 0.0))
    assert [(at, one.name) for at, one in switches(ready)] == [(0.0, "each")]
    assert above(switches(policies(4, rates, (inf, 0.0, 900.0)))[1][0]) == 243


def test_a_policy_that_is_never_the_cheapest() -> None:
    fast, slow = Policy("fast", 1, 1), Policy("slow", 0, 3)
    assert switches([Policy("overtaken", 0.9, 2.5), fast, slow]) == [(0.0, slow), (0.5, fast)]
    assert switches([Policy("late", 2, 1), fast, slow]) == [(0.0, slow), (0.5, fast)]
    with pytest.raises(ValueError, match="3000 rows fit into no bucket"):
        executed({3000: 1}, (512, 2048))


def test_graphs_and_the_copies_they_want() -> None:
    # 5-11, exp-5-8
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
        fixed = [replayed * us + brought(one, crossing, in_place=at) for at in (False, True)]
        assert fixed == pytest.approx([eager * us, replayed * us])
    assert above(13.44e6 / (4096 * 2)) == 1641


def test_a_graph_submits_once_whatever_it_holds() -> None:
    # inline-5.5.2-graph-counts
    names = "ABCDEF"
    lines = "\n".join(f"{new}[i] = {old}[i] + 1" for old, new in zip("X" + names, names, strict=False))
    (kernel,) = tw.parse(f"kernel chain(X: f32[N]) -> (F: f32[N]) {{\n{lines}\n}}").values()
    counts: list[tuple[int, int]] = []
    for inlined in ((), ("A",)):
        schedule = tw.Schedule(kernel)
        for stage in inlined:
            schedule.inline(stage)
        found = launches(schedule.state.program, schedule.state.tree)
        counts += [submitted(len(found), 3), submitted(len(found), 3, graph=True)]
    assert counts == [(18, 18), (3, 18), (15, 15), (3, 15)]


def test_one_request_with_another_kernel() -> None:
    # table-5.6.3, exp-5-9
    layers, prompt, tokens = 36, 7239, 32
    prefill = Calls("prefill", layers, prompt, 11.218659e-3 / layers, 11.244366e-3 / layers)
    steps = layers * (tokens - 1)
    decode = Calls("decode", steps, 1, 2.369803e-3 / steps, 0.920376e-3 / steps)
    assert (prefill.count + decode.count, decode.count, prefill.count * prefill.rows) == (1152, 1116, 260604)
    assert 1e3 * saved((prefill, decode)) == pytest.approx(1.42372)
    assert 1e3 * prefill.saved == pytest.approx(11.218659 - 11.244366)
    assert decode.before / decode.after == pytest.approx(2.57482051)
    assert list(report((prefill, decode), 850.848989e-3)) == [
        "shape    calls  rows     before    after      saved",
        "prefill  36     260,604  11.22 ms  11.24 ms   -0.02571 ms",
        "decode   1,116  1,116    2.37 ms   0.9204 ms  1.449 ms",
        "1,152 calls take 1.6 % of 850.8 ms and save 1.424 ms",
    ]
    longer = replace(decode, count=layers * 127)
    assert 1e3 * saved((prefill, longer)) == pytest.approx(5.91226813)


def test_contestants_are_compared_turn_by_turn() -> None:
    """A slow turn is slow for both: the median of differences is another number than the difference of medians."""
    first, second = [10.0, 30.0, 20.0], [9.0, 28.0, 21.0]
    found = paired(first, second)
    assert (found.saved, found.faster, found.slower) == (1.0, 2, 1)
    assert median(first) - median(second) == -1.0
    assert found.ratio == pytest.approx(30 / 28)
    with pytest.raises(ValueError, match="each turn"):
        paired([1.0], [])


def test_one_memory_wants_no_upload() -> None:
    """R4.5-2: what is read again and again is worth its way over a link; one memory spares the way, not the reading."""
    card, one = machine("rtx-4090"), machine("m4-max")
    assert uploaded(card, 64 * MiB) / reading(card, 64 * MiB) == pytest.approx(31.5)
    assert (uploaded(one, 64 * MiB), reading(one, 64 * MiB) > 0) == (0.0, True)
    with pytest.raises(MachineError, match="host_link_bandwidth"):
        uploaded(machine("rtx-5090"), 1)


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
