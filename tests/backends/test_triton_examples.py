"""The examples by their default GPU schedule: their text, what they compute, and what they compile to without a GPU."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.lower.lower import lower_to_tiles
from tilewright.backends.naming import Names
from tilewright.backends.triton.blocks import blocks
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


# What has gone wrong, or nearly: kernels by what is odd about them, and the sizes they run at.
ODD: dict[str, tuple[str, dict[str, int]]] = {
    "numbers beyond 32 bits": ("kernel f(X: f32[N]) -> (Y: i64[N]) { Y[i] = 1000000 * i }", {"N": 5000}),
    "and far beyond": ("kernel f(X: f32[N]) -> (Y: i64[N]) { Y[i] = 1000000000 * i + 5000000000 }", {"N": 7}),
    "positions far outside": ("kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[1000000 * i] else 7 }", {"N": 5000}),
    "positions through numbers beyond": (
        "kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[(60000 * i) // 60001] }", {"N": 40000}),
    "minus zero": ("kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] if X[i] > 0 else -0.0 }", {"N": 9}),
    "minus zero beyond an edge": ("kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i - 3] else -0.0 }", {"N": 9}),
    "minus zero in f64": ("kernel f(X: f64[N]) -> (Y: f64[N]) { Y[i] = X[i] * -0.0 + -0.0 }", {"N": 9}),
    "minus zero alone": ("kernel f(X: bf16[N]) -> (Y: bf16[N]) { Y[i] = -0.0 }", {"N": 9}),
    "two empty ranges of one sum": (
        """kernel f(A: bf16[M, N, P, K], B: bf16[N, P, K, L]) -> (Y: f32[M, L]) {
            Y[i, j] = (allow reassociate in sum(r in 3..N, q in 2..P, s in 2..K)
                       f32(A[i, r, q, s]) * f32(B[r, q, s, j]))
        }""",
        {"M": 3, "N": 1, "P": 0, "K": 5, "L": 4}),
    "one tensor as both factors": (
        """kernel f(A: bf16[M, K]) -> (Y: f32[M, M]) {
            Y[i, j] = allow reassociate in sum(k) f32(A[i, k]) * f32(A[j, k])
        }""",
        {"M": 5, "K": 7}),
    "a gathered factor": (
        """kernel f(E: bf16[V, K], W: bf16[K, N], L: i32[T]) -> (Y: f32[T, N]) where V >= 1 {
            Y[t, j] = allow reassociate in sum(k) f32(E[L[t], k]) * f32(W[k, j])
        }""",
        {"V": 6, "K": 7, "N": 5, "T": 4}),
    "a triangle without finite": (
        """kernel f(A: bf16[N, N], B: bf16[N, M]) -> (Y: f32[N, M]) {
            Y[i, j] = allow reassociate in sum(k in 0..i + 1) f32(A[i, k]) * f32(B[k, j])
        }""",
        {"N": 5, "M": 4}),
    "a triangle in a wider matrix": (
        """kernel f(A: bf16[M, K], B: bf16[K, N]) -> (Y: f32[M, N]) where K >= M {
            allow reassociate, finite
            Y[i, j] = sum(k in 0..i + 1) f32(A[i, k]) * f32(B[k, j])
        }""",
        {"M": 5, "K": 9, "N": 4}),
    "scalars of every kind": (
        """kernel f(X: f32[N], a: f64, b: bf16, c: i64, d: bool, e: f16) -> (Y: f64[N]) {
            Y[i] = (f64(X[i]) * a + f64(b) + f64(c) + f64(e)) if d else 0
        }""",
        {"N": 5}),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_odd_kernels(what: str, interpreter: Interpreter) -> None:
    text, sizes = ODD[what]
    (kernel,) = tw.parse(text).values()
    made = tw.compile(kernel, target="triton")
    scalars: dict[str, Any] = {"a": 1 + 2.0**-40, "b": 0.15625, "c": 2**40 + 1, "d": True, "e": 0.333251953125}
    scalars = {n: v for n, v in scalars.items() if n in kernel.program.scalars}
    arguments = {**random_inputs(kernel.program, sizes, 5), **scalars}
    want = np.asarray(kernel(**arguments))
    (got,) = interpreter.run(made.source, "f", arguments)
    if made.permissions:
        assert np.all(np.abs(want - got) <= made.error_bound(**arguments))
    else:
        assert not differing(want, got).any()


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
    sizes = default_sizes(program, {}, 8 if tma else 2 if name == "conv" else 7 if len(program.sizes) < 4 else 3)
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


def test_a_certificate_takes_what_the_kernels_take() -> None:
    made = compiled("matmul_silu")
    assert made.certificate is not None
    assert made.certificate.capacity == ()
    certified = made.certified(90)
    assert certified is not None
    assert certified.proved == made.certificate.proved
    (line,) = certified.capacity
    assert line.startswith("matmul_silu_y_kernel on sm_90: 8 warps, ")
    assert line.endswith(" bytes shared, nothing spilled")


def test_what_an_architecture_does_not_have_is_said() -> None:
    with pytest.raises(RuntimeError, match=r"Triton does not compile matmul_fp8_y_kernel for sm_80: .*fp8e4nv"):
        compiled("matmul_fp8").capacity(80)


def test_lanes_of_a_single_number_are_refused() -> None:
    """No nest holds all that touches them; with rows there is one (cross_entropy)."""
    (kernel,) = tw.parse("kernel f(X: f64[N]) -> (Y: f64) { Y = sum(i, lanes=4) X[i] }").values()
    with pytest.raises(tw.IllegalTransformError, match=r"the lanes of Y\.lanes are no axis of a tile"):
        tw.compile(kernel, target="triton")


def test_sizes_beyond_31_bits_are_a_case_of_their_own() -> None:
    source = compiled("transpose").source
    assert "wide = max(M * N, N * M) >= 2**31" in source
    assert "tl.cast" in source


def test_a_trace_replays() -> None:
    schedule = tw.gpu_schedule(KERNELS["matmul_silu"])
    again = tw.Schedule.replay(KERNELS["matmul_silu"], schedule.to_json())
    assert tw.compile(KERNELS["matmul_silu"], again, target="triton").source == compiled("matmul_silu").source


def test_the_copy_engine_is_kept_off_what_a_launch_writes() -> None:
    schedule = tw.gpu_schedule(KERNELS["matmul_silu"])
    program = schedule.state.program
    names = Names(program, ())
    tiles = lower_to_tiles(program, schedule.state.tree, lambda name: names[name])
    (stmt,) = tiles.body
    for stores, left in (((), {"A", "W", "Y"}), (("A",), {"W", "Y"}), (("A", "W"), set[str]())):
        found, descriptors = blocks(program, names, tiles.axes, stmt, stores)
        assert {d.tensor for d in descriptors} == left
        assert {b.descriptor.tensor for b in found.values()} == left
