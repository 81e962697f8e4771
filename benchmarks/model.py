"""The cost model against measured times: does it find the fast schedules before anything is run?

    python benchmarks/model.py --gpu FILE     measure every candidate on a GPU, and write their times
    python benchmarks/model.py FILE           reckon every candidate, and compare

For each case: Kendall's tau between reckoned and measured times, and by how much the first choice of the model, and the
best of its first five, are slower than the best measured; beside that of a random choice and of the largest tile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from pathlib import Path
from typing import Any

import tilewright as tw
from model_candidates import Candidate, candidates
from tilewright.backends.load import load_module
from tilewright.cost.estimate import Estimate, estimate
from tilewright.cost.machine import machine

ROUNDS = 3


def inputs(candidate: Candidate) -> tuple[Any, ...]:
    from gpu_kernels import normal

    sizes = dict(candidate.sizes)
    if candidate.kernel == "matmul_silu":
        return normal(sizes["M"], sizes["K"]), normal(sizes["K"], sizes["N"], scale=0.02)
    if candidate.kernel == "rmsnorm":
        return normal(sizes["M"], sizes["D"]), normal(sizes["D"]), 1e-5
    if candidate.kernel == "softmax":
        return (normal(sizes["R"], sizes["C"]),)
    if candidate.kernel == "transpose":
        return (normal(sizes["M"], sizes["N"]),)
    return normal(32, 56, 56, 64), normal(3, 3, 64, 64, scale=0.05)


def prepare(candidate: Candidate) -> tuple[str, str]:
    """Compile a candidate and run it once, so that Triton's cache has it: its text, or what went wrong."""
    try:
        compiled = candidate.compiled()
        compiled(*inputs(candidate))
    except Exception as error:
        return "", f"{type(error).__name__}: {str(error)[:200]}"
    return compiled.source, ""


def measure(found: list[Candidate], path: str) -> None:
    """Write the times of all candidates: medians of rounds over fresh inputs, in microseconds."""
    import torch
    import triton
    from gpu import FRESH, captured, seconds

    start = time.time()
    with multiprocessing.get_context("spawn").Pool(12) as pool:
        made = pool.map(prepare, found, chunksize=1)
    print(f"{len(found)} candidates compiled in {time.time() - start:.0f} s", flush=True)
    times: dict[str, dict[str, Any]] = {}
    for case in dict.fromkeys(c.case for c in found):
        graphs = {}
        own = [(c, *m) for c, m in zip(found, made, strict=True) if c.case == case]
        one = inputs(own[0][0])
        size = sum(t.nbytes for t in one if isinstance(t, torch.Tensor))
        sets = [one, *(inputs(own[0][0]) for _ in range(min(30, max(1, FRESH // size))))]
        for candidate, source, fault in own:
            if fault:
                times.setdefault(case, {})[candidate.name] = fault
                continue
            function = load_module(source, candidate.kernel)[candidate.kernel]
            graphs[candidate.name] = (captured(lambda *a, f=function: f(*a), sets), len(sets))
        readings: dict[str, list[float]] = {name: [] for name in graphs}
        for number in range(ROUNDS):
            order = list(graphs)
            for name in order[number % len(order) :] + order[: number % len(order)]:
                graph, calls = graphs[name]
                once = seconds(graph, 1)
                if number and once > 0.05:
                    continue  # slow enough to be told from the others by one reading
                readings[name].append(seconds(graph, max(1, int(0.004 / once))) / calls * 1e6)
        for name, found_times in readings.items():
            times.setdefault(case, {})[name] = statistics.median(found_times)
        del graphs
        print(f"{time.time() - start:4.0f} s  {case}: {len(own)} candidates", flush=True)
        head = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__}
        Path(path).write_text(json.dumps({**head, "date": time.strftime("%Y-%m-%d"), "us": times}, indent=1) + "\n")


def reckon(found: list[Candidate], name: str) -> dict[str, dict[str, Estimate]]:
    """The estimates of all candidates."""
    from gpu_kernels import TEXTS

    on = machine(name)
    result: dict[str, dict[str, Estimate]] = {}
    for candidate in found:
        (kernel,) = tw.parse(TEXTS[candidate.kernel].replace("TYPE", "bf16")).values()
        state = tw.gpu_schedule(kernel, candidate.tiles).state
        reckoned = estimate(state.program, state.tree, on, dict(candidate.sizes), candidate.warps)
        result.setdefault(candidate.case, {})[candidate.name] = reckoned
    return result


def tau(first: list[float], second: list[float]) -> float:
    """Kendall's tau-b: agreement of two orders, 1 for the same, -1 for the opposite."""
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    signs = [(_sign(first[i] - first[j]), _sign(second[i] - second[j])) for i, j in pairs]
    agreed = sum(a * b for a, b in signs)
    norm = (sum(a != 0 for a, _ in signs) * sum(b != 0 for _, b in signs)) ** 0.5
    return agreed / norm if norm else 0.0


def _sign(x: float) -> int:
    return (x > 0) - (x < 0)


def compare(
    found: list[Candidate], measured: dict[str, Any], reckoned: dict[str, dict[str, Estimate]]
) -> dict[str, Any]:
    """A line for each case, and what it holds."""
    result: dict[str, Any] = {}
    for case in dict.fromkeys(c.case for c in found):
        times = {n: t for n, t in measured["us"].get(case, {}).items() if isinstance(t, float)}
        names = [n for n in reckoned[case] if n in times]
        ranked = sorted(names, key=lambda n: reckoned[case][n].place)
        best = min(times.values())
        largest = max((c for c in found if c.case == case and c.name in times), key=_largest)
        result[case] = {
            "candidates": len(names),
            "tau": tau([reckoned[case][n].seconds for n in names], [times[n] for n in names]),
            "first": times[ranked[0]] / best - 1,
            "of five": min(times[n] for n in ranked[:5]) / best - 1,
            "random": statistics.mean(times.values()) / best - 1,
            "largest tile": times[largest.name] / best - 1,
        }
        shown = "  ".join(
            f"{k} {v:.2f}" if k == "tau" else f"{k} {v:.1%}" for k, v in result[case].items() if k != "candidates"
        )
        print(f"{case:40s} {len(names):3d} candidates  {shown}")
    for key in ("tau", "first", "of five", "random", "largest tile"):
        print(f"median {key}: {statistics.median(r[key] for r in result.values()):.3f}")
    return result


def _largest(candidate: Candidate) -> tuple[int, int]:
    tiles = candidate.tiles
    return (tiles.rows * tiles.columns * tiles.depth + tiles.side + min(tiles.lanes, tiles.whole), candidate.warps or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--machine", default="h200")
    options = parser.parse_args()
    found = list(candidates())
    if options.gpu:
        measure(found, options.file)
        return
    compare(found, json.loads(Path(options.file).read_text()), reckon(found, options.machine))


if __name__ == "__main__":
    main()
