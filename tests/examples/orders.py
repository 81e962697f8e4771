"""The orders of a sum, spelled out for arrays and for estimates."""

from __future__ import annotations

from fractions import Fraction
from math import floor, frexp
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .inputs import Array


class Addable(Protocol):
    """An f32 array, or an estimate of one."""

    def __add__(self, other: Self, /) -> Self: ...


Number = TypeVar("Number", bound=Addable)


def ascending(zero: Number, terms: Sequence[Number]) -> Number:
    """zero + terms[0], + terms[1], ... one rounding an addition."""
    total = zero
    for term in terms:
        total = total + term
    return total


def in_lanes(zero: Number, terms: Sequence[Number], lanes: int) -> Number:
    """Term k goes to lane k mod *lanes*; the lanes ascend, then neighbours merge until one is left."""
    partial = [ascending(zero, terms[lane::lanes]) for lane in range(lanes)]
    while len(partial) > 1:
        partial = [left + right for left, right in zip(partial[::2], partial[1::2], strict=True)]
    return partial[0]


def in_blocks(zero: Number, terms: Sequence[Number], size: int) -> Number:
    """Blocks of *size* terms ascend, then the sums of the blocks do."""
    blocks = [ascending(zero, terms[start : start + size]) for start in range(0, len(terms), size)]
    return ascending(zero, blocks)


def in_steps(A: Array, B: Array, block: int, align: int, bits: int) -> Array:
    """The product A @ B as matrix units add it, in fractions: numbers that are normal and finite throughout."""
    result = np.zeros((A.shape[0], B.shape[1]), np.float32)
    for i, j in np.ndindex(result.shape):
        total = Fraction(0)
        for start in range(0, A.shape[1], block):
            pairs = [(float(A[i, k]), float(B[k, j])) for k in range(start, min(start + block, A.shape[1]))]
            exponents = [_exponent(a) + _exponent(b) for a, b in pairs if a and b]
            exponents += [_exponent(float(total))] if total else []
            if exponents:
                unit = Fraction(2) ** (max(exponents) - align)
                terms = [total, *(Fraction(a) * Fraction(b) for a, b in pairs)]
                total = sum((_cut(t, unit) for t in terms), Fraction(0))
                total = _cut(total, Fraction(2) ** (_exponent(float(total)) - bits + 1)) if total else total
        result[i, j] = float(total)
    return result


def _exponent(x: float) -> int:
    return frexp(x)[1] - 1


def _cut(x: Fraction, unit: Fraction) -> Fraction:
    """Toward zero, to a multiple."""
    return (1 if x > 0 else -1) * floor(abs(x) / unit) * unit
