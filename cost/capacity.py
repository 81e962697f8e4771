"""How many blocks of threads a multiprocessor holds at once, and what keeps it from holding more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .machine import Machine


@dataclass(frozen=True)
class Residency:
    """The blocks that a multiprocessor holds at once.

    *limits*: how many of them each resource has room for; *unknown*: resources of which the machine's file says
    nothing, which may allow fewer; *warps*, *share*: of those that a multiprocessor can hold, None where that is not
    known; *shared_left*: bytes of shared memory that no block takes; *threads*, *shared*, *registers*: what a block
    takes, with the registers of each of its threads (None: not counted).
    """

    blocks: int
    limits: Mapping[str, int]
    unknown: tuple[str, ...]
    warps: int | None
    share: float | None
    shared_left: float
    threads: int
    shared: float
    registers: int | None

    @property
    def binding(self) -> tuple[str, ...]:
        """The resources that have room for no more."""
        return tuple(name for name, count in self.limits.items() if count == self.blocks)

    def __str__(self) -> str:
        """`2 blocks, by registers and shared memory; 25 % of the warps`."""
        count = f"{self.blocks} block{'' if self.blocks == 1 else 's'}, by {' and '.join(self.binding)}"
        share = "" if self.share is None else f"; {100 * self.share:.3g} % of the warps"
        missing = f"; not known: {', '.join(self.unknown)}" if self.unknown else ""
        return f"{count}{share}{missing}"


def residency(machine: Machine, threads: int, shared: float, registers: int | None = None) -> Residency:
    """How many blocks of *threads* threads, each of *registers* registers (None: they do not count), that take *shared*
    bytes of shared memory, a multiprocessor holds.

    Each block also takes what the machine keeps for itself of shared memory. Registers are counted as they are asked
    for; hardware deals them out in larger pieces.

    Raises:
        ValueError: there are no threads, or something is below 0.
        MachineError: the machine does not say how much shared memory there is.
    """
    if threads < 1 or shared < 0 or (registers is not None and registers < 1):
        raise ValueError("a block has threads, registers, and no less than 0 bytes of shared memory")
    room = machine.figure("shared_memory").value
    reserve = machine.figures.get("shared_memory_reserve_of_block")
    each = shared + (reserve.value if reserve is not None else 0)
    wanted = {"threads": threads, "registers": threads * registers if registers is not None else None, "blocks": 1}
    limits: dict[str, int] = {}
    unknown: list[str] = []
    for name, amount in wanted.items():
        if amount is None:
            continue
        if name in machine.figures:
            limits[name] = int(machine.figure(name).value // amount)
        else:
            unknown.append(name)
    if each > 0:
        limits["shared memory"] = int(room // each)
    blocks = min(limits.values(), default=0)
    warps = share = None
    if "warp_size" in machine.figures:
        warps = blocks * -(-threads // int(machine.figure("warp_size").value))
        share = warps / machine.figure("warps").value if "warps" in machine.figures else None
    return Residency(blocks, limits, tuple(unknown), warps, share, room - blocks * each, threads, shared, registers)


def in_flight(bandwidth: float, latency: float) -> float:
    """The bytes that have to be under way all the time for a *bandwidth* in bytes a second, where each takes *latency*
    seconds (Little's law)."""
    return bandwidth * latency


def reached(bandwidth: float, latency: float, under_way: float) -> float:
    """The bandwidth that *under_way* bytes keep up, in bytes a second: no more than there is."""
    return min(bandwidth, under_way / latency)


def fits(room: float, each: float, fixed: float = 0.0) -> int:
    """How many of what takes *each* a *room* holds, beside something *fixed*; none if not even that fits."""
    return max(0, int((room - fixed) // each))


def stored(elements: int, bits: float, group: int = 0, scale: float = 0.0) -> float:
    """The bytes of elements of so many bits, each *group* of them with a scale of *scale* bytes (0: none has);
    the last group may be a part of one."""
    return elements * bits / 8 + (-(-elements // group) * scale if group else 0.0)
