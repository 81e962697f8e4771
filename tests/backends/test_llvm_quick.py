"""Quick calls: they come to what slow calls come to, whatever is given, and hold on to nothing."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.llvm import pool, quick
from tilewright.compiler.arguments import ArgumentError

MUL = "kernel mul(G: f32[N], U: f32[N]) -> (Y: f32[N]) { Y[i] = G[i] * U[i] }"


def made(text: str) -> tw.CompiledKernel:
    (kernel,) = tw.parse(text).values()
    return tw.compile(kernel)


def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A mark for each slow call that went well."""
    calls: list[int] = []
    learned = quick.Quick.learn

    def learn(self: quick.Quick, *args: Any) -> None:
        calls.append(1)
        learned(self, *args)

    monkeypatch.setattr(quick.Quick, "learn", learn)
    return calls


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(3).random(shape) * 8 - 4).astype(dtype)


def test_objects_lie_where_quick_calls_look() -> None:
    assert quick.usable()


def test_a_call_like_one_before_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    mul = made(MUL)
    calls = slow_calls(monkeypatch)
    for size in (5, 64, 5, 64, 70_000, 70_000, 0, 0):
        a, b = numbers(size), numbers(size) + 1
        out = np.empty(size, np.float32)
        assert np.array_equal(mul(a, b), a * b)
        assert mul(a, b, out=out) is out
        assert np.array_equal(out, a * b)
        assert np.array_equal(mul.function(a, U=b), a * b)
    # One of each shape; those with keywords are not remembered.
    assert len(calls) == 4


@pytest.mark.parametrize("given", [False, True], ids=["made", "given"])
def test_what_is_not_like_one_before_is_checked(given: bool) -> None:
    mul = made(MUL)
    a, b, out = numbers(8), numbers(8), np.empty(8, np.float32)
    more = {"out": out} if given else {}
    assert np.array_equal(mul(a, b, **more), a * b)
    assert np.array_equal(mul(a, b, **more), a * b)
    wide = numbers(16)[::2]
    assert np.array_equal(mul(wide, b, **more), wide * b)
    assert np.array_equal(mul(a.view(np.ma.MaskedArray).filled(0), b, **more), a * b)

    class Own(np.ndarray[Any, Any]):
        pass

    assert np.array_equal(mul(a.view(Own), b, **more), a * b)
    for wrong in (a.astype(np.float64), a[:4], a.reshape(2, 4), [1.0] * 8, 3, None, a.astype(">f4")):
        with pytest.raises(ArgumentError):
            mul(wrong, b, **more)
    for arguments in ((a,), (a, b, a)):
        with pytest.raises(ArgumentError):
            mul(*arguments, **more)
    with pytest.raises(ArgumentError, match="no argument 'V'"):
        mul(a, b, V=a, **more)


def test_outputs_are_checked() -> None:
    mul = made(MUL)
    a, b = numbers(8), numbers(8)
    both = np.zeros(24, np.float32)
    for _ in range(2):
        assert np.array_equal(mul(a, b, out=both[8:16]), a * b)
        assert not both[:8].any()
        assert not both[16:].any()
    fixed = np.empty(8, np.float32)
    fixed.flags.writeable = False
    x = np.concatenate([a, b])
    for bad in (fixed, np.empty(8), np.empty(9, np.float32), x[4:12], x[:8], 3):
        with pytest.raises(ArgumentError):
            mul(x[:8], b, out=bad)
    assert np.array_equal(mul(x[:8], b, out=x[8:]), a * b)
    strided = np.zeros(16, np.float32)
    assert np.array_equal(mul(a, b, out=strided[::2]), a * b)
    assert np.array_equal(mul(a, b, out={"Y": both[:8]}), a * b)


def test_slow_calls_of_one_kind_are_remembered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "MOST", 2)
    mul = made(MUL)
    a, b = numbers(8), numbers(8)
    for _ in range(5):
        assert np.array_equal(mul(a, b, out=np.zeros(16, np.float32)[::2]), a * b)
    calls = slow_calls(monkeypatch)
    for size in (4, 4, 4, 5, 5):
        mul(numbers(size), numbers(size))
    # There is room for the second shape, and for no third.
    assert len(calls) == 3


def test_scalars_of_all_kinds() -> None:
    scaled = made(
        "kernel scaled(X: f32[N], s: f32, d: f64, n: i32) -> (Y: f64[N]) { Y[i] = f64(X[i] * s) * d + f64(n) }"
    )
    x = numbers(6)
    for s, d, n in ((0.1, 0.1, 3), (1e300, -0.0, -(2**31)), (float("nan"), 1.0, 2**31 - 1), (2, 3, 4)):
        with np.errstate(over="ignore", invalid="ignore"):
            want = (x * np.float32(s)).astype(np.float64) * float(d) + n
        for _ in range(3):
            assert np.array_equal(scaled(x, s, d, n), want, equal_nan=True)
    for bad in (2**31, 2**80, True, 1.0):
        with pytest.raises(ArgumentError):
            scaled(x, 0.5, 0.5, bad)
    with pytest.raises(ArgumentError):
        scaled(x, "1", 0.5, 1)


def test_promises_of_scalars_are_asked_again() -> None:
    shifted = made("kernel shifted(X: f32[N], s: f32) -> (Y: f32[N]) where s > 0 { Y[i] = X[i] * s }")
    x = numbers(4)
    assert np.array_equal(shifted(x, 0.5), x * np.float32(0.5))
    with pytest.raises(ArgumentError, match="where s > 0"):
        shifted(x, -0.5)


def test_several_outputs_and_narrow_types() -> None:
    both = made(
        """kernel both(X: bf16[M, N], Z: i64[N]) -> (Y: bf16[M, N], S: i64[N]) {
            Y[i, j] = bf16(-f32(X[i, j]))
            S[j] = Z[j] + Z[j]
        }"""
    )
    x, z = numbers(3, 40, dtype=ml_dtypes.bfloat16), np.arange(40)
    for _ in range(3):
        y, s = both(x, z)
        assert np.array_equal(y.view(np.uint16), (-x).view(np.uint16))
        assert np.array_equal(s, 2 * z)
    outs = np.empty_like(x), np.empty_like(z)
    assert both(x, z, out=outs)[0] is outs[0]
    assert np.array_equal(outs[1], 2 * z)


def test_a_place_outside_is_said_by_the_definition() -> None:
    taken = made("kernel taken(X: f32[N], I: i64[M]) -> (Y: f32[M]) { Y[i] = X[I[i]] }")
    x, places, out = numbers(5), np.array([4, 0, 2]), np.zeros(3, np.float32)
    for _ in range(2):
        assert np.array_equal(taken(x, places), x[places])
        assert np.array_equal(taken(x, places, out=out), x[places])
    out[:] = 7
    for more in ({}, {"out": out}):
        with pytest.raises(tw.TilewrightError, match="5"):
            taken(x, np.array([4, 5, 2]), **more)
    assert (out == 7).all()


def test_nothing_is_held() -> None:
    mul = made(MUL)
    a, b, out = numbers(8), numbers(8), np.empty(8, np.float32)
    mul(a, b)
    before = [sys.getrefcount(one) for one in (a, b, out, None)]
    for _ in range(1000):
        mul(a, b, out=out)
        mul.function(a, b, out=out)
        mul(a, b)
    after = [sys.getrefcount(one) for one in (a, b, out, None)]
    assert after[:3] == before[:3]
    assert abs(after[3] - before[3]) < 100
    gone = weakref.ref(mul)
    function = mul.function
    del mul
    gc.collect()
    # The function alone keeps what it runs.
    assert np.array_equal(function(a, b), a * b)
    del function
    gc.collect()
    assert gone() is None


def test_private_tensors_of_a_schedule_are_made_for_each_call() -> None:
    (kernel,) = tw.parse("kernel c(n: size) -> (s: i64) { s = sum(k in 0..n) k }").values()
    schedule = tw.Schedule(kernel)
    outer, _ = schedule.split("s.k", 7)
    schedule.rfactor(outer)
    schedule.parallel(outer)
    made_ = tw.compile(kernel, schedule)
    (kernel,) = tw.parse("kernel d(X: i64[N]) -> (s: i64) { s = sum(k) X[k] }").values()
    schedule = tw.Schedule(kernel)
    outer, _ = schedule.split("s.k", 7)
    schedule.rfactor(outer)
    schedule.parallel(outer)
    other = tw.compile(kernel, schedule)
    for n in (0, 20, 20, 5000, 5000):
        assert made_(n=n) == n * (n - 1) // 2
        assert other(np.arange(n)) == n * (n - 1) // 2


def test_numbers_of_threads_and_threads_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_wanted", [])
    summed = made("kernel summed(X: f32[M, N]) -> (Y: f32[M]) { Y[i] = sum(j) X[i, j] }")
    x = numbers(400, 700)
    want = summed(x)
    found: list[np.ndarray[Any, Any]] = []

    def calls() -> None:
        found.extend(summed(x) for _ in range(20))

    for count in (1, 2, 1):
        tw.set_threads(count)
        several = [threading.Thread(target=calls) for _ in range(3)]
        for one in several:
            one.start()
        for one in several:
            one.join()
    pool.cell[0] = -1
    assert len(found) == 180
    assert all(np.array_equal(one, want) for one in found)


def test_where_objects_lie_otherwise_all_calls_are_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick, "usable", lambda: False)
    mul = made(MUL)
    a, b = numbers(8), numbers(8)
    assert np.array_equal(mul(a, b), a * b)
    assert np.array_equal(mul.function(a, b, out=np.empty(8, np.float32)), a * b)
