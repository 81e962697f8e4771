"""The test that a card's matrix units add as the definition of an `mma=` sum says, which no vendor documents."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...compiler.ir.dtype import DTYPES
from ..load import load_function
from ..lower.tile import Dot, values_of
from ..numpy.runtime import fold
from .types import torch_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.fold import Unit
    from ..lower.tile import Stmt

UNIT_NAMES = ("hashlib", "unit_words", "unit_kernel", "require_unit")

WORDS = '''def unit_words(seed, bits, fraction):
    """64 lines of 64 floats, as words. Exponents spread wider every 16 lines, of which the last holds subnormals; in
    every second line, the products of the second 32 take those of the first 32 back."""
    middle = (1 << bits - 2 - fraction) - 1
    words = []
    for line in range(64):
        spread = (0, 2, 6, min(40, middle))[line // 16]
        own = []
        for place in range(64):
            x = (seed + 64 * line + place) * 0x9E3779B97F4A7C15 % 2**64
            x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
            x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
            x ^= x >> 31
            exponent = middle + (x >> 32) % (2 * spread + 1) - spread if line % 16 < 15 else 0
            own.append((x & 1) << bits - 1 | exponent << fraction | (x >> 8) % (1 << fraction))
            if place >= 32 and line % 2:
                own[place] = own[place - 32] ^ (seed == 1) << bits - 1
        words += own
    return words'''

KERNEL = '''@triton.jit
def unit_kernel(A, B, C):
    i = tl.arange(0, 64)
    a = tl.load(A + i[:, None] * 64 + i[None, :])
    b = tl.load(B + i[:, None] + i[None, :] * 64)
    tl.store(C + i[:, None] * 64 + i[None, :], tl.dot(a, b, input_precision="tf32"))


@functools.cache
def require_unit(device, dtype, word, bits, fraction, digest):
    """Raise RuntimeError unless the device's matrix units add products of this type as the kernel's definition does."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device) != (9, 0):
        raise RuntimeError("mma=sm_90 is the sum of another family of chips than this device is of")
    words = [torch.tensor(unit_words(seed, bits, fraction), device=device) for seed in (1, 1 << 20)]
    a, b = (w.to(word).view(dtype) for w in words)
    c = torch.empty(64 * 64, dtype=torch.float32, device=device)
    unit_kernel[(1,)](a, b, c, num_warps=4, enable_fp_fusion=False)
    found = hashlib.sha256(bytes(c.view(torch.uint8).tolist())).hexdigest()[:16]
    if found != digest:
        text = "the matrix units of this device do not add as mma=sm_90 says"
        raise RuntimeError(f"{text}: {found} for {dtype}, not {digest}")'''


def units_text(body: Sequence[Stmt]) -> tuple[str, list[str]]:
    """The functions of the test, and a line that makes it for each type of factor whose sums are folds."""
    kinds = {v.a.dtype.name: v.fold.unit for v in values_of(body) if isinstance(v, Dot) and v.fold is not None}
    calls: list[str] = []
    for name, unit in sorted(kinds.items()):
        dtype = DTYPES[name]
        # As many bits of fraction as there are beside the one that is not written.
        fraction = dtype.precision - 1
        facts = f"{torch_type(dtype)}, torch.int{dtype.bits}, {dtype.bits}, {fraction}"
        calls.append(f'require_unit(device, {facts}, "{expected(name, unit)}")')
    return f"{WORDS}\n\n\n{KERNEL}" if calls else "", calls


@cache
def expected(name: str, unit: Unit) -> str:
    """The first digits of the SHA-256 of what the test's products are, by the definition."""
    dtype = DTYPES[name]
    words = load_function(WORDS, "unit_words")
    left, right = (
        np.array(words(seed, dtype.bits, dtype.precision - 1), f"u{dtype.bits // 8}").view(dtype.numpy).reshape(64, 64)
        for seed in (1, 1 << 20)
    )
    with np.errstate(all="ignore"):
        found = fold(
            np.zeros((64, 64), np.float32),
            left[:, None, :],
            right[None, :, :],
            unit.block,
            0,
            unit.align,
            unit.bits,
            unit.least,
            unit.cut,
        )
    return hashlib.sha256(found.tobytes()).hexdigest()[:16]
