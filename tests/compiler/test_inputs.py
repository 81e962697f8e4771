"""Random inputs and default sizes: fixed by the seed, inside what gathers need, true to the promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import default_scalars, default_sizes, random_inputs
from tilewright.compiler.ir.bits import digest
from tilewright.compiler.ir.expr import Read, postorder
from tilewright.compiler.ir.quasiaffine import holds

if TYPE_CHECKING:
    from tilewright.compiler.ir.program import Program

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").glob("*.tx")), *sorted((ROOT / "tests/kernels").glob("*.tx"))]
KERNELS = {f"{f.parent.name}/{f.stem}:{n}": k.program for f in FILES for n, k in tw.load(f).items()}


def program_of(text: str) -> Program:
    (kernel,) = tw.parse(text).values()
    return kernel.program


def inputs_of(dtype: str, count: int, seed: int) -> Any:
    program = program_of(f"kernel copy(X: {dtype}[N]) -> (Y: {dtype}[N]) {{ Y[i] = X[i] }}")
    return random_inputs(program, {"N": count}, seed)["X"]


# The stream of PCG64(0): its first five words give these values in each of the types.
FIRST: dict[str, list[Any]] = {
    "f64": [0.5478467492858172, -0.9208531449445185, -1.8361059042552212, -1.9338894578858836, 1.2530809568010897],
    "f32": [0.5478466749191284, -0.9208532571792603, -1.8361059427261353, -1.9338895082473755, 1.2530808448791504],
    "f16": [0.5478515625, -0.9208984375, -1.8359375, -1.93359375, 1.2529296875],
    "bf16": [0.546875, -0.921875, -1.8359375, -1.9375, 1.25],
    "f8e4m3": [0.5625, -0.9375, -1.875, -1.875, 1.25],
    "f8e5m2": [0.5, -0.875, -1.75, -2.0, 1.25],
    "i64": [-1, 4, -4, 3, 4],
    "i32": [-1, 4, -4, 3, 4],
    "i16": [-1, 4, -4, 3, 4],
    "i8": [-1, 4, -4, 3, 4],
    "u8": [7, 4, 4, 3, 4],
    "bool": [True, False, False, False, True],
}


@pytest.mark.parametrize("dtype", FIRST)
def test_the_first_values_of_seed_0(dtype: str) -> None:
    array = inputs_of(dtype, 5, 0)
    assert array.tolist() == FIRST[dtype]
    assert inputs_of(dtype, 5, 1).tolist() != FIRST[dtype]


@pytest.mark.parametrize("dtype", FIRST)
def test_values_are_spread_over_their_range(dtype: str) -> None:
    array = inputs_of(dtype, 4000, 2)
    wide = array.astype(np.float64)
    if dtype == "bool":
        assert 0.45 < wide.mean() < 0.55
        return
    integers = dtype[0] in "iu"
    low, high = (0 if dtype == "u8" else -8, 7) if integers else (-2, 2)
    assert (wide >= low).all()
    assert (wide <= high).all()
    assert wide.min() < low + 0.3
    assert wide.max() > high - 0.3
    assert abs(wide.mean() - (low + high) / 2) < 0.25
    if integers:
        assert set(array.tolist()) == set(range(low, high + 1))


def test_floats_fill_a_grid_of_25_bits() -> None:
    array = inputs_of("f32", 4000, 3)
    steps = (array.astype(np.float64) + 2) * 2**23
    assert (steps == np.floor(steps)).all()
    assert all(1500 < ((steps.astype(np.int64) >> bit) & 1).sum() < 2500 for bit in range(25))


def test_inputs_follow_one_another_in_the_order_of_the_declaration() -> None:
    program = program_of("kernel f(A: f32[M], B: f32[N]) -> (Y: f32[M]) { Y[i] = A[i] + (B[0] if N > 0 else 0) }")
    both = random_inputs(program, {"M": 3, "N": 4}, 9)
    assert list(both) == ["A", "B"]
    assert np.concatenate([both["A"], both["B"]]).tolist() == inputs_of("f32", 7, 9).tolist()


def test_a_bundle_of_inputs_keeps_its_bits() -> None:
    program = KERNELS["kernels/attention_paged:attention_paged"]
    sizes = {"B": 2, "D": 3, "PG": 4, "NP": 2}
    assert {n: digest(a) for n, a in random_inputs(program, sizes, 0).items()} == {
        "q": "1f02e24aff472ec8",
        "K": "bbb9e4cc29d618be",
        "V": "df6fbada8da26017",
        "page": "ca55b9b011b8de17",
        "len": "c9a12de69d6a6546",
    }


@pytest.mark.parametrize("name", KERNELS)
def test_inputs_have_the_declared_types_and_shapes(name: str) -> None:
    program = KERNELS[name]
    sizes = default_sizes(program, {}, 3)
    assert sizes is not None
    inputs = random_inputs(program, sizes, 0)
    assert list(inputs) == [p for p in program.parameters if p in program.tensors]
    for tensor, array in ((program.tensors[n], a) for n, a in inputs.items()):
        assert array.dtype == tensor.dtype.numpy
        assert array.shape == tuple(e.upper[0].evaluate(sizes) for e in tensor.extents)


# Positions.


def gathered(program: Program) -> list[tuple[str, str, int]]:
    """(integer input, tensor, dimension) where the input alone is a position."""
    return [
        (sub.tensor, node.tensor, dimension)
        for stage in program.stages
        for node in postorder(stage.value)
        if isinstance(node, Read)
        for dimension, sub in enumerate(node.subscripts)
        if isinstance(sub, Read) and program.tensors[sub.tensor].role == "input"
    ]


def test_positions_lie_inside_what_they_index() -> None:
    seen: set[str] = set()
    for name, program in KERNELS.items():
        sizes = default_sizes(program, {}, 3)
        assert sizes is not None
        for seed in range(5):
            inputs = random_inputs(program, sizes, seed)
            for at, tensor, dimension in gathered(program):
                first, count = program.tensors[tensor].extents[dimension].interval(sizes)
                assert first == 0
                assert ((inputs[at] >= 0) & (inputs[at] < count)).all(), name
                seen.add(name.partition(":")[2])
    assert seen == {"embedding", "cross_entropy", "attention_paged"}


def test_positions_reach_every_element_and_fit_the_least_of_several_tensors() -> None:
    text = """kernel f(A: f32[M], B: f32[N], at: i32[P]) -> (Y: f32[P]) {
        Y[i] = A[at[i]] + B[at[i]]
    }"""
    at = random_inputs(program_of(text), {"M": 30, "N": 20, "P": 2000}, 0)["at"]
    assert set(at.tolist()) == set(range(20))


@pytest.mark.parametrize("index", ["at[i] + 1", "(at[i] + 1) * 2", "i64(at[i]) // 2", "max(at[i], 0)"])
def test_a_kernel_runs_on_random_inputs_whatever_it_makes_of_a_position(index: str) -> None:
    text = f"kernel f(A: f32[2 * M + 2], at: i32[P]) -> (Y: f32[P]) {{ Y[i] = A[{index}] if at[i] < M else 0 }}"
    kernel = tw.parse(text)["f"]
    sizes = {"M": 9, "P": 50}
    inputs = random_inputs(kernel.program, sizes, 0)
    assert (inputs["at"] >= 0).all()
    kernel(**inputs, M=9)


# Sizes and scalars.


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("wanted", [0, 1, 3, 16])
def test_default_sizes_keep_the_promises(name: str, wanted: int) -> None:
    program = KERNELS[name]
    sizes = default_sizes(program, {}, wanted)
    assert sizes is not None
    assert tuple(sizes) == program.sizes
    assert holds(program.context, sizes)
    assert all(v >= 0 for v in sizes.values())
    if not program.promises:
        assert set(sizes.values()) == {max(wanted, 2)}


def test_given_sizes_stay_and_the_others_follow() -> None:
    program = KERNELS["examples/attention_gqa:attention_gqa"]
    sizes = default_sizes(program, {"H": 8, "T": 5}, 16)
    assert sizes is not None
    assert (sizes["H"], sizes["G"], sizes["T"]) == (8, 2, 5)
    sizes = default_sizes(program, {"G": 3}, 16)
    assert sizes is not None
    assert (sizes["H"], sizes["G"]) == (12, 3)


@pytest.mark.parametrize("given", [{"H": 3}, {"H": 8, "G": 1}])
def test_sizes_against_the_promises_have_no_answer(given: dict[str, int]) -> None:
    assert default_sizes(KERNELS["examples/attention_gqa:attention_gqa"], given, 16) is None


def test_sizes_have_greatest_values() -> None:
    program = KERNELS["examples/matmul:matmul"]
    assert default_sizes(program, {}, 5, {"M": 2, "K": 9, "N": 3}) == {"M": 2, "K": 2, "N": 2}
    assert default_sizes(program, {}, 5, {"M": 0}) == {"M": 0, "K": 0, "N": 0}


def test_default_scalars() -> None:
    program = program_of(
        "kernel f(X: f32[N], a: f32, n: i32, yes: bool, b: bf16) -> (Y: f32[N]) {"
        " Y[i] = X[i] * a + f32(n) + f32(b) if yes else 0 }"
    )
    assert default_scalars(program, {}) == {"a": 0.5, "n": 1, "yes": True, "b": 0.5}
    assert default_scalars(program, {"n": 7, "yes": False}) == {"a": 0.5, "n": 7, "yes": False, "b": 0.5}
