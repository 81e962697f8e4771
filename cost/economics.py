"""What pays: fixed costs against what each use saves, shares against what is made faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine


def sped_up(share: float, factor: float) -> float:
    """How much faster a whole becomes of which a *share* becomes *factor* times as fast (Amdahl, 1967); *factor* may be
    infinite.

    Raises:
        ValueError: the share is none, or the factor is not above 0.
    """
    if not 0 <= share <= 1 or factor <= 0:
        raise ValueError("a share is from 0 to 1, a factor above 0")
    left = 1 - share + share / factor
    return 1 / left if left else float("inf")


def break_even(fixed: float, saved: float) -> float:
    """How many uses pay for a fixed cost, of which each saves so much; infinite if none does."""
    return fixed / saved if saved > 0 else float("inf")


def total(fixed: float, each: float, uses: float) -> float:
    """A fixed cost and what each use costs."""
    return fixed + uses * each


def transfer(size: float, bandwidth: float, fixed: float = 0.0) -> float:
    """Seconds of *size* bytes over a link of so many bytes a second; it takes *fixed* seconds whatever it carries."""
    return fixed + size / bandwidth


def uploaded(machine: Machine, size: float) -> float:
    """Seconds until *size* bytes of the host are in a machine's memory: none where both have one memory. Reading them
    there comes on top in either case.

    Raises:
        MachineError: the machine's file does not say how fast its link is.
    """
    if machine.facts.get("unified_memory"):
        return 0.0
    return transfer(size, machine.figure("host_link_bandwidth").value)


def brought(machine: Machine, size: float, *, in_place: bool) -> float:
    """Seconds for an input of a graph, whose buffers stay where they were when it was recorded: none if the input was
    made there, otherwise those of reading and writing its bytes.

    Raises:
        MachineError: the machine's file does not say how fast its memory is.
    """
    return 0.0 if in_place else transfer(2 * size, machine.figure("memory_bandwidth").value)


def submitted(kernels: int, calls: int, *, graph: bool = False) -> tuple[int, int]:
    """What the host submits and what the device runs in some calls of so many kernels each: a graph is submitted whole,
    and runs what it holds."""
    return calls if graph else calls * kernels, calls * kernels


def turning_size(bandwidth: float, fixed: float) -> float:
    """The bytes whose way over a link takes as long as its fixed cost: half the bandwidth is reached there."""
    return bandwidth * fixed


def pays_from(fixed: float, each: float, other_fixed: float, other_each: float) -> float:
    """From how many uses on something of a higher *other_fixed* cost and a lower one for each use is the cheaper."""
    return break_even(other_fixed - fixed, each - other_each)


def mean(costs: Sequence[float], shares: Sequence[float]) -> float:
    """The cost of a call of several kinds, by the share that each has of the calls, in whatever unit."""
    return sum(c * s for c, s in zip(costs, shares, strict=True)) / sum(shares)
