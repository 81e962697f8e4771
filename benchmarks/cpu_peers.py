"""What benchmarks/cpu.py compares with --peers: the same by torch, jax, numba and halide, those that are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Functions = dict[str, Callable[..., Any]]


def peers(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Functions of no arguments by the name of who made them; none of makers that are not installed, or have no such
    function. *name*: of a case."""
    found: dict[str, Callable[[], Any]] = {}
    for maker, made in (("torch", _torch), ("jax", _jax), ("numba", _numba), ("halide", _halide)):
        if find_spec(maker) is not None:
            found |= made(name, inputs, threads)
    return found


def _named(functions: Functions, name: str) -> Callable[..., Any] | None:
    return next((f for start, f in functions.items() if name.startswith(start)), None)


def _torch(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Eager and compiled."""
    import torch
    from tilewright.compiler.exchange import as_array

    torch.set_num_threads(threads)
    function = _named(_torch_functions(torch), name)
    if function is None:
        return {}

    def tensor(x: Any) -> Any:
        if as_array(x) is None:
            return x
        narrow = x.dtype.name == "bfloat16"
        return torch.from_numpy(x.view("int16")).view(torch.bfloat16) if narrow else torch.from_numpy(x)

    given = tuple(map(tensor, inputs))
    if name.startswith("convolution"):
        # Channels last, as ours; what oneDNN packs of the filters it packs at each call.
        given = (given[0].permute(0, 3, 1, 2), given[1].permute(3, 2, 0, 1))
    found = {"torch": lambda: function(*given)}
    compiled = torch.compile(function, dynamic=False)
    try:
        with torch.no_grad():
            compiled(*given)
    except Exception:  # torch.compile needs a C++ compiler, and has errors of every kind without one
        return found
    return {**found, "torch.compile": lambda: compiled(*given)}


def _torch_functions(torch: Any) -> Functions:
    silu, norm = torch.nn.functional.silu, torch.nn.functional.rms_norm

    def chain(x: Any, z: Any) -> Any:
        a = x * 1.5 + z
        b = a.clamp(min=0) - x
        return ((b * b + 0.5) * 0.25 + a) * z - b.clamp(max=1)

    def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
        scores = (q @ k.transpose(-1, -2)) * scale
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v

    return {
        "product + SiLU": lambda a, b: silu(a @ b),
        "product": torch.matmul,
        "contraction": lambda x, y: torch.einsum("aklb,lkc->abc", x, y),
        "SiLU": lambda g, u: silu(g) * u,
        "RMSNorm": lambda x, w, eps: norm(x, (x.shape[1],), w, eps),
        "softmax": lambda x: torch.softmax(x, 1),
        "transposition": lambda x: x.t().contiguous(),
        "chain": chain,
        "convolution": lambda x, f: torch.nn.functional.conv2d(x, f, padding=1),
        "attention": attention,
        "stencil": lambda x: _steps(x),
    }


def _steps(x: Any) -> Any:
    """Two steps of the stencil, of arrays of any maker."""
    for _ in range(2):
        x = (x[1:-1, 1:-1] + x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]) * 0.2
    return x


def _jax(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    def chain(x: Any, z: Any) -> Any:
        a = x * 1.5 + z
        b = jnp.maximum(a, 0) - x
        return ((b * b + 0.5) * 0.25 + a) * z - jnp.minimum(b, 1)

    def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
        scores = (q @ k.swapaxes(1, 2)) * scale
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -jnp.inf)
        return jax.nn.softmax(scores, -1) @ v

    def convolution(x: Any, f: Any) -> Any:
        names = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, f, (1, 1), "SAME", dimension_numbers=names)

    functions = {
        "product + SiLU": lambda a, b: jax.nn.silu(a @ b),
        "product": lambda a, b: a @ b,
        "contraction": lambda x, y: jnp.einsum("aklb,lkc->abc", x, y),
        "SiLU": lambda g, u: jax.nn.silu(g) * u,
        "RMSNorm": lambda x, w, eps: x * jax.lax.rsqrt(jnp.mean(x * x, 1, keepdims=True) + eps) * w,
        "softmax": lambda x: jax.nn.softmax(x, 1),
        "transposition": lambda x: x.T,
        "chain": chain,
        "convolution": convolution,
        "attention": attention,
        "stencil": _steps,
    }
    function = _named(functions, name)
    if function is None:
        return {}
    compiled, given = jax.jit(function), tuple(map(jnp.asarray, inputs))
    compiled(*given).block_until_ready()
    return {"jax": lambda: compiled(*given).block_until_ready()}


def _numba(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Plain loops, in any order of a sum."""
    import numba
    import numpy as np

    fast = numba.njit(fastmath=True, error_model="numpy")

    def norm(x: Any, w: Any, eps: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            total = np.float32(0)
            for j in range(x.shape[1]):
                total += x[i, j] * x[i, j]
            r = np.float32(1) / np.sqrt(total / np.float32(x.shape[1]) + np.float32(eps))
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * r * w[j]

    def chain(x: Any, z: Any, out: Any) -> None:
        for i in range(x.shape[0]):
            a = x[i] * np.float32(1.5) + z[i]
            b = max(a, np.float32(0)) - x[i]
            c = b * b + np.float32(0.5)
            out[i] = (c * np.float32(0.25) + a) * z[i] - min(b, np.float32(1))

    function = _named({"RMSNorm": norm, "chain": chain}, name)
    if function is None:
        return {}
    compiled, out = fast(function), np.empty_like(inputs[0])
    compiled(*inputs, out)
    return {"numba": lambda: compiled(*inputs, out)}


def _halide(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Elementwise pipelines, in vectors and parallel rows."""
    import halide as hl
    import numpy as np

    y = hl.Var("y")
    axes = [hl.Var(f"x{n}") for n in range(inputs[0].ndim)] if name.startswith(("SiLU", "chain")) else []
    if not axes or inputs[0].dtype != np.float32:
        return {}
    a, b = (hl.Buffer(x)[tuple(axes)] for x in inputs)
    made = hl.Func("made")
    if name.startswith("SiLU"):
        made[tuple(axes)] = a / (hl.f32(1) + hl.exp(-a)) * b
    else:
        first = a * hl.f32(1.5) + b
        second = hl.max(first, hl.f32(0)) - a
        third = second * second + hl.f32(0.5)
        made[tuple(axes)] = (third * hl.f32(0.25) + first) * b - hl.min(second, hl.f32(1))
    made.vectorize(axes[0], 16)
    if threads > 1:
        made.parallel(axes[-1]) if len(axes) > 1 else made.split(axes[0], y, axes[0], 1 << 16).parallel(y)
    out = hl.Buffer(np.empty_like(inputs[0]))
    made.compile_jit()
    made.realize(out)
    return {"halide": lambda: made.realize(out)}
