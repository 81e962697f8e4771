"""The cost model of processors against measured times: does it find the fast schedules before anything is run?

    python benchmarks/model_cpu.py [--machine FILE.toml] [--only CASE ..] [--save FILE.json]

Every candidate is compiled, run by turns on one thread, and reckoned. For each case: Kendall's tau between reckoned and
measured times, and by how much the first choice of the model, and the best of its first five, are slower than the best
measured; beside that of a random choice and of the largest tile.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tilewright as tw
from cpu import CHAIN, CONV, GATED, PRODUCT, TRANSPOSE
from model import tau
from tilewright.cost.machine import machine
from tilewright.cost.processor import on_processor
from tilewright.passes.cpu_products import CpuSizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tilewright.cost.times import Estimate

ROUNDS = 5
# Seconds of a reading.
LONG = 0.02


@dataclass(frozen=True)
class Candidate:
    """A schedule of a kernel at some sizes. *large*: how large its tiles are."""

    case: str
    name: str
    text: str
    sizes: dict[str, int]
    schedule: Callable[[tw.Kernel], tw.Schedule]
    large: int


def sized(tiles: CpuSizes, at: dict[str, int] | None = None) -> Callable[[tw.Kernel], tw.Schedule]:
    return lambda kernel: tw.cpu_schedule(kernel, tiles, at=at)


def ordered(order: tuple[str, ...]) -> Callable[[tw.Kernel], tw.Schedule]:
    """The loops of a product as they come, in some order, the innermost in vectors if it may be."""

    def schedule(kernel: tw.Kernel) -> tw.Schedule:
        s = tw.Schedule(kernel)
        s.reorder(*(f"C.{n}" for n in order))
        if order[-1] == "j":
            s.vectorize("C.j")
        return s

    return schedule


def candidates() -> Iterator[Candidate]:
    """All of them, case by case."""
    fused = PRODUCT.replace("PERMITTED", "allow contract in")
    tiles = ((2, 64), (4, 16), (4, 32), (6, 16), (6, 64), (8, 32), (12, 32), (14, 32), (16, 32), (28, 16))
    for size in (512, 1024):
        sizes = {"M": size, "N": size, "K": size}
        case = f"product {size}"
        for (rows, columns), panels in product(tiles, (6, 24)):
            own = CpuSizes(rows=rows, columns=columns, panel=rows * panels, width=columns * 64)
            yield Candidate(case, f"{rows}x{columns} panel={own.panel}", fused, sizes, sized(own), rows * columns)
        for width, depth in ((32, 16), (2048, 4), (2048, 64)):
            own = CpuSizes(rows=14, columns=32, panel=336, width=width, depth=depth)
            yield Candidate(case, f"14x32 width={width} depth={depth}", fused, sizes, sized(own), 14 * 32)
        if size == 512:
            for order in permutations(("i", "j", "k")):
                yield Candidate(case, f"loops {' '.join(order)}", fused, sizes, ordered(order), 1)
    sizes = {"M": 4, "N": 4096, "K": 1024}
    for length, depth, columns in product((64, 512, 4096), (4, 16), (16, 32)):
        own = CpuSizes(columns=columns, length=length, depth=depth)
        name = f"length={length} depth={depth} columns={columns}"
        yield Candidate("product of 4 rows", name, fused, sizes, sized(own, sizes), length * depth)
    for side in (4, 8, 16, 32, 64, 128):
        sizes = {"M": 2048, "N": 2048}
        yield Candidate("transposition", f"side={side}", TRANSPOSE, sizes, sized(CpuSizes(side=side)), side)
    for chunk in (16, 64, 256, 16384, 1 << 20):
        yield Candidate("chain", f"chunk={chunk}", CHAIN, {"N": 1 << 22}, sized(CpuSizes(chunk=chunk)), chunk)
    sizes = {"B": 1, "H": 56, "W": 56, "C": 64, "O": 64}
    for (rows, columns), depth in product(((4, 32), (7, 32), (8, 32), (14, 32), (14, 64), (28, 16)), (16, 64)):
        own = CpuSizes(rows=rows, columns=columns, panel=rows * 4, width=columns * 64, depth=depth)
        yield Candidate("convolution", f"{rows}x{columns} depth={depth}", CONV, sizes, sized(own), rows * columns)
    sizes = {"M": 512, "N": 4096}
    for name in ("vectors", "one by one", "columns outside"):
        yield Candidate("SiLU times a factor", name, GATED.replace("TYPE", "f32"), sizes, gated(name), 1)


def gated(name: str) -> Callable[[tw.Kernel], tw.Schedule]:
    def schedule(kernel: tw.Kernel) -> tw.Schedule:
        s = tw.Schedule(kernel)
        if name == "columns outside":
            s.reorder("Y.j", "Y.i")
        elif name == "vectors":
            s.vectorize("Y.j")
        return s

    return schedule


def measure(found: list[Candidate]) -> dict[str, dict[str, float]]:
    """Microseconds of a call of every candidate: medians of rounds, by turns within a case."""
    rng = np.random.default_rng(0)
    times: dict[str, dict[str, float]] = {}
    for case in dict.fromkeys(c.case for c in found):
        calls: dict[str, tuple[Any, Any]] = {}
        for one in (c for c in found if c.case == case):
            (kernel,) = tw.parse(one.text).values()
            function = tw.compile(kernel, one.schedule(kernel))
            shapes = [kernel.program.tensors[name].shape(one.sizes) for name in kernel.program.parameters]
            calls[one.name] = (function, [rng.standard_normal(shape).astype(np.float32) for shape in shapes])
        readings: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(ROUNDS):
            order = list(calls)
            for name in order[number % len(order) :] + order[: number % len(order)]:
                readings[name].append(_reading(*calls[name]))
        times[case] = {name: statistics.median(r) * 1e6 for name, r in readings.items()}
    return times


def _reading(function: Any, inputs: list[Any]) -> float:
    out = function(*inputs)
    start = time.perf_counter()
    count = 0
    while True:
        function(*inputs, out=out)
        count += 1
        if (taken := time.perf_counter() - start) > LONG:
            return taken / count


def reckon(found: list[Candidate], name: str) -> dict[str, dict[str, Estimate]]:
    """The estimates of all candidates, on one thread."""
    times: dict[str, dict[str, Estimate]] = {}
    for one in found:
        (kernel,) = tw.parse(one.text).values()
        state = one.schedule(kernel).state
        reckoned = on_processor(state.program, state.tree, machine(name), one.sizes, 1)
        times.setdefault(one.case, {})[one.name] = reckoned
    return times


def compare(
    found: list[Candidate], measured: dict[str, dict[str, float]], reckoned: dict[str, dict[str, Estimate]]
) -> dict[str, Any]:
    """A line for each case, and what it holds."""
    result: dict[str, Any] = {}
    for case, times in measured.items():
        own = reckoned[case]
        ranked = sorted(times, key=lambda n: own[n].place)
        best = min(times.values())
        largest = max((c for c in found if c.case == case), key=lambda c: c.large)
        ratios = [1e6 * own[n].seconds / times[n] for n in times]
        result[case] = {
            "candidates": len(times),
            "tau": tau([own[n].seconds for n in times], list(times.values())),
            "first": times[ranked[0]] / best - 1,
            "of five": min(times[n] for n in ranked[:5]) / best - 1,
            "random": statistics.mean(times.values()) / best - 1,
            "largest tile": times[largest.name] / best - 1,
            "reckoned of measured": statistics.median(ratios),
        }
        shown = "  ".join(f"{k} {v:.2f}" for k, v in result[case].items() if k != "candidates")
        print(f"{case:24s} {len(times):3d} candidates  {shown}", flush=True)
    for key in ("tau", "first", "of five", "random", "largest tile"):
        print(f"median {key}: {statistics.median(r[key] for r in result.values()):.3f}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="emerald-rapids")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--save")
    parser.add_argument("--again", help="A file that --save wrote, for its measured times.")
    options = parser.parse_args()
    found = [c for c in candidates() if not options.only or any(w in c.case for w in options.only)]
    tw.set_threads(1)
    measured = json.loads(Path(options.again).read_text())["us"] if options.again else measure(found)
    measured = {case: times for case, times in measured.items() if any(c.case == case for c in found)}
    reckoned = reckon(found, options.machine)
    for case, times in measured.items():
        for name in sorted(times, key=lambda n: times[n]):
            print(f"{case:24s} {name:32s} {times[name]:10.1f} us, reckoned {1e6 * reckoned[case][name].seconds:10.1f}")
    result = compare(found, measured, reckoned)
    if options.save:
        head = {"machine": options.machine, "date": time.strftime("%Y-%m-%d"), "threads": 1}
        model = {case: {n: 1e6 * e.seconds for n, e in own.items()} for case, own in reckoned.items()}
        text = {**head, "us": measured, "reckoned us": model, "cases": result}
        Path(options.save).write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
