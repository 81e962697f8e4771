"""Sums in parts, merged in order by a launch of their own; and what a program keeps of what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.cli.schedules import scheduled
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

if TYPE_CHECKING:
    from .interpreter import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"
TALL = """kernel f(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
    C[i, j] = allow reassociate in sum(k) f32(A[i, k]) * f32(W[k, j])
    Y[i, j] = bf16(silu(C[i, j]))
}"""
BATCHED = """kernel f(A: bf16[B, M, K], W: bf16[B, N, K]) -> (C: f32[B, M, N]) {
    C[n, i, j] = allow reassociate in sum(k) f32(A[n, i, k]) * f32(W[n, j, k])
}"""
ROWS = """kernel f(X: bf16[M, K]) -> (S: f32[M], Q: f8e4m3[M, K]) {
    a[i] = max(k) abs(f32(X[i, k]))
    S[i] = 1 if a[i] <= 0 else a[i] / 448
    Q[i, k] = sat f8e4m3(f32(X[i, k]) / S[i])
}"""
NORMED = """kernel f(X: bf16[M, 100], w: bf16[100]) -> (Y: bf16[M, 100]) {
    ss[i] = sum(d, lanes=32) f32(X[i, d]) * f32(X[i, d])
    Y[i, d] = bf16(f32(X[i, d]) * rsqrt(ss[i]) * f32(w[d]))
}"""
SOFTMAX = """kernel f(X: bf16[M, 100]) -> (Y: f32[M, 100]) {
    m[i] = max(d) f32(X[i, d])
    e[i, d] = exp(f32(X[i, d]) - m[i])
    s[i] = sum(d, lanes=16) e[i, d]
    Y[i, d] = e[i, d] / s[i]
}"""
SIZES = tw.Sizes(rows=16, columns=16, depth=16, stages=2, part=32)


def compiled(text: str, sizes: tw.Sizes | None = SIZES) -> tw.CompiledKernel:
    (kernel,) = tw.parse(text).values()
    return tw.compile(kernel, tw.gpu_schedule(kernel, sizes), target="triton")


@pytest.mark.parametrize("blocks", [False, True], ids=["pointers", "blocks"])
@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (TALL, {"M": 19, "K": 70, "N": 37}),
        (TALL, {"M": 16, "K": 64, "N": 16}),
        (TALL, {"M": 3, "K": 7, "N": 5}),
        (TALL, {"M": 3, "K": 0, "N": 5}),
        (BATCHED, {"B": 2, "M": 17, "K": 40, "N": 18}),
    ],
)
def test_parts_are_merged_within_the_bound(
    text: str, sizes: dict[str, int], blocks: bool, interpreter: Interpreter
) -> None:
    made = compiled(text)
    assert len(made.launches) == 2
    assert made.permissions == {"reassociate"}
    arguments = random_inputs(made.kernel.program, sizes, 1)
    want = np.asarray(made.kernel(**arguments)).astype(np.float64)
    (found,) = interpreter.run(made.source, "f", arguments, tma=blocks)
    assert (np.abs(want - found.astype(np.float64)) <= made.error_bound(**arguments)).all()


def test_parts_are_added_up_in_registers_and_lie_one_after_another() -> None:
    source = compiled(TALL).source
    first = source[source.index("def f_c_blocks_kernel") : source.index("def f_y_kernel")]
    assert "C_blocks_tile = tl.dot(A_cache, W_cache, C_blocks_tile)" in first
    assert first.count("tl.store(") == 1
    assert "C_blocks + C_block * M * N + (16 * C_io + ii_a[:, None]) * N" in first
    assert "atomic" not in source


def test_parts_need_permission() -> None:
    strict = TALL.replace("allow reassociate in ", "")
    assert len(compiled(strict).launches) == 1
    assert not compiled(strict).permissions


@pytest.mark.parametrize(("text", "pieces"), [(NORMED, 4), (SOFTMAX, 7)], ids=["norm", "softmax"])
def test_a_row_of_one_length_stays_in_registers_piece_by_piece(
    text: str, pieces: int, interpreter: Interpreter
) -> None:
    made = compiled(text, None)
    assert len(made.launches) == 1
    # Each element of the row is read from memory once, before anything is done with it.
    read = made.source.count("tl.load(X")
    assert read == pieces
    assert made.source.rindex("tl.load(") < made.source.index("tl.full(")
    arguments = random_inputs(made.kernel.program, {"M": 3}, 1)
    (found,) = interpreter.run(made.source, "f", arguments, tma=False)
    assert same_bits(np.asarray(made.kernel(**arguments)), found)


def test_a_row_of_any_length_is_read_piece_by_piece() -> None:
    made = compiled(NORMED.replace("100", "D"), None)
    assert made.source.count("tl.load(X") == 2
    assert "for ss_do in range" in made.source


@pytest.mark.parametrize("sizes", [{"M": 70, "K": 40}, {"M": 1, "K": 1}, {"M": 3, "K": 0}])
def test_a_row_is_reduced_and_used_in_one_launch(sizes: dict[str, int], interpreter: Interpreter) -> None:
    made = compiled(ROWS, None)
    (launch,) = made.launches
    # What was written is still there: nothing is read back, and no thread waits.
    assert "tl.load(S" not in made.source
    assert "debug_barrier" not in made.source
    assert not made.permissions
    arguments = random_inputs(made.kernel.program, sizes, 1)
    want, found = made.kernel(**arguments), interpreter.run(made.source, "f", arguments)
    assert all(same_bits(a, np.asarray(b)) for a, b in zip(found, want, strict=True))
    assert launch.grid.counts


@pytest.mark.parametrize(("name", "launches"), [("large", 1), ("tall", 2)])
def test_a_listed_schedule_computes_what_it_says(name: str, launches: int, interpreter: Interpreter) -> None:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    made = tw.compile(kernel, scheduled(kernel, str(EXAMPLES / "schedules" / f"matmul_{name}.py")), target="triton")
    assert len(made.launches) == launches
    arguments = random_inputs(kernel.program, {"M": 150, "K": 104, "N": 264}, 1)
    want = np.asarray(kernel(**arguments)).astype(np.float64)
    for blocks in (False, True):
        (found,) = interpreter.run(made.source, "matmul_silu", arguments, tma=blocks)
        assert (np.abs(want - found.astype(np.float64)) <= made.error_bound(**arguments)).all()
    pytest.importorskip("triton", reason="Triton compiles the kernel")
    assert all(found.fits and not found.spilled for found in made.capacity(90))


def test_a_part_is_compiled_for_matrix_units() -> None:
    pytest.importorskip("triton", reason="Triton compiles the kernel")
    made = compiled(TALL, tw.Sizes(rows=64, columns=128, part=1024))
    parts, merge = made.capacity(90)
    assert parts.fits
    assert parts.spilled == merge.spilled == 0
    assert parts.instructions["wgmma"] > 0
    assert parts.instructions["tma_load"] > 0
