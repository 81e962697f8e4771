"""Bits on a GPU: every operation of the language, and every strict example that has a GPU schedule, against NumPy.

Run on a machine with torch, triton and a CUDA device: python benchmarks/gpu_bits.py [results.json]
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import sys
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import torch
import triton

ROOT = Path(__file__).parents[1]
NARROW = {
    "bfloat16": (np.int16, torch.bfloat16),
    "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
    "float8_e5m2": (np.uint8, torch.float8_e5m2),
}


def on_gpu(value: Any) -> Any:
    """A tensor of an array, the narrow floats by way of their words."""
    if not isinstance(value, np.ndarray):
        return value
    words, kind = NARROW.get(value.dtype.name, (None, None))
    plain = np.ascontiguousarray(value).reshape(value.shape)
    return torch.from_numpy(plain).cuda() if words is None else torch.from_numpy(plain.view(words)).cuda().view(kind)


def off_gpu(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """The array of a tensor."""
    for name, (words, kind) in NARROW.items():
        if tensor.dtype == kind:
            array = tensor.view(torch.int16 if words is np.int16 else torch.uint8).cpu().numpy()
            return array.view(np.dtype(getattr(ml_dtypes, name)))
    return tensor.cpu().numpy()


def module(path: Path) -> Any:
    """A file of the tests as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


def compared(name: str) -> tuple[str, int, str | None]:
    """(operation, elements, what differs) of one operation."""
    operations = module(ROOT / "tests" / "backends" / "operations.py")
    try:
        compiled, arguments = operations.operation(name), operations.numbers(name, 20_000)
        want = np.asarray(compiled.kernel(**arguments))
        got = off_gpu(compiled(**{k: on_gpu(v) for k, v in arguments.items()}))
    except Exception as error:
        return name, 0, f"{type(error).__name__}: {str(error)[:300]}"
    wrong = np.flatnonzero(operations.differing(want, got))
    if not len(wrong):
        return name, want.size, None
    first = wrong[0]
    shown = ", ".join(f"{k}={v[first]!r}" for k, v in arguments.items())
    return name, want.size, f"{len(wrong)} of {want.size} differ; {shown}: {got[first]!r}, defined {want[first]!r}"


def examples() -> dict[str, Any]:
    """The runs whose bits are recorded, by name, of kernels that have a GPU schedule."""
    return {run.key: run for run in module(ROOT / "tests" / "bits" / "catalogue.py").catalogue()}


def compared_example(name: str) -> tuple[str, int, str | None]:
    """(run, elements, what differs): no bit of a strict kernel; of others, no element by more than its bound."""
    import tilewright as tw

    run = examples()[name]
    try:
        compiled = tw.compile(run.kernel, target="triton")
        wanted = run.outputs()
        result = compiled(**{k: on_gpu(v) for k, v in run.arguments().items()})
        strict = not compiled.permissions
        bounds = () if strict else compiled.error_bound(**run.arguments())
    except Exception as error:
        return name, 0, f"{type(error).__name__}: {str(error)[:300]}"
    results = result if isinstance(result, tuple) else (result,)
    limits = bounds if isinstance(bounds, tuple) else (bounds,)
    differing = module(ROOT / "tests" / "backends" / "operations.py").differing
    total = 0
    for number, ((output, want), tensor) in enumerate(zip(wanted.items(), results, strict=True)):
        want, got = np.asarray(want), off_gpu(tensor)
        total += want.size
        with np.errstate(invalid="ignore"):
            far = np.abs(want.astype(float) - got.astype(float)) > limits[number] if not strict else None
        wrong = np.argwhere(differing(want, got) if far is None else far)
        if len(wrong):
            at = tuple(wrong[0])
            return name, total, f"{output}: {len(wrong)} of {want.size} differ; {got[at]!r}, defined {want[at]!r}"
    return name, total, None


def compared_fold(kind: str) -> tuple[str, int, str | None]:
    """(type of the factors, elements, what differs) of sums by matrix units: for few rows and many, tiles of every
    shape against each other, and some rows, and words of every kind, against the definition."""
    import tilewright as tw

    name, _, promote = kind.partition(" ")
    wide = "" if name == "f32" else "f32"
    (kernel,) = tw.parse(f"""kernel f(A: {name}[M, K], W: {name}[K, N]) -> (C: f32[M, N]) {{
        C[i, j] = sum(k, mma=sm_90{", promote=128" if promote else ""}) {wide}(A[i, k]) * {wide}(W[k, j])
    }}""").values()
    dtype = kernel.program.tensors["A"].dtype.numpy
    random = np.random.default_rng(1)
    differing = module(ROOT / "tests" / "backends" / "operations.py").differing

    def spread(*shape: int) -> Any:
        values = random.standard_normal(shape) * np.exp2(random.integers(-5, 6, shape))
        return values.astype(np.float32).astype(dtype)

    def words(*shape: int) -> Any:
        return random.integers(0, 256, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]

    A, W, B, V = spread(8192, 1040), spread(1040, 272), words(64, 96), words(96, 48)
    if name == "f32":
        # Which NaN it is, is not defined, but to the units some are infinities.
        B, V = (np.where(np.isnan(x), np.float32(np.nan), x) for x in (B, V))
    with np.errstate(all="ignore"):
        some, special = kernel(A[:48], W), kernel(B, V)
    whole, total = None, 0
    try:
        for rows, columns in ((16, 128), (64, 16), (64, 64), (128, 128), (128, 256)):
            made = tw.compile(kernel, tw.gpu_schedule(kernel, tw.Sizes(rows, columns, stages=3)), target="triton")
            for count in (1, 7, 16, 100, 1024, 8192):
                got = off_gpu(made(on_gpu(A[:count]), on_gpu(W)))
                whole = got if whole is None or len(got) > len(whole) else whole
                total += got.size
                both = ((some[:count], got[: len(some)]), (whole[:count], got))
                if any(differing(want, found).any() for want, found in both):
                    return kind, total, f"tiles of {rows} x {columns}, {count} rows"
            total += special.size
            if differing(special, off_gpu(made(on_gpu(B), on_gpu(V)))).any():
                return kind, total, f"tiles of {rows} x {columns}, words of every kind"
    except Exception as error:
        return kind, total, f"{type(error).__name__}: {str(error)[:300]}"
    return kind, total, None


def compared_forms(kind: str) -> tuple[str, int, str | None]:
    """(type, arguments, what differs) of expressions of one narrow number, for all that it can be."""
    import tilewright as tw
    from tilewright.backends.triton.forms import every
    from tilewright.compiler.ir.dtype import DTYPES

    differing = module(ROOT / "tests" / "backends" / "operations.py").differing
    X, total = every(DTYPES[kind]), 0
    for body in ("silu({})", "sigmoid({})", "bf16(silu({}))", "{} / 3", "7 / {}", "exp2(max({}, -3))", "gelu({})"):
        result = "bf16" if body.startswith("bf16(") else "f32"
        text = body.format("f32(X[i])")
        (kernel,) = tw.parse(f"kernel f(X: {kind}[N]) -> (Y: {result}[N]) {{ Y[i] = {text} }}").values()
        try:
            want, got = np.asarray(kernel(X)), off_gpu(tw.compile(kernel, target="triton")(on_gpu(X)))
        except Exception as error:
            return kind, total, f"{text}: {type(error).__name__}: {str(error)[:300]}"
        total += want.size
        if (wrong := np.flatnonzero(differing(want, got))).size:
            at = wrong[0]
            return kind, total, f"{text}: {len(wrong)} differ; of {X[at]!r}: {got[at]!r}, defined {want[at]!r}"
    return kind, total, None


def compared_parts(name: str) -> tuple[str, int, str | None]:
    """(kernel, elements, what differs) of a kernel whose parts have warps of their own.

    Factors are small whole numbers, whose sums are exact in any order; those of a matrix unit's sum are any.
    """
    import tilewright as tw

    text, tiles = module(ROOT / "tests" / "backends" / "parted.py").KERNELS[name]
    differing = module(ROOT / "tests" / "backends" / "operations.py").differing
    (kernel,) = tw.parse(text).values()
    rng, total = np.random.default_rng(7), 0
    for M, N, K in ((8, 8, 8), (64, 64, 64), (129, 264, 72), (1000, 1032, 136), (3001, 2600, 72)):
        given: dict[str, Any] = dict.fromkeys(kernel.program.scalars, 1.5)
        for tensor in (kernel.program.tensors[n] for n in kernel.program.parameters if n not in given):
            shape = [e.interval({"M": M, "N": N, "K": K})[1] for e in tensor.extents]
            numbers = rng.standard_normal(shape) if name == "fold" else rng.integers(-3, 4, shape)
            given[tensor.name] = numbers.astype(np.float32).astype(tensor.dtype.numpy)
        try:
            compiled = tw.compile(kernel, tw.gpu_schedule(kernel, tiles), target="triton")
            want, got = np.asarray(kernel(**given)), off_gpu(compiled(**{k: on_gpu(v) for k, v in given.items()}))
        except Exception as error:
            return name, total, f"{type(error).__name__}: {str(error)[:300]}"
        total += want.size
        if (wrong := np.argwhere(differing(want, got))).size:
            at = tuple(wrong[0])
            return (
                name,
                total,
                f"{len(wrong)} of {want.size} differ at {M=} {N=} {K=}; {got[at]!r}, defined {want[at]!r}",
            )
    return name, total, None


def main() -> None:
    names = list(module(ROOT / "tests" / "backends" / "operations.py").bodies())
    start = time.time()
    # Most of the time goes into compiling, on the CPU.
    with multiprocessing.get_context("spawn").Pool(14) as pool:
        found = pool.map(compared, names, chunksize=4)
        runs = []
        for run in pool.imap_unordered(compared_example, list(examples()), chunksize=1):
            runs.append(run)
            print(f"{time.time() - start:6.1f} s  {run[0]}: {run[2] or 'as defined'}", file=sys.stderr, flush=True)
        kinds = ["bf16", "f16", "f32", "f8e4m3", "f8e5m2", "f8e4m3 promote", "f8e5m2 promote"]
        folds = pool.map(compared_fold, kinds, chunksize=1)
        forms = pool.map(compared_forms, ["bf16", "f16", "f8e4m3", "f8e5m2", "i16", "i8", "u8"], chunksize=1)
        parts = pool.map(compared_parts, list(module(ROOT / "tests" / "backends" / "parted.py").KERNELS), chunksize=1)
    for kind, count, text in folds:
        print(f"sums of matrix units, {kind}: {count} elements, {text or 'as defined'}")
    for kind, count, text in forms:
        print(f"expressions of one {kind}: {count} arguments, {text or 'as defined'}")
    for name, count, text in parts:
        print(f"parts with warps of their own, {name}: {count} elements, {text or 'as defined'}")
    print(f"{len(runs)} runs of examples, {sum(n for _, n, _ in runs)} elements")
    for name, _, text in runs:
        if text is not None:
            print(f"  {name}: {text}")
    failed = {name: text for name, _, text in found if text is not None}
    elements = sum(count for _, count, _ in found)
    print(f"{len(found)} operations, {elements} elements, {len(failed)} differ, {time.time() - start:.0f} s")
    for name, text in failed.items():
        print(f"  {name}: {text}")
    result = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "operations": len(found),
        "elements": elements,
        "differing": failed,
        "folds": {kind: {"elements": count, "differing": text} for kind, count, text in folds},
        "forms": {kind: {"arguments": count, "differing": text} for kind, count, text in forms},
        "parts": {name: {"elements": count, "differing": text} for name, count, text in parts},
        "runs": len(runs),
        "runs_differing": {name: text for name, _, text in runs if text is not None},
    }
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
