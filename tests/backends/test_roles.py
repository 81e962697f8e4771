"""Launches whose parts have warps of their own: their text, what they compile to, and what is no such launch."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

from .parted import KERNELS, WIDE

if TYPE_CHECKING:
    from collections.abc import Callable

    from .interpreter import Interpreter

EXAMPLES = Path(__file__).parents[2] / "examples"


def compiled(text: str, sizes: tw.Sizes) -> tw.CompiledKernel:
    (kernel,) = tw.parse(text).values()
    return tw.compile(kernel, tw.gpu_schedule(kernel, sizes), target="triton")


def example() -> tuple[tw.Kernel, tw.Schedule]:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    schedule = tw.Schedule(kernel)
    runpy.run_path(str(EXAMPLES / "schedules" / "matmul_roles.py"))["schedule"](schedule)
    return kernel, schedule


def test_the_text_is_for_people(golden: Callable[[str, str], None]) -> None:
    kernel, schedule = example()
    golden("triton_roles/matmul_silu", tw.compile(kernel, schedule, target="triton").source)


@pytest.mark.parametrize("name", KERNELS)
def test_parts_compile_and_spill_nothing(name: str) -> None:
    pytest.importorskip("triton", reason="Triton compiles the kernel")
    plain, parts = compiled(*KERNELS[name]).capacity(90)
    assert (plain.kernel, parts.kernel) == (f"{name}_y_kernel", f"{name}_y_roles")
    assert parts.fits
    assert parts.spilled == 0
    assert parts.instructions["wgmma"] > 0
    assert parts.instructions["tma_load"] > 0
    assert parts.instructions["tma_store"] > 0


def test_other_cards_have_no_parts() -> None:
    pytest.importorskip("triton", reason="Triton compiles the kernel")
    assert [found.kernel for found in compiled(*KERNELS["plain"]).capacity(80)] == ["plain_y_kernel"]


@pytest.mark.parametrize("name", KERNELS)
def test_what_cannot_have_parts_runs_without(name: str, interpreter: Interpreter) -> None:
    text, sizes = KERNELS[name]
    made = compiled(text, replace(sizes, rows=64 * sizes.consumers, columns=32, depth=16))
    assert f"{name}_y_roles[" in made.source
    arguments = random_inputs(made.kernel.program, {"M": 130, "K": 24, "N": 40}, 3)
    arguments |= dict.fromkeys(made.kernel.program.scalars, 1.5)
    for blocks in (False, True):
        (found,) = interpreter.run(made.source, name, arguments, tma=blocks)
        if made.permissions:
            off = np.abs(found.astype(np.float64) - np.asarray(made.kernel(**arguments)).astype(np.float64))
            assert (off <= made.error_bound(**arguments)).all()
        else:
            assert same_bits(found, np.asarray(made.kernel(**arguments)))


def built(change: Callable[[tw.Schedule, str], None], rows: int = 128, stages: int = 3) -> tw.CompiledKernel:
    """The example's schedule with other tiles, and *change* before its end."""
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    s = tw.Schedule(kernel)
    row, column, _, _ = s.tile("Y.i", "Y.j", rows, 256)
    s.compute_at("C", column)
    ko, ki = s.split("C.k", 64)
    s.reorder(ko, "C.i", "C.j", ki)
    s.cache_read("A", ko)
    s.cache_read("W", ko)
    s.pipeline(ko, stages)
    s.parallel(column)
    change(s, row)
    for name in ("A_cache", "W_cache", "C", "Y"):
        s.block(*(loop for loop in s[name].loops if loop not in (row, column, ko)))
    return tw.compile(kernel, s, target="triton")


def shared(s: tw.Schedule, row: str, consumers: int = 2) -> None:
    s.bind(row, "processors")
    s.roles("C.ko", consumers, "Y")


def test_the_twin_of_the_refusals_is_accepted() -> None:
    assert "matmul_silu_y_roles[" in built(shared).source


@pytest.mark.parametrize(
    ("change", "tiles", "words"),
    [
        (lambda s, row: shared(s, row, 4), {}, "4 consumers"),
        (shared, {"rows": 64}, "a tile of 64 x 256 for 2 consumers"),
        (shared, {"rows": 256}, "a thread of a consumer would hold 256 sums"),
        (shared, {"stages": 4}, "bytes of shared memory, and there are"),
        (lambda s, row: (s.parallel(row), s.roles("C.ko", 2, "Y")), {}, "a program runs one tile only"),
    ],
)
def test_what_the_card_has_no_room_for_is_refused(
    change: Callable[[tw.Schedule, str], None], tiles: dict[str, int], words: str
) -> None:
    with tw.testing.refused("target", words) as caught:
        built(change, **tiles)
    assert caught.refusal.remedy


def test_the_default_schedule_does_without_what_cannot_be_said() -> None:
    text = """kernel gated(X: bf16[M, K], V: bf16[K, N], W: bf16[K, N]) -> (Y: bf16[M, N]) { allow reassociate
        G[i, j] = bf16(sum(k) f32(X[i, k]) * f32(V[k, j]))
        U[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
        Y[i, j] = bf16(silu(f32(G[i, j])) * f32(U[i, j]))
    }"""
    made = compiled(text, replace(WIDE, columns=128))
    assert "roles" not in {step.name for step in made.trace}
    assert made.source.count("tl.dot(") == 2
