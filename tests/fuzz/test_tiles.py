"""Random programs whose innermost loops are the axes of tiles: what is said in tiles has the bits of the definition.

TILEWRIGHT_FUZZ_TILES sets the number of schedules (120 without it); the same number gives the same cases.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.ir.tree import loops

from .chains import draw_program
from .scheduled import Tally, Trial, each, equal
from .steps import drawn_step, take

CASES = int(os.environ.get("TILEWRIGHT_FUZZ_TILES", "120"))
BATCH = 30
SHARING = 3


def innermost(schedule: tw.Schedule) -> list[str]:
    """Loops that hold nothing but statements and tiles, and are none yet."""
    return [
        loop.index
        for loop in loops(schedule.state.tree)
        if loop.kind == "serial"
        and loop.stages == 1
        and all(inner.kind == "block" for inner in loops(loop.body))
        and not loop.fused
    ]


def blocked(trial: Trial, rng: random.Random) -> None:
    """Make tiles of what the schedule has: the innermost loops, split by a small number, then those around them."""
    for _ in range(rng.randrange(0, 4)):
        step = drawn_step(rng, trial.schedule)
        try:
            take(trial.schedule, step)
        except tw.IllegalTransformError:
            continue
    for _ in range(2):
        for name in innermost(trial.schedule):
            if rng.random() < 0.2:
                continue
            try:
                _, inner = trial.schedule.split(name, rng.choice((2, 3, 4, 8)))
                trial.schedule.block(inner)
            except tw.IllegalTransformError:
                continue


@pytest.mark.parametrize("batch", range(max(1, CASES // BATCH)))
def test_tiles_have_the_bits_of_the_definition(batch: int) -> None:
    said: Counter[str] = Counter()
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rng = random.Random(f"tiles {seed}")
        drawn = draw_program(random.Random(f"{seed // SHARING}"))
        try:
            trial = Trial(drawn, rng, Tally())
        except tw.SourceError:
            continue
        blocked(trial, rng)
        if not any(loop.kind == "block" for loop in loops(trial.schedule.state.tree)):
            said["nothing blocked"] += 1
            continue
        try:
            compiled = tw.compile(trial.kernel, trial.schedule, target="tiles")
        except tw.IllegalTransformError as error:
            said[error.refusal.rule] += 1
            if error.refusal.rule not in ("target", "shape", "rounding", "unknown"):
                raise AssertionError(trial.told(f"seed {seed}: {error}")) from None
            continue
        said["tiles"] += 1
        for sizes in trial.sizes():
            with np.errstate(over="ignore"):
                case = trial.case(sizes)
            arguments = case.arguments(trial.program)
            try:
                want = trial.kernel(**arguments)
            except tw.ArgumentError:
                continue
            got = compiled(**arguments)
            for name, w, g in zip(trial.program.outputs, each(want), each(got), strict=True):
                shown = trial.told(f"seed {seed}: {name} = {g.tolist()}, not {w.tolist()}, at {sizes} with {arguments}")
                assert equal(w, g), f"{shown}\n{compiled.source[compiled.source.index('@np.errstate') :]}"
    assert said["tiles"] > BATCH // 4, said
