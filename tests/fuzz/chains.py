"""Small kernels for schedules to act on: chains, stencils, reductions, recurrences, triangles, gathers, slices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .programs import write

if TYPE_CHECKING:
    import random

# {t}: a type; {op}: a reduction; {o}: its order; {a}, {b}, {d}: offsets; {p}: a permission; {w}: what is promised.
FORMS = {
    "chain": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] * 2
    U[i] = T[i] + X[i]
    Y[i] = U[i] * T[i]
}}""",
    "two outputs": """
kernel f(A: {t}[N], B: {t}[N]) -> (D: {t}[N], E: {t}[N]) {w}{{ {p}
    D[i] = 2 * (A[i] + B[i])
    E[i] = D[i] + (D[i + {a}] else 0)
}}""",
    "stencils": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] + (X[i + {a}] else 0)
    Y[i] = (T[i - 1] else 0) + T[i] * (T[i + {b}] else 1)
}}""",
    "stencils of a grid": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M, N]) {w}{{ {p}
    T[i, j] = A[i, j] + (A[i - 1, j + {a}] else 0)
    Y[i, j] = T[i, j] + (T[i + 1, j - 1] else 0)
}}""",
    "product": """
kernel f(A: {t}[M, N], B: {t}[N, M], X: {t}[M]) -> (Y: {t}[M, M]) {w}{{ {p}
    C[i, j] = {op}(k{o}) A[i, k] * B[k, j]
    Y[i, j] = C[i, j] + X[j]
}}""",
    "rows": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M, N]) {w}{{ {p}
    m[i] = max(k) A[i, k]
    s[i] = {op}(k{o}) (A[i, k] - m[i])
    Y[i, j] = (A[i, j] - m[i]) * s[i]
}}""",
    "row and column": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M], z: {t}) {w}{{ {p}
    Y[i] = {op}(k{o}) A[i, k]
    z = sum(i in 0..M, k in 0..N) (A[i, k] * Y[i])
}}""",
    "scan": """
kernel f(X: {t}[N]) -> (Y: {t}[N], Z: {t}[N]) {w}{{ {p}
    Y[i] = X[i] + (Y[i - 1] if i > 0 else 0)
    Z[i] = Y[i] * 2 + X[i]
}}""",
    "scan of rows": """
kernel f(A: {t}[M, N]) -> (Z: {t}[M, N]) {w}{{ {p}
    Y[i, j] = A[i, j] + (Y[i, j - 1] if j > 0 else 0)
    Z[i, j] = Y[i, N - 1 - j] + A[i, j]
}}""",
    "downwards": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] * X[i]
    Y[i] = T[i] + (Y[i + 1] if i < N - 1 else 0)
}}""",
    "wavefront": """
kernel f(A: {t}[M, N]) -> (D: {t}[M, N]) {w}{{ {p}
    D[i, j] = A[i, j] + max(D[i - 1, j] if i > 0 else 0, D[i, j - 1] if j > 0 else 0)
}}""",
    "rising": """
kernel f(A: {t}[M, N]) -> (B: {t}[M, N]) where M >= 1, N >= 1 {{ {p}
    B[0, j] = A[0, j]
    B[i in 1..M, j in 0..N - 1] = B[i - 1, j + 1] + 1
    B[i in 1..M, N - 1] = A[i, N - 1]
}}""",
    "falling": """
kernel f(A: {t}[M, N]) -> (B: {t}[M, N]) {w}{{ {p}
    B[i, j] = A[i, j] + (B[i - 1, j - 1] if i > 0 and j > 0 else 0) + (B[i - {d}, j] if i >= {d} else 1)
}}""",
    "time": """
kernel f(s: {t}[N], T: size) -> (r: {t}[N]) {w}{{ {p}
    u[0, x] = s[x]
    u[t in 1..T + 1, x in 0..N] = (u[t - 1, x - 1] if x > 0 else 0) + (u[t - 1, x + 1] if x < N - 1 else 1)
    r[x] = u[T, x]
}}""",
    "prefix": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] + 1
    Y[i] = {op}(k in 0..i + 1{o}) T[k]
}}""",
    "triangle": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i in 0..N, j in 0..N] = X[i] * X[j]
    Y[i] = {op}(j in i..N{o}) T[i, j]
}}""",
    "triangular solve": """
kernel f(L: {t}[N, N], b: {t}[N]) -> (x: {t}[N]) {w}{{ {p}
    x[i] = b[i] - (sum(k in 0..i{o}) L[i, k] * x[k])
}}""",
    "gather": """
kernel f(X: {t}[N], L: i32[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] + 1
    Y[i] = T[min(max(i64(L[i]), 0), N - 1)] + T[i]
}}""",
    "rows by number": """
kernel f(A: {t}[M, N], L: i32[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i, j] = A[i, j] * 2
    Y[j] = {op}(i in 0..M{o}) T[i, min(max(i64(L[j]), 0), N - 1)]
}}""",
    "reduction in a reduction": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M]) {w}{{ {p}
    Y[i] = {op}(j{o}) (A[i, j] * (sum(k in 0..j + 1) A[i, k]))
}}""",
    "two recurrences": """
kernel f(X: {t}[N]) -> (V: {t}[N]) {w}{{ {p}
    U[i] = X[i] + (V[i - 1] if i > 0 else 0)
    V[i] = U[i] * 2 + (U[i - 1] if i > 0 else 1)
}}""",
    "two slices": """
kernel f(X: {t}[N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i in 0..N // 2] = X[i] + 1
    T[i in N // 2..N] = X[i] * 2
    Y[i] = T[N - 1 - i] + T[i]
}}""",
    "greatest": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M], b: i64[M]) where N >= 1 {{ {p}
    b[i] = argmax(j in 0..N) A[i, j]
    Y[i] = A[i, b[i]]
}}""",
    "guarded sum": """
kernel f(A: {t}[M, N]) -> (Y: {t}[M]) {w}{{ {p}
    Y[i] = ({op}(k{o}) A[i + 1, k]) if i < M - 1 else 1
}}""",
    "choice": """
kernel f(X: {t}[N], a: {t}) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] * a
    Y[i] = T[i] if X[i] > 0 else (T[i - {d}] else a)
}}""",
    "turned": """
kernel f(A: {t}[M, N]) -> (G: {t}[N, M]) {w}{{ {p}
    F[y, x] = A[y, x] + 1
    G[y, x] = F[x, N - 1 - y]
}}""",
    "strides": """
kernel f(X: {t}[2 * N]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] + 1
    Y[i] = T[2 * i] + T[2 * i + 1] + T[i // 2]
}}""",
    "narrowed": """
kernel f(X: f32[N]) -> (Y: f32[N], s: f32) {w}{{ {p}
    h[i] = f16(X[i] / 7)
    Y[i] = f32(h[i])
    s = sum(k{o}) Y[k]
}}""",
    "weights in a table": """
const W: f32[3] = [1, -2, 4]
kernel f(X: f32[N]) -> (Y: f32[N]) {w}{{ {p}
    T[i in 0..N] = sum(r in 0..3{o}) W[r] * (X[i + r - 1] else 0)
    Y[i] = T[i] * W[i % 3]
}}""",
    "slices of sums": """
kernel f(X: {t}[N], M: size) -> (Y: {t}[N]) {w}{{ {p}
    Y[i in 0..N // 2] = X[i]
    Y[i in N // 2..N] = {op}(k in max(0, i - 1)..min(i + 2, M){o}) (sum(l in 0..k + 1) X[i])
}}""",
    "window": """
kernel f(X: {t}[N + 2]) -> (Y: {t}[N]) {w}{{ {p}
    T[i] = X[i] * X[i]
    Y[i] = {op}(r in 0..3) T[i + r]
}}""",
}
EXACT = ("f32", "f64", "i32")


@dataclass(frozen=True)
class Drawn:
    """A kernel as text. *exact*: it grants another order of sums, so its data must make every order exact."""

    text: str
    exact: bool
    form: str


def draw_program(rng: random.Random) -> Drawn:
    """One of the forms, filled in; at times one of the random kernels that the front end is tested with."""
    if rng.random() < 0.06:
        return Drawn(write(rng), False, "random")
    form = rng.choice(list(FORMS))
    granted = rng.random() < 0.25 and form != "narrowed"
    parts = {
        "t": rng.choice(EXACT if granted else ("f32", "f32", "f16", "bf16", "f64", "i32", "i8", "u8")),
        "op": rng.choice(("sum", "sum", "sum", "max", "min", "prod")),
        "o": rng.choice(("", "", "", ", lanes=2", ", lanes=4", ", blocks=2", ", blocks=3")),
        "a": rng.choice((1, 2)),
        "b": rng.choice((1, 2)),
        "d": rng.choice((1, 2)),
        "p": "allow reassociate" if granted else "",
        "w": rng.choice(("", "", "", "where N >= 1 ", "where N % 2 == 0 ")),
    }
    text = FORMS[form].format(**parts)
    return Drawn(re.sub(r"\{ *\n", "{\n", text), granted, form)
