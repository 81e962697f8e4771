"""What a launch asks of each unit of a GPU, and how long that takes alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import DTYPES
from .count import number
from .held import waits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compiler.ir.program import Program
    from .held import Held
    from .launches import Launch
    from .machine import Machine
    from .traffic import Moved
    from .work import Work

# From how many reads of each element on a tensor is taken to be in the cache.
OFTEN = 8
# What a warp computes of addresses and masks for a program, in instructions: read off transpositions in small tiles.
ADDRESSES = 110


@dataclass(frozen=True)
class Resource:
    """What a launch asks of a resource. *seconds*: how long that takes alone; *text*: the amount, in words."""

    name: str
    seconds: float
    text: str


def computed(
    machine: Machine, own: Sequence[Work], sizes: Mapping[str, int], units: int, busy: float
) -> Iterator[Resource]:
    """What matrix and vector units do, the idle ones waited for."""
    products = [w for w in own if w.matrix]
    if products:
        flops = 2 * sum(number(w.lanes, sizes) if w.lanes is not None else w.times.at(sizes) for w in products)
        kinds = {w.matrix for w in products if w.matrix}
        rate = min(machine.rate(a, b).value for a, b in kinds)
        yield Resource("matrix units", flops / rate / busy, f"{flops / 1e9:,.1f} GFLOP")
    instructions = sum(w.times.at(sizes) * w.instructions for w in own if not w.matrix)
    yield _vector("vector units", machine, instructions, units, busy)


def addresses(machine: Machine, launch: Launch, programs: int, warps: int, units: int, busy: float) -> Resource:
    """What every warp spends on where its lanes are, whatever it computes there."""
    return _vector("addresses", machine, programs * warps * 32 * ADDRESSES, units, busy)


def _vector(name: str, machine: Machine, instructions: float, units: int, busy: float) -> Resource:
    rate = units * machine.figure("lanes").value * machine.figure("clock").value
    return Resource(name, instructions / rate / busy, f"{instructions / 1e9:,.2f} G instructions of a lane")


def waited_for(
    program: Program, launch: Launch, machine: Machine, sizes: Mapping[str, int], mine: Sequence[Moved]
) -> float:
    """Seconds that a program waits in loops whose loads no pipeline runs ahead."""
    slow, fast = (machine.figure(name).value for name in ("memory_latency", "cache_latency"))
    often = {m.tensor for m in mine if m.kind == "read" and m.asked.at(sizes) >= OFTEN * m.there.at(sizes)}
    return sum(times * (fast if again else slow) for times, again in waits(program, launch, sizes, often))


def banked(own: Sequence[Work], sizes: Mapping[str, int], warps: int) -> float:
    """Bytes that go into shared memory and out of it for products: each group of four warps reads the factors of its
    part of a tile, which is 64 rows high."""
    total = 0.0
    for one in own:
        if one.matrix and one.tile and one.lanes is not None:
            rows, columns, depth = one.tile
            high = max(1, min(warps // 4, rows // 64))
            wide = max(1, warps // 4 // high)
            elements = rows * depth * (1 + wide) + depth * columns * (1 + high)
            width = DTYPES[one.matrix[0]].bits // 8
            total += width * elements * number(one.lanes, sizes) / (rows * columns * depth)
    return total


def of_products(machine: Machine, edges: float, bytes_: float, share: float, busy: float) -> Iterator[Resource]:
    """What moves for products only: bytes of blocks beyond an edge, and those in and out of shared memory. *share*: of
    the multiprocessors that have something to do; *busy*: how many of them do it all the time. What it costs to skip
    blocks counts where it is known."""
    if edges and "edge_bandwidth" in machine.figures:
        rate = share * machine.figure("edge_bandwidth").value
        yield Resource("edges", edges / rate, f"{edges / 2**20:,.1f} MiB of blocks beyond an edge")
    if bytes_:
        rate = busy * machine.figure("shared_memory_width").value * machine.figure("sustained_clock").value
        text = f"{bytes_ / 2**20:,.1f} MiB in and out at {rate / 1e9:,.0f} GB/s"
        yield Resource("shared memory", bytes_ / rate, text)


def beyond(tile: Held, mine: Sequence[Moved], sizes: Mapping[str, int]) -> float:
    """Bytes of loaded blocks that lie beyond an edge, where there is nothing to load."""
    total = 0.0
    for one in tile.loaded:
        if one.times is not None:
            asked = sum(m.asked.at(sizes) for m in mine if m.kind == "read" and m.tensor in one.tensors)
            total += max(0.0, one.size * number(one.times, sizes) - asked)
    return total
