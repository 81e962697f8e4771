"""A kernel for each scalar operation of the language, and the numbers that it is tried on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import tilewright as tw
from tilewright.compiler.ir.dtype import DTYPES, DType
from tilewright.compiler.ir.elementary import FUNCTIONS

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u8")


def bodies() -> dict[str, tuple[str, str, str]]:
    """name -> (type of the inputs, type of the result, expression over x, y and z)."""
    found: dict[str, tuple[str, str, str]] = {}
    for source in DTYPES:
        for target in DTYPES:
            if source != target:
                found[f"{source}_to_{target}"] = (source, target, f"{target}(x)")
            narrow = DTYPES[target].is_int or DTYPES[target].bits <= 16
            if source not in (target, "bool") and target != "bool" and narrow:
                found[f"sat_{source}_to_{target}"] = (source, target, f"sat {target}(x)")
    operators = {"add": "x + y", "sub": "x - y", "mul": "x * y", "min": "min(x, y)", "max": "max(x, y)"}
    unary = {"neg": "-x", "abs": "abs(x)"}
    for kind in (*FLOATS, *INTEGERS):
        own = {"div": "x / y"} if kind in FLOATS else {"div": "x // y", "mod": "x % y"}
        if kind in FLOATS:
            own |= {n: f"{n}(x)" for n in ("floor", "ceil", "round", "sqrt", *FUNCTIONS)}
            own["fma"] = "fma(x, y, z)"
        for name, text in {**operators, **unary, **own}.items():
            found[f"{kind}_{name}"] = (kind, kind, text)
    for name, sign in {"lt": "<", "le": "<=", "eq": "==", "ne": "!="}.items():
        for kind in ("f64", "f32", "bf16", "i32", "u8"):
            found[f"{kind}_{name}"] = (kind, "bool", f"x {sign} y")
    found["logic"] = ("bool", "bool", "x and not y or z")
    found["select"] = ("bf16", "bf16", "x if y < z else -y")
    return found


@cache
def operation(name: str) -> tw.CompiledKernel:
    """A kernel of one operation, for the target triton."""
    kind, result, text = bodies()[name]
    inputs = ", ".join(f"{n.upper()}: {kind}[N]" for n in "xyz" if n in _letters(text))
    read = "".join(f"{n.upper()}[i]" if n in "xyz" and alone else n for n, alone in _marked(text))
    source = f"kernel k_{name}({inputs}) -> (R: {result}[N]) {{ R[i] = {read} }}"
    (kernel,) = tw.parse(source).values()
    schedule = tw.Schedule(kernel)
    outer, inner = schedule.split("R.i", 1024)
    schedule.block(inner)
    schedule.bind(outer, "grid.x")
    return tw.compile(kernel, schedule, target="triton")


def _marked(text: str) -> list[tuple[str, bool]]:
    """Each letter, and whether it is a name by itself."""
    around = f" {text} "
    return [(c, not (around[i].isalnum() or around[i + 2].isalnum())) for i, c in enumerate(text)]


def _letters(text: str) -> set[str]:
    return {c for c, alone in _marked(text) if alone}


def numbers(name: str, count: int) -> dict[str, np.ndarray[Any, Any]]:
    """Arguments for an operation: every special number beside every other, then random words of the type."""
    kind = DTYPES[bodies()[name][0]]
    inputs = list(operation(name).kernel.program.parameters)
    special = specials(kind)
    rng = np.random.default_rng(7)
    pairs = np.stack([m.ravel() for m in np.meshgrid(*[np.arange(len(special))] * min(2, len(inputs)))])
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for position, parameter in enumerate(inputs):
        chosen = pairs[position] if position < len(pairs) else rng.integers(len(special), size=pairs.shape[1])
        arrays[parameter] = np.concatenate([special[chosen], random_words(kind, count, rng)])
    return arrays


def specials(kind: DType) -> np.ndarray[Any, Any]:
    """Zeros, ends of ranges, infinities, NaN, halves, neighbours of powers of two."""
    if kind.is_bool:
        return np.array([False, True])
    if kind.is_int:
        near = [0, 1, 2, 3, 7, 126, 127, 128, 255, 256, 257, 2**24 - 1, 2**24 + 1, 2**53 + 1, 2**62, 2**31, 2**31 - 1]
        whole = sorted({*near, *(-n for n in near), kind.least, kind.greatest, kind.least + 1})
        return np.array([n for n in whole if kind.least <= n <= kind.greatest], kind.numpy)
    near = [
        0.0,
        0.5,
        1.0,
        1.5,
        2.5,
        3.0,
        127.5,
        448.0,
        464.0,
        465.0,
        57344.0,
        61440.0,
        65504.0,
        65520.0,
        2.0**31,
        2.0**63,
    ]
    near += [2.0**-126, 2.0**-149, 2.0**-133, 2.0**-24, 2.0**-10, 1 + 2.0**-8, 1 + 2.0**-9, 1 + 2.0**-24, 3.0e38, 88.0]
    near += [float("inf"), 8388609.0, 4503599627370497.0, 0.1, 100.0, 710.0]
    with np.errstate(all="ignore"):
        return np.array([*near, *(-n for n in near), float("nan")]).astype(kind.numpy)


def random_words(kind: DType, count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Random words of a type, half of the floats of moderate size."""
    if kind.is_bool:
        return rng.integers(2, size=count).astype(bool)
    words = rng.integers(0, 256, size=count * kind.numpy.itemsize, dtype=np.uint8).view(kind.numpy)
    if kind.is_float:
        with np.errstate(all="ignore"):
            words = np.where(np.arange(count) % 2 == 0, words, (rng.standard_normal(count) * 30).astype(kind.numpy))
    return words.astype(kind.numpy)


def differing(want: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where two arrays differ in bits; every NaN is one."""
    if want.dtype.kind in "iub":
        return want != got
    words = np.dtype(f"u{want.dtype.itemsize}")
    nan = np.isnan(want) & np.isnan(got)
    return (want.view(words) != got.view(words)) & ~nan
