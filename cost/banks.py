"""Where elements lie in shared memory, and in how many rounds its banks give what the lanes of a warp ask for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ..compiler.ir.quasiaffine import Affine

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..compiler.ir.storage import Storage


def address(storage: Storage, positions: Sequence[int], shape: Sequence[int]) -> int:
    """The place of an element in a buffer, counted in elements.

    *shape*: how many places each dimension of the layout has; the innermost row is longer by the padding.
    """
    found = storage.places({d: Affine.number(p) for d, p in enumerate(positions)}, len(positions))
    places = [place.evaluate({}) for place in found]
    if storage.swizzle:
        places[-1] ^= places[-2] % storage.swizzle
    sizes = [*shape[:-1], shape[-1] + storage.pad]
    total = 0
    for place, size in zip(places, sizes, strict=True):
        total = total * size + place
    return total


def rounds(addresses: Iterable[int], banks: int = 32, word: int = 4) -> int:
    """How often the busiest bank is asked, for addresses in bytes: lanes that want one word get it together."""
    words = {a // word for a in addresses}
    return max(Counter(w % banks for w in words).values(), default=0)


def transactions(addresses: Iterable[int], granule: int) -> int:
    """How many pieces of memory of *granule* bytes hold these addresses."""
    return len({a // granule for a in addresses})


def whole(count: int, tile: int) -> int:
    """A number of rows, of whole tiles: what a unit executes that takes no part of one."""
    return -(-count // tile) * tile
