"""How long schedules take: each step, printing, the final check, NumPy text, a refusal with its witness, a replay.

    python benchmarks/passes.py [--save]

On the product with SiLU, and on causal attention with grouped heads (examples/). Times are medians of CPU time, which
other work on the machine disturbs less, with nothing remembered of isl's texts; the goals stand beside them.
--save writes benchmarks/results/passes.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilewright as tw
from tilewright.backends.numpy.nest import emit_nest
from tilewright.backends.numpy.tiles import emit_tiles
from tilewright.compiler.ir import affine
from tilewright.compiler.ir.tree import loops
from tilewright.passes.dependence import dependences
from tilewright.passes.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
RUNS = 9
STRICT_PRODUCT = """kernel product(A: f32[M, K], W: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = sum(k) A[i, k] * W[k, j]
}
"""
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Case:
    """A kernel of examples/, the steps of a schedule, a step that is refused, and goals in milliseconds."""

    name: str
    steps: tuple[Call, ...]
    refused: Call
    goal_step: float
    goal_check: float
    goal_replay: float | None = None


MATMUL = Case(
    "matmul_silu",
    (
        ("split", ("Y.i", 64)),
        ("split", ("Y.j", 64)),
        ("reorder", ("Y.io", "Y.jo", "Y.ii", "Y.ji")),
        ("compute_at", ("C", "Y.jo")),
        ("split", ("C.k", 32)),
        ("split", ("C.i", 8)),
        ("split", ("C.j", 16)),
        ("reorder", ("C.io", "C.jo", "C.ii", "C.ji")),
        ("reorder", ("C.ko", "C.io", "C.jo", "C.ki", "C.ii", "C.ji")),
        ("split", ("Y.ii", 4)),
        ("split", ("Y.ji", 16)),
        ("reorder", ("Y.iio", "Y.jio", "Y.iii", "Y.jii")),
        ("shift", ("C.ki", 1)),
        ("reverse", ("Y.iio",)),
        ("parallel", ("Y.io",)),
        ("parallel", ("Y.jo",)),
        ("fuse", ("Y.io", "Y.jo")),
        ("vectorize", ("Y.jii",)),
        ("vectorize", ("C.ji",)),
        ("unroll", ("C.ii",)),
    ),
    ("parallel", ("C.ko",)),
    20,
    150,
    400,
)
TILES = Case(
    "matmul_silu",
    (
        ("tile", ("Y.i", "Y.j", 64, 64)),
        ("compute_at", ("C", "Y.jo")),
        ("split", ("C.k", 32)),
        ("reorder", ("C.ko", "C.i", "C.j", "C.ki")),
        ("cache_read", ("A", "C.ko")),
        ("cache_read", ("W", "C.ko", "(k, j) -> (j // 8, k, j % 8)")),
        ("store", ("A_cache", None, "shared", None, 8)),
        ("cache_write", ("Y", "Y.jo")),
        ("block", ("C.i", "C.j", "C.ki", "C.i_a", "C.j_a", "C.i_b", "C.j_b")),
        ("block", ("A_cache.i", "A_cache.k", "W_cache.k", "W_cache.j")),
        ("block", ("Y.ii", "Y.ji", "Y_write.i", "Y_write.j")),
        ("bind", ("Y.io", "grid.y")),
        ("bind", ("Y.jo", "grid.x")),
        ("contract", ("C",)),
        ("pipeline", ("C.ko", 3)),
    ),
    ("parallel", ("C.ko",)),
    20,
    150,
)
ATTENTION = Case(
    "attention_gqa",
    (
        ("split", ("O.t", 16)),
        ("compute_at", ("l", "O.to")),
        ("compute_at", ("P", "O.to")),
        ("compute_at", ("m", "O.to")),
        ("compute_at", ("S", "O.to")),
        ("split", ("O.d", 8)),
        ("split", ("S.d", 8)),
        ("split", ("S.s", 32)),
        ("reorder", ("S.so", "S.do", "S.si", "S.di")),
        ("unroll", ("S.di",)),
        ("vectorize", ("O.s",)),
        ("parallel", ("O.b",)),
        ("bind", ("O.to", "grid.x")),
    ),
    ("compute_at", ("P", "l.t")),
    60,
    800,
)


def milliseconds(action: Callable[[], object], before: Callable[[], object] = affine.forget, runs: int = RUNS) -> float:
    """The median time of an action, each after *before*, which is not timed."""
    times: list[float] = []
    for _ in range(runs):
        before()
        start = time.process_time()
        action()
        times.append((time.process_time() - start) * 1e3)
    return statistics.median(times)


def take(schedule: tw.Schedule, call: Call) -> None:
    """One step of a schedule."""
    name, arguments = call
    getattr(schedule, name)(*arguments)


def step_milliseconds(schedule: tw.Schedule, call: Call) -> float:
    """The median time of a step, which is taken back after each run but the last."""
    length = len(schedule.trace)

    def back() -> None:
        affine.forget()
        while len(schedule.trace) > length:
            schedule.undo()

    return milliseconds(lambda: take(schedule, call), back)


def refusal_milliseconds(schedule: tw.Schedule, call: Call) -> float:
    """The median time of a step that is refused, its text included."""

    def ask() -> None:
        try:
            take(schedule, call)
        except tw.IllegalTransformError as error:
            str(error)
        else:
            raise AssertionError(f"{call} is legal")

    return milliseconds(ask)


def report(name: str, value: float, goal: float | None) -> float:
    print(f"  {name:66} {value:8.1f} ms" + (f"   (goal {goal:g})" if goal else ""))
    return round(value, 3)


def measure(case: Case) -> dict[str, Any]:
    """All figures of a case, in milliseconds."""
    kernel = tw.load(ROOT / "examples" / f"{case.name}.tx")[case.name]
    program = kernel.program
    print(case.name)

    def forget() -> None:
        affine.forget()
        dependences.cache_clear()

    found: dict[str, Any] = {"steps_ms": {}}
    found["dependences_ms"] = report(
        "dependences, once for a kernel", milliseconds(lambda: dependences(program), forget), None
    )
    schedule = tw.Schedule(kernel)
    for call in case.steps:
        value = step_milliseconds(schedule, call)
        text = f"{call[0]}({', '.join(map(str, call[1]))})"
        found["steps_ms"][text] = report(text, value, case.goal_step)
    state = schedule.state
    found["slowest_step_ms"] = max(found["steps_ms"].values())
    refused = f"refusal of {case.refused[0]}({', '.join(map(str, case.refused[1]))})"
    found["refusal_ms"] = report(refused, refusal_milliseconds(schedule, case.refused), 1000)
    found["print_ms"] = report("print(schedule)", milliseconds(lambda: str(schedule)), None)
    made = state.program
    found["numpy_text_ms"] = report("NumPy text", milliseconds(lambda: emit_nest(made, state.tree, "")), None)
    checked = milliseconds(lambda: verify(made, state.tree, program))
    found["final_check_ms"] = report("final check", checked, case.goal_check)
    if any(loop.kind == "block" for loop in loops(state.tree)):
        found["tiles_ms"] = report("tiles", milliseconds(lambda: emit_tiles(made, state.tree, "")), None)
    found["compile_ms"] = report("tw.compile, both", milliseconds(lambda: tw.compile(kernel, schedule)), None)
    text = schedule.to_json()
    replayed = milliseconds(lambda: tw.Schedule.replay(kernel, text))
    found["replay_ms"] = report(f"replay of {len(schedule.trace)} steps", replayed, case.goal_replay)
    return found


def strict_refusal() -> float:
    """A rounding refusal, with the input that shows it, of a tiled float32 product without permissions."""
    schedule = tw.Schedule(tw.parse(STRICT_PRODUCT, name="product.tx")["product"])
    ko, ki = schedule.split("C.k", 32)
    return refusal_milliseconds(schedule, ("reorder", (ki, ko)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    save = parser.parse_args().save
    found: dict[str, object] = {"date": str(datetime.date.today()), "python": platform.python_version()}
    found["versions"] = {name: version(name) for name in ("islpy", "numpy")}
    for name, case in (("matmul_silu", MATMUL), ("matmul_silu in tiles", TILES), ("attention_gqa", ATTENTION)):
        found[name] = measure(case)
    print("strict product")
    found["rounding_refusal_ms"] = report("refusal of reorder(C.ki, C.ko), with a witness", strict_refusal(), 1000)
    if save:
        (ROOT / "benchmarks" / "results" / "passes.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
