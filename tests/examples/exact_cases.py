"""Examples whose results are known to the bit: NumPy in the order of operations that the text names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .inputs import BF16, F8E4M3, Case, f32, zeros
from .orders import ascending, in_blocks, in_steps

if TYPE_CHECKING:
    from .inputs import Array, Source


def _products(A: Array, B: Array) -> list[Array]:
    """The f32 terms A[i, k] * B[k, j] for each k."""
    return [A[:, k, None] * B[None, k, :] for k in range(A.shape[1])]


def matmul(source: Source, M: int, K: int, N: int) -> Case:
    """One ascending sum."""
    A, B = source.spread(M, K), source.spread(K, N)
    return Case({"A": A, "B": B}, (ascending(zeros(M, N), _products(A, B)),))


def matmul_blocks(source: Source, M: int, K: int, N: int) -> Case:
    """Blocks of 256 products."""
    A, B = source.spread(M, K), source.spread(K, N)
    return Case({"A": A, "B": B}, (in_blocks(zeros(M, N), _products(A, B), 256),))


def rotary(source: Source, T: int, H: int, P: int) -> Case:
    """Pairs turned by an angle, two products and a sum an element, then bf16."""
    X, Cos, Sin = source.spread_bf16(T, H, 2 * P), source.plain(T, P), source.plain(T, P)
    even, odd = f32(X)[:, :, 0::2], f32(X)[:, :, 1::2]
    cos, sin = Cos[:, None, :], Sin[:, None, :]
    Y = np.empty(X.shape, BF16)
    Y[:, :, 0::2] = (even * cos + (-odd) * sin).astype(BF16)
    Y[:, :, 1::2] = (odd * cos + even * sin).astype(BF16)
    return Case({"X": X, "Cos": Cos, "Sin": Sin}, (Y,))


def _windows(X: Array) -> Array:
    """X with a rim of zeros around its axes -3 and -2 (height and width)."""
    return np.pad(X, [(0, 0)] * (X.ndim - 3) + [(1, 1), (1, 1), (0, 0)])


def conv2d(source: Source, N: int, H: int, W: int, C: int, out: int) -> Case:
    """3 x 3 taps outside, channels inside."""
    X, F = source.spread_bf16(N, H, W, C), source.spread_bf16(3, 3, C, out)
    padded, weights = _windows(f32(X)), f32(F)
    terms = [
        padded[:, r : r + H, s : s + W, c, None] * weights[r, s, c]
        for r in range(3)
        for s in range(3)
        for c in range(C)
    ]
    return Case({"X": X, "F": F}, (ascending(zeros(N, H, W, out), terms),))


def depthwise(source: Source, H: int, W: int, C: int) -> Case:
    """3 x 3 taps of each channel."""
    X, F = source.spread(H, W, C), source.spread(3, 3, C)
    padded = _windows(X)
    terms = [padded[r : r + H, s : s + W] * F[r, s] for r in range(3) for s in range(3)]
    return Case({"X": X, "F": F}, (ascending(zeros(H, W, C), terms),))


def maxpool(source: Source, H: int, W: int, C: int) -> Case:
    """The greatest of four; one NaN among the data."""
    X = source.spread(H, W, C)
    X[H // 3 : H // 3 + 1, W // 3 : W // 3 + 1, :1] = np.nan
    used = X[: H // 2 * 2, : W // 2 * 2].reshape(H // 2, 2, W // 2, 2, C)
    return Case({"X": X}, (used.max(axis=(1, 3)),))


def transpose(source: Source, M: int, N: int) -> Case:
    """Rows to columns."""
    X = source.spread(M, N)
    return Case({"X": X}, (X.T,))


def embedding(source: Source, V: int, D: int, T: int) -> Case:
    """Rows by number."""
    E, idx = source.spread_bf16(V, D), source.below(V, T) if T else np.zeros(0, np.int32)
    return Case({"E": E, "idx": idx}, (E[idx],))


def quant_fp8(source: Source, M: int, K: int, N: int) -> Case:
    """A scale a row from its greatest magnitude; the last row is all zeros."""
    X, W, ws = source.spread(M, K), source.plain(K, N).astype(F8E4M3), source.plain(N)
    X[M - 1 :] = 0
    amax = abs(X).max(axis=1, initial=0)
    scale = np.where(amax == 0, np.float32(1), amax / np.float32(448))[:, None]
    Xq = np.clip(X / scale, -448, 448).astype(F8E4M3)
    total = ascending(zeros(M, N), _products(f32(Xq), f32(W)))
    return Case({"X": X, "W": W, "ws": ws}, (total * scale * ws,))


def matmul_fp8(source: Source, M: int, K: int, N: int) -> Case:
    """Steps of 32 products, 13 bits below the greatest, cut to 14; every 128 are added in f32."""
    A, W = (source.plain(*shape).astype(F8E4M3) for shape in ((M, K), (K, N)))
    A, W = (np.where(abs(f32(x)) < 2.0**-6, F8E4M3(0.5), x) for x in (A, W))
    parts = [in_steps(A[:, k : k + 128], W[k : k + 128], 32, 13, 14) for k in range(0, K, 128)]
    SA, SW = source.plain(M), source.plain(N)
    total = ascending(zeros(M, N), parts) * SA[:, None] * SW
    return Case({"A": A, "W": W, "SA": SA, "SW": SW}, (total.astype(BF16),))


def prefix_sum(source: Source, N: int) -> Case:
    """Added from the left."""
    X, S = source.spread(N), zeros(N)
    total = np.float32(0)
    for i in range(N):
        S[i] = total = X[i] + total
    return Case({"X": X}, (S,))


def stencil_time(source: Source, H: int, W: int, steps: int) -> Case:
    """Centre, up, down, left, right, then a fifth of it; the rim stays."""
    A = source.spread(H, W)
    U = A.copy()
    for _ in range(steps):
        middle = U[1:-1, 1:-1] + U[:-2, 1:-1] + U[2:, 1:-1] + U[1:-1, :-2] + U[1:-1, 2:]
        U[1:-1, 1:-1] = np.float32(0.2) * middle
    return Case({"A": A, "steps": steps}, (U,))


def wavefront(source: Source, M: int, N: int) -> Case:
    """Cell by cell."""
    A, D = source.spread(M, N), zeros(M + 1, N + 1)
    for i in range(M):
        for j in range(N):
            up = D[i, j + 1] if i else np.float32(0)
            left = D[i + 1, j] if j else np.float32(0)
            D[i + 1, j + 1] = A[i, j] + max(up, left)
    return Case({"A": A}, (D[1:, 1:],))


def argmax_rows(source: Source, R: int, C: int) -> Case:
    """Few values, so that there are equals, and a NaN in one row."""
    X = f32(source.below(4, R, C))
    X[R // 2 : R // 2 + 1, C // 2] = np.nan
    return Case({"X": X}, (np.argmax(X, axis=1),))


def top1(source: Source, R: int, C: int) -> Case:
    """The index and its value."""
    case = argmax_rows(source, R, C)
    X, place = case.arguments["X"], case.results[0]
    return Case({"X": X}, (place, X[np.arange(R), place]))


def pairwise(source: Source, M: int, D: int, N: int) -> Case:
    """Squares of differences, ascending; the square root is correctly rounded in NumPy too."""
    A, B = source.spread(M, D), source.spread(N, D)
    apart = [A[:, None, d] - B[None, :, d] for d in range(D)]
    return Case({"A": A, "B": B}, (np.sqrt(ascending(zeros(M, N), [t * t for t in apart])),))


def _solve(T: Array, B: Array, rows: range, before: dict[int, range]) -> Array:
    """Rows of the solution in the order *rows*; row i uses the rows before[i], in that order."""
    X = zeros(*B.shape)
    for i in rows:
        known = ascending(zeros(B.shape[1]), [T[i, k] * X[k] for k in before[i]])
        X[i] = (B[i] - known) / T[i, i]
    return X


def trisolve(source: Source, N: int, R: int) -> Case:
    """Row by row, from the top; what stands above the diagonal must not matter."""
    L, B = source.plain(N, N) + 3 * np.eye(N, dtype=np.float32), source.spread(N, R)
    return Case({"L": L, "B": B}, (_solve(L, B, range(N), {i: range(i) for i in range(N)}),))


def trisolve_upper(source: Source, N: int, R: int) -> Case:
    """Row by row, from the bottom; the sums still ascend."""
    U, B = source.plain(N, N) + 3 * np.eye(N, dtype=np.float32), source.spread(N, R)
    X = _solve(U, B, range(N - 1, -1, -1), {i: range(i + 1, N) for i in range(N)})
    return Case({"U": U, "B": B}, (X,))
