"""How much a multiprocessor holds: worked examples by their names, and what a machine does not say."""

from __future__ import annotations

import pytest
from tilewright.cost.capacity import in_flight, reached, residency
from tilewright.cost.machine import MachineError, machine

KiB = 1024
H100, RTX = machine("h100-sxm"), machine("rtx-pro-6000")


def tile(m: int, n: int, k: int, buffers: int = 1, accumulators: bool = True) -> int:
    """Bytes of a tile's operands of 2 bytes, and of its accumulators of 4."""
    return buffers * 2 * (m * k + k * n) + (4 * m * n if accumulators else 0)


def test_a_block_of_a_product() -> None:
    # table-5.1.5
    found = residency(H100, 256, tile(128, 128, 64), 128)
    assert tile(128, 128, 64) == 96 * KiB
    assert found.limits == {"threads": 8, "registers": 2, "blocks": 32, "shared memory": 2}
    assert found.blocks == 2
    assert found.binding == ("registers", "shared memory")
    assert found.warps == 16
    assert found.share == 0.25
    assert found.shared_left == 34 * KiB
    assert str(found) == "2 blocks, by registers and shared memory; 25 % of the warps"


def test_accumulators_in_registers_change_what_binds() -> None:
    # inline-5.1.5-acc-to-registers
    shared = tile(128, 128, 64, accumulators=False)
    found = residency(H100, 256, shared, 64 + 128 * 128 // 256)
    assert found.limits["shared memory"] == 6
    assert found.blocks == 2
    assert found.binding == ("registers",)
    assert residency(H100, 256, shared, 128 + 64).limits["registers"] == 1


def test_fewer_registers_hold_more_blocks() -> None:
    # ex-5-1
    first, second = (residency(H100, 256, tile(64, 64, 64), n) for n in (128, 64))
    assert first.limits == {"threads": 8, "registers": 2, "blocks": 32, "shared memory": 6}
    assert (first.blocks, first.warps, first.share) == (2, 16, 0.25)
    assert (second.blocks, second.warps, second.share) == (4, 32, 0.5)
    needed = in_flight(3350e9, 600e-9) / 132
    assert needed == pytest.approx(15227.2727)
    assert first.warps is not None
    assert first.warps * 4 * 32 * 16 / needed == pytest.approx(2.1519283582)


def test_shared_memory_alone() -> None:
    # inline-5.2.2-residency, table-5.4.5
    small, large = (residency(RTX, 256, size * KiB) for size in (24, 80))
    assert (small.blocks, small.shared_left) == (4, 0)
    assert (large.blocks, large.shared_left) == (1, 19 * KiB)
    assert small.unknown == ("threads", "blocks")
    assert small.warps is small.share is None
    assert str(large) == "1 block, by shared memory; not known: threads, blocks"
    doubled = [residency(RTX, 256, tile(t, t, 32, buffers=2)).blocks for t in (64, 128)]
    assert doubled == [3, 1]


def test_bytes_under_way() -> None:
    # inline-5.1.5-latency-hiding, inline-5.1.5-latency-flip, 4-2
    assert in_flight(3350e9, 600e-9) == pytest.approx(2.01e6)
    assert reached(3350e9, 1000e-9, 16 * KiB * 132) == pytest.approx(2162.688e9)
    assert reached(1008e9, 500e-9, 128 * 128) == pytest.approx(32.768e9)
    assert reached(1008e9, 500e-9, 4096 * 128) == 1008e9
    assert reached(1792e9, 500e-9, 4096 * 128) == pytest.approx(1048.576e9)


def test_what_cannot_be() -> None:
    for threads, shared, registers in ((0, 0, 1), (32, -1, 1), (32, 0, 0)):
        with pytest.raises(ValueError, match="a block has threads"):
            residency(H100, threads, shared, registers)
    assert residency(H100, 256, 300 * KiB, 32).blocks == 0
    with pytest.raises(MachineError, match="shared_memory of TPU v1 is not known"):
        residency(machine("tpu-v1"), 32, 0)
