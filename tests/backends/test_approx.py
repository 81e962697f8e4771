"""Functions of the hardware: taken where a kernel permits them to be that far off, and never farther off than said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.dtype import DTYPES

if TYPE_CHECKING:
    from .interpreter import Interpreter


def compiled(body: str, kind: str = "f32") -> tw.CompiledKernel:
    (kernel,) = tw.parse(f"kernel f(X: {kind}[N]) -> (Y: {kind}[N]) {{\n{body}\n}}").values()
    return tw.compile(kernel, target="triton")


def arguments(kind: str = "f32") -> np.ndarray[Any, Any]:
    random = np.random.default_rng(3)
    values = random.standard_normal(4000) * 2.0 ** random.integers(-30, 7, 4000)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 88.5, 89, -87, -100, -104, 2.0**-130, 128, -140, -150]
    return np.concatenate([values, edges]).astype(DTYPES[kind].numpy)


@pytest.mark.parametrize("kind", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("allow approx(6)\nY[i] = exp(X[i])", "approx(6)"),
        ("allow approx(4)\nY[i] = exp2(X[i])", "approx(4)"),
        ("allow approx(4)\nY[i] = rsqrt(abs(X[i]))", "approx(4)"),
        ("allow approx(100)\nY[i] = silu(X[i])", "approx(100)"),
        ("Y[i] = exp2(X[i]) + (allow approx(8) in exp2(X[i]))", "approx(8)"),
    ],
)
def test_no_result_is_farther_off_than_its_bound(body: str, used: str, kind: str, interpreter: Interpreter) -> None:
    made = compiled(body, kind)
    assert made.permissions == {used}
    assert made.numerics == (f"{used}: functions of the hardware",)
    X = arguments(kind)
    want, (got,) = np.asarray(made.kernel(X)).astype(np.float64), interpreter.run(made.source, "f", {"X": X})
    got = got.astype(np.float64)
    assert (np.isnan(want) == np.isnan(got)).all()
    finite = np.isfinite(want) & np.isfinite(got)
    assert (want == got)[~finite & ~np.isnan(want)].all()
    bound = np.broadcast_to(made.error_bound(X), want.shape)
    assert (np.abs(want[finite] - got[finite]) <= bound[finite]).all()
    # The interpreter's functions are off as far as they may be.
    assert kind == "bf16" or (np.abs(want[finite] - got[finite]) > 0).any()


@pytest.mark.parametrize(
    "body",
    [
        "Y[i] = exp(X[i])",
        "allow approx(5)\nY[i] = exp(X[i])",
        "allow approx(3)\nY[i] = exp2(X[i])",
        "allow approx(1000)\nY[i] = log(X[i]) + tanh(X[i]) + X[i] / 3",
        "Y[i] = exp2(X[i]) + (allow approx(8) in X[i])",
    ],
)
def test_without_enough_permission_the_bits_are_those_of_the_definition(body: str, interpreter: Interpreter) -> None:
    made = compiled(body)
    assert not made.permissions
    assert "fast_" not in made.source
    X = arguments()
    (got,) = interpreter.run(made.source, "f", {"X": X})
    assert same_bits(got, np.asarray(made.kernel(X)))


def test_a_sum_of_approximations_stays_within_its_bound(interpreter: Interpreter) -> None:
    text = "kernel f(X: f32[M, N]) -> (Y: f32[M]) { Y[i] = allow approx(6) in sum(j, lanes=8) exp(X[i, j]) }"
    (kernel,) = tw.parse(text).values()
    made = tw.compile(kernel, target="triton")
    assert made.permissions == {"approx(6)"}
    X = np.random.default_rng(3).standard_normal((5, 37)).astype(np.float32)
    want, (got,) = np.asarray(kernel(X)).astype(np.float64), interpreter.run(made.source, "f", {"X": X})
    assert (np.abs(want - got) <= made.error_bound(X)).all()
    assert not same_bits(got, np.asarray(kernel(X)))
