"""What an estimate consists of: launches, each with what it asks of every resource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .lifetimes import during

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.program import Program
    from .capacity import Residency
    from .launches import Waves
    from .lifetimes import Live
    from .machine import Machine
    from .resources import Resource
    from .traffic import Moved


@dataclass(frozen=True)
class Pipeline:
    """A pipelined loop of a program, in seconds: how long an iteration's blocks are on their way (*transfer*, and
    *settle* until they can be used) and in use (*compute*); *slots*: for how many iterations there is room; *seconds*:
    of all that a multiprocessor runs of it."""

    transfer: float
    settle: float
    compute: float
    slots: int
    seconds: float


@dataclass(frozen=True, eq=False)
class LaunchTime:
    """A launch: its waves, how many of its programs a multiprocessor holds (None: on a processor, whose threads share
    it), what it asks of each resource, how long it takes, and the resource that this is by; *memory*: bytes it gives
    or takes of each tensor; *asked*: those that programs ask for, with what of their blocks lies beyond an edge;
    *unfinished*: those of sums that are written out before they are done, and as many that are read again; *flops*:
    additions and multiplications.
    """

    number: int
    waves: Waves
    residency: Residency | None
    resources: tuple[Resource, ...]
    seconds: float
    binds: str
    memory: Mapping[str, float]
    asked: float
    unfinished: Mapping[str, int]
    flops: int
    pipelines: tuple[Pipeline, ...]
    moved: tuple[Moved, ...]

    @property
    def fits(self) -> bool:
        """Whether there is room for one of its programs."""
        return self.residency is None or self.residency.blocks > 0

    @property
    def warps(self) -> int:
        """How many a multiprocessor holds."""
        return (self.residency.warps or 0) if self.residency is not None else 0

    def at(self, resource: str) -> float:
        """The seconds that a resource takes alone; 0 where it is not asked for."""
        return next((r.seconds for r in self.resources if r.name == resource), 0.0)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A schedule on a machine at some sizes."""

    program: Program
    machine: Machine
    sizes: Mapping[str, int]
    launches: tuple[LaunchTime, ...]

    @property
    def seconds(self) -> float:
        """All launches, one after the other."""
        return sum(launch.seconds for launch in self.launches)

    @property
    def memory(self) -> float:
        """The bytes that memory gives or takes."""
        return sum(sum(launch.memory.values()) for launch in self.launches)

    @property
    def asked(self) -> float:
        """The bytes that programs ask for."""
        return sum(launch.asked for launch in self.launches)

    @property
    def flops(self) -> int:
        """Additions and multiplications."""
        return sum(launch.flops for launch in self.launches)

    @property
    def live(self) -> tuple[Live, ...]:
        """What lies in memory during each launch."""
        return during(self.program, [m for launch in self.launches for m in launch.moved], self.sizes)

    @property
    def place(self) -> tuple[float, int, float]:
        """What comes first: a shorter time, to three digits; of equal ones more warps at once, which hide what the
        model does not know, and then whatever asks less of all resources."""
        warps = min((launch.warps for launch in self.launches), default=0)
        asked = sum(r.seconds for launch in self.launches for r in launch.resources)
        return float(f"{self.seconds:.2e}"), -warps, asked
