"""Energy: of the bytes that are moved and the operations on them, and what a power cap leaves for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .machine import Machine, read

if TYPE_CHECKING:
    from collections.abc import Mapping


@cache
def table() -> Machine:
    """Energies by what is done, in joules a byte or an operation, each with its source."""
    return read(Path(__file__).with_name("energy.toml"))


@dataclass(frozen=True)
class Energy:
    """Joules, by where they go."""

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.parts.values())

    def share(self, part: str) -> float:
        return self.parts[part] / self.total

    def power(self, seconds: float) -> float:
        """Watts, if it takes so long."""
        return self.total / seconds


def energy(moved: Mapping[str, float], operations: float = 0.0) -> Energy:
    """The joules of *moved* bytes, by the place that they come from (memory, link, sram_mb ..), and of floating-point
    additions and multiplications.

    Raises:
        MachineError: no energy is known of a place.
    """
    parts = {place: count * table().figure(place).value for place, count in moved.items()}
    if operations:
        parts["operations"] = operations * table().figure("operation").value
    return Energy(parts)


def left_for_operations(power: float, bandwidth: float, each: float) -> float:
    """The watts that a cap of *power* leaves, while memory gives *bandwidth* bytes a second at *each* joules a byte."""
    return power - bandwidth * each


def clock_share(needed: float, left: float, *, voltage: bool = False) -> float:
    """The share of its clock that a unit keeps up which needs so many joules an operation at full clock, and has so
    many left. *voltage*: it falls with the clock, so that power goes by the clock's cube."""
    share = min(1.0, left / needed)
    return share ** (1 / 3) if voltage else share


def dynamic_power(voltage: float, clock: float, activity: float = 1.0) -> float:
    """By which factor dynamic power changes: as the square of the voltage, the clock, and what switches."""
    return voltage**2 * clock * activity
