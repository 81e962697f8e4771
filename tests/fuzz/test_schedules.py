"""Random schedules of random programs: what is accepted computes the bits of the definition, what is not says why.

TILEWRIGHT_FUZZ_SCHEDULES sets the number of schedules (200 without it); the same number gives the same cases. With
more than that, refusals that enumeration does not understand are listed too (pytest -s shows them).
"""

from __future__ import annotations

import os
import random

import pytest
import tilewright as tw

from .cases import draw
from .inputs import KERNELS
from .scheduled import Tally, each, equal, run_seed

CASES = int(os.environ.get("TILEWRIGHT_FUZZ_SCHEDULES", "200"))
BATCH = 30


@pytest.mark.parametrize("batch", range(max(1, CASES // BATCH)))
def test_schedules_keep_their_promises(batch: int) -> None:
    tally = Tally(hunting=CASES > 300)
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        try:
            run_seed(seed, tally)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    for step, rule, text in tally.leads:
        print(f"a lead: {step} is refused by rule {rule}, and computes the same at all sizes tried\n{text}\n")
    legality = sum(n for (_, rule), n in tally.refused.items() if rule != "shape")
    assert tally.schedules > BATCH // 2, "most programs are built to be accepted"
    assert tally.taken.total() > BATCH, "most steps are meant to be legal"
    assert legality > BATCH // 10, "some steps are meant to be illegal"
    assert tally.enumerated > BATCH // 3
    assert tally.compared > BATCH // 3
    assert tally.undecided <= BATCH // 10


@pytest.mark.parametrize("target", ["numpy", "llvm"])
@pytest.mark.parametrize("text", KERNELS, ids=lambda t: t.split("kernel ", 1)[1].split("(", 1)[0])
def test_kernels_run_as_plain_loops(text: str, target: str) -> None:
    (kernel,) = tw.parse(text).values()
    compiled, rng = tw.compile(kernel, tw.Schedule(kernel), target), random.Random(text)
    for _ in range(3):
        case = draw(rng, kernel.program)
        assert case is not None
        arguments = case.arguments(kernel.program)
        try:
            want = kernel(**arguments)
        except tw.ArgumentError:
            with pytest.raises(tw.ArgumentError):
                compiled(**arguments)
            continue
        got = compiled(**arguments)
        for w, g in zip(each(want), each(got), strict=True):
            assert equal(w, g), f"{g.tolist()} instead of {w.tolist()} at {case.sizes}"
