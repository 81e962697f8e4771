"""Schedules that nobody wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..backends.triton.emit import emit_triton
from ..passes.auto import schedule_for_gpu
from ..passes.dependence import OPERATIONS
from ..passes.recipe import Sizes
from ..passes.refusal import IllegalTransformError
from .ir.affine import UndecidedError, budget
from .schedule import Schedule

if TYPE_CHECKING:
    from .kernel import Kernel


def gpu_schedule(kernel: Kernel, sizes: Sizes | None = None) -> Schedule:
    """A schedule for the target triton: a fixed heuristic made of the steps that anybody could take.

    Its trace prints, replays, and goes on from where it ends like any other. *sizes*: of its tiles (None: `Sizes()`).
    Where what it comes to cannot be said, it does without roles, without the tiles of contractions, and at last without
    any step.
    """
    sizes = sizes or Sizes()
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
