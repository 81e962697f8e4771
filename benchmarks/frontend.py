"""How long the front end takes: import, parse + check + lower of each example, `txc check` of all of them.

    python benchmarks/frontend.py [--save]

Times are wall-clock medians; the goals stand beside them. --save writes benchmarks/results/frontend.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.tx"))


def process_seconds(*command: str, runs: int = 7) -> float:
    """Median wall-clock seconds of a command of its own."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def import_seconds() -> float:
    """Median seconds of `import tilewright` inside a fresh interpreter."""
    code = "import time; t = time.perf_counter(); import tilewright; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(7)]
    return statistics.median(float(run.stdout) for run in runs)


def lowering_milliseconds(path: Path) -> tuple[float, float]:
    """(first, median of 9) milliseconds from text to program; isl's texts are forgotten before each run."""
    from tilewright.compiler.ir import affine
    from tilewright.compiler.ir.span import Source
    from tilewright.frontend.check import check_source

    times: list[float] = []
    for _ in range(9):
        affine.forget()
        start = time.perf_counter()
        check_source(Source(path.name, path.read_text()))
        times.append((time.perf_counter() - start) * 1e3)
    return times[0], statistics.median(times)


def matmul_seconds() -> float:
    """Median seconds of the [256, 512] x [512, 384] bf16 product with SiLU, in the NumPy reference."""
    import ml_dtypes
    import numpy as np
    import tilewright as tw

    kernel = tw.load(ROOT / "examples" / "matmul_silu.tx")["matmul_silu"]
    rng = np.random.default_rng(0)
    A, W = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((256, 512), (512, 384)))
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        kernel(A, W)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    save = parser.parse_args().save
    found: dict[str, object] = {"date": str(datetime.date.today()), "python": platform.python_version()}
    found["versions"] = {name: version(name) for name in ("islpy", "lark", "numpy", "ml_dtypes")}
    found["import_s"] = import_seconds()
    print(f"import tilewright            {found['import_s'] * 1e3:8.1f} ms   (goal 250)")
    found["check_all_s"] = process_seconds(str(Path(sys.executable).with_name("txc")), "check", *map(str, EXAMPLES))
    print(f"txc check examples/*.tx      {found['check_all_s'] * 1e3:8.1f} ms   (goal 4000)")
    lowering_milliseconds(EXAMPLES[0])  # the parser's tables are built once
    rows: dict[str, float] = {}
    for path in EXAMPLES:
        first, rows[path.name] = lowering_milliseconds(path)
        print(f"{path.name:28} {rows[path.name]:8.1f} ms   (goal 60; first {first:.1f})")
    found["lower_ms"] = rows
    found["matmul_silu_256x512x384_s"] = matmul_seconds()
    print(f"matmul_silu 256 x 512 x 384  {found['matmul_silu_256x512x384_s'] * 1e3:8.1f} ms   (goal: well under 1000)")
    if save:
        (ROOT / "benchmarks" / "results" / "frontend.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
