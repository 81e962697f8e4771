"""Examples with elementary functions: exact up to their first use, then a derived bound on the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .estimate import Estimate, exact, exp, log, rsqrt, to_bf16
from .inputs import BF16, Case, f32, zeros
from .orders import ascending, in_blocks, in_lanes, in_steps

if TYPE_CHECKING:
    from .inputs import Array, Source


def _product_bf16(A: Array, W: Array) -> Array:
    """bf16 of the ascending f32 sum of exact products."""
    terms = [f32(A)[:, k, None] * f32(W)[None, k, :] for k in range(A.shape[1])]
    return ascending(zeros(A.shape[0], W.shape[1]), terms).astype(BF16)


def _silu(x: Array) -> Estimate:
    """x / (1 + exp(-x)) for known x."""
    return exact(x) / (exact(np.ones_like(x)) + exp(exact(-x)))


def matmul_silu(source: Source, M: int, K: int, N: int) -> Case:
    """The product is known to the bit, since it is rounded to bf16 where it is written."""
    A, W = source.plain_bf16(M, K), source.plain_bf16(K, N)
    return Case({"A": A, "W": W}, (to_bf16(_silu(f32(_product_bf16(A, W)))),))


def matmul_sm90(source: Source, M: int, K: int, N: int) -> Case:
    """Steps of 16 products, 25 bits below the greatest of them, cut to 24: known to the bit, and SiLU of that."""
    A, W = source.plain_bf16(M, K), source.plain_bf16(K, N)
    return Case({"A": A, "W": W}, (to_bf16(_silu(f32(in_steps(A, W, 16, 25, 24).astype(BF16)))),))


def gated_mlp(source: Source, M: int, K: int, N: int) -> Case:
    """Two products, known to the bit."""
    X, Wg, Wu = source.plain_bf16(M, K), source.plain_bf16(K, N), source.plain_bf16(K, N)
    gate, up = f32(_product_bf16(X, Wg)), f32(_product_bf16(X, Wu))
    return Case({"X": X, "Wg": Wg, "Wu": Wu}, (to_bf16(_silu(gate) * exact(up)),))


def _rmsnorm(X: Array, W: Array, eps: np.float32, squares: Array) -> Case:
    scale = rsqrt(exact(squares / np.float32(X.shape[1]) + eps))[:, None]
    result = to_bf16(exact(f32(X)) * scale * exact(f32(W)))
    return Case({"X": X, "W": W, "eps": eps}, (result,))


def rmsnorm(source: Source, M: int, D: int) -> Case:
    """The squares in 1024 lanes."""
    X, W = source.spread_bf16(M, D), source.plain_bf16(D)
    squares = in_lanes(zeros(M), list(f32(X).T * f32(X).T), 1024)
    return _rmsnorm(X, W, np.float32(1e-5), squares)


def rmsnorm_free(source: Source, M: int, D: int) -> Case:
    """The squares by ascending order: without a schedule a permission changes nothing."""
    X, W = source.spread_bf16(M, D), source.plain_bf16(D)
    squares = ascending(zeros(M), list(f32(X).T * f32(X).T))
    return _rmsnorm(X, W, np.float32(1e-5), squares)


def layernorm(source: Source, M: int, D: int) -> Case:
    """Mean and variance are known to the bit."""
    X, W, B, eps = source.spread(M, D), source.plain(D), source.plain(D), np.float32(1e-3)
    centred = X - (ascending(zeros(M), list(X.T)) / np.float32(D))[:, None]
    variance = ascending(zeros(M), list(centred.T * centred.T)) / np.float32(D)
    result = exact(centred) * rsqrt(exact(variance + eps))[:, None] * exact(W) + exact(B)
    return Case({"X": X, "W": W, "B": B, "eps": eps}, (result,))


def _shifted(X: Array) -> Array:
    """Rows less their greatest entry: one rounding, never above 0."""
    return X - X.max(axis=1, keepdims=True, initial=-np.inf)


def softmax(source: Source, R: int, C: int) -> Case:
    """Weights and their ascending sum."""
    X = source.spread(R, C)
    weights = exp(exact(_shifted(X)))
    total = ascending(exact(zeros(R)), [weights[:, c] for c in range(C)])
    results = weights / total[:, None] if C else exact(zeros(R, 0))
    return Case({"X": X}, (results,))


def softmax_online(source: Source, R: int, C: int) -> Case:
    """Without a schedule, softmax as it stands."""
    return softmax(source, R, C)


def attention_gqa(source: Source, B: int, G: int, T: int, D: int) -> Case:
    """Scores are known to the bit; each query sees the keys up to its own place."""
    Q, K, V = (source.plain_bf16(B, heads, T, D) for heads in (4 * G, G, G))
    keys, values = (np.repeat(f32(x), 4, axis=1) for x in (K, V))
    scale = np.float32(0.3)
    value, error = np.zeros(Q.shape), np.zeros(Q.shape)
    for t in range(T):
        terms = [f32(Q)[:, :, t, d, None] * keys[:, :, : t + 1, d] for d in range(D)]
        scores = scale * ascending(zeros(B, 4 * G, t + 1), terms)
        weights = exp(exact(scores - scores.max(axis=2, keepdims=True)))
        total = ascending(exact(zeros(B, 4 * G)), [weights[:, :, s] for s in range(t + 1)])
        mixed = [weights[:, :, s, None] * exact(values[:, :, s]) for s in range(t + 1)]
        row = to_bf16(ascending(exact(zeros(B, 4 * G, D)), mixed) / total[:, :, None])
        value[:, :, t], error[:, :, t] = row.value, row.error
    return Case({"Q": Q, "K": K, "V": V, "scale": scale}, (Estimate(value, error),))


def cross_entropy(source: Source, N: int, V: int) -> Case:
    """Lanes over the classes, blocks over the examples, one number in the end."""
    X, label = source.spread(N, V), source.below(V, N)
    weights = exp(exact(_shifted(X)))
    total = in_lanes(exact(zeros(N)), [weights[:, v] for v in range(V)], 256)
    losses = exact(X.max(axis=1)) + log(total) - exact(X[np.arange(N), label])
    mean = in_blocks(exact(zeros()), [losses[n] for n in range(N)], 64) / exact(np.float32(N))
    return Case({"X": X, "label": label}, (mean,))
