"""Schedules for a GPU that nobody wrote."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from ..backends.triton.emit import emit_triton
from ..cost.estimate import estimate
from ..cost.machine import machine as machine_of
from ..passes.auto import schedule_for_gpu
from ..passes.choices import choices
from ..passes.dependence import OPERATIONS
from ..passes.recipe import Sizes
from ..passes.refusal import IllegalTransformError
from .ir.affine import UndecidedError, budget
from .schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .kernel import Kernel


# The model sees no difference between times that are no further apart.
WORTH = 0.02
# Up to so many equations all partitions are made.
MOST_APART = 6


def gpu_schedule(
    kernel: Kernel, sizes: Sizes | None = None, *, at: Mapping[str, int] | None = None, machine: str = "h200"
) -> Schedule:
    """A schedule for the target triton: a fixed heuristic made of the steps that anybody could take.

    Its trace prints, replays, and goes on from where it ends like any other. *sizes*: of its tiles (None: those that
    the cost model chooses for the kernel's sizes *at* on a *machine*, or `Sizes()` where none are given). It runs at
    any sizes, whatever it was chosen for. Where what it comes to cannot be said, it does without roles, without the
    tiles of contractions, and at last without any step.

    Raises:
        MachineError: there is no such machine, or its file lacks a figure that is needed.
        KeyError: a size of the kernel is not in *at*.
    """
    sizes = sizes or (chosen(kernel, at, machine) if at is not None else Sizes())
    parted = [(sizes, True)] if sizes.consumers else []
    for tiles, contracts in (*parted, (replace(sizes, consumers=0), True), (sizes, False)):
        schedule = Schedule(kernel)
        schedule_for_gpu(schedule, tiles, contracts)
        try:
            with budget(OPERATIONS):
                emit_triton(schedule.state.program, schedule.state.tree, "")
        except (IllegalTransformError, UndecidedError):
            continue
        return schedule
    return Schedule(kernel)


def chosen(kernel: Kernel, at: Mapping[str, int], machine: str = "h200") -> Sizes:
    """The tiles that are reckoned to take the least time for a kernel at some sizes on a machine; nothing is run.

    Of those between which the model sees no difference to speak of, the ones that ask for the fewest bytes: of tiles
    that are larger than there are rows, most would be read for nothing.

    Raises:
        MachineError, KeyError: as `gpu_schedule`.
    """
    on = machine_of(machine)
    found: list[tuple[Sizes, float, float]] = []
    for sizes in choices(kernel.program):
        schedule = Schedule(kernel)
        schedule_for_gpu(schedule, sizes)
        reckoned = estimate(schedule.state.program, schedule.state.tree, on, at)
        if all(launch.fits for launch in reckoned.launches):
            found.append((sizes, reckoned.seconds, reckoned.asked))
    least = min((seconds for _, seconds, _ in found), default=0.0)
    near = [(asked, sizes) for sizes, seconds, asked in found if seconds <= (1 + WORTH) * least]
    return min(near, key=lambda one: one[0])[1] if near else Sizes()


def partitions(kernel: Kernel, sizes: Sizes | None = None) -> dict[str, Schedule]:
    """Default schedules of a kernel by which of its equations have a launch of their own, by name: 2^n for n of them
    that could be in another's.

    Beyond MOST_APART such equations only those are made in which all, none, one of them, or all but one are apart.
    """
    program = kernel.program
    inner = [s.name for s in program.stages if s.tensor not in program.outputs]
    counts = range(len(inner) + 1) if len(inner) <= MOST_APART else sorted({0, 1, len(inner) - 1, len(inner)})
    found: dict[str, Schedule] = {}
    for count in counts:
        for apart in combinations(inner, count):
            schedule = Schedule(kernel)
            schedule_for_gpu(schedule, sizes or Sizes(), apart=frozenset(apart))
            found[f"{', '.join(apart)} apart" if apart else "together"] = schedule
    return found
