"""The sums of matrix units: the rules one by one, and the two programs that carry them out against each other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.backends.numpy.runtime import fold_step as fold_arrays
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.dtype import DTYPES
from tilewright.compiler.ir.fold import FAMILIES, fold_step

UNITS = FAMILIES["sm_90"]
# What the rules say by themselves: accumulator, products, sum. The constants are those of an H200.
RULES: dict[str, tuple[str, float, list[tuple[float, float]], float]] = {
    "a term under 2**-25 of the greatest is cut": ("bf16", 1.0, [(2.0**-26, 0.99609375)] * 16, 1.0),
    "and one above is not": ("bf16", 1.0, [(2.0**-25, 1.0)] * 4, 1 + 2.0**-23),
    "toward zero, whatever the sign": ("bf16", -1.0, [(2.0**-25, -1.0)] * 3, -1.0),
    "all terms are added before the sum is cut": ("bf16", 1.0, [(2.0**-24, 1.0), (2.0**-24, 1.0)], 1 + 2.0**-23),
    "14 bits of 8-bit floats": ("f8e4m3", 1.0, [(1.0, 1.0), (2.0**-7, 2.0**-6)], 2.0),
    "and no fewer": ("f8e4m3", 1.0, [(1.0, 1.0), (2.0**-6, 2.0**-6)], 2 + 2.0**-12),
    "products are not normalised": ("f16", 0.0, [(1.5, 1.5), (2.0**-13, 2.0**-12)], 2.25),
    "zeros have no exponent": ("bf16", 2.0**-140, [(0.0, 2.0**100), (-0.0, 1.0)], 2.0**-140),
    "nor a sign": ("bf16", -0.0, [(-0.0, 1.0)], 0.0),
    "a cut sum is a plain zero": ("bf16", 0.0, [(-(2.0**-75), 2.0**-76)], 0.0),
    "the floor of exponents lets these through": (
        "bf16", 0.0, [(1.9921875 * 2.0**-78, 2.0**-72)] + [(2.0**-86, 2.0**-72)] * 2, 2.0**-149),
    "and not these": ("bf16", 0.0, [(1.9921875 * 2.0**-78, 2.0**-72)] + [(2.0**-87, 2.0**-72)] * 4, 0.0),
    "overflow is looked at last": ("bf16", 0.0, [(2.0**100, 2.0**100), (2.0**100, -(2.0**100)), (1.0, 1.0)], 0.0),
    "and goes to infinity": ("bf16", 2.0**127, [(2.0**100, 2.0**27)], math.inf),
    "f32 lose 13 bits": ("f32", 0.0, [(1 + 2.0**-11, 1.0)], 1.0),
    "infinities that meet": ("bf16", math.inf, [(math.inf, -1.0)], math.nan),
    "zero times infinity": ("bf16", 1.0, [(math.inf, 0.0)], math.nan),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_a_rule(rule: str) -> None:
    kind, total, pairs, wanted = RULES[rule]
    for found in (fold_step(total, pairs, UNITS[kind]), by_arrays(kind, total, pairs)):
        assert found == wanted or (math.isnan(found) and math.isnan(wanted))
        assert math.copysign(1, found) == math.copysign(1, wanted) or math.isnan(wanted)


def by_arrays(kind: str, total: float, pairs: list[tuple[float, float]]) -> float:
    unit = UNITS[kind]
    with np.errstate(all="ignore"):
        left, right = ([np.array(p[side]).astype(DTYPES[kind].numpy) for p in pairs] for side in (0, 1))
        facts = unit.align, unit.bits, unit.least, unit.cut
        return float(fold_arrays(np.float32(total), left, right, *facts))


@pytest.mark.parametrize("kind", UNITS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_both_programs_agree_on_all_words(kind: str, data: st.DataObject) -> None:
    dtype, unit = DTYPES[kind], UNITS[kind]
    word = st.integers(0, 2**dtype.bits - 1)
    # Words near one another meet in a step; words from anywhere rarely do.
    near = st.integers(0, 2 ** (dtype.precision + 2)).map(lambda w: w + (2 ** (dtype.bits - 2)) - 2**dtype.precision)
    words = data.draw(st.lists(st.tuples(word | near, word | near), max_size=unit.block))
    total = np.array(data.draw(st.integers(0, 2**32 - 1) | st.integers(0x3F000000, 0x40800000)), np.uint32)
    values = [[float(np.array(w, f"u{dtype.bits // 8}").view(dtype.numpy)) for w in pair] for pair in words]
    pairs = [(a, b) for a, b in values]
    start = float(total.view(np.float32))
    found, wanted = by_arrays(kind, start, pairs), fold_step(start, pairs, unit)
    assert np.float32(found).tobytes() == np.float32(wanted).tobytes() or (math.isnan(found) and math.isnan(wanted))


KERNEL = """
kernel f(A: bf16[M, K], B: bf16[K, N], P: f8e4m3[M, K], Q: f8e4m3[K, N], X: f32[M, K], Y: f32[K, N],
         U: f16[T, M, K], V: f16[T, K, N]) -> (C: f32[M, N], D: f32[M, N], E: f32[M, N], F: f32[M, N], G: f32[M, N],
         v: f32[M], s: f32) where M >= 1, N >= 1 {
    C[i, j] = sum(k, mma=sm_90) f32(A[i, k]) * f32(B[k, j])
    D[i, j] = sum(k, mma=sm_90, promote=32) f32(P[i, k]) * f32(Q[k, j])
    E[i, j] = sum(k, mma=sm_90) X[i, k] * Y[k, j]
    F[i, j] = sum(t, k, mma=sm_90) f32(U[t, i, k]) * f32(V[t, k, j])
    G[i, j] = sum(k in 3..min(K, i + 20), mma=sm_90) f32(A[i, k]) * f32(B[k, j])
    v[i] = sum(j in 0..N, k, mma=sm_90) f32(A[i, k]) * f32(B[k, j])
    s = sum(k in 5..K, mma=sm_90, promote=8) E[0, 0] * X[0, k]
}
"""


@pytest.mark.parametrize("length", [1, 5, 16, 70])
@pytest.mark.parametrize("spread", [1, 20])
def test_definitions_in_numpy_and_one_operation_at_a_time(length: int, spread: int) -> None:
    kernel = tw.parse(KERNEL)["f"]
    random = np.random.default_rng(length)

    def some(*shape: int, kind: str, spread: int = spread) -> Any:
        narrow = min(spread, {"f16": 8, "f8e4m3": 3}.get(kind, spread))
        scale = np.exp2(random.integers(-narrow, narrow + 1, shape))
        return (random.standard_normal(shape) * scale).astype(np.float32).astype(DTYPES[kind].numpy)

    given = {
        **{"A": some(4, length, kind="bf16"), "B": some(length, 3, kind="bf16")},
        **{"P": some(4, length, kind="f8e4m3"), "Q": some(length, 3, kind="f8e4m3")},
        **{"X": some(4, length, kind="f32"), "Y": some(length, 3, kind="f32")},
        **{"U": some(2, 4, length, kind="f16"), "V": some(2, length, 3, kind="f16")},
    }
    if spread > 1:
        given["A"][1, 0], given["B"][0, 1] = np.inf, -np.inf
    for found, wanted in zip(kernel(**given), kernel.interpreted(**given).values(), strict=True):
        assert same_bits(np.asarray(found), wanted)


def test_the_order_of_blocks_matters_and_that_within_one_does_not() -> None:
    kernel = tw.parse(KERNEL.replace("f(", "g("))["g"]
    random = np.random.default_rng(1)
    shapes = {"A": (8, 64), "B": (64, 8), "P": (8, 64), "Q": (64, 8), "X": (8, 64), "Y": (64, 8)}
    given = {
        n: random.standard_normal(s).astype(np.float32).astype(kernel.program.tensors[n].dtype.numpy)
        for n, s in shapes.items()
    }
    given |= {n: np.zeros(s, np.float16) for n, s in (("U", (1, 8, 64)), ("V", (1, 64, 8)))}
    plain = kernel(**given)[0]
    for order, same in (
        (np.arange(64).reshape(-1, 16)[:, ::-1].ravel(), True),
        (np.arange(64).reshape(-1, 16)[::-1].ravel(), False),
        (np.arange(64).reshape(2, 32).T.ravel(), False),
    ):
        turned = kernel(**{**given, "A": given["A"][:, order], "B": given["B"][order]})[0]
        assert same_bits(plain, turned) == same
