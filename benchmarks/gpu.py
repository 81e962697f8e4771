"""Speed on a GPU: kernels by their default schedules beside libraries, compilers and each other.

    python benchmarks/gpu.py [--only NAME ..] [--save FILE]

Every contestant is checked before it is timed. Times are of graph replays over inputs that do not stay in the cache:
contestants take turns in rounds whose order rotates, once in bursts on a cool card and once sustained; what is printed
is the median over the rounds, with the range. A ratio is the best other contestant's time over ours: above 1 is ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilewright as tw
import torch
import triton
from gpu_kernels import (
    TEXTS,
    chained,
    contracted,
    convolved,
    gated,
    normal,
    normed,
    permissive,
    quantised,
    silu_after,
)
from tilewright.backends.load import load_module

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 5
# What has to pass through before an input is read again: more than the second cache holds.
FRESH = 200 << 20


@dataclass
class Case:
    """Contestants on the same inputs: name -> function of one set of inputs."""

    name: str
    inputs: Callable[[], tuple[Any, ...]]
    ours: tw.CompiledKernel
    others: dict[str, Callable[..., Any]]
    tolerance: float = 2e-2
    times: dict[str, Any] = field(default_factory=dict)


def compiled(
    name: str, sizes: tw.Sizes | None = None, warps: int | None = None, at: dict[str, int] | None = None, **words: str
) -> tw.CompiledKernel:
    text = TEXTS[name]
    for word, meant in words.items():
        text = text.replace(word, meant)
    (kernel,) = tw.parse(text).values()
    return tw.compile(kernel, tw.gpu_schedule(kernel, sizes, at=at), target="triton", warps=warps)


def with_compile(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {
        "torch": function,
        "torch.compile": torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False),
    }


def fast(ours: tw.CompiledKernel) -> Callable[..., Any]:
    """The same module with the hardware's functions."""
    name = ours.kernel.name
    function = load_module(permissive(ours.source), name)[name]
    return lambda *inputs: function(*inputs)


def cases() -> list[Case]:
    found: list[Case] = []
    # Chosen in an earlier run, to be compared with what the cost model chooses; all of them give the same bits.
    small = tw.Sizes(rows=16, columns=128, depth=64, stages=6, together=1)
    large = tw.Sizes(rows=128, columns=256, depth=64, stages=3, together=16, processors=True, consumers=2)
    tiles = {
        1: small,
        16: small,
        64: tw.Sizes(rows=64, columns=128, depth=64, stages=6, together=1),
        256: tw.Sizes(rows=128, columns=256, depth=64, stages=3, together=2),
        1024: large,
        2048: large,
        8192: replace(large, together=8),
    }
    # The same tiles by all warps alike.
    whole = compiled("matmul_silu", replace(large, stages=4, consumers=0))
    # What it costs to have one tile for any number of rows.
    one_tile = compiled("matmul_silu", tw.Sizes(rows=128, columns=128, depth=64, stages=4))
    for rows, sizes in tiles.items():
        alike: dict[str, Callable[..., Any]] = {"ours, without roles": whole} if sizes.consumers else {}
        by_hand = compiled("matmul_silu", sizes, warps={16: 4, 64: 8}.get(sizes.rows))
        found.append(
            Case(
                f"matmul_silu M={rows}",
                lambda rows=rows: (normal(rows, 4096), normal(4096, 12288, scale=0.02)),
                compiled("matmul_silu", at={"M": rows, "K": 4096, "N": 12288}),
                {"torch": silu_after, "ours, by hand": by_hand, "ours, one tile": one_tile, **alike},
            )
        )
        if rows in (16, 1024, 8192):
            # The order of the matrix units as a definition, against the same order as a permission.
            warps = 4 if sizes is small else None
            strict, free = (compiled(name, sizes, warps) for name in ("matmul_sm90", "matmul_silu"))
            inputs = lambda rows=rows: (normal(rows, 4096), normal(4096, 12288, scale=0.02))  # noqa: E731
            found.append(Case(f"mma=sm_90 M={rows}", inputs, strict, {"ours, permitted": free}))
    inputs = lambda: (  # noqa: E731
        normal(4096, 4096),
        normal(1536, 4096, dtype=torch.float8_e4m3fn),
        normal(1536, dtype=torch.float32).abs() + 0.5,
    )
    sizes = tw.Sizes(rows=128, columns=128, depth=128, stages=3)
    found.append(Case("quantised", inputs, compiled("quantised", sizes, warps=8), with_compile(quantised)))
    # Few programs of long sums, or parts of them.
    inputs = lambda: (normal(16, 12288), normal(12288, 4096, scale=0.02))  # noqa: E731
    sizes = tw.Sizes(rows=16, columns=128, depth=64, stages=6, together=1)
    whole, parts = (compiled("matmul_silu", replace(sizes, part=part), warps=4) for part in (0, 3072))
    found.append(Case("in parts K=12288", inputs, parts, {"torch": silu_after, "ours, whole": whole}))
    for rows in (1, 1024, 7239):
        inputs = lambda rows=rows: (normal(rows, 12288), normal(rows, 12288))  # noqa: E731
        # torch.compile knows the length of a row, and so may we. One row is latency: smaller tiles wait together.
        known = {"-> (Y: bf16[M, N])": "-> (Y: bf16[M, N]) where N == 12288"}
        ours = compiled("silu_mul", tw.Sizes(elements=512 if rows == 1 else 2048), warps=4, **known)
        more = {"ours, any length": compiled("silu_mul"), "ours, fast": fast(ours)}
        found.append(Case(f"silu_mul M={rows}", inputs, ours, {**with_compile(gated), **more}))
    for rows in (1, 1024, 8192):
        inputs = lambda rows=rows: (normal(rows, 4096), normal(4096), 1e-5)  # noqa: E731
        # torch.compile knows the length of a row, and so may we.
        known = {"D >= 1": "D == 4096"}
        ours = compiled("rmsnorm", **known)
        free = compiled("rmsnorm", **known, **{"sum(d, lanes=1024)": "allow reassociate in sum(d)"})
        found.append(
            Case(
                f"rmsnorm M={rows}",
                inputs,
                ours,
                {**with_compile(normed), "ours, any length": compiled("rmsnorm"), "ours, fast": fast(free)},
            )
        )
    for kind, word in ((torch.bfloat16, "bf16"), (torch.float32, "f32")):
        inputs = lambda kind=kind: (normal(1024, 8192, dtype=kind),)  # noqa: E731
        ours = compiled("softmax", TYPE=word)
        other = with_compile(lambda X: torch.softmax(X, 1))
        found.append(Case(f"softmax {word}", inputs, ours, {**other, "ours, fast": fast(ours)}))
    other = with_compile(lambda X: X.t().contiguous())
    found.append(
        Case(
            "transpose 8192", lambda: (normal(8192, 8192),), compiled("transpose", tw.Sizes(side=128), warps=16), other
        )
    )
    inputs = lambda: (normal(1 << 26, dtype=torch.float32), normal(1 << 26, dtype=torch.float32))  # noqa: E731
    found.append(Case("chain 2^26", inputs, compiled("chain"), with_compile(chained)))
    inputs = lambda: (normal(32, 56, 56, 64), normal(3, 3, 64, 64, scale=0.05))  # noqa: E731
    tiles = tw.Sizes(rows=128, columns=64, stages=3)
    more = {"ours, 8 warps": compiled("conv", tiles, warps=8)}
    found.append(Case("conv 3x3", inputs, compiled("conv", tiles, warps=4), {**with_compile(convolved), **more}))
    inputs = lambda: (normal(32, 32, 64, 128, scale=0.1), normal(64, 32, 512, scale=0.1))  # noqa: E731
    found.append(Case("contraction", inputs, compiled("contraction", warps=4), {"torch.einsum": contracted}))
    return found


def captured(function: Callable[..., Any], sets: list[tuple[Any, ...]]) -> torch.cuda.CUDAGraph:
    """A graph of one call for each set of inputs."""
    for one in sets[:2]:
        function(*one)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for one in sets:
            function(*one)
    return graph


def seconds(graph: torch.cuda.CUDAGraph, times: int) -> float:
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(times):
        graph.replay()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1000 / times


def measure(case: Case) -> None:
    torch.manual_seed(0)
    one = case.inputs()
    size = sum(t.nbytes for t in one if isinstance(t, torch.Tensor))
    sets = [one, *(case.inputs() for _ in range(min(30, max(1, FRESH // max(1, size)))))]
    contestants = {"ours": lambda *a: case.ours(*a), **case.others}
    want = next(iter(case.others.values()))(*one).float()
    graphs: dict[str, torch.cuda.CUDAGraph] = {}
    for name, function in contestants.items():
        got = function(*one).float()
        error = ((got - want).norm() / want.norm()).item()
        if not error <= case.tolerance:
            raise AssertionError(f"{case.name}: {name} is off by {error}")
        graphs[name] = captured(function, sets)
    for regime in ("burst", "sustained"):
        readings: dict[str, list[float]] = {name: [] for name in graphs}
        for number in range(ROUNDS):
            order = list(graphs)
            for name in order[number % len(order) :] + order[: number % len(order)]:
                graph = graphs[name]
                once = seconds(graph, 1)
                if regime == "burst":
                    time.sleep(0.1)
                    graph.replay()
                    reading = seconds(graph, max(1, int(0.008 / once)))
                else:
                    seconds(graph, max(1, int(0.03 / once)))
                    reading = seconds(graph, max(1, int(0.05 / once)))
                readings[name].append(reading / len(sets) * 1e6)
        case.times[regime] = {n: [statistics.median(r), min(r), max(r)] for n, r in readings.items()}


def overhead() -> dict[str, float]:
    """Microseconds of the host for a call, medians: of the compiled kernel, of its module's function, and of a launch
    of the same kernel written by hand."""
    ours = compiled("silu_mul")
    G, U = normal(64, 12288), normal(64, 12288)
    module = load_module(ours.source, "silu_mul")
    kernel, function = module["silu_mul_y_kernel"], module["silu_mul"]

    def by_hand() -> torch.Tensor:
        Y = torch.empty_like(G)
        kernel[(24, 64)](G, U, Y, 12288, 64, TALL=False, WIDE=False, num_warps=2, num_stages=1, enable_fp_fusion=False)
        return Y

    readings: dict[str, list[float]] = {"by hand": [], "module": [], "compiled": []}
    for number in range(ROUNDS):
        for name, call in (("by hand", by_hand), ("module", lambda: function(G, U)), ("compiled", lambda: ours(G, U))):
            for _ in range(50 if number == 0 else 0):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(1000):
                call()
            readings[name].append((time.perf_counter() - start) * 1e3)
            torch.cuda.synchronize()
    return {name: statistics.median(found) for name, found in readings.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--save")
    options = parser.parse_args()
    found: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "unit": "us: median, least and greatest of the rounds",
        "cases": {},
    }
    for case in cases():
        if options.only and not any(word in case.name for word in options.only):
            continue
        try:
            measure(case)
        except Exception as error:
            print(f"{case.name:20s} failed: {type(error).__name__}: {str(error)[:300]}", flush=True)
            found["cases"][case.name] = {"failed": f"{type(error).__name__}: {str(error)[:300]}"}
            continue
        found["cases"][case.name] = case.times
        for regime, times in case.times.items():
            others = {n: t for n, t in times.items() if n != "ours"}
            # Our own variants are there to be compared with, and count where there is nobody else.
            rivals = {n: t for n, t in others.items() if not n.startswith("ours,")} or others
            best = min(t[0] for t in rivals.values())
            shown = "  ".join(f"{n} {t[0]:.1f} [{t[1]:.1f}..{t[2]:.1f}]" for n, t in times.items())
            print(f"{case.name:20s} {regime:9s} ratio {best / times['ours'][0]:.3f}   {shown}", flush=True)
    if not options.only or "launch" in options.only:
        found["launch"] = overhead()
        print(f"a call of the host: {', '.join(f'{n} {t:.1f} us' for n, t in found['launch'].items())}")
    if options.save:
        Path(options.save).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
