"""Schedules for a processor that nobody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..backends.llvm.pool import threads
from ..backends.llvm.target import host
from ..passes.auto_cpu import schedule_for_cpu
from ..passes.cpu_products import sizes_for
from .schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..passes.cpu_products import CpuSizes
    from .kernel import Kernel


def cpu_schedule(kernel: Kernel, sizes: CpuSizes | None = None, *, at: Mapping[str, int] | None = None) -> Schedule:
    """A schedule for the target llvm: a fixed heuristic made of the steps that anybody could take.

    *sizes*: of its tiles (None: by the registers of this machine's processor, and the number of threads). *at*: the
    kernel's sizes, of which it makes use if there are few rows; it runs at any sizes, whatever it was made for.

    Raises:
        KeyError: a size of the kernel that says how many rows there are is not in *at*.
    """
    schedule = Schedule(kernel)
    schedule_for_cpu(schedule, sizes or sizes_for(host().lanes, threads()), at)
    return schedule
