"""Candidates for a kernel's schedule in the order of their reckoned times, nothing of them run."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from ..cost.estimate import Estimate, estimate
from ..cost.machine import machine as machine_of
from ..passes.refusal import IllegalTransformError
from ..passes.verify import verify
from .schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kernel import Kernel


@dataclass(frozen=True)
class Measurement:
    """A candidate that was run. *seconds*: the median of its calls; *compared*: the sizes at which its results were
    held against the definition's, those that were asked for among them if they are not too many; *error*: the greatest
    distance between them; *same*: whether they were the same bits."""

    seconds: float
    compared: tuple[str, ...]
    error: float
    same: bool


@dataclass(frozen=True, eq=False)
class Ranked:
    """A candidate: its reckoned time with what that comes of, or why it is none: *reason*; *schedule*: None where it
    could not be made; *measurement*: if it was run."""

    name: str
    estimate: Estimate | None
    reason: str = ""
    schedule: Schedule | None = None
    measurement: Measurement | None = None

    @property
    def seconds(self) -> float:
        """The reckoned time; infinite for what cannot run."""
        return self.estimate.seconds if self.estimate is not None else float("inf")


def rank(
    kernel: Kernel, candidates: Mapping[str, Schedule | str], machine: str, sizes: Mapping[str, int]
) -> tuple[Ranked, ...]:
    """Candidates by their reckoned time on a machine, the fastest first; then those that cannot run, with the reason.

    *candidates*: schedules of the kernel, or traces of some as JSON, by names of one's own. What is illegal, is
    no trace or schedules another kernel is dropped, then what does not fit on a multiprocessor; the others are ordered
    by `Estimate.place`.

    Raises:
        MachineError: there is no such machine, or its file lacks a figure that is needed.
        KeyError: a size is missing.
    """
    on = machine_of(machine)
    found: list[Ranked] = []
    for name, given in candidates.items():
        schedule: Schedule | None = None
        try:
            schedule = Schedule.replay(kernel, given) if isinstance(given, str) else given
            if schedule.kernel is not kernel:
                found.append(Ranked(name, None, f"a schedule of another kernel, {schedule.kernel.name}"))
                continue
            verify(schedule.state.program, schedule.state.tree, kernel.program)
        except (IllegalTransformError, ValueError) as error:
            found.append(Ranked(name, None, str(error).splitlines()[0], schedule))
            continue
        reckoned = estimate(schedule.state.program, schedule.state.tree, on, sizes)
        full = next((launch.residency for launch in reckoned.launches if not launch.fits), None)
        if full is not None:
            what = " and ".join(full.binding)
            found.append(Ranked(name, None, f"a multiprocessor has too little of {what} for one program", schedule))
            continue
        found.append(Ranked(name, reckoned, "", schedule))
    return tuple(sorted(found, key=lambda r: r.estimate.place if r.estimate is not None else (inf, 0, 0.0)))
