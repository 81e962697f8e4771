"""The three orders of a sum, spelled out for arrays and for estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence


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
