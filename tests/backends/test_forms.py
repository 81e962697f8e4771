"""Shorter forms of operations: where they are taken, where not, and that no bit of any argument differs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.embed import runtime_text
from tilewright.backends.triton import forms, quotients
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.dtype import DTYPES

if TYPE_CHECKING:
    from .interpreter import Interpreter

FORMS = (
    "quotient(",
    "quotient_far(",
    "quotient_fine(",
    "exp_half_f32(",
    "exp_normal_f32(",
    "exp2_half_f32(",
    "exp2_normal_f32(",
)
TAKEN = {
    "f32(X[i]) / 3": "quotient_far(",
    "silu(f32(X[i]))": "exp_half_f32( quotient_fine(",
    "bf16(silu(f32(X[i])))": "exp_half_f32( quotient_far(",
    "sigmoid(f32(X[i]))": "exp_normal_f32( quotient_fine(",
    "silu(f32(X[i] + X[i] * X[i]))": "exp_half_f32( quotient_fine(",
    "bf16(silu(f32(X[i])) * f32(Z[i]))": "exp_half_f32( quotient_fine(",
    "exp2(max(f32(X[i]), -3)) + f32(X[i])": "exp2_half_f32(",
    "(1 + exp(f32(X[i]))) * f32(Z[i])": "exp_normal_f32(",
    "f32(bf16(f32(X[i]) * f32(Z[i]))) / 3": "quotient_far(",
    # Half of a bf16 is not what is doubled.
    "f32(1 + exp(X[i]))": "exp_normal_f32(",
    # e^-90 is no normal number, the last places of 1 / X are lost at the end of the range, and what has 32 bits or two
    # operands is too much to try.
    "exp(f32(X[i]))": "",
    "7 / f32(X[i])": "",
    "f32(X[i]) / f32(Z[i])": "",
    "exp(f32(X[i]) - f32(Z[i])) + 1": "",
    "f32(X[i]) * f32(Z[i]) / 3": "",
    "1 + exp(F[i])": "",
    "f32(X[i]) / s": "",
}


MODULE = """import torch
import triton
import triton.language as tl


{runtime}


@triton.jit
def kernel(A, B, C):
    i = tl.arange(0, 4096)
    tl.store(C + i, {name}(tl.load(A + i), tl.load(B + i)))


def run(A, B):
    C = torch.empty_like(A)
    kernel[(1,)](A, B, C)
    return C
"""


def compiled(text: str, kind: str = "bf16") -> tw.CompiledKernel:
    result = "bf16" if text.startswith("bf16(") else "f32"
    parameters = f"X: {kind}[N], Z: {kind}[N], F: f32[N], s: f32"
    used = ", ".join(p for p in parameters.split(", ") if re.search(rf"\b{p[0]}\b", text))
    (kernel,) = tw.parse(f"kernel f({used}) -> (Y: {result}[N]) {{ Y[i] = {text} }}").values()
    return tw.compile(kernel, target="triton")


def taken(made: tw.CompiledKernel) -> str:
    body = made.source[made.source.index("def f_y_kernel") : made.source.index("def check(")]
    return " ".join(sorted(f for f in FORMS if f in body))


@pytest.mark.parametrize("text", TAKEN)
def test_a_shorter_form_is_taken_where_it_makes_no_difference(text: str) -> None:
    assert taken(compiled(text)) == TAKEN[text]


@pytest.mark.parametrize("kind", ["bf16", "f16", "f8e4m3", "i16", "u8"])
@pytest.mark.parametrize(
    "text", [t for t in TAKEN if TAKEN[t] and "Z" not in t and "X[i] +" not in t and "exp(X" not in t]
)
def test_every_argument_gives_the_bits_of_the_definition(text: str, kind: str, interpreter: Interpreter) -> None:
    made = compiled(text, kind)
    X = forms.every(DTYPES[kind])
    (found,) = interpreter.run(made.source, "f", {"X": X})
    assert same_bits(found, np.asarray(made.kernel(X)))


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_so_does_every_argument_of_narrow_arithmetic(kind: str, interpreter: Interpreter) -> None:
    made = compiled("f32(1 + exp(X[i]))", kind)
    X = forms.every(DTYPES[kind])
    (found,) = interpreter.run(made.source, "f", {"X": X})
    assert same_bits(found, np.asarray(made.kernel(X)))


def test_what_is_tried_is_what_runs(interpreter: Interpreter) -> None:
    # The interpreter's reciprocal is one of the three, by the last bits of its argument.
    random = np.random.default_rng(1)
    a, b = ((random.standard_normal(4096) * 2.0 ** random.integers(-40, 40, 4096)).astype(np.float32) for _ in "ab")
    for name, function in quotients.QUOTIENTS.items():
        source = MODULE.format(runtime=runtime_text("triton", {name}), name=name)
        (found,) = interpreter.run(source, "run", {"A": a, "B": b})
        argument = b if name == "quotient" else b * quotients.SCALE
        tried = [function(a, b, number) for number in range(quotients.RECIPROCALS)]
        assert same_bits(found, np.choose(argument.view(np.uint32) % quotients.RECIPROCALS, tried))


def test_a_quotient_by_one_number_is_rounded_to_nearest(interpreter: Interpreter) -> None:
    random = np.random.default_rng(2)
    source = MODULE.format(runtime=runtime_text("triton", {"row_quotient"}), name="row_quotient")
    source = source.replace("tl.load(B + i)", "tl.load(B)")
    divisors = [1.0, 3.0, 6.0, 96.0, 1.5, 8191.25, 8192.0, 2.0**-24, 2.0**-25, 2.0**24, 3.0 * 2**23, 2.0**30, 0.0]
    divisors += [np.inf, np.nan, *random.uniform(0.5, 9000, 12)]
    for b in np.float32(divisors):
        # Numbers of all sizes; subnormal ones; those whose quotient is close to a tie of subnormal numbers, or is one.
        ties = (2 * np.arange(1024) + 1) * 2.0**-150 * float(b)
        a = np.concatenate(
            [
                np.exp2(random.uniform(-150, 0, 1024)).astype(np.float32),
                np.arange(1024, dtype=np.uint32).view(np.float32),
                np.minimum(np.nan_to_num(ties, nan=0, posinf=1), 1).astype(np.float32),
                random.integers(0, 0x3F800001, 1024).astype(np.uint32).view(np.float32),
            ]
        )
        a[:3] = 0, 1, np.nan
        (found,) = interpreter.run(source, "run", {"A": a, "B": np.full(1, b)})
        with np.errstate(all="ignore"):
            assert same_bits(found, a / b), b


def test_exponentials_below_the_greatest_of_a_row_are_shorter() -> None:
    text = """kernel f(X: f32[R, C]) -> (Y: f32[R, C]) where C >= 1, C <= 64 {
        m[r] = max(c) X[r, c]
        e[r, c] = exp(X[r, c] - GREATEST)
        s[r] = allow reassociate in sum(c) e[r, c]
        Y[r, c] = e[r, c] / s[r]
    }"""
    for greatest, shorter in (("m[r]", True), ("(m[r] - 1)", False)):
        (kernel,) = tw.parse(text.replace("GREATEST", greatest)).values()
        source = tw.compile(kernel, target="triton").source
        assert ("= exp_nonpositive_f32(" in source, " row_quotient(e, s)" in source) == (shorter, shorter)
        assert ("= exp_f32(" in source, "tl.div_rn(e, s)" in source) == (not shorter, not shorter)
