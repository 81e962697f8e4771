"""The examples by their default GPU schedule: their text, what they compute, and what they compile to without a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import default_scalars, default_sizes, random_inputs

from .operations import differing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .interpreter import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNELS = {name: kernel for path in sorted(EXAMPLES.glob("*.tx")) for name, kernel in tw.load(path).items()}
# What the matrix units multiply, in each of its forms.
PRODUCTS = ("matmul_silu", "gated_mlp", "attention_gqa")
# Contractions of the language reference: tiles with several indices of a kind, of a padded tensor, of a transposed one.
CONTRACTIONS = {
    "contraction": """kernel contraction(X: bf16[NA, NK, NL, NB], Y: bf16[NL, NK, NC]) -> (T: f32[NA, NB, NC]) {
        T[a, b, c] = allow reassociate in sum(k, l) f32(X[a, k, l, b]) * f32(Y[l, k, c])
    }""",
    "conv": """kernel conv(X: bf16[B, H, W, C], F: bf16[3, 3, C, O]) -> (Y: bf16[B, H, W, O]) {
        Y[n, h, w, o] = bf16(allow reassociate in sum(r in 0..3, s in 0..3, c)
                             f32(X[n, h + r - 1, w + s - 1, c] else 0) * f32(F[r, s, c, o]))
    }""",
    "turned": """kernel turned(A: bf16[M, K], B: bf16[N, K]) -> (Y: bf16[N, M]) {
        Y[j, i] = bf16(allow reassociate in sum(k) f32(A[i, k]) * f32(B[j, k]))
    }""",
    "tf32": """kernel tf32(A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]) {
        allow tf32
        Y[i, j] = allow reassociate in sum(k) A[i, k] * B[k, j]
    }""",
}


@cache
def compiled(name: str) -> tw.CompiledKernel:
    if name in CONTRACTIONS:
        return tw.compile(tw.parse(CONTRACTIONS[name])[name], target="triton")
    return tw.compile(KERNELS[name], target="triton")


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_is_for_people(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"../backends/triton_examples/{name}", compiled(name).source)


@pytest.mark.parametrize("name", [*KERNELS, *CONTRACTIONS])
@pytest.mark.parametrize("tma", [False, True], ids=["pointers", "blocks"])
def test_an_example_computes_what_it_defines(name: str, tma: bool, interpreter: Interpreter) -> None:
    made = compiled(name)
    if tma and "TMA" not in made.source:
        pytest.skip("loads no blocks")
    if tma and name == "attention_gqa":
        pytest.skip("takes minutes at sizes whose rows are blocks; its products are those of the others")
    program = made.kernel.program
    # Of blocks, rows of a multiple of 16 bytes; ragged against every tile. An interpreter is slow.
    sizes = default_sizes(program, {}, 8 if tma else 7 if len(program.sizes) < 4 else 3)
    assert sizes is not None
    arguments: dict[str, Any] = {**random_inputs(program, sizes, 3), **default_scalars(program, {}), **sizes}
    given = {n: a for n, a in arguments.items() if n in program.parameters}
    want = made.kernel(**arguments)
    got = interpreter.run(made.source, program.name, given, tma=tma)
    bounds = made.error_bound(**arguments) if made.permissions else None
    wanted = want if isinstance(want, tuple) else (want,)
    limits = bounds if isinstance(bounds, tuple) else (bounds,)
    for w, g, limit in zip(wanted, got, limits if bounds is not None else (None,) * len(wanted), strict=True):
        if limit is None:
            assert not differing(np.asarray(w), g).any()
        else:
            assert np.all(np.abs(np.asarray(w).astype(float) - g.astype(float)) <= limit)


@pytest.mark.parametrize("name", [*PRODUCTS, *CONTRACTIONS])
@pytest.mark.parametrize("arch", [80, 90])
def test_products_are_compiled_to_matrix_instructions(name: str, arch: int) -> None:
    for found in compiled(name).capacity(arch):
        if found.stages == 1:
            continue  # no product
        assert found.fits
        assert found.spilled == 0
        assert found.instructions["wgmma" if arch == 90 else "mma"] > 0
        copies = found.instructions["async_copy"] + found.instructions["tma_load"]
        assert copies > 0, "the loop is pipelined"


def test_sizes_beyond_31_bits_are_a_case_of_their_own() -> None:
    source = compiled("transpose").source
    assert "wide = max(M * N, N * M) >= 2**31" in source
    assert "tl.cast" in source


def test_a_trace_replays() -> None:
    schedule = tw.gpu_schedule(KERNELS["matmul_silu"])
    again = tw.Schedule.replay(KERNELS["matmul_silu"], schedule.to_json())
    assert tw.compile(KERNELS["matmul_silu"], again, target="triton").source == compiled("matmul_silu").source
