"""Schedules at which machine code went wrong once: lanes, registers, empty ranges, names, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.llvm import pool
from tilewright.backends.llvm.target import UnknownProcessorError, host
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

Steps = tuple[tuple[object, ...], ...]
CASES: dict[str, tuple[str, Steps, tuple[dict[str, int], ...]]] = {
    "a reversed vector loop": (
        "kernel f(X: i32[N]) -> (Y: i32[N]) { Y[i] = X[i] }",
        (("reverse", "Y.i"), ("vectorize", "Y.i")),
        ({"N": 40}, {"N": 3}),
    ),
    "registers that overlap": (
        "kernel f(X: f32[M, 33]) -> (Y: f32[M, 32]) { T[i, j] = X[i, j] * 2\n Y[i, j] = T[i, j] + T[i, j + 1] }",
        (("compute_at", "T", "Y.i"), ("vectorize", "T.j"), ("unroll", "T.i"), ("vectorize", "Y.j")),
        ({"M": 3},),
    ),
    "registers under a mask": (
        """kernel f(A: i32[M, K], W: i32[K, 16]) -> (Y: i32[M, 16]) where K >= 16 {
            C[i, j in 0..16] = max(k in j..K) A[i, k]
            Y[i, j] = C[i, j] + W[0, j]
        }""",
        (
            ("compute_at", "C", "Y.i"), ("reorder", "C.k", "C.j"), ("vectorize", "C.j_a"), ("vectorize", "C.j"),
            ("vectorize", "C.j_b"), ("unroll", "C.i"), ("vectorize", "Y.j"),
        ),
        ({"M": 3, "K": 21},),
    ),
    "a mask with a lower end": (
        """kernel f(A: i32[M, K], W: i32[K, 16]) -> (Y: i32[M, 16]) where K >= 16 {
            C[i, j in 0..16] = max(k in 15 - j..K) A[i, k]
            Y[i, j] = C[i, j] + W[0, j]
        }""",
        (
            ("compute_at", "C", "Y.i"), ("reorder", "C.k", "C.j"), ("vectorize", "C.j_a"), ("vectorize", "C.j"),
            ("vectorize", "C.j_b"), ("unroll", "C.i"), ("vectorize", "Y.j"),
        ),
        ({"M": 3, "K": 21},),
    ),
    "an empty mask": (
        """kernel f(X: f32[N], A: f32[M, 3]) -> (Y: f32[M, N]) where N <= 3, N <= M {
            T[i, r in 0..N] = A[i, r] * 2
            Y[i, j] = X[N - 1] * T[i, j]
        }""",
        (("compute_at", "T", "Y.i"), ("unroll", "T.i"), ("vectorize", "T.r"), ("vectorize", "Y.j")),
        ({"N": 0, "M": 5}, {"N": 3, "M": 5}),
    ),
    "a sum of nothing": (
        "kernel f(X: i32[N], Z: i32[M]) -> (A: i32[M], B: i32[N]) { A[i] = Z[i] * 2\n B[i] = sum(k in i..N) X[k] }",
        (("merge", "A.i", "B.i"),),
        ({"N": 3, "M": 1_000_000}, {"N": 70, "M": 5}),
    ),
    "sizes named as counts": (
        "kernel f(X: f32[count1, count0]) -> (Y: f32[count1, count0]) { Y[i, j] = X[i, j] + 1 }",
        (("cache_read", "X", "Y.i", "(a, b) -> (b, a)"),),
        ({"count0": 5, "count1": 9},),
    ),
    "a shape below nothing": (
        "kernel f(X: f32[N], ids: i64[Q]) -> (Z: f32[Q]) { Y[i in 0..N - 3] = X[i]\n Z[q] = Y[ids[q]] else 7 }",
        (),
        ({"N": 2, "Q": 4}, {"N": 9, "Q": 4}),
    ),
    "lanes in registers": (
        "kernel f(X: f32[M, 8]) -> (Y: f32[M]) { Y[i] = sum(j, lanes=4) X[i, j] }",
        (("store", "Y.lanes", "Y.i"), ("unroll", "Y.lane"), ("unroll", "Y.j")),
        ({"M": 3},),
    ),
    "a sum over a moving range": (
        "kernel f(X: f64[M, N]) -> (Y: f64[M]) where N >= M { Y[i] = min(k in i..N) X[i, k] }",
        (("split", "Y.k", 16), ("unroll", "Y.ko"), ("vectorize", "Y.ki")),
        ({"M": 5, "N": 70},),
    ),
}  # fmt: skip
CASES |= {
    f"the name {name}": (f"kernel f({name}: f32[N]) -> (Y: f32[N]) {{ Y[i] = {name}[i] }}", (), ({"N": 5},))
    for name in ("frame", "found", "at0", "failed1", "t5")
}


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_the_definition(name: str) -> None:
    text, steps, sizes = CASES[name]
    (kernel,) = tw.parse(text).values()
    schedule = tw.Schedule(kernel)
    for step, *arguments in steps:
        getattr(schedule, str(step))(*arguments)
    made = tw.compile(kernel, schedule)
    for at in sizes:
        arguments = random_inputs(kernel.program, at, 1)
        want, got = kernel(**arguments), made(**arguments)
        pairs = zip(want, got, strict=True) if isinstance(want, tuple) else [(want, got)]
        assert all(same_bits(np.asarray(w), np.asarray(g)) for w, g in pairs)


@pytest.mark.parametrize("name", ["body", "release", "take", "malloc"])
def test_tables_may_have_any_name(name: str) -> None:
    (kernel,) = tw.parse(
        f"const {name}: f32[4] = [1, 2, 3, 4]\nkernel f(X: f32[4]) -> (Y: f32[4]) {{ Y[i] = X[i] * {name}[i] }}"
    ).values()
    X = np.arange(4, dtype=np.float32)
    assert same_bits(np.asarray(kernel(X)), np.asarray(tw.compile(kernel)(X)))


def test_nothing_is_written_where_data_are_refused() -> None:
    (kernel,) = tw.parse("kernel g(E: f32[V], ids: i32[N]) -> (Y: f32[N]) { Y[i] = E[ids[i]] }").values()
    out = np.full(5, -1, np.float32)
    with pytest.raises(tw.ArgumentError, match="outside"):
        tw.compile(kernel)(np.ones(3, np.float32), np.array([0, 1, 2, 9, 0], np.int32), out=out)
    assert (out == -1).all()


def test_no_memory_is_said() -> None:
    text = """kernel f(X: f32[N]) -> (Y: f32[B]) {
        T[b in 0..B, i in 0..N, j in 0..N] = X[i] * X[j]
        Y[b] = sum(i in 0..N, j in 0..N) T[b, i, j]
    }"""
    (kernel,) = tw.parse(text).values()
    for marks in ((), ("parallel",)):
        schedule = tw.Schedule(kernel)
        schedule.compute_at("T", "Y.b")
        for mark in marks:
            getattr(schedule, mark)("Y.b")
        with pytest.raises(MemoryError, match="a buffer of its own"):
            tw.compile(kernel, schedule)(np.ones(1 << 25, np.float32), B=1)


def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CPU", "nonsense")
    host.cache_clear()
    with pytest.raises(UnknownProcessorError, match="'nonsense'; there are"):
        host()
    monkeypatch.delenv("TILEWRIGHT_CPU")
    host.cache_clear()
    monkeypatch.setattr(pool, "_wanted", [])
    for text in ("\u00b2", "abc", "0", "-3", "1025"):
        monkeypatch.setenv("TILEWRIGHT_THREADS", text)
        with pytest.raises(pool.ThreadsError, match="a number from 1 to 1024"):
            pool.threads()
    monkeypatch.setenv("TILEWRIGHT_THREADS", "3")
    assert pool.threads() == 3


@pytest.mark.parametrize("count", [2.5, "3", None])
def test_threads_are_whole(count: Any) -> None:
    with pytest.raises(ValueError, match="from 1 to 1024"):
        tw.set_threads(count)
