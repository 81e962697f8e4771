"""Schedules that nobody wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..passes.auto import Sizes, schedule_for_gpu
from .schedule import Schedule

if TYPE_CHECKING:
    from .kernel import Kernel


def gpu_schedule(kernel: Kernel, sizes: Sizes | None = None) -> Schedule:
    """A schedule for the target triton: a fixed heuristic made of the steps that anybody could take.

    Its trace prints, replays, and goes on from where it ends like any other. *sizes*: of its tiles (None: `Sizes()`).
    """
    schedule = Schedule(kernel)
    schedule_for_gpu(schedule, sizes or Sizes())
    return schedule
