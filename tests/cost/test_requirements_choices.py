"""What must hold of choices: which schedule comes first, and which ways to cut a chain there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.automatic import partitions
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits
from tilewright.cost.energy import energy
from tilewright.cost.estimate import estimate
from tilewright.cost.held import held
from tilewright.cost.launches import launches
from tilewright.cost.machine import Figure, machine
from tilewright.cost.work import work

from .schedules import ATTENTION, FFN, PROJECTION, KiB, MiB, asked, kernel, product, tiles_of

CHAIN = """kernel chain(G: bf16[M, N], U: bf16[M, N]) -> (Q: f8e4m3[M, N]) {
    S[i, j] = bf16(silu(f32(G[i, j])))
    H[i, j] = bf16(f32(S[i, j]) * f32(U[i, j]))
    Q[i, j] = sat f8e4m3(f32(H[i, j]))
}"""
RMSNORM = """kernel r(X: bf16[M, D], G: bf16[M, D]) -> (Y: bf16[M, D]) where D >= 1 { allow reassociate
    q[i] = sum(d) f32(X[i, d]) * f32(X[i, d])
    Y[i, d] = bf16(f32(X[i, d]) * rsqrt(q[i]) * f32(G[i, d]))
}"""


def test_schedules_come_by_time_and_not_by_bytes() -> None:
    """The tiles that ask for the fewest bytes are the slowest where they leave multiprocessors idle."""
    one = kernel(PROJECTION)
    ways = {f"{m} x {n}": product(one, m, n, 64, 3) for m, n in ((64, 64), (128, 128), (128, 256))}
    found = tw.rank(one, ways, "h200", {"M": 1024, "K": 4096, "N": 1024})
    assert [r.name for r in found] == ["64 x 64", "128 x 128", "128 x 256"]
    bytes_ = [r.estimate.asked for r in found if r.estimate is not None]
    assert bytes_ == sorted(bytes_, reverse=True)
    assert found[0].seconds < found[1].seconds < found[2].seconds


def test_stages_are_worth_their_storage_or_are_not_taken() -> None:
    """Versions of loaded tiles take storage in proportion; more of them than shorten the time are not put first."""
    one = kernel(PROJECTION)
    ways = {str(n): product(one, 128, 128, 64, n) for n in (2, 3, 6, 8)}
    storage = {n: tiles_of(schedule).shared / KiB for n, schedule in ways.items()}
    assert storage == {"2": 64, "3": 96, "6": 192, "8": 256}
    found = {r.name: r for r in tw.rank(one, ways, "h200", FFN)}
    # Two programs of three stages do more at once than one of six.
    assert list(found) == ["2", "3", "6", "8"]
    assert found["2"].seconds == found["3"].seconds < found["6"].seconds
    alone = {
        r.name: r.seconds for r in tw.rank(one, {str(n): product(one, 128, 256, 64, n) for n in (2, 3, 4)}, "h200", FFN)
    }
    assert alone["3"] == alone["4"] < alone["2"]
    assert found["8"].reason == "a multiprocessor has too little of shared memory for one program"


def split_rows() -> tw.Schedule:
    """Rows in segments of 512: partial sums, what merges them, and what is scaled, a launch each."""
    schedule = tw.Schedule(kernel(RMSNORM))
    segment, within = schedule.split("q.d", 512)
    schedule.rfactor(segment)
    schedule.merge("q.block", segment)
    _, first, *others = schedule.distribute("q.i")
    for other in others:
        schedule.merge(first, other)
    schedule.split("Y.d", 512)
    for loop in ("q.i", "q.block", first, "Y.i", "Y.do"):
        schedule.parallel(loop)
    for loop in (within, "q.block2", "Y.di"):
        schedule.block(loop)
    return schedule


def test_rows_are_split_where_there_are_few() -> None:
    """A row in segments has eight times the programs, three launches instead of one, more bytes and less storage.
    Beside rows that one program reads piece by piece it wins for one row, and loses for many."""
    sizes, split = {"M": 1024, "D": 4096}, split_rows()
    kept = tw.gpu_schedule(kernel(RMSNORM.replace("D >= 1", "D >= 1, D <= 4096")))
    programs, total, widest = ([], [], [])
    for schedule in (kept, split):
        program = schedule.state.program
        found = launches(program, schedule.state.tree)
        programs.append([launch.count(program, sizes) for launch in found])
        total.append(round(sum(asked(schedule, **sizes).values()) / MiB, 1))
        widest.append(4 * max(held(program, launch).lanes for launch in found) / KiB)
    assert programs == [[1024], [8192, 1024, 8192]]
    assert (total, widest) == ([24, 32.1], [16, 2])
    ways = {"whole": tw.gpu_schedule(split.kernel), "split": split}
    for rows, first in ((1, "split"), (1024, "whole")):
        assert tw.rank(split.kernel, ways, "h200", {"M": rows, "D": 4096})[0].name == first


def test_every_partition_has_the_same_bits() -> None:
    """However a chain is cut into kernels, its results agree bit for bit: what is not written out is rounded to its
    type all the same, which can be seen in the results."""
    chain = kernel(CHAIN)
    inputs = random_inputs(chain.program, {"M": 17, "N": 33}, 1)
    wanted = np.asarray(chain(**inputs))
    for name, schedule in partitions(chain).items():
        assert same_bits(np.asarray(tw.compile(chain, schedule)(**inputs)), wanted), name
    wide = CHAIN.replace("bf16(silu(f32(G[i, j])))", "silu(f32(G[i, j]))")
    wide = wide.replace("bf16(f32(S[i, j]) * f32(U[i, j]))", "S[i, j] * f32(U[i, j])").replace("f32(H[i", "(H[i")
    assert not same_bits(np.asarray(kernel(wide)(**inputs)), wanted)


@pytest.mark.parametrize("count", [3, 4, 5])
def test_neighbours_are_cut_in_every_way(count: int) -> None:
    """n equations one after another have 2^(n-1) partitions."""
    lines = [f"T{n}[i] = {'X' if not n else f'T{n - 1}'}[i] * 2" for n in range(count - 1)]
    text = "\n".join(["kernel c(X: f32[N]) -> (Y: f32[N]) {", *lines, f"Y[i] = T{count - 2}[i] + 1", "}"])
    ways = partitions(kernel(text))
    assert len(ways) == 2 ** (count - 1)
    cuts = [len(launches(s.state.program, s.state.tree)) for s in ways.values()]
    assert sorted(cuts)[:2] == [1, 2]
    assert max(cuts) == count


def test_a_producer_that_writes_the_layout_of_its_reader() -> None:
    """Turning a tensor over in a pass of its own costs its bytes twice; writing it that way at once costs none more."""
    one = kernel("""kernel t(X: bf16[M, N]) -> (Y: bf16[N, M]) {
        H[i, j] = bf16(silu(f32(X[i, j])))
        Y[j, i] = H[i, j]
    }""")
    sizes = {"M": 1024, "N": 12288}
    first, last = tw.rank(one, partitions(one), "h200", sizes)
    assert (first.name, last.name) == ("together", "H apart")
    assert first.estimate is not None
    assert last.estimate is not None
    assert (first.estimate.asked / MiB, last.estimate.asked / MiB) == (48, 48 + 48)


def test_rows_hand_on_early_and_parts_of_sums_do_not() -> None:
    """The exponentials of some rows can begin when their scores are there; those of a part of the sum never can."""
    one = tw.Schedule(kernel(ATTENTION))
    rows, _ = one.split("S.i", 32)
    part, _ = one.split("S.d", 32)
    with tw.testing.refused("dependence"):
        one.reverse_compute_at("P", part)
    one.reverse_compute_at("P", rows)


def test_joules_are_of_bytes_and_not_of_bandwidth() -> None:
    """A slower memory takes the same joules for longer, and so fewer watts."""
    card = machine("h200")
    slow = replace(card, figures={**card.figures, "memory_bandwidth": Figure(1e12, "1000 GB/s", "changed")})
    state = tw.gpu_schedule(kernel(CHAIN)).state
    found = [estimate(state.program, state.tree, one, {"M": 1024, "N": 12288}) for one in (card, slow)]
    joules = [energy({"memory": e.memory}, e.flops) for e in found]
    assert found[0].seconds < found[1].seconds
    assert joules[0] == joules[1]
    assert joules[0].power(found[0].seconds) > joules[1].power(found[1].seconds)


def test_lanes_are_combined_in_rounds() -> None:
    # inline-4.2.2-softmax-rounds
    (row,) = tw.parse("kernel r(X: f32[N]) -> (Y: f32) where N >= 1 { Y = max(j) X[j] }").values()
    schedule = tw.Schedule(row)
    _, lanes = schedule.split("Y.j", 128)
    schedule.block(lanes)
    (update,) = (w for w in work(schedule.state.program, schedule.state.tree) if w.rounds)
    assert update.rounds == 7
    assert not any(w.rounds for w in work(row.program, tw.Schedule(row).state.tree))
