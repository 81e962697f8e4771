"""Estimates for processors: what binds, what helps, which tiles are chosen, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.cli import cli
from tilewright.cost.estimate import estimate
from tilewright.cost.explain import explanation, record
from tilewright.cost.machine import MachineError, machine
from tilewright.cost.processor import on_processor
from tilewright.passes.choices import cpu_choices

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.cost.times import LaunchTime

EXAMPLES = Path(__file__).parents[2] / "examples"
PROCESSOR = "emerald-rapids"
PRODUCT = """kernel product(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = allow contract in sum(k) A[i, k] * B[k, j]
}"""
ROWS = "kernel rows(X: f32[M, N]) -> (Y: f32[M]) { Y[i] = PERMITTED sum(j) X[i, j] }"
SIZES = {"M": 512, "N": 512, "K": 512}


def kernel(text: str) -> tw.Kernel:
    (found,) = tw.parse(text).values()
    return found


def nest(schedule: tw.Schedule, threads: int = 1, **sizes: int) -> LaunchTime:
    """The only nest of a schedule."""
    state = schedule.state
    (found,) = on_processor(state.program, state.tree, machine(PROCESSOR), sizes, threads).launches
    return found


def product(rows: int, columns: int) -> tw.Schedule:
    return tw.cpu_schedule(kernel(PRODUCT), tw.CpuSizes(rows=rows, columns=columns, panel=4 * rows, width=512))


def test_a_tile_that_fits_the_registers_is_bound_by_its_operations() -> None:
    found = nest(product(14, 32), **SIZES)
    assert found.binds == "vector units"
    rate = machine(PROCESSOR).rate("f32", "f32", "core").value
    assert found.at("vector units") == pytest.approx(found.flops / rate, rel=0.01)


def test_a_narrow_tile_is_bound_by_what_it_reads_and_a_small_one_by_its_sums() -> None:
    assert nest(product(28, 16), **SIZES).binds == "loads"
    assert nest(product(4, 16), **SIZES).binds == "chains of sums"


def test_sums_beyond_the_registers_are_read_and_written() -> None:
    fitting, beyond = (nest(product(14, columns), **SIZES).at("loads") for columns in (32, 64))
    assert beyond > 2 * fitting


def test_sums_in_their_order_wait_for_one_another() -> None:
    strict = kernel(ROWS.replace("PERMITTED", ""))
    found = nest(tw.cpu_schedule(strict), M=512, N=4096)
    assert found.binds == "chains of sums"
    latency = machine(PROCESSOR).figure("sum_latency").value
    assert found.at("chains of sums") == pytest.approx(512 * 4096 * latency)
    free = kernel(ROWS.replace("PERMITTED", "allow reassociate in"))
    assert nest(tw.cpu_schedule(free), M=512, N=4096).seconds < found.seconds / 4


def test_threads_share_what_they_can() -> None:
    one, two = (nest(product(14, 32), threads, **SIZES) for threads in (1, 2))
    assert two.at("vector units") == pytest.approx(one.at("vector units") / 2, rel=0.15)
    assert two.at("memory") >= one.at("memory") / 2
    alone = tw.Schedule(kernel(PRODUCT))
    assert nest(alone, 2, **SIZES).seconds == nest(alone, 1, **SIZES).seconds


def test_columns_of_rows_move_whole_lines() -> None:
    gate = kernel("kernel gate(G: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = G[i, j] * 2 }")
    along, across = tw.Schedule(gate), tw.Schedule(gate)
    across.reorder("Y.j", "Y.i")
    sizes = {"M": 1 << 17, "N": 512}
    assert nest(across, **sizes).seconds > 2 * nest(along, **sizes).seconds


def test_loops_of_elements_are_vectors_without_being_told() -> None:
    gate = kernel("kernel gate(G: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = exp(G[i, j]) }")
    plain, marked = tw.Schedule(gate), tw.Schedule(gate)
    marked.vectorize("Y.j")
    first, second = (nest(s, M=64, N=4096).at("vector units") for s in (plain, marked))
    assert first == second


def test_the_chosen_tiles_are_the_fastest_of_those_reckoned() -> None:
    given = kernel("kernel turned(X: f32[M, N]) -> (Y: f32[N, M]) { Y[j, i] = X[i, j] }")
    sizes = {"M": 2048, "N": 2048}
    chosen = tw.cpu_schedule(given, at=sizes, machine=PROCESSOR)
    seconds = nest(chosen, 2, **sizes).seconds
    assert all(seconds <= nest(tw.cpu_schedule(given, tw.CpuSizes(side=n)), 2, **sizes).seconds for n in (4, 8, 128))
    assert tw.compile(given, chosen).trace == tuple(chosen.trace)


def test_the_choices_for_a_product_fill_the_registers() -> None:
    found = {(s.rows, s.columns) for s in cpu_choices(kernel(PRODUCT).program, tw.CpuSizes(), 16, 32)}
    assert {(14, 32), (30, 16), (6, 64)} <= found
    assert all(rows * columns // 16 + columns // 16 <= 32 for rows, columns in found)


def test_schedules_come_in_their_order_on_a_processor() -> None:
    given = kernel(PRODUCT)
    bad = tw.Schedule(given)
    bad.reorder("C.j", "C.k", "C.i")
    found = tw.rank(given, {"as written": bad, "tiles": tw.cpu_schedule(given)}, PROCESSOR, SIZES)
    assert [one.name for one in found] == ["tiles", "as written"]


def test_an_explanation_for_a_processor(golden: Callable[[str, str], None]) -> None:
    schedule = tw.cpu_schedule(kernel(PRODUCT), tw.CpuSizes(rows=14, columns=32, panel=336))
    sizes = {"M": 1023, "N": 1025, "K": 1027}
    found = estimate(schedule.state.program, schedule.state.tree, machine(PROCESSOR), sizes)
    golden("explain/processor", "\n".join(explanation(found)) + "\n")
    strict = tw.cpu_schedule(kernel(ROWS.replace("PERMITTED", "")))
    chained = estimate(strict.state.program, strict.state.tree, machine(PROCESSOR), {"M": 512, "N": 4096})
    assert any("more sums at once" in line for line in explanation(chained))
    assert json.dumps(record(found))


def test_every_example_is_reckoned() -> None:
    for path in sorted(EXAMPLES.glob("*.tx")):
        if path.stem == "attention_gqa":
            continue  # 20 s
        for given in tw.load(path).values():
            state = tw.cpu_schedule(given).state
            sizes = dict.fromkeys(given.program.sizes, 8)
            assert on_processor(state.program, state.tree, machine(PROCESSOR), sizes).seconds > 0


def test_places_that_data_give_are_counted_read_by_read() -> None:
    text = "kernel g(X: f32[N], n: i32[M]) -> (Y: f32[M]) where N >= M { Y[i] = X[i] + X[n[i]] }"
    found = nest(tw.cpu_schedule(kernel(text)), M=512, N=1024)
    assert found.memory["X"] == 512 * 4 + 512 * 64  # neighbours, and a line for each of the others


def test_the_command_takes_processors() -> None:
    words = [str(EXAMPLES / "transpose.tx"), *(f"--size={n}=64" for n in "MN")]
    for name in (PROCESSOR, "milan"):
        shown = CliRunner().invoke(cli, ["explain", *words, "--machine", name])
        assert shown.exit_code == 0, shown.output
        assert "loads" in shown.output
    shown = CliRunner().invoke(cli, ["rank", *words, "--machine", PROCESSOR, "--partitions"])
    assert shown.exit_code == 2
    assert "--schedules FOLDER" in shown.output


def test_what_is_not_known_is_said() -> None:
    given = kernel(PRODUCT)
    with pytest.raises(MachineError, match="no processor"):
        tw.cpu_schedule(given, at=SIZES, machine="h200")
    with pytest.raises(ValueError, match="chosen for sizes"):
        tw.cpu_schedule(given, machine=PROCESSOR)
    bare = replace(machine(PROCESSOR), figures={})
    state = tw.cpu_schedule(given).state
    with pytest.raises(MachineError, match="caches"):
        on_processor(state.program, state.tree, bare, SIZES)
    with pytest.raises(KeyError, match="K has no value"):
        on_processor(state.program, state.tree, machine(PROCESSOR), {"M": 4, "N": 4})
