"""Kernels whose launches have parts with warps of their own, and the sizes of their tiles."""

from __future__ import annotations

from dataclasses import replace

import tilewright as tw

WIDE = tw.Sizes(rows=128, columns=256, depth=64, stages=3, processors=True, consumers=2)
FREE = "{ allow reassociate, contract"
# What the parts may be asked for: operations in the consumers and in the epilogue, by row, by column and by number; no
# epilogue; one consumer of a product by columns, and a constant; factors that lie the other way; a matrix unit's order.
KERNELS = {
    "scaled": (f"""kernel scaled(X: bf16[M, K], W: bf16[K, N], s: f32[M], b: bf16[N], c: f32) -> (Y: bf16[M, N]) {FREE}
        C[i, j] = bf16((sum(k) f32(X[i, k]) * f32(W[k, j])) * s[i])
        Y[i, j] = bf16(f32(C[i, j]) * c + f32(b[j]))
    }}""", WIDE),
    "plain": (f"""kernel plain(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {FREE}
        Y[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
    }}""", WIDE),
    "one": (f"""kernel one(X: f16[M, K], W: f16[N, K]) -> (Y: f16[M, N]) {FREE}
        C[i, j] = f16(sum(k) f32(X[i, k]) * f32(W[j, k]))
        Y[i, j] = max(C[i, j], 0)
    }}""", replace(WIDE, rows=64, columns=128, stages=4, consumers=1)),
    "turned": (f"""kernel turned(X: bf16[K, M], W: bf16[K, N]) -> (Y: f32[M, N]) {FREE}
        Y[i, j] = sum(k) f32(X[k, i]) * f32(W[k, j])
    }}""", replace(WIDE, columns=128)),
    "fold": ("""kernel fold(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
        C[i, j] = bf16(sum(k, mma=sm_90) f32(X[i, k]) * f32(W[k, j]))
        Y[i, j] = bf16(silu(f32(C[i, j])))
    }""", WIDE),
}  # fmt: skip
