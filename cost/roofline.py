"""The roofline (Williams, Waterman and Patterson 2009): the slower of computing and moving, and where they meet."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING

import sympy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine

BF16 = ("bf16", "f32", "matrix")


@dataclass(frozen=True)
class Roof:
    """Work on a machine: seconds of its operations and of its bytes, each alone. *intensity*: operations a byte;
    *balance*: those from which on the operations take longer."""

    computing: float
    moving: float
    intensity: float
    balance: float

    @property
    def seconds(self) -> float:
        """The time that nothing beats."""
        return max(self.computing, self.moving)

    @property
    def binds(self) -> str:
        return "operations" if self.computing > self.moving else "bytes"


def roofline(machine: Machine, flops: float, moved: float, kind: tuple[str, str, str] = BF16, share: float = 1) -> Roof:
    """Where some work stands. *kind*: the types that go in and that add up, and the unit; *share*: of its clock that
    the machine keeps up, within its power say.

    Raises:
        MachineError: the machine's file lacks the rate or the bandwidth.
    """
    rate, bandwidth = share * machine.rate(*kind).value, machine.figure("memory_bandwidth").value
    return Roof(flops / rate, moved / bandwidth, flops / moved if moved else float("inf"), rate / bandwidth)


def reading(machine: Machine, moved: float) -> float:
    """Seconds in which a machine's memory gives so many bytes."""
    return moved / machine.figure("memory_bandwidth").value


def stages(*needs: Sequence[float]) -> float:
    """The time of stages one after the other, in each of which the longest resource counts: what the totals hide."""
    return sum(max(one) for one in needs)


def turning(first: sympy.Expr, second: sympy.Expr, size: sympy.Symbol) -> float:
    """The size at which two costs are equal; infinite where there is none above 0."""
    real = sympy.Symbol("x", positive=True)  # sizes are whole numbers, and costs are seldom equal at one
    found = [float(x) for x in sympy.solve((first - second).subs(size, real), real)]
    return min(found, default=float("inf"))


def above(turning_: float) -> int:
    """The first whole number above."""
    return floor(turning_) + 1
