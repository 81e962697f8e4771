"""What a second cache leaves of a launch's reads: programs that run side by side, and one wave after another, read the
same boxes, of which memory is asked once as long as they are kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Reads:
    """What programs read of one tensor. *panels*: for each program the number of what it reads, programs with the same
    number reading the same; *size*: the bytes of one."""

    tensor: str
    panels: np.ndarray[Any, np.dtype[np.int64]]
    size: float


def panels(order: np.ndarray[Any, np.dtype[np.int64]], depends: Sequence[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number for each program: equal for those that agree in the grid's loops at the places *depends*."""
    if not len(depends):
        return np.zeros(len(order), np.int64)
    return np.unique(order[:, list(depends)], axis=0, return_inverse=True)[1].reshape(-1)


def from_memory(reads: Sequence[Reads], slots: int, cache: float, written: float = 0.0) -> Mapping[str, float]:
    """The bytes that memory has to give for each tensor, *slots* programs running at a time.

    A wave asks memory once for what several of its programs read: they go through it in step. What an earlier wave has
    read is still there if no more than *cache* bytes have passed since, those that a program writes (*written*) too.
    """
    programs = len(reads[0].panels) if reads else 0
    total = dict.fromkeys((r.tensor for r in reads), 0.0)
    # The bytes that had passed before the wave that read a panel last.
    seen: list[dict[int, float]] = [{} for _ in reads]
    passed = 0.0
    for first in range(0, programs, slots):
        wave = [np.unique(r.panels[first : first + slots]) for r in reads]
        room = sum(len(w) * r.size for w, r in zip(wave, reads, strict=True))
        room += written * min(slots, programs - first)
        for own, read, last in zip(wave, reads, seen, strict=True):
            for panel in own.tolist():
                if panel not in last or passed - last[panel] > cache:
                    total[read.tensor] += read.size
                last[panel] = passed
        passed += room
    return total
