"""The bytes that memory gives and takes, reckoned and counted by the card.

    python benchmarks/traffic.py --gpu FILE     count them with Nsight Compute (ncu), and write both

Each kernel runs once on inputs that no cache holds, under `ncu`; the counters are those of the DRAM controllers.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import tilewright as tw

COUNTERS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
CASES: dict[str, dict[str, int]] = {
    "silu_mul": {"M": 7239, "N": 12288},
    "rmsnorm": {"M": 8192, "D": 4096},
    "softmax": {"R": 8192, "C": 8192},
    "transpose": {"M": 8192, "N": 8192},
    "chain": {"N": 1 << 26},
    "matmul_silu": {"M": 16, "K": 4096, "N": 12288},
}


def kernel(name: str) -> tw.Kernel:
    from gpu_kernels import TEXTS

    return tw.parse(TEXTS[name].replace("TYPE", "bf16"))[name]


def schedule(name: str) -> tw.Schedule:
    """By the model's tiles for products, and the default for all else."""
    return tw.gpu_schedule(kernel(name), at=CASES[name] if name == "matmul_silu" else None)


def run(name: str) -> None:
    """Run a kernel once, after a write of more than a cache holds: nothing is there before, and what it leaves in the
    cache unwritten is made up for by what the write before has left there."""
    import torch
    from gpu_kernels import normal

    sizes = CASES[name]
    inputs: dict[str, Any] = {
        "silu_mul": lambda: (normal(sizes["M"], sizes["N"]), normal(sizes["M"], sizes["N"])),
        "rmsnorm": lambda: (normal(sizes["M"], sizes["D"]), normal(sizes["D"]), 1e-5),
        "softmax": lambda: (normal(sizes["R"], sizes["C"]),),
        "transpose": lambda: (normal(sizes["M"], sizes["N"]),),
        "chain": lambda: (normal(sizes["N"], dtype=torch.float32), normal(sizes["N"], dtype=torch.float32)),
        "matmul_silu": lambda: (normal(sizes["M"], sizes["K"]), normal(sizes["K"], sizes["N"])),
    }
    given = inputs[name]()
    made = schedule(name)
    compiled = tw.compile(made.kernel, made, target="triton")
    torch.empty(1 << 28, device="cuda").fill_(1)
    compiled(*given)
    torch.cuda.synchronize()


def counted(name: str) -> dict[str, float]:
    """The counters of a kernel's launches, in bytes."""
    words = ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(COUNTERS)]
    words += ["--print-units", "base", "--kernel-name", f"regex:{name}.*", sys.executable, __file__, "--run", name]
    found = subprocess.run(words, capture_output=True, text=True, timeout=120)
    lines = [line for line in found.stdout.splitlines() if line.startswith('"')]
    if not lines:
        raise RuntimeError(f"{name}: {(found.stdout + found.stderr)[-400:]}")
    totals = dict.fromkeys(COUNTERS, 0.0)
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        totals[row["Metric Name"]] += float(row["Metric Value"].replace(",", ""))
    return totals


def reckoned(name: str) -> dict[str, float]:
    from tilewright.cost.estimate import estimate
    from tilewright.cost.machine import machine

    state = schedule(name).state
    found = estimate(state.program, state.tree, machine("h200"), CASES[name])
    totals = dict.fromkeys(COUNTERS, 0.0)
    for launch in found.launches:
        for tensor, count in launch.memory.items():
            totals[COUNTERS[tensor.endswith(" written")]] += count
    return totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", metavar="FILE")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return
    result: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "unit": "bytes", "cases": {}}
    for name, sizes in CASES.items():
        both = {"reckoned": reckoned(name), "counted": counted(name)}
        result["cases"][f"{name} {' '.join(f'{n}={v}' for n, v in sizes.items())}"] = both
        ratios = [both["counted"][c] / both["reckoned"][c] for c in COUNTERS]
        print(f"{name:12s} counted / reckoned: read {ratios[0]:.3f}, written {ratios[1]:.3f}", flush=True)
        if options.gpu:
            Path(options.gpu).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
