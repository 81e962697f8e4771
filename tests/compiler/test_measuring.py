"""Ranked candidates that are run: in which order, how many, and what is never timed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler import measuring
from tilewright.compiler.candidate import candidate
from tilewright.compiler.cli import cli
from tilewright.compiler.ranking import rank

if TYPE_CHECKING:
    from pathlib import Path

KERNEL = """kernel scaled(X: f32[M, N]) -> (Y: f32[M, N]) {
    Y[i, j] = X[i, j] * 2
}"""
OTHER = KERNEL.replace("* 2", "* 3")
SIZES = {"M": 64, "N": 96}


def candidates(kernel: tw.Kernel) -> dict[str, tw.Schedule]:
    found: dict[str, tw.Schedule] = {}
    for lanes in (8, 16, 32):
        schedule = tw.Schedule(kernel)
        _, inner = schedule.split("Y.j", lanes)
        schedule.block(inner)
        schedule.parallel("Y.i")
        found[f"lanes {lanes}"] = schedule
    return found


@pytest.fixture
def kernel() -> tw.Kernel:
    return tw.parse(KERNEL)["scaled"]


def test_as_many_are_run_as_are_asked_for_and_as_tie(kernel: tw.Kernel) -> None:
    ranked = rank(kernel, {**candidates(kernel), "none": '[["parallel", ["X.i"]]]'}, "h200", SIZES)
    assert [bool(one.reason) for one in ranked] == [False, False, False, True]
    best, *others = (one.seconds for one in ranked[:3])
    for few, near, count in ((1, 0.0, 1 + sum(s == best for s in others)), (2, 0.0, 2), (1, 1e9, 3)):
        found = tw.measured(ranked, SIZES, few=few, near=near)
        times = [one.measurement.seconds for one in found if one.measurement is not None]
        assert len(times) == max(count, few)
        assert times == sorted(times)
        assert found[-1].name == "none"
        assert {one.name for one in found} == {one.name for one in ranked}
        assert all(one.measurement.same and one.measurement.error == 0 for one in found if one.measurement is not None)


def test_what_gives_other_numbers_is_not_timed(kernel: tw.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler with a fault: one of the candidates computes another kernel."""
    compiled = measuring.compile
    other = tw.parse(OTHER)["scaled"]

    def faulty(of: tw.Kernel, schedule: tw.Schedule, target: str) -> Any:
        found = compiled(of, schedule, target)
        if any(step.arguments[-1] == 16 for step in schedule.trace):
            object.__setattr__(found, "code", compiled(other, None, target).code)
        return found

    monkeypatch.setattr(measuring, "compile", faulty)
    found = tw.measured(rank(kernel, candidates(kernel), "h200", SIZES), SIZES)
    assert found[-1].name == "lanes 16"
    assert found[-1].measurement is None
    assert "by the definition" in found[-1].reason
    assert all(one.measurement is not None for one in found[:-1])


def test_permissions_are_told_by_the_distance(kernel: tw.Kernel) -> None:
    text = "kernel s(X: f32[N]) -> (Y: f32) where N >= 1 { allow reassociate\n Y = sum(j) X[j] }"
    (summed,) = tw.parse(text).values()
    schedule = tw.Schedule(summed)
    schedule.reverse("Y.j")
    (one,) = tw.measured(rank(summed, {"backwards": schedule}, "h200", {"N": 1000}), {"N": 1000})
    assert one.measurement is not None
    assert (one.measurement.same, one.measurement.error > 0) == (False, True)


def test_records(tmp_path: Path) -> None:
    """A candidate's record says what it is, whether it fits, and what it is reckoned to cost."""
    (tmp_path / "k.tx").write_text(KERNEL)
    folder = tmp_path / "schedules"
    folder.mkdir()
    steps = ["j, lanes = s.split('Y.j', 32)", "s.block(lanes)", "s.parallel('Y.i')", "s.parallel(j)"]
    (folder / "rows.py").write_text("\n    ".join(["def schedule(s):", *steps]) + "\n")
    (folder / "wrong.py").write_text("def schedule(s):\n    s.fuse('Y.j', 'Y.i')\n")
    command = ["rank", str(tmp_path / "k.tx"), "--schedules", str(folder), "--size", "M=64", "--size", "N=96"]
    done = CliRunner().invoke(cli, [*command, "--json", "--measure", "llvm"])
    assert done.exit_code == 0, done.output
    rows, wrong = json.loads(done.output)
    (launch,) = rows["schedule"]["launches"]
    assert launch["tiles"] == {"Y": {"Y.ji": 32}}
    assert launch["loops"] == ["Y.i (parallel)", "Y.jo (parallel)", "Y.ji (block)"]
    (fits,) = rows["feasible"]["launches"]
    assert (fits["contiguous"], fits["dependences"]) == ({"X read": 128, "Y write": 128}, "checked")
    assert {"threads", "registers", "shared_memory", "programs", "bound_by"} <= set(fits)
    assert rows["estimate"]["seconds"] > 0
    assert rows["measured"]["same_bits"] is True
    assert "M=64 N=96" in rows["measured"]["compared_at"]
    assert (wrong["estimate"], wrong["measured"]) == (None, None)
    assert wrong["feasible"]["reason"].startswith("refused [shape]")
    table = CliRunner().invoke(cli, [*command, "--measure", "llvm"]).output.splitlines()
    assert table[0].split() == ["schedule", "reckoned", "measured", "bound", "by", "from", "memory"]
    assert [line.split()[0] for line in table[1:]] == ["rows", "wrong"]


def test_sizes_that_are_too_many_are_not_said_to_be_compared(kernel: tw.Kernel) -> None:
    schedule = tw.Schedule(kernel)
    _, lanes = schedule.split("Y.j", 16)
    schedule.vectorize(lanes)
    large = {"M": 2300, "N": 2300}
    (one,) = tw.measured(rank(kernel, {"vectors": schedule}, "h200", large), large)
    assert one.measurement is not None
    assert "M=2300 N=2300" not in one.measurement.compared
    assert any(f"N={n}" in text for text in one.measurement.compared for n in (33, 34)), "two vectors and more"


def test_a_record_has_the_terms_of_a_sum() -> None:
    text = "kernel p(A: bf16[M, K], W: bf16[K, N]) -> (Y: f32[M, N]) { allow reassociate\n"
    (product,) = tw.parse(text + " Y[i, j] = sum(k) f32(A[i, k]) * f32(W[k, j]) }").values()
    at = {"M": 64, "K": 64, "N": 64}
    (one,) = rank(product, {"tiles": tw.gpu_schedule(product, tw.Sizes(rows=32, columns=64, depth=16))}, "h200", at)
    (launch,) = candidate(one)["schedule"]["launches"]
    assert sorted(n for name, n in launch["tiles"]["Y"].items() if "_" not in name) == [16, 32, 64]
