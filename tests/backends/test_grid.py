"""Grids: loops in groups without idle programs, programs that share them, and tiles that are written as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

if TYPE_CHECKING:
    from .interpreter import Interpreter

PRODUCT = """kernel f(A: bf16[M, K], W: bf16[K, N], b: f32[N]) -> (Y: bf16[M, N]) {
    C[i, j] = bf16(sum(k, mma=sm_90) f32(A[i, k]) * f32(W[k, j]))
    Y[i, j] = bf16(silu(f32(C[i, j])) + b[j])
}"""
BATCHED = """kernel f(A: bf16[B, M, K], W: bf16[B, K, N]) -> (Y: bf16[B, M, N]) {
    Y[n, i, j] = bf16(sum(k, mma=sm_90) f32(A[n, i, k]) * f32(W[n, k, j]))
}"""
TRIANGLE = """kernel f(X: f32[N, N]) -> (Y: f32[N, N]) {
    Y[i, j] = (X[i, j] * 2 if j <= i else 0)
}"""


def product(text: str, **sizes: int) -> tw.CompiledKernel:
    (kernel,) = tw.parse(text).values()
    return tw.compile(kernel, tw.gpu_schedule(kernel, tw.Sizes(16, 32, 16, 2, 3, **sizes)), target="triton")


@pytest.mark.parametrize("blocks", [False, True], ids=["pointers", "blocks"])
@pytest.mark.parametrize("shared", [False, True], ids=["grid", "processors"])
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (PRODUCT, {"M": 16 * 5 + 1, "K": 40, "N": 40}),
        (PRODUCT, {"M": 16 * 4, "K": 16, "N": 64}),
        (PRODUCT, {"M": 1, "K": 16, "N": 8}),
        (PRODUCT, {"M": 0, "K": 16, "N": 8}),
        (BATCHED, {"B": 2, "M": 16 * 3 - 1, "K": 24, "N": 40}),
    ],
)
def test_every_tile_is_computed_once(
    text: str, sizes: dict[str, int], shared: bool, blocks: bool, interpreter: Interpreter
) -> None:
    made = product(text, processors=shared)
    arguments = random_inputs(made.kernel.program, sizes, 3)
    (found,) = interpreter.run(made.source, "f", arguments, tma=blocks)
    assert same_bits(found, np.asarray(made.kernel(**arguments)))


def test_a_grid_in_groups_has_no_idle_programs() -> None:
    source = product(PRODUCT).source
    assert "if (0 <=" not in source
    assert "Y_ioi_count = 3 * Y_ioo + min(3, (M + 15) // 16 - 3 * Y_ioo)" in source
    assert "f_y_kernel[(Y_jo_count * Y_ioi_count,)]" in source


def test_programs_share_a_grid() -> None:
    source = product(PRODUCT, processors=True).source
    assert (
        "for pid in tl.range(tl.program_id(0), Y_jo_count * Y_ioi_count, tl.num_programs(0), flatten=True):" in source
    )
    assert "f_y_kernel[(min(Y_jo_count * Y_ioi_count, processors(device)),)]" in source


def test_any_outermost_loops_can_be_shared(interpreter: Interpreter) -> None:
    (kernel,) = tw.parse(TRIANGLE).values()
    schedule = tw.Schedule(kernel)
    inner = schedule.split("Y.j", 8)[1]
    schedule.block(inner)
    schedule.bind("Y.i", "processors")
    schedule.parallel("Y.jo")
    made = tw.compile(kernel, schedule, target="triton")
    arguments = random_inputs(kernel.program, {"N": 19}, 3)
    (found,) = interpreter.run(made.source, "f", arguments)
    assert same_bits(found, np.asarray(kernel(**arguments)))


def test_an_inner_loop_is_shared_by_nobody() -> None:
    (kernel,) = tw.parse(TRIANGLE).values()
    schedule = tw.Schedule(kernel)
    schedule.parallel("Y.i")
    schedule.bind("Y.j", "processors")
    with tw.testing.refused("target", "Y.j is bound to processors, and is not the outermost loop of its nest"):
        tw.compile(kernel, schedule, target="triton")


def test_wide_tiles_are_written_in_halves_by_the_copy_engine() -> None:
    (kernel,) = tw.parse(PRODUCT).values()
    made = tw.compile(kernel, tw.gpu_schedule(kernel, tw.Sizes(128, 256, 64, 3, processors=True)), target="triton")
    assert "C_left, C_right = column_halves(C)" in made.source
    pytest.importorskip("triton", reason="Triton compiles the kernel")
    (found,) = made.capacity(90)
    assert found.fits
    assert found.spilled == 0
    assert found.instructions["tma_store"] >= 2
    assert found.instructions["wgmma"] > 0
