"""What the front end accepts is sound and runs: kernels and their variations against the oracle.

The oracle finds reads that should have been refused; the NumPy reference must give its very bits, and an
ArgumentError exactly where data asks for an element outside a tensor.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw

from .cases import Case, draw
from .inputs import KERNELS, tweak
from .oracle import GatherError, Oracle, Value, plain
from .programs import write

if TYPE_CHECKING:
    from tilewright.compiler.ir.program import Program

CASES = int(os.environ.get("TILEWRIGHT_FUZZ", "500"))
BATCH = 50


def equal(got: np.ndarray[Any, Any], want: list[Value]) -> bool:
    """Equal elements; NaN equals NaN, -0 does not equal 0."""
    g = np.array([float(plain(x)) for x in got.reshape(-1)])
    w = np.array([float(x) for x in want])
    if g.shape != w.shape:
        return False
    return bool(np.all((np.isnan(g) & np.isnan(w)) | ((g == w) & (np.signbit(g) == np.signbit(w)))))


def compare(kernel: Any, case: Case, text: str) -> None:
    """The kernel and the oracle on one case."""
    program: Program = kernel.program
    arguments = case.arguments(program)
    try:
        want = Oracle(program, case.sizes, case.scalars, case.inputs).run()
    except GatherError:
        with pytest.raises(tw.ArgumentError):
            kernel(**arguments)
        return
    got = kernel(**arguments)
    results = got if isinstance(got, tuple) else (got,)
    for result, name in zip(results, program.outputs, strict=True):
        shown = f"{name} at {case.sizes}: {result.tolist()} instead of {want[name]}\n{arguments}\n{text}"
        assert equal(result, want[name]), shown


@pytest.mark.parametrize("text", KERNELS, ids=lambda t: t.split("kernel ", 1)[1].split("(", 1)[0])
def test_kernels_give_the_bits_of_the_oracle(text: str) -> None:
    (kernel,) = tw.parse(text).values()
    rng = random.Random(text)
    for _ in range(6):
        case = draw(rng, kernel.program)
        assert case is not None
        compare(kernel, case, text)


@pytest.mark.parametrize("batch", range(max(1, CASES // BATCH)))
def test_random_programs_give_the_bits_of_the_oracle(batch: int) -> None:
    accepted = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rng = random.Random(seed)
        text = write(rng)
        try:
            (kernel,) = tw.parse(text).values()
        except tw.SourceError:
            continue
        accepted += 1
        for _ in range(2):
            case = draw(rng, kernel.program)
            assert case is not None
            compare(kernel, case, text)
    assert accepted > BATCH // 2, "these programs are built to be accepted"


@pytest.mark.parametrize("batch", range(max(1, CASES // BATCH)))
def test_variations_give_the_bits_of_the_oracle(batch: int) -> None:
    accepted = 0
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        rng = random.Random(seed)
        text = tweak(rng)
        try:
            kernels = tw.parse(text)
        except tw.SourceError:
            continue
        for kernel in kernels.values():
            case = draw(rng, kernel.program)
            if case is not None:
                compare(kernel, case, text)
                accepted += 1
    assert accepted > BATCH // 20, "the variations are meant to be programs often enough"
