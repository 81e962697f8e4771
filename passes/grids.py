"""Grids of index values: an equation's points as arrays that broadcast against each other, an axis for each index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.quasiaffine import Affine, Range

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Grid:
    """Index values as arrays that broadcast against each other, one axis for each index in turn; which points exist."""

    values: Mapping[str, Any]
    mask: Array
    rank: int
    allowed: frozenset[str]


def about(ends: Sequence[Affine], values: Mapping[str, int]) -> int:
    """About where a range ends, unknown indices being 0."""
    return max(end.evaluate({**dict.fromkeys(end.names(), 0), **values}) for end in ends)


def integer(sizes: Mapping[str, int], affine: Affine, values: Mapping[str, Any]) -> Any:
    """An index expression on arrays of index values."""
    total: Any = affine.constant
    for term, factor in affine.terms:
        if isinstance(term, str):
            total = total + factor * (values[term] if term in values else sizes[term])
            continue
        inner = integer(sizes, term.numerator, values)
        total = total + factor * (inner // term.divisor if term.kind == "//" else inner % term.divisor)
    return total


def entered(sizes: Mapping[str, int], grid: Grid, found: Range, window: tuple[str, int, int] | None = None) -> Grid:
    """The grid with one more index, along an axis of its own at the end; *window*: an index, and what of it to keep."""
    values = {n: v[..., None] if isinstance(v, np.ndarray) else v for n, v in grid.values.items()}
    lows = [np.asarray(integer(sizes, a, values)) for a in found.lower]
    highs = [np.asarray(integer(sizes, b, values)) for b in found.upper]
    low, high = lows[0], highs[0]
    for other in lows[1:]:
        low = np.maximum(low, other)
    for other in highs[1:]:
        high = np.minimum(high, other)
    start, stop = (int(low.min()), int(high.max())) if low.size and high.size else (0, 0)
    if window is not None and window[0] == found.index:
        start, stop = max(start, window[1]), min(stop, window[2])
    index = np.arange(start, max(start, stop)).reshape((1,) * grid.rank + (-1,))
    mask = grid.mask[..., None] & (index >= low) & (index < high)
    return Grid({**values, found.index: index}, mask, grid.rank + 1, grid.allowed)


def spread(value: Any, rank: int) -> Any:
    """A value with axes at its end for indices that it does not have."""
    array = np.asarray(value)
    return array if array.ndim in (0, rank) else array.reshape(array.shape + (1,) * (rank - array.ndim))
