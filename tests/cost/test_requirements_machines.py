"""What must hold of machines, of what they hold at once, and of things that wait for one another."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given
from hypothesis import strategies as st
from tilewright.cost.capacity import in_flight, reached, residency, stored
from tilewright.cost.economics import transfer, turning_size
from tilewright.cost.machine import MachineError, machine
from tilewright.cost.roofline import above, reading, roofline
from tilewright.cost.timeline import Step, finished, handed_on, least_slots, path, pipelined, through_slots
from tilewright.cost.traffic import moved
from tilewright.cost.work import work

from .schedules import KiB, MiB, kernel

TIMES = st.integers(0, 50)


def test_what_binds_is_found_and_not_supposed() -> None:
    """Half the registers hold twice the blocks of a tile of 64 x 64 x 64, and are still what binds; a quarter, and
    shared memory is."""
    card, shared = machine("h100-sxm"), 2 * (64 * 64 + 64 * 64) + 4 * 64 * 64
    found = [residency(card, 256, shared, registers) for registers in (128, 64, 32)]
    assert [r.blocks for r in found] == [2, 4, 6]
    assert [r.binding for r in found] == [("registers",), ("registers",), ("shared memory",)]
    assert (found[1].limits["threads"], found[1].limits["shared memory"]) == (8, 6)


def test_warps_that_keep_memory_busy() -> None:
    """Two loads a warp of 1000 ns cover 65 % of the bandwidth with 16 warps; 25 are needed, and so four blocks of 8,
    where there is room for two. What is covered is what is reached."""
    card = machine("h100-sxm")
    share, each = card.figure("memory_bandwidth").value / 132, 2 * 32 * 16
    needed = in_flight(share, 1000e-9)
    assert 16 * each / needed == pytest.approx(0.64557851)
    assert reached(share, 1000e-9, 16 * each) == pytest.approx(share * 16 * each / needed)
    assert [reached(share, 1000e-9, warps * each) == share for warps in (24, 25)] == [False, True]
    assert [reached(share, 1000e-9, blocks * 8 * each) == share for blocks in (3, 4)] == [False, True]
    assert residency(card, 256, 96 * KiB, 128).blocks == 2


def test_requests_that_keep_memory_busy() -> None:
    """With 128 requests under way a faster memory is no faster; with 4096, 78 % more bandwidth gives 4 %."""
    cards = [machine(name).figure("memory_bandwidth").value for name in ("rtx-4090", "rtx-5090")]
    assert ceil(in_flight(cards[0], 500e-9) / 128) == 3938
    assert [in_flight(cards[1], latency) / 128 for latency in (500e-9, 800e-9)] == pytest.approx([7000, 11200])
    few, many = ([reached(rate, 500e-9, count * 128) for rate in cards] for count in (128, 4096))
    assert few[0] == few[1]
    assert 1e3 * transfer(9 * 2**27, few[0]) == pytest.approx(36.864)
    assert (cards[1] / cards[0], many[1] / many[0]) == pytest.approx((1.7777778, 1.0402540))


@given(st.integers(1, 40), TIMES, TIMES, st.integers(2, 6))
def test_two_slots_are_a_pipeline_and_more_are_no_better(count: int, move: int, compute: int, slots: int) -> None:
    """Blocks that are there as soon as they have been moved take the first move, the longer stage for each of the
    others, and the last use; with one slot they take the sum of everything."""
    whole = move + (count - 1) * max(move, compute) + compute
    assert through_slots(count, move, compute, slots).end == pipelined(count, move, compute) == whole
    assert through_slots(count, move, compute, 1).end == count * (move + compute)


@pytest.mark.parametrize(
    ("host", "device", "whole", "limits"),
    [(20, 20, 2020, ""), (20, 5, 2005, "host"), (5, 20, 2005, "device"), (5, 5, 505, "")],
)
def test_the_side_that_limits_is_on_the_longest_path(host: int, device: int, whole: int, limits: str) -> None:
    """100 pieces that the host prepares and the device runs: the longest path is all of the slower side, and one piece
    of the other. Without room between them they take the sum."""
    sides, count = {"host": host, "device": device}, 100
    seconds = {f"{side} {n}": of for side, of in sides.items() for n in range(count)}
    after = {f"{side} {n}": [f"{side} {n - 1}"] for side in sides for n in range(1, count)}
    for n in range(count):
        after.setdefault(f"device {n}", []).append(f"host {n}")
    assert max(finished(seconds, after).values()) == pipelined(count, host, device) == whole
    assert through_slots(count, host, device, 1).end == count * (host + device)
    on = [name.split()[0] for name in path(seconds, after)]
    if limits:
        assert (on.count(limits), len(on)) == (count, count + 1)


def test_a_branch_is_of_no_use_below_the_other() -> None:
    """A branch beside one of 40 is worth making faster down to 40, and no further."""
    after = {"a": ["prepare"], "b": ["prepare"], "end": ["a", "b"]}
    ends = {a: finished({"prepare": 10, "a": a, "b": 40, "end": 10}, after)["end"] for a in (60, 41, 40, 0)}
    assert ends == {60: 80, 41: 61, 40: 60, 0: 60}


def test_what_shares_a_unit_adds_up() -> None:
    """Work on one unit takes the sum, on two units the longer one, and stages of one job the sum again."""
    first, second = transfer(1000, 100), transfer(1000, 200)

    def end(*jobs: list[Step]) -> float:
        return max(done for job in handed_on(jobs, len(jobs)) for _, done in job)

    assert end([Step("matrix", first)], [Step("matrix", second)]) == 15
    assert end([Step("matrix", first)], [Step("vector", second)]) == 10
    assert end([Step("matrix", first), Step("vector", second)]) == 15


def test_tasks_of_one_kernel_want_two_slots() -> None:
    """Eight tasks that go from unit to unit in one kernel save a launch and seven of the shorter stages, less what each
    costs to hand on; with one slot for what is handed on they lose to two kernels."""
    card, hand = machine("rtx-pro-6000"), 0.7
    project = 1e6 * roofline(card, 2 * 64 * 4096 * 12288, 0).computing
    activate = 1e6 * reading(card, 64 * 12288 * 4)
    apart = 2 * 5 + 8 * (project + activate)
    together = {slots: 5 + through_slots(8, project + hand, activate + hand, slots).end for slots in (1, 2, 3)}
    assert apart - together[2] == pytest.approx(5 + 7 * activate - 9 * hand)
    assert together[1] > apart > together[2] == together[3]
    assert least_slots(8, project + hand, activate + hand) == 2


def test_the_size_at_which_a_link_turns_is_one_of_rows() -> None:
    """From 110 rows on the bytes of a message take longer than sending it at all."""
    link = machine("h100-sxm").figure("peer_link_bandwidth").value
    rows = above(turning_size(link, 2e-6) / (4096 * 2))
    assert rows == 110
    assert transfer(rows * 8192, link) > 2e-6 > transfer((rows - 1) * 8192, link)


@pytest.mark.parametrize("name", ["h100-sxm", "h200-sxm", "b200-hgx"])
def test_bandwidth_is_that_of_the_pins(name: str) -> None:
    """Stacks, pins and their rate give the bandwidth, as far as the pins' rate is given."""
    card, pins = machine(name), machine("hbm3e-stack").figure("memory_pins").value
    found = card.figure("memory_stacks").value * pins * card.figure("memory_pin_rate").value
    assert found == pytest.approx(card.figure("memory_bandwidth").value, rel=1e-3)
    stack = machine("hbm3e-stack")
    assert pins * stack.figure("memory_pin_rate").value == stack.figure("memory_bandwidth").value


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("rtx-pro-6000", "multiprocessors"), ("rtx-pro-6000", "registers"), ("rtx-pro-6000", "threads"),
        ("h100-sxm", "cache"), ("h100-sxm", "shared_memory_of_block"), ("h200-sxm", "multiprocessors"),
        ("b200-hgx", "cache"), ("b200-hgx", "clock"), ("v100-sxm2", "memory_capacity"), ("rtx-4090", "registers"),
    ],
)  # fmt: skip
def test_figures_that_nobody_gave_are_not_there(name: str, figure: str) -> None:
    """A query for a figure that no source gives fails, with its name; none is made up."""
    with pytest.raises(MachineError, match=f"{figure} of .* is not known"):
        machine(name).figure(figure)


def test_a_card_without_a_type() -> None:
    """The V100 has no products of bf16; in its two kinds one row is bound by bytes, and 4096 are by operations."""
    card = machine("v100-sxm2")
    with pytest.raises(MachineError, match=r"adds bf16 into f32 \(matrix\) is not known"):
        card.rate("bf16", "f32")
    for kind in (("f16", "f32", "matrix"), ("f32", "f32", "vector")):
        binds = [roofline(card, 2 * m * 4096**2, 2 * (2 * m * 4096 + 4096**2), kind).binds for m in (1, 4096)]
        assert binds == ["bytes", "operations"]


def test_scales_take_room() -> None:
    """Eight bits with a scale of a byte for 32 of them: 16.5 MiB for 4096 x 4096."""
    assert stored(4096**2, 8, 32, 1) / MiB == 16.5
    assert stored(17, 4, 16, 1) == 10.5  # the last group has a scale too


# Rows and columns of a layer's weights: of queries, keys, values and their result; of the gate, beside it, and back.
LAYER = ((4096, 4096), (4096, 1024), (4096, 1024), (4096, 4096), (4096, 12288), (4096, 12288), (12288, 4096))


def counted(text: str, tensors: str, **sizes: int) -> tuple[float, float]:
    """The bytes of some tensors of a kernel, each once, and its additions and multiplications."""
    state = tw.Schedule(kernel(text)).state
    there = sum(m.there.at(sizes) for m in moved(state.program, state.tree) if m.tensor in tensors and m.kind == "read")
    return there, sum(w.flops * w.times.at(sizes) for w in work(state.program, state.tree))


def test_a_model_is_the_sum_of_its_kernels() -> None:
    """The bytes of a step of decoding and the operations of a step and of a prompt are sums over a model's kernels:
    36 layers of 32 heads and 8 pairs of keys and values, and a head for 151,936 words."""
    linear = """kernel l(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
        Y[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
    }"""
    norm = "kernel n(X: bf16[D], G: bf16[D]) -> (Y: bf16[D]) { Y[d] = bf16(f32(X[d]) * f32(G[d])) }"
    head = """kernel h(Q: f32[P, D], K: bf16[C, D], V: bf16[C, D]) -> (O: f32[P, D]) where C >= P {
        S[i, j in 0..i + C - P + 1] = sum(d) Q[i, d] * f32(K[j, d])
        O[i, d] = sum(j in 0..i + C - P + 1) S[i, j] * f32(V[j, d])
    }"""
    each = [counted(linear, "W", M=1, K=k, N=n) for k, n in LAYER]
    words = counted(linear, "W", M=1, K=4096, N=151936)
    scales = sum(count * counted(norm, "G", D=d)[0] for count, d in ((36 * 2 + 1, 4096), (36 * 2, 128)))
    decoded, prompt = (counted(head, "KV", P=p, C=c, D=128) for p, c in ((1, 8192), (4096, 4096)))
    weights = 36 * sum(b for b, _ in each) + words[0] + scales
    assert weights == 15136811008
    assert weights + 36 * 8 * decoded[0] == 16344770560
    layers = 36 * sum(f for _, f in each)
    assert layers + 36 * 32 * decoded[1] + words[1] == 19968032768
    assert 4096 * layers + 36 * 32 * prompt[1] + words[1] == 61849981681664


@pytest.mark.parametrize(("scores", "wanted"), [([0.0], 1), ([2.0] * 4, 2.5), ([-np.inf, 0, -np.inf, 0], 3)])
def test_rows_of_an_unusual_kind(scores: list[float], wanted: float) -> None:
    """One element, equal elements, and those that minus infinity leaves out have the weights that they should have."""
    one = kernel("""kernel o(S: f32[N], V: f32[N]) -> (Y: f32[1]) where N >= 1 {
        m[i in 0..1] = max(n) S[n]
        l[i in 0..1] = sum(n) exp(S[n] - m[i])
        u[i in 0..1] = sum(n) exp(S[n] - m[i]) * V[n]
        Y[i in 0..1] = u[i] / l[i]
    }""")
    values = np.arange(1, len(scores) + 1, dtype=np.float32)
    assert float(np.asarray(one(np.array(scores, np.float32), values))[0]) == wanted
