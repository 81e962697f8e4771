"""Schedules for a processor that nobody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backends.llvm.pool import threads
from ..backends.llvm.target import host
from ..passes.auto_cpu import schedule_for_cpu
from ..passes.choices import cpu_choices
from ..passes.cpu_products import sizes_for
from .schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..passes.cpu_products import CpuSizes
    from .kernel import Kernel


# Tiles that a panel is where the other factor is small.
TILES = 4


def cpu_schedule(
    kernel: Kernel, sizes: CpuSizes | None = None, *, at: Mapping[str, int] | None = None, machine: str | None = None
) -> Schedule:
    """A schedule for the target llvm: a fixed heuristic made of the steps that anybody could take.

    *sizes*: of its tiles (None: those that the cost model chooses for a *machine*, one with a file or a file of one's
    own, or, where none is named, by the registers of this machine's processor and the number of threads). *at*: the
    kernel's sizes, of which it makes use if there are few rows or a factor is small, and by which the model chooses; it
    runs at any sizes, whatever it was made for.

    Raises:
        KeyError: a size of the kernel that says how many rows there are, or that costs depend on, is not in *at*.
        MachineError: there is no such machine, it is no processor, or its file lacks a figure that is needed.
        ValueError: a machine is named, and no sizes to reckon with.
    """
    if machine is not None and sizes is None:
        if at is None:
            raise ValueError("tiles are chosen for sizes: at={..}")
        sizes = chosen_for(kernel, at, machine)
    schedule = Schedule(kernel)
    plain = sizes_for(host().lanes, threads())
    schedule_for_cpu(schedule, sizes or plain, at, None if sizes is not None else TILES * plain.rows)
    return schedule


def chosen_for(kernel: Kernel, at: Mapping[str, int], machine: str) -> CpuSizes:
    """The tiles that are reckoned to take the least time for a kernel at some sizes on a processor; nothing is run.

    Raises:
        KeyError, MachineError: as `cpu_schedule`.
    """
    # What it takes to reckon is loaded for those who ask.
    from ..cost.estimate import estimate
    from ..cost.machine import MachineError
    from ..cost.machine import machine as machine_of

    on = machine_of(machine)
    if on.kind != "CPU":
        raise MachineError(f"{on.name} is no processor; gpu_schedule chooses tiles for it")
    lanes, registers = (int(on.figure(name).value) for name in ("vector_bytes", "vector_registers"))
    plain = sizes_for(lanes // 4, int(on.figure("cores").value))
    found: list[tuple[tuple[float, int, float], CpuSizes]] = []
    for sizes in cpu_choices(kernel.program, plain, lanes // 4, registers):
        schedule = Schedule(kernel)
        schedule_for_cpu(schedule, sizes, at)
        reckoned = estimate(schedule.state.program, schedule.state.tree, on, at)
        found.append((reckoned.place, sizes))
    return min(found, key=lambda one: one[0])[1]
