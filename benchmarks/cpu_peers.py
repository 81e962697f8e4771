"""What benchmarks/cpu.py compares with --peers: the same in torch, eager and compiled, where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def peers(name: str, inputs: tuple[Any, ...], threads: int) -> dict[str, Callable[[], Any]]:
    """Functions of no arguments by the name of who made them; none without torch, or where it has no such function.
    *name*: of a case."""
    try:
        import torch
    except ImportError:
        return {}
    from tilewright.compiler.exchange import as_array

    torch.set_num_threads(threads)
    function = next((f for start, f in _functions(torch).items() if name.startswith(start)), None)
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


def _functions(torch: Any) -> dict[str, Callable[..., Any]]:
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
    }
