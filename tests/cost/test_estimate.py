"""Estimates: what binds, what is said of it, and in which order schedules come."""

from __future__ import annotations

import json
import runpy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.cli import cli
from tilewright.cost.estimate import Estimate, estimate
from tilewright.cost.explain import explanation, floor
from tilewright.cost.machine import MachineError, machine

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {"M": 1024, "K": 4096, "N": 12288}
WORDS = [f"{n}={v}" for n, v in SIZES.items()]


def reckoned(tiles: tw.Sizes | None = None, name: str = "matmul_silu", **sizes: int) -> Estimate:
    kernel = next(found[name] for path in EXAMPLES.glob("*.tx") if name in (found := tw.load(path)))
    state = tw.gpu_schedule(kernel, tiles).state
    return estimate(
        state.program, state.tree, machine("h200"), {**SIZES, **sizes} if "M" in kernel.program.sizes else sizes
    )


def test_an_explanation_says_what_binds_and_why(golden: Callable[[str, str], None]) -> None:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    schedule = tw.Schedule(kernel)
    runpy.run_path(str(EXAMPLES / "schedules" / "matmul_large.py"))["schedule"](schedule)
    found = estimate(schedule.state.program, schedule.state.tree, machine("h200"), SIZES)
    golden("explain/matmul_large", "\n".join(explanation(found)) + "\n")


def test_parts_at_once_hide_the_vector_units() -> None:
    wide = tw.Sizes(rows=128, columns=256, depth=64, stages=3, together=16, processors=True)
    plain, parts = reckoned(wide), reckoned(replace(wide, consumers=2))
    assert parts.seconds < plain.seconds
    assert any("roles of warps" in line for line in explanation(plain))
    assert not any("roles of warps" in line for line in explanation(parts))


def test_few_rows_are_bound_by_memory() -> None:
    (launch,) = reckoned(tw.Sizes(rows=16, columns=128, depth=64, stages=6, together=1), M=16).launches
    assert launch.binds == "memory"
    assert launch.memory["W"] == 2 * SIZES["K"] * SIZES["N"]


def test_sums_one_after_the_other_share_the_room() -> None:
    text = """kernel gate(X: bf16[T, D], W: bf16[D, F], V: bf16[D, F]) -> (Y: bf16[T, F]) { allow reassociate
        G[t, f] = bf16(sum(d) f32(X[t, d]) * f32(W[d, f]))
        U[t, f] = bf16(sum(d) f32(X[t, d]) * f32(V[d, f]))
        Y[t, f] = bf16(silu(f32(G[t, f])) * f32(U[t, f]))
    }"""
    (kernel,) = tw.parse(text).values()
    state = tw.gpu_schedule(kernel).state
    (launch,) = estimate(state.program, state.tree, machine("h200"), {"T": 512, "D": 1024, "F": 4096}).launches
    assert launch.residency.blocks == 1


def test_a_sum_in_lanes_is_not_left_unfinished() -> None:
    for name in ("rmsnorm", "layernorm"):
        found = reckoned(name=name, M=64, D=8192)
        assert not any(any(launch.unfinished.values()) for launch in found.launches)


def test_nothing_takes_less_than_its_bytes() -> None:
    for tiles in (tw.Sizes(), tw.Sizes(rows=64, columns=64), tw.Sizes(rows=128, columns=256, stages=3)):
        found = reckoned(tiles)
        moved = 2 * (SIZES["M"] * SIZES["K"] + SIZES["K"] * SIZES["N"] + SIZES["M"] * SIZES["N"])
        assert floor(found) == moved / machine("h200").figure("memory_bandwidth").value
        assert found.seconds > floor(found)


def test_every_example_is_explained() -> None:
    for path in sorted(EXAMPLES.glob("*.tx")):
        for kernel in tw.load(path).values():
            state = tw.gpu_schedule(kernel).state
            sizes = dict.fromkeys(kernel.program.sizes, 64)
            found = estimate(state.program, state.tree, machine("h200"), sizes)
            assert found.seconds >= floor(found) > 0, kernel.name
            assert list(explanation(found))


def test_a_tensor_read_where_data_say_may_have_more_dimensions_than_loops() -> None:
    text = """kernel pick(W: f32[N, N, N], a: i32[T]) -> (Y: f32[T]) where N >= 1 {
        Y[t] = W[a[t], a[t], a[t]] + W[0, a[t], 0] + W[0, 0, 0]
    }"""
    (kernel,) = tw.parse(text).values()
    state = tw.gpu_schedule(kernel).state
    (launch,) = estimate(state.program, state.tree, machine("h200"), {"T": 512, "N": 64}).launches
    (read,) = (m for m in launch.moved if m.tensor == "W")
    # Each of the 2 * 512 reads may be of another element; the one at the origin is one more.
    assert read.there.at({"T": 512, "N": 64}) == 4 * (2 * 512 + 1)
    assert read.assumptions


def test_a_machine_without_the_figures_is_refused() -> None:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    state = tw.gpu_schedule(kernel).state
    with pytest.raises(MachineError, match="shared_memory of TPU v1 is not known"):
        estimate(state.program, state.tree, machine("tpu-v1"), SIZES)


def test_schedules_come_by_their_times_and_the_others_say_why() -> None:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    small, large, huge = (
        tw.gpu_schedule(kernel, tiles)
        for tiles in (
            tw.Sizes(rows=32, columns=32),
            tw.Sizes(rows=128, columns=256, stages=3),
            tw.Sizes(rows=256, columns=256, depth=256, stages=4),
        )
    )
    broken = json.dumps([["parallel", ["C.k"]]])
    found = tw.rank(kernel, {"small": small, "broken": broken, "large": large, "huge": huge}, "h200", SIZES)
    assert [r.name for r in found] == ["large", "small", "broken", "huge"]
    assert found[0].seconds < found[1].seconds < float("inf")
    assert found[2].reason == "refused [race]: parallel(C.k)"
    assert "too little of" in found[3].reason


def test_what_is_no_schedule_of_the_kernel_says_so() -> None:
    kernel, other = (tw.load(EXAMPLES / f"{name}.tx")[name] for name in ("matmul_silu", "softmax"))
    given = {"text": "no trace", "other": tw.Schedule(other), "own": tw.gpu_schedule(kernel)}
    own, text, foreign = tw.rank(kernel, given, "h200", SIZES)
    assert (own.name, own.reason) == ("own", "")
    assert text.reason == "this is no trace: a trace is a JSON list of [step, [arguments]]"
    assert foreign.reason == "a schedule of another kernel, softmax"


def test_the_command_explains() -> None:
    path = str(EXAMPLES / "matmul_silu.tx")
    words = ["explain", path, *(w for size in WORDS for w in ("--size", size))]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    assert "bound by" in shown.output
    record = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert record["launches"][0]["moved"][0]["asked_formula"] in ("2*K*N*ceiling(M/128)", "2*K*M*ceiling(N/128)")
    assert record["seconds"] > record["floor_seconds"] > 0
    missing = CliRunner().invoke(cli, ["explain", path, "--size", "M=3"])
    assert missing.exit_code == 2
    assert "all sizes are needed, also K, N: --size K=.." in missing.output


def test_the_command_ranks() -> None:
    path, folder = str(EXAMPLES / "matmul_silu.tx"), str(EXAMPLES / "schedules")
    words = ["rank", path, "--schedules", folder, *(w for size in WORDS for w in ("--size", size))]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0, shown.output
    rows = shown.output.splitlines()
    assert rows[1].startswith("matmul_roles")
    assert rows[-1].startswith("softmax")
    assert "refused" in rows[-1]


def test_where_nothing_runs_nothing_is_reckoned() -> None:
    (kernel,) = tw.parse("kernel e(X: f32[M]) -> (Y: f32[M - 1]) where M >= 1 { Y[i] = X[i] }").values()
    state = tw.gpu_schedule(kernel).state
    found = estimate(state.program, state.tree, machine("h200"), {"M": 1})
    assert list(explanation(found)) == ["M=1 on H200 SXM, as measured: nothing runs at these sizes"]
