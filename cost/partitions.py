"""The ways to fuse a chain: which neighbours share a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

T = TypeVar("T")


def partitions(chain: Sequence[T]) -> Iterator[tuple[tuple[T, ...], ...]]:
    """Every way to cut a chain of n stages into kernels of neighbours, 2^(n - 1) of them, the most fused first."""
    if not chain:
        return
    for cuts in range(1 << (len(chain) - 1)):
        parts: list[tuple[T, ...]] = []
        first = 0
        for place in range(1, len(chain)):
            if cuts >> (place - 1) & 1:
                parts.append(tuple(chain[first:place]))
                first = place
        yield (*parts, tuple(chain[first:]))
