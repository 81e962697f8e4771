"""The rows of benchmarks/cpu.py: kernels, what they are run on, and NumPy's way to the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import tilewright as tw

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
    # Sizes that the schedule is made for, or a schedule of its own.
    at: dict[str, int] | None = None
    schedule: Callable[[tw.Kernel], tw.Schedule] | None = None
    # Calls between two readings of the clock.
    calls: int = 1


def cases() -> Iterator[Case]:
    """Every row."""
    import cpu_stencil
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
    at = {"M": 768, "N": 768, "K": 768}
    yield Case("product bf16 768", NARROW, narrow, "OpenBLAS in f32", wide, 2.0 * 768**3, checked=False, at=at)
    a2, b2 = normal(1024, 1024), normal(1024, 1024)

    def then_silu(out: Any) -> None:
        np.matmul(a2, b2, out=out)
        with np.errstate(over="ignore"):
            out /= 1 + np.exp(-out)

    at = {"M": 1024, "N": 1024, "K": 1024}
    yield Case("product + SiLU 1024", PRODUCT_SILU, (a2, b2), "NumPy", then_silu, 2.0 * 1024**3, at=at)
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
    grid = normal(2052, 2052)
    hand = cpu_stencil.by_hand(grid)
    if hand is not None:
        yield Case("stencil, two steps", cpu_stencil.STENCIL, (grid,), "gcc -O3, fused by hand", hand,
                   schedule=cpu_stencil.fused)  # fmt: skip
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
