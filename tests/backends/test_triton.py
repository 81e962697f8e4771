"""Triton modules without a GPU: their text, and what they compute in Triton's interpreter."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.triton import grid, host, launch
from tilewright.backends.triton.emit import emit_triton
from tilewright.backends.triton.layout import broken
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

from .operations import bodies, differing, numbers, operation
from .test_tiles import KERNELS, SCHEDULES, STRICT, scheduled

if TYPE_CHECKING:
    from collections.abc import Callable

    from .interpreter import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"
# The loops over many tiles of these are slow in an interpreter.
SMALL = {"contraction": 3, "conv": 2}


@cache
def in_triton(name: str) -> tw.CompiledKernel:
    made = scheduled(KERNELS[name], SCHEDULES[name])
    return tw.compile(made.kernel, made, target="triton")


@pytest.mark.parametrize("name", SCHEDULES)
def test_the_text_is_for_people(name: str, golden: Callable[[str, str], None]) -> None:
    source = in_triton(name).source
    start = source.index(f"def {name}_")
    golden(f"../backends/triton/{name}", source[source.rindex("@triton.jit", 0, start) : source.index("def check(")])
    golden(f"../backends/triton/{name}_host", source[source.index(f"def {name}(") :])


@pytest.mark.parametrize("name", [*SCHEDULES, "pairwise", "conv2d", "gated_mlp", "attention_gqa", "stencil_time"])
def test_long_lines_mean_what_they_mean_in_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def module() -> str:
        made = (
            scheduled(KERNELS[name], SCHEDULES[name])
            if name in SCHEDULES
            else tw.gpu_schedule(tw.load(EXAMPLES / f"{name}.tx")[name])
        )
        return emit_triton(made.state.program, made.state.tree, "").source

    normal = module()
    for place in (launch, host):
        monkeypatch.setattr(place, "broken", lambda line: [line])
    assert ast.dump(ast.parse(module())) == ast.dump(ast.parse(normal))


LONG = {
    "a chain in brackets of its own": "y = ((((A * f(B, C)[:, None])) * D[None, :])).to(t)",
    "another operator inside": "y = (((A + B) * C * D)).to(t)",
    "an operand that groups from the right": "y = f((A - (B - C)) - D, 2)",
    "a comparison": "y = ((A * B < C) * D)",
    "a choice": "y = (A - B if C else D) - A",
    "signs": "y = (A - -B + C) - D",
    "a tuple of one": "y = f((A - B,))",
    "operators of one rank": "y = (A // B * C) * D",
    "a keyword": "f(mask=(A & B) & (C | D))",
}


@pytest.mark.parametrize("what", LONG)
def test_broken_lines_mean_what_they_mean_in_one(what: str) -> None:
    line = "    " + re.sub("[A-D]", lambda name: name.group() * 50, LONG[what])
    pieces = broken(line)
    assert len(pieces) > 2
    assert ast.dump(ast.parse("\n".join(p[4:] for p in pieces))) == ast.dump(ast.parse(line.strip()))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("n", [1, 3, 17])
def test_ragged_sizes_give_the_definition(name: str, n: int, interpreter: Interpreter) -> None:
    compiled = in_triton(name)
    sizes = {s: min(n, SMALL.get(name, n)) + i % 2 for i, s in enumerate(compiled.kernel.program.sizes)}
    arguments = random_inputs(compiled.kernel.program, sizes, n)
    want = compiled.kernel(**arguments)
    wanted = want if isinstance(want, tuple) else (want,)
    got = interpreter.run(compiled.source, name, arguments)
    if name in STRICT:
        assert all(same_bits(np.asarray(w), g) for w, g in zip(wanted, got, strict=True))
        return
    (w,), (g,) = wanted, got
    assert np.all(np.abs(w.astype(float) - g.astype(float)) <= compiled.error_bound(**arguments))


@pytest.mark.parametrize("name", bodies())
def test_an_operation_has_the_bits_of_the_language(name: str, interpreter: Interpreter) -> None:
    compiled, arguments = operation(name), numbers(name, 500)
    want = np.asarray(compiled.kernel(**arguments))
    (got,) = interpreter.run(compiled.source, compiled.kernel.name, arguments)
    wrong = np.flatnonzero(differing(want, got))
    assert not len(wrong), {k: (v[wrong[0]], want[wrong[0]], got[wrong[0]]) for k, v in arguments.items()}


def test_rows_that_the_second_axis_cannot_count_go_on_along_the_third(
    monkeypatch: pytest.MonkeyPatch, interpreter: Interpreter
) -> None:
    monkeypatch.setattr(grid, "AXIS", 4)
    (kernel,) = tw.parse("kernel f(X: f32[M, N]) -> (Y: f32[M, N]) { Y[i, j] = X[i, j] + 1 }").values()
    state = tw.gpu_schedule(kernel, tw.Sizes(elements=8)).state
    source = emit_triton(state.program, state.tree, "").source
    assert "TALL=Y_i_count > 4" in source
    for rows in (3, 4, 5, 11):
        X = np.arange(rows * 9, dtype=np.float32).reshape(rows, 9)
        (found,) = interpreter.run(source, "f", {"X": X})
        assert same_bits(np.asarray(found), np.asarray(kernel(X)))
