"""Banks, transactions, whole tiles and partitions: worked examples by their names."""

from __future__ import annotations

import pytest
from tilewright.compiler.ir.storage import Storage
from tilewright.cost.banks import address, rounds, transactions, whole


def column(storage: Storage) -> list[int]:
    """The bytes of a column of a tile of 32 x 32 words."""
    return [4 * address(storage, (row, 5), (32, 32)) for row in range(32)]


def row(storage: Storage) -> list[int]:
    return [4 * address(storage, (5, place), (32, 32)) for place in range(32)]


@pytest.mark.parametrize(
    ("storage", "of_column"), [(Storage(), 32), (Storage(pad=1), 1), (Storage(swizzle=32), 1), (Storage(swizzle=8), 4)]
)
def test_a_column_in_the_banks(storage: Storage, of_column: int) -> None:
    # inline-5.2.3-bank-padding, inline-5.2.3-xor-swizzle
    assert rounds(row(storage)) == 1
    assert rounds(column(storage)) == of_column
    assert len(set(column(storage))) == 32


def test_padding_takes_room_and_a_swizzle_none() -> None:
    last = {s: 4 * (address(s, (31, 31), (32, 32)) + 1 + s.pad) for s in (Storage(), Storage(pad=1))}
    assert last == {Storage(): 4096, Storage(pad=1): 4224}
    swizzled = [address(Storage(swizzle=32), (r, c), (32, 32)) for r in range(32) for c in range(32)]
    assert sorted(swizzled) == list(range(1024))


def test_lanes_that_want_one_word_get_it_together() -> None:
    assert rounds([0] * 32) == 1
    assert rounds([]) == 0
    assert rounds([0, 128, 256, 4]) == 3


def test_a_strided_tile_in_transactions() -> None:
    # inline-4.4.1-strided-tile
    addresses = [2 * (4096 * i + j) for i in range(128) for j in range(128)]
    assert transactions(addresses, 128) == 256
    assert max(addresses) + 2 - min(addresses) == 1_040_640


def test_whole_tiles_of_rows() -> None:
    # inline-4.2.1-moe-padding, inline-5.1.5-mma-count
    assert 256 * whole(2, 16) == 4096
    assert 8 * whole(64, 16) == 512
    assert (512 / 4096, 512 / 512, 1 / whole(1, 16)) == (0.125, 1, 0.0625)
    assert whole(128, 16) // 16 * (whole(128, 8) // 8) * (whole(64, 16) // 16) == 512
