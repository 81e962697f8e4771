"""What an expression cannot be: where it is seen, and where nothing may be said."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from tilewright.compiler.ir.expr import Call, postorder
from tilewright.compiler.ir.quasiaffine import Affine
from tilewright.passes.ranges import Ranges

if TYPE_CHECKING:
    from tilewright.compiler.ir.program import Program

SOFTMAX = """kernel f(X: f32[R, C], Z: f32[R, C], I: i32[R]) -> (Y: f32[R, C]) where R >= 1, C >= 1 {
    m[r] = max(c) f32(X[r, c])
    Y[r, c] = VALUE
}"""

BELOW = {
    "exp(X[r, c] - m[r])": True,
    "exp2(X[r, c] - m[r])": True,
    "exp(f32(X[r, c]) - m[r])": True,
    # Of another row, of another tensor, of something greater, or the other way round.
    "exp(X[r, c] - m[0])": False,
    "exp(X[0, c] - m[r])": False,
    "exp(Z[r, c] - m[r])": False,
    "exp(X[r, c] * 2 - m[r])": False,
    "exp(m[r] - X[r, c])": False,
    "exp(X[r, c] + m[r])": False,
    # Which row it is data say.
    "exp(X[r, c] - m[clamp(i64(I[r]), 0, R - 1)])": False,
    # Beyond the edge there is a number that has no part in the maximum.
    "exp((X[r, c + 1] else 0) - m[r])": False,
    "exp(X[r, C - 1 - c] - m[r])": True,
}

DIVIDED = {"0.0": True, "-0.0": False, "1.0": False}

MAXIMA = {
    "max(c) X[r, c]": True,
    "max(c in 0..C) X[r, C - 1 - c]": False,  # the same numbers, but it would take an inverse to see it
    "max(c) (X[r, c] + 0)": False,
    "max(c in 0..C - 1) X[r, c]": False,  # without the last one
    "min(c) X[r, c]": False,
    "sum(c) X[r, c]": False,
    "max(c) (X[r, c] + 1)": False,
    "max(c) max(X[r, c], Z[r, c])": False,
    "max(c) exp(X[r, c])": False,
    "bf16(max(c) X[r, c])": False,
    "max(c in 0..C) (X[r, c] if c > 2 else 0)": False,
}

WITHIN = {
    "exp(X[r, c] - m[r])": True,
    "bf16(exp(X[r, c] - m[r]))": True,
    "exp(X[r, c] - m[r]) if c <= r else 0": True,
    "exp(X[r, c] - m[r]) * exp(Z[r, c] - n[r])": True,
    "exp(X[r, c] - m[r]) if c <= r else 2": False,
    "exp(X[r, c] - m[r]) if c <= r else -0.0": False,
    "exp(X[r, c] - m[r]) - exp(Z[r, c] - n[r])": False,
    "exp(X[r, c])": False,
    "X[r, c]": False,
}


def parsed(text: str) -> Program:
    return tw.parse(text).popitem()[1].program


def calls(program: Program) -> list[Call]:
    return [n for s in program.statements_of("Y") for n in postorder(s.value) if isinstance(n, Call)]


@pytest.mark.parametrize("value", BELOW)
def test_what_is_taken_off_the_greatest_of_its_row_is_not_above_0(value: str) -> None:
    program = parsed(SOFTMAX.replace("VALUE", value))
    (call,) = (n for n in calls(program) if n.function.startswith("exp"))
    assert Ranges(program).nonpositive(call.arguments[0]) == BELOW[value]


@pytest.mark.parametrize("value", MAXIMA)
def test_the_greatest_has_to_be_of_all_of_them(value: str) -> None:
    text = SOFTMAX.replace("max(c) f32(X[r, c])", value).replace("VALUE", "exp(X[r, c] - f32(m[r]))")
    program = parsed(text)
    assert Ranges(program).nonpositive(calls(program)[0].arguments[0]) == MAXIMA[value]


@pytest.mark.parametrize("value", WITHIN)
def test_what_is_between_0_and_1(value: str) -> None:
    text = SOFTMAX.replace("m[r] =", "n[r] = max(c) Z[r, c]\n    m[r] =").replace("f32(X[r, c])", "X[r, c]")
    program = parsed(
        text.replace("Y[r, c] = VALUE", f"e[r in 0..R, c in 0..C] = {value}\n    Y[r, c] = f32(e[r, c]) / 3")
    )
    (read,) = (n for s in program.statements_of("Y") for n in postorder(s.value) if str(getattr(n, "op", "")) == "/")
    assert Ranges(program).within_one(read.left) == WITHIN[value]  # type: ignore[union-attr]


def test_what_two_statements_compute_has_to_hold_in_both() -> None:
    text = SOFTMAX.replace("m[r] = max(c) f32(X[r, c])", "m[r] = max(c) X[r, c]")
    (kernel,) = tw.parse(
        text.replace("Y[r, c] = VALUE", "e[r, c] = exp(X[r, c] - m[r])\n    Y[r, c] = e[r, c] * Z[r, c]")
    ).values()
    schedule = tw.Schedule(kernel)
    schedule.inline("e")
    assert Ranges(schedule.state.program).nonpositive(calls(schedule.state.program)[0].arguments[0])
    # The same nodes, which now stand in a statement beside that runs where there is no maximum of its row.
    program = schedule.state.program
    wide = next(s for s in program.statements if s.stage == "Y")
    for place, size in enumerate("RC"):
        ranges = list(wide.ranges)
        ranges[place] = replace(ranges[place], upper=(Affine.name(size) + 1,))
        beyond = replace(wide, name="beyond", ranges=tuple(ranges))
        found = Ranges(replace(program, statements=(*program.statements, beyond)))
        assert not found.nonpositive(calls(program)[0].arguments[0])


def test_it_is_seen_through_copies_and_after_inlining() -> None:
    (kernel,) = tw.parse(
        """kernel f(X: f32[R, C]) -> (Y: f32[R, C]) where C >= 1, C <= 64 {
            m[r] = max(c) X[r, c]
            e[r, c] = exp(X[r, c] - m[r])
            Y[r, c] = e[r, c] / 3
        }"""
    ).values()
    schedule = tw.Schedule(kernel)
    schedule.inline("e")
    schedule.cache_read("X", "Y.r")
    program = schedule.state.program
    assert any(s.copies for s in program.stages)
    (call,) = calls(program)
    assert Ranges(program).nonpositive(call.arguments[0])


def test_a_recurrence_is_not_followed_for_ever() -> None:
    program = parsed("kernel f(N: size) -> (Y: f32[N]) where N >= 1 { Y[0] = 1\n Y[i in 1..N] = Y[i - 1] * Y[i - 1] }")
    assert not Ranges(program).within_one(program.stages[-1].value)


@pytest.mark.parametrize("divisor", DIVIDED)
def test_zeros_of_two_signs_are_two_numbers(divisor: str) -> None:
    text = SOFTMAX.replace("max(c) f32(X[r, c])", "max(c) (X[r, c] / 0.0)").replace(
        "VALUE", f"exp(X[r, c] / {divisor} - m[r])"
    )
    program = parsed(text)
    assert Ranges(program).nonpositive(calls(program)[0].arguments[0]) == DIVIDED[divisor]
