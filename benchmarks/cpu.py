"""Machine code against the best of other makers, by turns in one process.

python benchmarks/cpu.py [--only NAME ..] [--threads N] [--peers] [--save FILE.json]

The ratio of a row is the median of (other's time / ours): above 1 ours is faster. Where both compute the same, the
results are compared before anything is timed; what memory limits is held against a copy. NumPy's product is OpenBLAS's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRODUCT = """kernel product(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    C[i, j] = PERMITTED sum(k) A[i, k] * B[k, j]
}"""
NARROW = """kernel narrow(A: bf16[M, K], B: bf16[K, N]) -> (C: bf16[M, N]) {
    C[i, j] = bf16(allow contract in sum(k) f32(A[i, k]) * f32(B[k, j]))
}"""
PRODUCT_SILU = """kernel product_silu(A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]) {
    C[i, j] = allow contract in sum(k) A[i, k] * B[k, j]
    Y[i, j] = silu(C[i, j])
}"""
CONTRACTION = """kernel contraction(X: f32[A, K, L, B], Y: f32[L, K, C]) -> (T: f32[A, B, C]) {
    T[a, b, c] = allow contract in sum(k, l) X[a, k, l, b] * Y[l, k, c]
}"""
GATED = """kernel gated(G: TYPE[M, N], U: TYPE[M, N]) -> (Y: TYPE[M, N]) {
    Y[i, j] = TYPE(silu(f32(G[i, j])) * f32(U[i, j]))
}"""
RMSNORM = """kernel rmsnorm(X: f32[M, D], W: f32[D], eps: f32) -> (Y: f32[M, D]) where D >= 1 {
    ss[i] = sum(d, lanes=32) X[i, d] * X[i, d]
    r[i] = rsqrt(ss[i] / f32(D) + eps)
    Y[i, d] = X[i, d] * r[i] * W[d]
}"""
SOFTMAX = """kernel softmax(X: f32[M, D]) -> (Y: f32[M, D]) where D >= 1 {
    m[i] = max(d) X[i, d]
    e[i, d] = exp(X[i, d] - m[i])
    s[i] = sum(d, lanes=32) e[i, d]
    Y[i, d] = e[i, d] / s[i]
}"""
CONV = """kernel conv(X: f32[B, H, W, C], F: f32[3, 3, C, O]) -> (Y: f32[B, H, W, O]) {
    Y[n, h, w, o] = allow contract in
        sum(r in 0..3, s in 0..3, c) (X[n, h + r - 1, w + s - 1, c] else 0) * F[r, s, c, o]
}"""
TRANSPOSE = "kernel transpose(X: f32[M, N]) -> (Y: f32[N, M]) { Y[j, i] = X[i, j] }"
CHAIN = """kernel chain(X: f32[N], Z: f32[N]) -> (Y: f32[N]) {
    a[i] = X[i] * 1.5 + Z[i]
    b[i] = max(a[i], 0) - X[i]
    c[i] = b[i] * b[i] + 0.5
    Y[i] = (c[i] * 0.25 + a[i]) * Z[i] - min(b[i], 1)
}"""
ATTENTION = """kernel attention(Q: f32[H, T, D], K: f32[H, T, D], V: f32[H, T, D], scale: f32) -> (O: f32[H, T, D])
    where T >= 1 {
    allow reassociate, contract
    S[h, t, s in 0..t + 1] = scale * (sum(d) Q[h, t, d] * K[h, s, d])
    m[h, t] = max(s in 0..t + 1) S[h, t, s]
    P[h, t, s in 0..t + 1] = exp(S[h, t, s] - m[h, t])
    l[h, t] = sum(s in 0..t + 1) P[h, t, s]
    O[h, t, d] = (sum(s in 0..t + 1) P[h, t, s] * V[h, s, d]) / l[h, t]
}"""
SMALL = "kernel small(X: f32[N], Z: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] * Z[i] }"
# Seconds for a row.
TIME = 2.0


@dataclass
class Case:
    """*other*: what it is measured against, as a function that writes to *out*; *flops*: of one call, or 0."""

    name: str
    text: str
    inputs: tuple[Any, ...]
    against: str
    other: Callable[[Any], Any]
    flops: float = 0.0
    checked: bool = True
    words: dict[str, str] = field(default_factory=dict)
    # Sizes that the schedule is made for.
    at: dict[str, int] | None = None
    # Calls between two readings of the clock.
    calls: int = 1


def cases() -> Iterator[Case]:
    import ml_dtypes
    import numpy as np

    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    for m, n, k in ((512, 512, 512), (1024, 1024, 1024), (1023, 1025, 1027), (1024, 4096, 4096), (1, 4096, 4096)):
        A, B = normal(m, k), normal(k, n)
        for word, grant in (("fma", "allow contract in"), ("strict", "")):
            if word == "strict" and n == 4096:
                continue
            name = f"product {word} {m}x{n}x{k}"
            at = {"M": m, "N": n, "K": k}
            product = lambda out, A=A, B=B: np.matmul(A, B, out=out)  # noqa: E731
            yield Case(name, PRODUCT, (A, B), "OpenBLAS", product, 2.0 * m * n * k, words={"PERMITTED": grant}, at=at)
    A, B = normal(4, 4096), normal(4096, 4096)
    product = lambda out: np.matmul(A, B, out=out)  # noqa: E731
    words, at = {"PERMITTED": "allow contract in"}, {"M": 4, "N": 4096, "K": 4096}
    yield Case("product fma 4x4096x4096", PRODUCT, (A, B), "OpenBLAS", product, 2.0 * 4 * 4096**2, words=words, at=at)
    a, b = normal(768, 768), normal(768, 768)
    c = np.empty_like(a)
    narrow = tuple(x.astype(ml_dtypes.bfloat16) for x in (a, b))
    wide = lambda out: np.matmul(a, b, out=c)  # noqa: E731
    yield Case("product bf16 768", NARROW, narrow, "OpenBLAS in f32", wide, 2.0 * 768**3, checked=False)
    a2, b2 = normal(1024, 1024), normal(1024, 1024)

    def then_silu(out: Any) -> None:
        np.matmul(a2, b2, out=out)
        out /= 1 + np.exp(-out)

    yield Case("product + SiLU 1024", PRODUCT_SILU, (a2, b2), "NumPy", then_silu, 2.0 * 1024**3)
    X, Y = normal(32, 64, 16, 32), normal(16, 64, 256)
    einsum = lambda out: np.einsum("aklb,lkc->abc", X, Y, out=out, optimize=True)  # noqa: E731
    yield Case("contraction", CONTRACTION, (X, Y), "np.einsum", einsum, 2.0 * 32 * 32 * 256 * 1024)
    G, U = normal(1024, 12288), normal(1024, 12288)
    copied = lambda out: np.copyto(out, G)  # noqa: E731
    yield Case("SiLU times a factor f32", GATED, (G, U), "np.copyto", copied, checked=False, words={"TYPE": "f32"})
    g, u = (x.astype(ml_dtypes.bfloat16) for x in (G, U))
    copied = lambda out: np.copyto(out, g)  # noqa: E731
    yield Case("SiLU times a factor bf16", GATED, (g, u), "np.copyto", copied, checked=False, words={"TYPE": "bf16"})
    R, w = normal(1024, 4096), normal(4096)
    copied = lambda out: np.copyto(out, R)  # noqa: E731
    yield Case("RMSNorm 1024x4096", RMSNORM, (R, w, 1e-5), "np.copyto", copied, checked=False)
    yield Case("softmax 1024x4096", SOFTMAX, (R,), "np.copyto", copied, checked=False)
    S = normal(4096, 4096)
    yield Case("transposition 4096", TRANSPOSE, (S,), "np.copyto", lambda out: np.copyto(out, S.T))
    x, z = normal(1 << 22), normal(1 << 22)
    copied = lambda out: np.copyto(out, x)  # noqa: E731
    yield Case("chain of ten, 2^22", CHAIN, (x, z), "np.copyto", copied, checked=False)
    image, filters = normal(8, 56, 56, 64), normal(3, 3, 64, 64)
    yield Case("convolution 3x3", CONV, (image, filters), "OpenBLAS, nine products", _nine(image, filters),
               2.0 * 8 * 56 * 56 * 9 * 64 * 64)  # fmt: skip
    q, k, v = (normal(4, 1024, 64) for _ in range(3))
    yield Case("attention 4x1024x64", ATTENTION, (q, k, v, 0.125), "NumPy, all scores", _attention(q, k, v))
    s, t = normal(64), normal(64)
    yield Case(
        "a call on 64 elements", SMALL, (s, t), "np.multiply", lambda out: np.multiply(s, t, out=out), calls=1000
    )


def _nine(image: Any, filters: Any) -> Callable[[Any], None]:
    """A 3 x 3 convolution as nine products."""
    import numpy as np

    edged = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = image.shape[1:3]

    def run(out: Any) -> None:
        out[...] = 0
        for r in range(3):
            for s in range(3):
                out += edged[:, r : r + height, s : s + width] @ filters[r, s]

    return run


def _attention(q: Any, k: Any, v: Any) -> Callable[[Any], None]:
    """Causal attention with all scores in memory."""
    import numpy as np

    above = np.triu(np.full((q.shape[1],) * 2, -np.inf, np.float32), 1)

    def run(out: Any) -> None:
        scores = q @ k.swapaxes(1, 2) * np.float32(0.125) + above
        weights = np.exp(scores - scores.max(2, keepdims=True))
        out[...] = weights @ v / weights.sum(2, keepdims=True)

    return run


def measure(case: Case, others: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """*others*: who else takes a turn, by name."""
    import numpy as np
    import tilewright as tw

    text = case.text
    for word, meant in case.words.items():
        text = text.replace(word, meant)
    (kernel,) = tw.parse(text).values()
    start = time.perf_counter()
    made = tw.compile(kernel, at=case.at)
    made.prepare()
    ready = time.perf_counter() - start
    (again,) = tw.parse(text).values()
    start = time.perf_counter()
    tw.compile(again, at=case.at).prepare()
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--save")
    given = parser.parse_args()
    for name in ("OPENBLAS_NUM_THREADS", "TILEWRIGHT_THREADS"):
        os.environ[name] = str(given.threads)
    os.environ["TILEWRIGHT_CACHE"] = tempfile.mkdtemp()
    import llvmlite
    import numpy as np
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
    if given.save:
        facts = {
            "date": datetime.now(UTC).date().isoformat(),
            "processor": host().name,
            "machine": platform.machine(),
            "threads": given.threads,
            "numpy": np.__version__,
            "llvmlite": llvmlite.__version__,
            "rows": rows,
        }
        with open(given.save, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
