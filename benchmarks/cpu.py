"""Machine code against the best of other makers, by turns in one process.

python benchmarks/cpu.py [--only NAME ..] [--threads N] [--peers] [--save FILE.json]

The ratio of a row is the median of (other's time / ours): above 1 ours is faster. Where both compute the same, the
results are compared before anything is timed; what memory limits is held against a copy. NumPy's product is OpenBLAS's.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from cpu_cases import Case

# Seconds for a row.
TIME = 2.0


def measure(case: Case, others: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """*others*: who else takes a turn, by name."""
    import numpy as np
    import tilewright as tw

    text = case.text
    for word, meant in case.words.items():
        text = text.replace(word, meant)
    (kernel,) = tw.parse(text).values()
    start = time.perf_counter()
    schedule = case.schedule(kernel) if case.schedule is not None else None
    made = tw.compile(kernel, schedule, at=case.at)
    made.prepare()
    ready = time.perf_counter() - start
    (again,) = tw.parse(text).values()
    start = time.perf_counter()
    schedule = case.schedule(again) if case.schedule is not None else None
    tw.compile(again, schedule, at=case.at).prepare()
    kept = time.perf_counter() - start
    call = partial(made.function, *case.inputs)
    out = made(*case.inputs)
    other = np.empty_like(out)
    case.other(other)
    if case.checked and not np.allclose(out, other, rtol=1e-3, atol=1e-3):
        raise AssertionError(f"{case.name}: the results differ")
    ours: list[float] = []
    theirs: list[float] = []
    more: dict[str, list[float]] = {name: [] for name in others}
    end = time.perf_counter() + TIME
    while time.perf_counter() < end or len(ours) < 5:
        start = time.perf_counter()
        for _ in range(case.calls):
            call(out=out)
        middle = time.perf_counter()
        for _ in range(case.calls):
            case.other(other)
        ours.append((middle - start) / case.calls)
        theirs.append((time.perf_counter() - middle) / case.calls)
        for name, other_call in others.items():
            start = time.perf_counter()
            other_call()
            more[name].append(time.perf_counter() - start)
    ratio = median(b / a for a, b in zip(ours, theirs, strict=True))
    found = {"against": case.against, "ours": median(ours), "other": median(theirs), "ratio": ratio}
    found |= {"compile": ready, "compile_kept": kept}
    for name, taken in more.items():
        found[name] = median(b / a for a, b in zip(ours, taken, strict=True))
    if case.flops:
        found["gflops"] = case.flops / median(ours) / 1e9
    return found


def _keep_pages() -> None:
    """What is freed stays in the process: those who make their results anew pay for no fresh pages at each call."""
    libc = ctypes.CDLL(None)
    for parameter, value in ((-1, 1 << 30), (-4, 0)):  # M_TRIM_THRESHOLD, M_MMAP_MAX of glibc's malloc.h
        libc.mallopt(parameter, value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--save")
    given = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "TILEWRIGHT_THREADS"):
        os.environ[name] = str(given.threads)
    # Nobody takes more, whatever a maker's own setting of threads is called.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    _keep_pages()
    os.environ["TILEWRIGHT_CACHE"] = tempfile.mkdtemp()
    import cpu_elementary
    import llvmlite
    import numpy as np
    from cpu_cases import cases
    from cpu_peers import peers
    from tilewright.backends.llvm.target import host

    rows: dict[str, Any] = {}
    for case in cases():
        if given.only and not any(word in case.name for word in given.only):
            continue
        others = peers(case.name, case.inputs, given.threads) if given.peers else {}
        rows[case.name] = found = measure(case, others)
        speed = f"{found['gflops']:7.1f} GFLOP/s" if "gflops" in found else ""
        print(
            f"{case.name:28} {found['ratio']:6.2f} against {case.against:24} {found['ours'] * 1e3:9.3f} ms {speed:16}"
            f" compiled in {found['compile'] * 1e3:5.0f} ms, again in {found['compile_kept'] * 1e3:4.1f} ms "
            f" {'  '.join(f'{found[n]:.2f} {n}' for n in others)}",
            flush=True,
        )
    elementary = {}
    if not given.only or "elementary" in given.only:
        elementary = cpu_elementary.rows()
        for name, taken in elementary.items():
            known = cpu_elementary.KNOWN[name]
            print(f"{name:28} {known / taken:6.2f} against a prototype in C {taken:19.3f} ns an element")
    if given.save:
        facts = {
            "date": datetime.now(UTC).date().isoformat(),
            "processor": host().name,
            "machine": platform.machine(),
            "threads": given.threads,
            "numpy": np.__version__,
            "llvmlite": llvmlite.__version__,
            "rows": rows,
            "elementary_ns": elementary,
        }
        with open(given.save, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
