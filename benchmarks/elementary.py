"""Measures the elementary functions against the C library.

    python benchmarks/elementary.py [--points N] [name_type ...]

Each sequence is printed as C and compiled by gcc without contraction, so that it computes the bits of
every target. f32 functions run on all 2^32 arguments against the library's double functions, f64 ones on
N random arguments (default 10^8) against its long double functions. The results of the functions
named (default all) are merged into benchmarks/results/elementary.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import platform
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tilewright.compiler.ir.dtype import F32, F64
from tilewright.compiler.ir.elementary import FUNCTIONS, sequence

if TYPE_CHECKING:
    from tilewright.compiler.ir.elementary import Op, Sequence

RESULTS = Path(__file__).parent / "results" / "elementary.json"
HARNESS = Path(__file__).parent / "elementary_harness.c"
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")

# Where f64 arguments are drawn uniformly, besides random bits.
RANGES = {
    "exp": (-746.0, 710.0),
    "exp2": (-1076.0, 1025.0),
    "log": (0.0, 4.0),
    "log2": (0.0, 4.0),
    "tanh": (-4.0, 4.0),
    "erf": (-6.0, 6.0),
    "sin": (-100.0, 100.0),
    "cos": (-100.0, 100.0),
    "rsqrt": (0.0, 4.0),
}
# Beyond these, sin and cos take their second reduction.
SPLIT = {"f32": 131072.0, "f64": 2.0**30}

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "eq": "==",
    "ieq": "==",
    "ult": "<",
    "iadd": "+",
    "isub": "-",
    "imul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}


def c_text(seq: Sequence) -> str:
    """The C function `number function(number x)` of *seq*."""
    types = {"f": "number", "i": "word", "b": "int"}
    lines = [
        f"const {types[sort]} v{k} = {_expression(k, op, seq)};"
        for k, (op, sort) in enumerate(zip(seq.ops, seq.sorts, strict=True))
    ]
    tables = [
        f"static const word table{k}[] = {{{', '.join(_word(w, seq) for w in op.value)}}};"
        for k, op in enumerate(seq.ops)
        if isinstance(op.value, tuple)
    ]
    body = "\n    ".join([*lines, f"return v{seq.result};"])
    return "\n".join(tables) + f"\nstatic inline number function(number x) {{\n    {body}\n}}\n"


def _expression(position: int, op: Op, seq: Sequence) -> str:
    args = [f"v{a}" for a in op.args]
    if op.kind in _INFIX:
        return f"{args[0]} {_INFIX[op.kind]} {args[1]}"
    match op.kind:
        case "x":
            return "x"
        case "const":
            return _literal(cast("float", op.value), seq)
        case "iconst":
            return _word(cast("int", op.value), seq)
        case "neg":
            return f"-{args[0]}"
        case "select":
            return "{} ? {} : {}".format(*args)
        case "clamp_above":
            return "{0} > {1} ? {1} : {0}".format(*args)
        case "clamp_below":
            return "{0} < {1} ? {1} : {0}".format(*args)
        case "lookup":
            return f"table{position}[{args[0]}]"
        case _:
            return f"op_{op.kind}({', '.join(args)})"


def _word(value: int, seq: Sequence) -> str:
    return f"{value}u" + "ll" * (seq.dtype.bits == 64)


def _literal(value: float, seq: Sequence) -> str:
    if math.isfinite(value):
        return value.hex() + "f" * (seq.dtype.bits == 32)
    return "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"


def header_text(seq: Sequence, points: int) -> str:
    """What the harness is compiled with: the types, the operations, the function and its reference."""
    wide = seq.dtype.bits == 64
    number, suffix = ("double", "") if wide else ("float", "f")
    word, signed = f"uint{seq.dtype.bits}_t", f"int{seq.dtype.bits}_t"
    long = "l" if wide else ""
    library = f"1 / sqrt{long}(x)" if seq.name == "rsqrt" else f"{seq.name}{long}(x)"
    low, high = RANGES[seq.name]
    return f"""#include <math.h>
#include <stdint.h>
#include <string.h>
typedef {number} number;
typedef {word} word;
#define F64 {int(wide)}
#define POINTS {points}ull
#define RANGE_LOW {low}
#define RANGE_HIGH {high}
#define SPLIT {SPLIT[str(seq.dtype)] if seq.name in ("sin", "cos") else "INFINITY"}
#define REFERENCE(x) ({library})
static inline word op_bits(number x) {{ word u; memcpy(&u, &x, sizeof u); return u; }}
static inline number op_float(word u) {{ number x; memcpy(&x, &u, sizeof x); return x; }}
static inline number op_int_to_float(word u) {{ return (number)({signed})u; }}
static inline number op_fma(number a, number b, number c) {{ return fma{suffix}(a, b, c); }}
static inline number op_sqrt(number a) {{ return sqrt{suffix}(a); }}
static inline word op_umulhi(word a, word b) {{ return (word)((uint64_t)a * b >> 32); }}
{c_text(seq)}"""


def measure(seq: Sequence, points: int) -> dict[str, Any]:
    """Compile and run the harness for one function."""
    with tempfile.TemporaryDirectory() as folder:
        header, program = Path(folder, "function.h"), Path(folder, "run")
        header.write_text(header_text(seq, points))
        subprocess.run(["gcc", *FLAGS, "-include", header, HARNESS, "-o", program, "-lm"], check=True)
        result: dict[str, Any] = json.loads(_output(program))
    return {"operations": seq.cost} | result


def _output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the elementary functions against the C library.")
    parser.add_argument("--points", type=int, default=10**8, help="random arguments of an f64 function")
    every = [f"{name}_{dtype}" for dtype in (F32, F64) for name in FUNCTIONS]
    parser.add_argument("functions", nargs="*", default=every, metavar="name_type")
    options = parser.parse_args()
    merged = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"functions": {}}
    merged["tools"] = {
        "gcc": _output("gcc", "--version").split("\n")[0],
        "flags": " ".join(FLAGS),
        "libc": " ".join(platform.libc_ver()),
        "machine": _processor(),
    }
    for key in options.functions:
        name, dtype = key.split("_")
        start = time.perf_counter()
        result = measure(sequence(name, F32 if dtype == "f32" else F64), options.points)
        merged["functions"][key] = result | {"date": datetime.date.today().isoformat()}
        merged["functions"] = {k: merged["functions"][k] for k in every if k in merged["functions"]}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(merged, indent=1) + "\n")
        seconds = time.perf_counter() - start
        print(key, f"{result['max_ulp']:.4f} ulp at {result['max_at']}, {seconds:.0f} s", flush=True)


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
