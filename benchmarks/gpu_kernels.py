"""What benchmarks/gpu.py compares: kernels, the same in torch, and ours with the hardware's functions."""

from __future__ import annotations

import re

import torch

TEXTS = {
    "matmul_silu": """kernel matmul_silu(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
        C[i, j] = bf16(allow reassociate in sum(k) f32(A[i, k]) * f32(W[k, j]))
        Y[i, j] = bf16(silu(f32(C[i, j])))
    }""",
    "silu_mul": """kernel silu_mul(G: bf16[M, N], U: bf16[M, N]) -> (Y: bf16[M, N]) {
        Y[i, j] = bf16(silu(f32(G[i, j])) * f32(U[i, j]))
    }""",
    "rmsnorm": """kernel rmsnorm(X: bf16[M, D], W: bf16[D], eps: f32) -> (Y: bf16[M, D]) where D >= 1 {
        ss[i] = sum(d, lanes=1024) f32(X[i, d]) * f32(X[i, d])
        r[i] = rsqrt(ss[i] / f32(D) + eps)
        Y[i, d] = bf16(f32(X[i, d]) * r[i] * f32(W[d]))
    }""",
    "softmax": """kernel softmax(X: TYPE[R, C]) -> (Y: TYPE[R, C]) where C >= 1, C <= 8192 {
        allow reassociate
        m[r] = max(c) f32(X[r, c])
        e[r, c] = exp(f32(X[r, c]) - m[r])
        s[r] = sum(c) e[r, c]
        Y[r, c] = TYPE(e[r, c] / s[r])
    }""",
    "transpose": "kernel transpose(X: bf16[M, N]) -> (Y: bf16[N, M]) { Y[j, i] = X[i, j] }",
    "chain": """kernel chain(X: f32[N], Z: f32[N]) -> (Y: f32[N]) {
        a[i] = X[i] * 1.5 + Z[i]
        b[i] = max(a[i], 0) - X[i]
        c[i] = b[i] * b[i] + 0.5
        Y[i] = (c[i] * 0.25 + a[i]) * Z[i] - min(b[i], 1)
    }""",
    "conv": """kernel conv(X: bf16[B, H, W, C], F: bf16[3, 3, C, O]) -> (Y: bf16[B, H, W, O]) {
        Y[n, h, w, o] = bf16(allow reassociate in sum(r in 0..3, s in 0..3, c)
                             f32(X[n, h + r - 1, w + s - 1, c] else 0) * f32(F[r, s, c, o]))
    }""",
    "matmul_sm90": """kernel matmul_sm90(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
        C[i, j] = bf16(sum(k, mma=sm_90) f32(A[i, k]) * f32(W[k, j]))
        Y[i, j] = bf16(silu(f32(C[i, j])))
    }""",
    "quantised": """kernel quantised(X: bf16[M, K], W: f8e4m3[N, K], ws: f32[N]) -> (Y: bf16[M, N]) where K <= 4096 {
        amax[i] = max(k) abs(f32(X[i, k]))
        sc[i] = 1 if amax[i] <= 0 else amax[i] / 448
        Xq[i, k] = sat f8e4m3(f32(X[i, k]) / sc[i])
        C[i, j] = sum(k, mma=sm_90, promote=128) f32(Xq[i, k]) * f32(W[j, k])
        Y[i, j] = bf16(C[i, j] * sc[i] * ws[j])
    }""",
    "contraction": """kernel contraction(X: bf16[NA, NK, NL, NB], Y: bf16[NL, NK, NC]) -> (T: f32[NA, NB, NC]) {
        T[a, b, c] = allow reassociate in sum(k, l) f32(X[a, k, l, b]) * f32(Y[l, k, c])
    }""",
}


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(shape, device="cuda") * scale).to(dtype)


def silu_after(A: torch.Tensor, W: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(A @ W)


def gated(G: torch.Tensor, U: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(G) * U


def normed(X: torch.Tensor, W: torch.Tensor, eps: float) -> torch.Tensor:
    return torch.nn.functional.rms_norm(X, (X.shape[1],), W, eps)


def chained(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
    a = X * 1.5 + Z
    b = a.clamp(min=0) - X
    return ((b * b + 0.5) * 0.25 + a) * Z - b.clamp(max=1)


def convolved(X: torch.Tensor, F: torch.Tensor) -> torch.Tensor:
    found = torch.nn.functional.conv2d(X.permute(0, 3, 1, 2), F.permute(3, 2, 0, 1), padding=1)
    return found.permute(0, 2, 3, 1)


def contracted(X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
    return torch.einsum("aklb,lkc->abc", X, Y).float()


def quantised(X: torch.Tensor, W: torch.Tensor, ws: torch.Tensor) -> torch.Tensor:
    amax = X.float().abs().amax(1, keepdim=True)
    sc = torch.where(amax <= 0, 1.0, amax / 448)
    Xq = (X.float() / sc).clamp(-448, 448).to(torch.float8_e4m3fn)
    return torch._scaled_mm(Xq, W.t(), scale_a=sc, scale_b=ws[None, :], out_dtype=torch.bfloat16)


# What a permissive compiler puts in place of defined functions.
FAST = {
    "exp_f32": "(x):\n    return tl.exp(x)",
    "exp_nonpositive_f32": "(x):\n    return tl.exp(x)",
    "exp_half_f32": "(x):\n    return tl.exp(x) * 0.5",
    "exp_normal_f32": "(x):\n    return tl.exp(x)",
    "rsqrt_f32": "(x):\n    return tl.rsqrt(x)",
    "row_quotient": "(a, b):\n    return a / b",
    "quotient": "(a, b):\n    return a / b",
    "quotient_far": "(a, b):\n    return a / b",
    "quotient_fine": "(a, b):\n    return a / b",
}


def permissive(source: str) -> str:
    """An emitted module with the hardware's functions and quotients, and products joined with sums."""
    for name, body in FAST.items():
        source = re.sub(rf"(?<=\ndef {name})\(.*?(?=\n\n\n)", body, source, flags=re.DOTALL)
    fast = "@triton.jit\ndef fast_quotient(a, b):\n    return a / b\n\n\n"
    source = source.replace("tl.div_rn(", "fast_quotient(").replace("@triton.jit", f"{fast}@triton.jit", 1)
    return source.replace("enable_fp_fusion=False", "enable_fp_fusion=True")
