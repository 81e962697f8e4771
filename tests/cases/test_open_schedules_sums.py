"""Sums in parts, of programs that other compilers got wrong (OPEN-13, 25)."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import f32, hex_bits, kernel_of
from .scheduling import compiled, denied, i32, kept

THIRDS = "kernel a() -> (c: i64) {\n    c = 2 + (sum(i in 0..100) (1 if i % 3 == 0 else 0))\n}\n"
TWO = "kernel b(n: size) -> (c: i64) {\n    c = sum(i in 0..n) (1 + (1 if i > 10 else 0))\n}\n"
CELL = """
kernel c() -> (Y: i64[4]) {
    Y[s] = sum(i in 0..20, j in 0..20) (i * 20 + j if i != j and s == 1 else 0)
}
"""


def test_open_13_a_start_value_counts_once() -> None:
    tiles = (("split", "c.i", 7), ("reorder", "c.ii", "c.io"))
    for steps in ((), (("vectorize", "c.i"),), tiles, (("reverse", "c.i"),)):
        assert kept(THIRDS, *steps).tolist() == 36
        assert [kept(TWO, *steps, n=n).tolist() for n in (10, 14, 0)] == [10, 17, 0]


def test_open_13_workers_with_a_counter_each() -> None:
    for text, arguments, want in ((THIRDS, {}, 36), (TWO, {"n": 14}, 17), (TWO, {"n": 0}, 0)):
        for width in (34, 13, 100):
            steps = (("split", "c.i", width), ("rfactor", "c.io"), ("parallel", "c.io"))
            assert kept(text, *steps, **arguments).tolist() == want


def test_open_13_one_cell_for_many() -> None:
    for steps in ((("parallel", "Y.s"),), (("reorder", "Y.j", "Y.i"),), (("vectorize", "Y.j"), ("parallel", "Y.s"))):
        assert kept(CELL, *steps).tolist() == [0, 75810, 0, 0]
    assert "Y.acc" in denied("race", CELL, ("parallel", "Y.i")).refusal.message


@pytest.mark.parametrize("text", [THIRDS, TWO])
def test_open_13_workers_do_not_share_a_counter(text: str) -> None:
    refusal = denied("race", text, ("parallel", "c.i")).refusal
    assert refusal.instances is not None
    assert "run at once" in refusal.instances


def test_open_13_a_float_sum_is_not_added_at_once() -> None:
    text = "kernel f(X: f32[N]) -> (s: f32) {\n    s = sum(k) X[k]\n}\n"
    denied("rounding", text, ("parallel", "s.k"))
    denied("rounding", text, ("vectorize", "s.k"))
    lanes = text.replace("sum(k)", "sum(k, lanes=4)")
    X = f32([1e8, 1, -1e8, 1, 3, 0.1, 7, 2, 5])
    kept(lanes, ("split", "s.k", 4), ("vectorize", "s.ki"), X=X)
    denied("rounding", lanes, ("split", "s.k", 8), ("vectorize", "s.ki"))


DOT = """
kernel dot(a: f32[K], b: f32[K]) -> (c: f32) {
    c = sum(k) a[k] * b[k]
}
"""
NARROW = """
kernel dot(a: f16[K], b: f16[K]) -> (c: f16) {
    c = f16(sum(k) f32(a[k]) * f32(b[k]))
}
"""
WHOLE = "kernel dot(a: i32[K], b: i32[K]) -> (c: i32) {\n    c = sum(k) a[k] * b[k]\n}\n"
LARGE = f32([1e8, 1, -1e8, 1])


def test_open_25_halves_in_turn_are_the_sequence() -> None:
    assert kept(DOT, ("split", "c.k", 2), a=LARGE, b=np.ones(4, np.float32)).tolist() == 1.0
    a = np.array([2048, 1, 1, 0], np.float16)
    assert kept(NARROW, ("split", "c.k", 2), a=a, b=np.ones(4, np.float16)).tolist() == 2050


@pytest.mark.parametrize("text", [DOT, NARROW], ids=["f32", "f16"])
def test_open_25_another_order_of_rounded_additions_is_refused(text: str) -> None:
    halves = ("split", "c.k", 2)
    denied("rounding", text, ("reverse", "c.k"))
    denied("rounding", text, halves, ("parallel", "c.ko"))
    assert denied("rounding", text, halves, ("reorder", "c.ki", "c.ko")).refusal.remedy is not None


@pytest.mark.parametrize("text", [DOT, NARROW], ids=["f32", "f16"])
def test_open_25_partial_sums_are_refused_where_no_order_is_granted(text: str) -> None:
    assert denied("rounding", text, ("split", "c.k", 2), ("rfactor", "c.ko")).refusal.remedy is not None


def granted(text: str) -> str:
    """The kernel with leave to add in another order."""
    return text.replace("{\n", "{\n    allow reassociate\n", 1)


def test_open_25_partial_sums_where_they_are_granted() -> None:
    halves = (("split", "c.k", 2), ("rfactor", "c.ko"), ("parallel", "c.ko"))
    wide, narrow = compiled(granted(DOT), *halves), compiled(granted(NARROW), *halves)
    ones, out = np.ones(4, np.float32), np.full((), 7, np.float32)
    for _ in range(100):
        # (1e8 + 1) + (-1e8 + 1), in this order always, and not added to what stood there.
        assert wide(a=LARGE, b=ones, out=out).tolist() == 0.0
    # The partial sums keep the type of the sum: in f16 they would give 2048.
    assert narrow(a=np.array([2048, 1, 1, 0], np.float16), b=np.ones(4, np.float16)).tolist() == 2050
    a, b = i32([2**31 - 1, 5, -7, 11, 2]), i32([3, 1, 4, 1, 5])
    assert hex_bits(np.asarray(compiled(WHOLE, *halves)(a=a, b=b))) == hex_bits(np.asarray(kernel_of(WHOLE)(a=a, b=b)))


def test_open_25_an_order_that_is_granted_is_one_order() -> None:
    text = granted(DOT)
    odd = compiled(text, ("split", "c.k", 2), ("reorder", "c.ki", "c.ko"))
    found = {hex_bits(np.asarray(odd(a=LARGE, b=np.ones(4, np.float32))))[0] for _ in range(100)}
    assert found == set(hex_bits(f32([(1e8 - 1e8) + 1 + 1])))
    denied("race", text, ("split", "c.k", 2), ("parallel", "c.ko"))


def test_open_25_an_output_is_written_not_added_to() -> None:
    twice, out = compiled(DOT, ("split", "c.k", 2)), np.full((), 7, np.float32)
    for _ in range(2):
        twice(a=f32([1, 2, 3]), b=f32([1, 1, 1]), out=out)
        assert out.tolist() == 6


def test_open_25_twin_whole_numbers_in_any_order() -> None:
    a, b = i32([2**31 - 1, 5, -7, 11, 2]), i32([3, 1, 4, 1, 5])
    halves = ("split", "c.k", 2)
    for steps in ((("reverse", "c.k"),), (halves, ("reorder", "c.ki", "c.ko")), (halves, ("vectorize", "c.ki"))):
        kept(WHOLE, *steps, a=a, b=b)
