"""Bytes of worked examples by their names: counted off programs and their schedules, in whole and by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from tilewright.compiler.automatic import partitions
from tilewright.cost.banks import whole
from tilewright.cost.bounds import bound
from tilewright.cost.capacity import fits, stored
from tilewright.cost.estimate import estimate
from tilewright.cost.explain import explanation
from tilewright.cost.lifetimes import live, peak
from tilewright.cost.machine import machine
from tilewright.cost.roofline import above, reading
from tilewright.cost.spills import unfinished
from tilewright.cost.traffic import moved, stride

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KiB, MiB = 2**10, 2**20
FFN = {"M": 1024, "K": 4096, "N": 12288}
CHAIN = """kernel chain(G: bf16[M, N], U: bf16[M, N]) -> (Q: f8e4m3[M, N]) {
    S[i, j] = bf16(silu(f32(G[i, j])))
    H[i, j] = bf16(f32(S[i, j]) * f32(U[i, j]))
    Q[i, j] = sat f8e4m3(f32(H[i, j]))
}"""


def kernel(text: str) -> tw.Kernel:
    return tw.parse(text).popitem()[1]


def total(schedule: tw.Schedule, sizes: Mapping[str, int], *tensors: str) -> float:
    """MiB that a schedule asks for, of some tensors or of all in memory."""
    state = schedule.state
    found = moved(state.program, state.tree)
    return sum(m.asked.at(sizes) for m in found if not tensors or m.tensor in tensors) / MiB


def fused(text: str, parts: Sequence[Sequence[str]]) -> tw.Schedule:
    """A chain of equations in kernels: what is not the last of its kernel is written into the one behind it."""
    schedule = tw.Schedule(kernel(text))
    for part in parts:
        for stage in part[:-1]:
            schedule.inline(stage)
    return schedule


def product(order: Sequence[str], m: int = 64, n: int = 64, k: int = 32, held: str = "") -> tw.Schedule:
    """A product in tiles whose loops stand in an order; its sums are kept inside the loop *held*."""
    text = "kernel p(X: bf16[M, K], W: bf16[K, N]) -> (C: f32[M, N]) { C[i, j] = sum(k) f32(X[i, k]) * f32(W[k, j]) }"
    schedule = tw.Schedule(kernel(text.replace("{", "{ allow reassociate;").replace(";", "\n")))
    for index, size in (("i", m), ("j", n), ("k", k)):
        schedule.split(f"C.{index}", size)
    schedule.reorder(*(f"C.{name}" for name in order), "C.ii", "C.ji", "C.ki")
    schedule.block("C.ii", "C.ji", "C.ki")
    return schedule


def test_a_gated_activation() -> None:
    # 5-4, inline-5.3.2-relayout
    text = CHAIN.replace("f8e4m3[M, N]", "bf16[M, N]").replace("sat f8e4m3(f32(H[i, j]))", "H[i, j]")
    apart = fused(text, (("S",), ("H", "Q")))
    assert (total(apart, FFN), total(fused(text, (("S", "H", "Q"),)), FFN)) == (120, 72)
    copy = tw.Schedule(kernel("kernel t(X: bf16[M, N]) -> (Y: bf16[N, M]) { Y[j, i] = X[i, j] }"))
    assert total(copy, FFN) == 48


def test_every_partition_of_a_chain() -> None:
    # inline-5.3.1-quantised-chain, exp-5-2, inline-5.4.1-partitions
    costs = {name: total(schedule, FFN) for name, schedule in partitions(kernel(CHAIN)).items()}
    assert costs == {"together": 60, "S apart": 108, "H apart": 108, "S, H apart": 156}
    chains = {name: schedule.state for name, schedule in partitions(kernel(CHAIN)).items()}
    most = {name: peak(live(state.program, state.tree, FFN)) for name, state in chains.items()}
    assert (most["S, H apart"].size, most["together"].size) == (72 * MiB, 60 * MiB)
    assert (set(most["S, H apart"].tensors), set(most["together"].tensors)) == (set("GUS"), set("GUQ"))
    rows = above(5e-6 / reading(machine("rtx-5090"), (156 - 60) * MiB / 1024))
    assert rows == 92


def test_loops_of_a_product_in_tiles() -> None:
    # inline-5.4.2-split-reorder-fuse, inline-5.4.4-footprints
    schedule = product(("io", "jo", "ko"))
    assert [-(-FFN[n] // size) for n, size in (("M", 64), ("N", 64), ("K", 32))] == [16, 192, 128]
    assert total(schedule, FFN, "X", "W") == 3096 - 24
    tile = dict.fromkeys("MKN", 1) | {"M": 64, "N": 64, "K": 32}
    assert [total(schedule, tile, n) * MiB for n in "XW"] == [64 * 32 * 2, 32 * 64 * 2]
    # With columns innermost W is asked for as often.
    other = product(("io", "ko", "jo"))
    assert total(other, FFN, "W") == 1536


def test_wider_tiles_ask_for_less() -> None:
    # exp-5-1, inline-5.2.2-time-ratio
    asked = total(product(("io", "jo", "ko"), 64, 128), FFN, "X", "W") + 24
    assert asked == 2328
    assert asked / 3096 == pytest.approx(0.7519379845)
    assert fits(100 * KiB, (4 + 8 + 32) * KiB + KiB) == 2
    large = total(product(("io", "jo", "ko"), 128, 128), FFN, "X", "W") + 24
    assert (large, large / 3096, large / 3096 / 0.4) == (1560, pytest.approx(0.5038759690), pytest.approx(1.2596899225))


def test_quantised_once_or_in_every_block_of_columns() -> None:
    # 5-8, exp-5-4
    sizes = {"M": 4096, "K": 4096, "N": 1536}
    text = """kernel q(A: f16[M, K], W: f8e4m3[K, N]) -> (Y: f16[M, N]) { allow reassociate
        Q[i, k] = sat f8e4m3(f32(A[i, k]))
        Y[i, j] = f16(sum(k) f32(Q[i, k]) * f32(W[k, j]))
    }"""
    found: list[float] = []
    for inside in (False, True):
        schedule = tw.Schedule(kernel(text))
        if inside:
            schedule.inline("Q")
        for index, size in (("i", 128), ("j", 128), ("k", 64)):
            schedule.split(f"Y.{index}", size)
        schedule.reorder("Y.io", "Y.jo", "Y.ko", "Y.ii", "Y.ji", "Y.ki")
        schedule.block("Y.ii", "Y.ji", "Y.ki")
        found.append(total(schedule, sizes))
    # Reading A once more to find the scales of its rows is not in the kernel.
    assert [asked + extra for asked, extra in zip(found, (0, 32), strict=True)] == [444, 620]


def test_requests_of_a_tile() -> None:
    # inline-4.4.1-shared-expert
    text = """kernel s(X: f8e4m3[M, K], W: f8e4m3[K, N]) -> (Y: bf16[M, N]) { allow reassociate
        Y[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
    }"""
    schedule = tw.Schedule(kernel(text))
    jo, ji = schedule.split("Y.j", 128)
    schedule.reorder(jo, "Y.i", ji, "Y.k")
    schedule.block("Y.i", ji, "Y.k")
    sizes = {"M": 32, "K": 4096, "N": 2048}
    assert (total(schedule, sizes, "X"), total(schedule, sizes, "W")) == (2, 8)


def test_a_convolution_spread_out() -> None:
    # inline-4.6.2-im2col
    text = """kernel spread(X: bf16[H, W, C]) -> (E: bf16[H, W, 3, 3, C]) {
        E[h, w, r, s, c] = X[h + r - 1, w + s - 1, c] else 0
    }"""
    schedule = tw.Schedule(kernel(text))
    sizes = {"H": 56, "W": 56, "C": 64}
    state = schedule.state
    (there,) = (m.there.at(sizes) for m in moved(state.program, state.tree) if m.tensor == "X")
    written = total(schedule, sizes, "E")
    assert (there / MiB, written, written * MiB / there) == (0.3828125, 3.4453125, 9)
    assert 2 * written * MiB / 1.2e12 / 1e-6 == pytest.approx(6.02112)


def test_attention_with_its_scores_in_memory() -> None:
    # inline-5.3.3-attention-materialised
    text = """kernel a(Q: bf16[L, D], K: bf16[L, D], V: bf16[L, D]) -> (O: bf16[L, D]) { allow reassociate
        S[i, j] = sum(d) f32(Q[i, d]) * f32(K[j, d])
        P[i, j] = exp(S[i, j])
        O[i, d] = bf16(sum(j) P[i, j] * f32(V[j, d]))
    }"""
    sizes = {"L": 8192, "D": 128}
    state = tw.Schedule(kernel(text)).state
    found = moved(state.program, state.tree)
    once = {(m.tensor, m.kind): m.there.at(sizes) / MiB for m in found}
    assert [once[n, "read"] for n in "QKV"] == [2, 2, 2]
    assert once["O", "write"] == 2
    assert sum(once[n, kind] for n in "SP" for kind in ("read", "write")) == 1024


def test_a_row_in_one_piece_or_in_eight() -> None:
    # inline-5.2.4-rmsnorm-split
    text = """kernel r(X: bf16[M, D], G: bf16[M, D]) -> (Y: bf16[M, D]) where D >= 1 { allow reassociate
        p[i, s in 0..8] = sum(d in 0..512) f32(X[i, 512 * s + d]) * f32(X[i, 512 * s + d])
        q[i] = sum(s in 0..8) p[i, s]
        Y[i, d] = bf16(f32(X[i, d]) * rsqrt(q[i]) * f32(G[i, d]))
    }"""
    sizes = {"M": 1024, "D": 4096}
    state = tw.Schedule(kernel(text.replace("D >= 1", "D >= 4096, D <= 4096"))).state
    found = {(m.launch, m.tensor, m.kind): m.there.at(sizes) for m in moved(state.program, state.tree)}
    whole_row = sum(found[k] for k in found if k[1] in "XGY" and k[0] == max(f[0] for f in found))
    assert whole_row == 24 * MiB
    assert sum(n for k, n in found.items() if k[1] == "p") == 64 * KiB
    assert sum(n for k, n in found.items() if k[1] == "q") == 8 * KiB
    assert sum(found.values()) / MiB == pytest.approx(32.0703125)


def test_how_far_apart_neighbours_lie() -> None:
    # inline-5.2.1-loop-order
    program = product(("io", "jo", "ko")).kernel.program
    (update,) = (s for s in program.statements if s.kind == "update")
    assert [str(stride(program, update, "W", index)) for index in "kji"] == ["2*N", "2", "0"]
    assert [str(stride(program, update, "X", index)) for index in "kji"] == ["2", "0", "2*K"]
    with pytest.raises(ValueError, match="touches no element of Z"):
        stride(program, update, "Z", "k")


def test_rows_that_fit_beside_a_block_of_columns() -> None:
    # table-5.3.3, exp-5-3
    L, d, room = 8192, 128, 99 * KiB
    rows = [fits(room, 2 * d + 4 * b + 4 * d + 12, 2 * b * d) for b in (1, 64, 128)]
    assert rows == [128, 82, 53]
    sweeps = [-(-L // a) for a in rows]
    assert [4 * s + 4 for s in sweeps] == [260, 404, 624]
    assert [s * -(-L // b) for s, b in zip(sweeps, (1, 64, 128), strict=True)] == [524288, 12800, 9920]
    ahead = fits(room, 2 * d + 4 * 64 + 4 * d + 12, 2 * 2 * 64 * d)
    assert (ahead, whole(L, ahead) // ahead, 4 * (whole(L, ahead) // ahead) + 4) == (66, 125, 504)


def test_storage_of_tiles_and_weights() -> None:
    # inline-4.3.2-tile-storage, inline-5.3.2-queue-budget, inline-4.2.4-group-scales, inline-4.3.1-kv-records, exp-4-2
    factors, sums = stored(2 * 128 * 64, 16) / KiB, stored(128 * 128, 32) / KiB
    assert (factors, sums, factors + sums, 2 * factors + sums, 3 * factors + sums) == (32, 64, 96, 128, 160)
    assert fits(96, factors) == 3
    assert [fits(100, size + 1) for size in (32, 64)] == [3, 1]
    assert (fits(99, 3 * 16 + 32), fits((100 - 2) / 2, 16, 32)) == (1, 1)
    by_group = [stored(4096 * 4096, 4, group, 1) / MiB for group in (32, 16)]
    assert by_group == [8.5, 9]
    assert stored(4096 * 4096, 16) / MiB / by_group[0] == pytest.approx(3.7647058824)
    assert (stored(512, 4, 16, 1), stored(512, 8, 32, 1)) == (288, 528)
    assert (stored(2048 * 1536, 8) / MiB, stored(2048 * 1536, 16) / MiB) == (3, 6)
    assert (stored(1536, 32) / KiB, 1 * 2048 // 128 * 4) == (6, 64)


NO_BOUND = {
    # Scores need not be in memory.
    "Q: f32[T, D], K: f32[T, D], V: f32[T, E]) -> (O: f32[T, E]": """s[i, j] = sum(d) Q[i, d] * K[j, d]
        O[i, e] = sum(j) s[i, j] * V[j, e]""",
    "A: f32[T, T], B: f32[T, T]) -> (C: f32[T, T]": "C[i, j] = sum(k in 0..T) (A[i, k] * B[k, j] if k < 1 else 0)",
    "A: f32[P, T], B: f32[T, T]) -> (C: f32[T, T]": "C[i, j] = sum(k) ((A[i, k] else 0) * B[k, j])",
    "X: f32[T, D]) -> (Y: f32[T]": "Y[i] = sum(d) X[i, d]",
}


@pytest.mark.parametrize("parameters", NO_BOUND)
def test_what_need_not_be_read_has_no_bound(parameters: str) -> None:
    program = kernel(f"kernel f({parameters}) {{ {NO_BOUND[parameters]} }}").program
    found = bound(program, {"T": 1024, "D": 16, "E": 16, "P": 1}, 64 * KiB)
    if "Q" in parameters:
        assert found.capacity < 2**20  # of the scores themselves, whose factors are inputs
    else:
        assert (found.capacity, found.statement) == (0, "")


def test_orders_that_are_free_and_reads_of_one_tensor_ask_for_less() -> None:
    text = "kernel f(A: f32[N, N], B: f32[N, N]) -> (C: f32[N, N]) { C[i, j] = sum(k) A[i, k] * B[k, j] }"
    free, one = text.replace("sum(k)", "allow reassociate in sum(k)"), text.replace("B[k, j]", "A[k, j]")
    ordered, any_order, square = (
        bound(kernel(t).program, {"N": 1024}, 16 * KiB).capacity
        for t in (text, free, one.replace(", B: f32[N, N]", ""))
    )
    # 2 N^3 / sqrt(S) elements, less the sums that begin and two pieces of S.
    assert ordered == pytest.approx(4 * 2 * 1024**3 / 64 - 4 * 1024**2 - 2 * 16 * KiB)
    assert any_order == pytest.approx(4 * 2 * 1024**3 / 64 / 2**0.5 - 4 * 16 * KiB)
    assert square < ordered


def test_no_tiles_beat_the_bound() -> None:
    program = product(("io", "jo", "ko")).kernel.program
    for capacity, tile in ((24 * KiB, 64), (96 * KiB, 128)):
        found = bound(program, FFN, capacity)
        asked = total(product(("io", "jo", "ko"), tile, tile), FFN, "X", "W") * MiB + 4 * 1024 * 12288
        assert found.least <= asked <= 4 * found.least
        assert found.statement == "S_C_update"
    everything = bound(program, FFN, 1 << 30)
    assert (everything.least, everything.statement) == (152 * MiB, "")
    with pytest.raises(ValueError, match="some bytes"):
        bound(program, FFN, 0)


def test_sums_left_unfinished() -> None:
    # exp-5-5
    schedule = product(("io", "ko", "jo"))
    schedule.cache_read("X", "C.ko")
    state = schedule.state
    (panel,) = unfinished(state.program, state.tree)
    # The example writes bf16 results; the sums here are the results.
    read = total(schedule, FFN, "X", "W") + 2 * FFN["M"] * FFN["N"] / MiB
    assert (total(schedule, FFN, "X"), total(schedule, FFN, "W")) == (8, 1536)
    room = machine("rtx-pro-6000").figure("shared_memory").value
    assert panel.size(FFN) == 3 * MiB > room
    assert panel.spilled(FFN, room) == 6096 * MiB
    assert read == 1568
    assert read + 2 * panel.spilled(FFN, room) / MiB == 13760
    assert panel.spilled(FFN, 3 * MiB) == 0
    assert not unfinished((done := product(("io", "jo", "ko")).state).program, done.tree)
    assert total(product(("io", "jo", "ko")), FFN, "X", "W") + 24 == 3096


def test_unfinished_sums_take_their_time() -> None:
    """Of two orders of one product, that which leaves a row of sums unfinished is said to, and reckoned slower."""
    late, early = (
        estimate(s.program, s.tree, machine("h200"), FFN)
        for s in (product(order).state for order in (("io", "ko", "jo"), ("io", "jo", "ko")))
    )
    assert late.launches[-1].unfinished == {"C.acc": 6096 * MiB}
    assert late.seconds > early.seconds
    assert any("5.95 GiB written out" in line for line in explanation(late))
    assert not any("unfinished" in line for line in explanation(early))
