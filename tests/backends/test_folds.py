"""The sums of matrix units in tiles and in Triton: one definition, and its bits in every tile."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.triton.units import expected
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.dtype import DTYPES
from tilewright.compiler.ir.fold import FAMILIES

if TYPE_CHECKING:
    from .interpreter import Interpreter

UNITS = FAMILIES["sm_90"]
KINDS = [*UNITS, "f8e4m3 promote", "f8e5m2 promote"]
# Rows, columns, depth of tiles: fewer and more rows than columns, a step, several, and no whole number of them.
TILES = [(64, 16, 32), (16, 64, 64), (32, 128, 96)]


@cache
def kernel_of(kind: str) -> tw.Kernel:
    name, _, promote = kind.partition(" ")
    wide = "" if name == "f32" else "f32"
    text = f"""kernel f(A: {name}[M, K], W: {name}[K, N]) -> (Y: bf16[M, N]) {{
        C[i, j] = bf16(sum(k, mma=sm_90{", promote=32" if promote else ""}) {wide}(A[i, k]) * {wide}(W[k, j]))
        Y[i, j] = bf16(silu(f32(C[i, j])))
    }}"""
    return tw.parse(text)["f"]


def in_tiles(
    kernel: tw.Kernel, rows: int, columns: int, depth: int, schedule: tw.Schedule | None = None
) -> tw.Schedule:
    schedule = schedule or tw.Schedule(kernel)
    io, jo, _, _ = schedule.tile("Y.i", "Y.j", rows, columns)
    schedule.compute_at("C", jo)
    ko, ki = schedule.split("C.k", depth)
    schedule.reorder(ko, "C.i", "C.j", ki)
    copies = [schedule.cache_read("A", ko), schedule.cache_read("W", ko)]
    schedule.pipeline(ko, 3)
    for stage in (*copies, "C", "Y"):
        schedule.block(*(loop for loop in schedule[stage].loops if loop not in (io, jo, ko)))
    schedule.bind(io, "grid.y")
    schedule.bind(jo, "grid.x")
    return schedule


def arguments(kernel: tw.Kernel, rows: int, depth: int, columns: int) -> dict[str, Any]:
    random = np.random.default_rng(rows)
    shapes = {"A": (rows, depth), "W": (depth, columns)}
    return {
        n: (random.standard_normal(s) * np.exp2(random.integers(-4, 5, s)))
        .astype(np.float32)
        .astype(kernel.program.tensors[n].dtype.numpy)
        for n, s in shapes.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_tile_has_the_same_bits(kind: str, interpreter: Interpreter) -> None:
    kernel = kernel_of(kind)
    for tile in TILES:
        schedule = in_tiles(kernel, *tile)
        tiles, module = (tw.compile(kernel, schedule, target) for target in ("tiles", "triton"))
        assert not module.permissions
        for sizes in ((70, 75, 33), (3, 200, 20), (1, 0, 1)):
            given = arguments(kernel, *sizes)
            wanted = kernel(**given)
            assert same_bits(tiles(**given), wanted)
            (found,) = interpreter.run(module.source, "f", given)
            assert same_bits(found, wanted)


def test_a_row_has_the_same_bits_in_every_batch() -> None:
    kernel = kernel_of("bf16")
    given = arguments(kernel, 40, 75, 9)
    whole = kernel(**given)
    for rows in (1, 7, 33):
        assert same_bits(kernel(**{**given, "A": given["A"][:rows]}), whole[:rows])


@pytest.mark.parametrize("kind", UNITS)
def test_products_run_on_the_unit_of_their_type(kind: str) -> None:
    """For few rows, too: 8-bit floats would be widened, and have other bits, if they did not change sides."""
    for tile in TILES[:2]:
        made = tw.compile(kernel_of(kind), in_tiles(kernel_of(kind), *tile), "triton")
        for aligned in (True, False):
            (found,) = made.capacity(90, aligned=aligned)
            assert found.fits
            assert found.spilled == 0
            assert found.instructions["wgmma"] > 0 or (tile[0] < 64 and DTYPES[kind].bits > 8)
            assert found.instructions["wgmma"] == 0 or found.instructions["mma"] == 0
            assert (found.instructions["tma_load"] > 0) == aligned


@pytest.mark.parametrize("kind", UNITS)
def test_the_test_of_a_card_tells_neighbouring_folds_apart(kind: str) -> None:
    unit = UNITS[kind]
    others = [replace(unit, block=unit.block // 2), replace(unit, block=2 * unit.block)]
    others += [replace(unit, align=unit.align + d) for d in (-2, -1, 1, 2)]
    others += [replace(unit, bits=unit.bits + d) for d in ((-1,) if unit.bits == 24 else (-1, 1))]
    others += [replace(unit, cut=not unit.cut)] if kind == "f32" else [replace(unit, least=unit.least - 1)]
    digests = [expected(kind, u) for u in (unit, *others)]
    assert digests.count(digests[0]) == 1


def test_a_card_that_adds_otherwise_is_refused(interpreter: Interpreter) -> None:
    kernel = kernel_of("bf16")
    module = tw.compile(kernel, in_tiles(kernel, 64, 16, 32), "triton")
    digest = expected("bf16", UNITS["bf16"])
    assert module.source.count(digest) == 1
    with pytest.raises(RuntimeError, match=f"do not add as mma=sm_90 says: {digest} for torch.bfloat16, not 0123"):
        interpreter.run(module.source.replace(digest, "0123"), "f", arguments(kernel, 2, 3, 4))


def compiled_with(kernel: tw.Kernel, tile: tuple[int, int, int], **options: Any) -> tw.CompiledKernel:
    return tw.compile(kernel, in_tiles(kernel, *tile), **{"target": "triton", **options})


REFUSED: dict[str, tuple[str, tuple[int, int, int], dict[str, Any], str]] = {
    "steps cut in two": ("bf16", (64, 16, 24), {}, "does not begin where 16 consecutive k of the fold do"),
    "parts cut in two": ("f8e4m3 promote", (64, 16, 48), {}, "does not begin where 32 consecutive k of the fold do"),
    "few rows and columns of 8 bits": ("f8e5m2", (32, 32, 64), {}, "takes tiles of 64 rows or columns"),
    "few warps for 8 bits": ("f8e5m2", (64, 16, 64), {"warps": 2}, "takes 4 warps"),
    "loops": ("bf16", (64, 16, 32), {"target": "numpy"}, "loops add one element at a time"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_matrix_unit_does_is_refused(what: str) -> None:
    kind, tile, options, message = REFUSED[what]
    with pytest.raises(tw.IllegalTransformError, match=message):
        compiled_with(kernel_of(kind), tile, **options)


def test_parts_of_wide_factors_are_refused_on_a_gpu_alone() -> None:
    text = """kernel f(A: bf16[M, K], W: bf16[K, N]) -> (Y: f32[M, N]) {
        C[i, j] = sum(k, mma=sm_90, promote=64) f32(A[i, k]) * f32(W[k, j])
        Y[i, j] = C[i, j] + 1
    }"""
    kernel = tw.parse(text)["f"]
    schedule = in_tiles(kernel, 64, 16, 64)
    with pytest.raises(tw.IllegalTransformError, match="Triton adds bf16 products in the matrix unit alone"):
        tw.compile(kernel, schedule, "triton")
    given = arguments(kernel, 5, 200, 7)
    assert same_bits(tw.compile(kernel, schedule, "tiles")(**given), kernel(**given))


def test_one_element_at_a_time_is_refused() -> None:
    kernel = kernel_of("bf16")
    schedule = tw.Schedule(kernel)
    with pytest.raises(tw.IllegalTransformError, match="adds one element at a time, and a matrix unit adds many"):
        tw.compile(kernel, schedule, "tiles")


def test_a_sum_without_rows_or_columns_is_one_of_numpy() -> None:
    text = "kernel f(A: bf16[K], B: bf16[K]) -> (c: f32) { c = sum(k, mma=sm_90) f32(A[k]) * f32(B[k]) }"
    (kernel,) = tw.parse(text).values()
    with pytest.raises(tw.IllegalTransformError, match=r"no product of rows and columns[\s\S]*call the definition"):
        tw.compile(kernel, target="triton")
    ones = np.ones(40, DTYPES["bf16"].numpy)
    assert kernel(ones, ones) == 40


def test_lanes_are_taken_in_their_order() -> None:
    """Block loops that hold one another run in the order of their nest: the parts of k may not change places."""
    kernel = kernel_of("bf16")
    schedule = tw.Schedule(kernel)
    ko, ki = schedule.split("C.k", 32)
    km, ki = schedule.split(ki, 16)
    schedule.reorder(ko, "C.i", "C.j", km, ki)
    schedule.block(km, ki)
    with pytest.raises(tw.IllegalTransformError, match=r"refused \[rounding\]"):
        schedule.reorder(ki, km)
    assert [loop for loop in schedule["C"].loops if loop in (km, ki)] == [km, ki]


@pytest.mark.parametrize("kind", [*UNITS, "f8e4m3 promote"])
def test_what_is_off_before_the_sum_is_bounded_behind_it(kind: str) -> None:
    """Factors that a permission moved by a rounding: their sums are cut elsewhere, too."""
    name, _, promote = kind.partition(" ")
    wide = "" if name == "f32" else "f32"
    text = f"""kernel f(X: f32[M, K], S: f32[M], W: {name}[K, N]) -> (Y: f32[M, N]) {{
        A[i, k] = allow contract in {name}(X[i, k] * S[i] + X[i, k])
        C[i, j] = sum(k, mma=sm_90{", promote=32" if promote else ""}) {wide}(A[i, k]) * {wide}(W[k, j])
        Y[i, j] = C[i, j] * 2
    }}"""
    kernel = tw.parse(text)["f"]
    schedule = tw.Schedule(kernel)
    schedule.contract("A")
    schedule = in_tiles(kernel, 32, 16, 64, schedule)
    made = tw.compile(kernel, schedule, "tiles")
    for seed in range(3):
        random = np.random.default_rng(seed)
        wanted_type = DTYPES[name].numpy
        given = {
            "X": random.standard_normal((33, 100)).astype(np.float32),
            "S": random.standard_normal(33).astype(np.float32),
            "W": random.standard_normal((100, 17)).astype(np.float32).astype(wanted_type),
        }
        wanted, found, bound = kernel(**given), made(**given), made.error_bound(**given)
        assert np.all(np.abs(wanted - found) <= bound)
        assert bound.max() > 0
        assert np.all(bound <= 2 * np.abs(wanted).max()), "a bound that says nothing"


def test_rows_in_tiles_are_proved_the_same_in_every_batch() -> None:
    kernel = kernel_of("bf16")
    assert tw.compile(kernel, in_tiles(kernel, 64, 16, 32), "tiles").prove("batch_invariant", "M")
