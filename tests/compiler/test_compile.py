"""compile: what a target cannot say is refused, and its legal neighbour is compiled."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw

GATHER = "kernel f(U: f32[M], L: i32[N], a: f32) -> (Z: f32) {{ Z = {value} }}"
BY_CHANCE = [
    "1 if a > 0 else (sum(n) U[L[n]])",
    "(sum(n) U[L[n]]) if a < 0 else 1",
    "(1 if a > 0 else 2) if a > 0 or (any(n) (U[L[n]] > 0)) else 3",
]
SURE = [
    "sum(n) (U[L[n]] if a < 0 else 1)",
    "1 if a > 0 else (sum(n) (U[L[n]] else 0))",
    "(sum(n) U[L[n]]) if 0 < 1 else 1",
    "1 if (sum(n) U[L[n]]) > a else 2",
]


def gather(value: str) -> tw.Kernel:
    return tw.parse(GATHER.format(value=value))["f"]


@pytest.mark.parametrize("value", BY_CHANCE)
def test_a_gather_that_data_switches_off_is_refused_loop_by_loop(value: str) -> None:
    kernel = gather(value)
    with pytest.raises(tw.IllegalTransformError, match="a gather of U") as caught:
        tw.compile(kernel, tw.Schedule(kernel))
    assert caught.value.refusal.rule == "target"
    outside = (np.ones(2, np.float32), np.array([0, 7], np.int32), 1.0)
    np.testing.assert_array_equal(tw.compile(kernel)(*outside), kernel(*outside))


@pytest.mark.parametrize("value", SURE)
def test_a_gather_that_always_counts_is_compiled(value: str) -> None:
    kernel = gather(value)
    arguments = (np.array([2, 3], np.float32), np.array([1, 0, 1], np.int32), -1.0)
    np.testing.assert_array_equal(tw.compile(kernel, tw.Schedule(kernel))(*arguments), kernel(*arguments))
