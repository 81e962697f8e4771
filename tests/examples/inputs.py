"""Random arguments for the examples, and what a case of an example holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BF16 = ml_dtypes.bfloat16
F8E4M3 = ml_dtypes.float8_e4m3fn


@dataclass(frozen=True)
class Case:
    """Arguments of a kernel by name, and its results: arrays (same bits) or estimates (within the error)."""

    arguments: dict[str, Any]
    results: tuple[Any, ...]


class Source:
    """A seeded source of arrays."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def spread(self, *shape: int) -> Array:
        """f32 of magnitudes that differ by a factor of 2^12: the order of a sum shows in its bits."""
        return np.ldexp(self.rng.standard_normal(shape), self.rng.integers(-6, 7, shape)).astype(np.float32)

    def plain(self, *shape: int) -> Array:
        """f32 around 1, for functions that would leave the range of numbers."""
        return self.rng.standard_normal(shape).astype(np.float32)

    def spread_bf16(self, *shape: int) -> Array:
        """As spread, rounded to bf16."""
        return self.spread(*shape).astype(BF16)

    def plain_bf16(self, *shape: int) -> Array:
        """As plain, rounded to bf16."""
        return self.plain(*shape).astype(BF16)

    def below(self, limit: int, *shape: int) -> Array:
        """i32 in 0..limit."""
        return self.rng.integers(0, limit, shape, dtype=np.int32)


def zeros(*shape: int) -> Array:
    """+0 in f32: where every sum begins."""
    return np.zeros(shape, np.float32)


def f32(array: Array) -> Array:
    """The same values in f32 (exact for bf16 and the 8-bit floats)."""
    return array.astype(np.float32)
