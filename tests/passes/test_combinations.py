"""Steps that meet: what each allows alone, they allow together; and any wrong request is refused, never a traceback."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.interpret import interpret

LEGAL = {
    "written in, then fused": (
        "kernel k(A: f32[N], B: f32[N], C: f32[N]) -> (Y: f32[N]) {"
        " allow contract\n T[i] = A[i] * B[i]\n Y[i] = T[i] + C[i] }",
        (("inline", "T"), ("contract", "Y")), {"contract"},
    ),
    "two in a chain kept wider": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) {"
        " allow elide\n T[i] = f16(X[i] / 7)\n U[i] = bf16(T[i])\n Y[i] = f32(U[i]) * 3 }",
        (("widen", "T", "f32"), ("widen", "U", "f32")), {"elide"},
    ),
    "two in a chain kept wider, the later first": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) {"
        " allow elide\n T[i] = f16(X[i] / 7)\n U[i] = bf16(T[i])\n Y[i] = f32(U[i]) * 3 }",
        (("widen", "U", "f32"), ("widen", "T", "f32")), {"elide"},
    ),
    "kept wider, written in, fused": (
        "kernel k(A: f32[N], B: f32[N], C: f32[N]) -> (Y: f32[N]) {"
        " allow elide, contract\n T[i] = f16(A[i] * B[i])\n Y[i] = f32(T[i]) + C[i] }",
        (("widen", "T", "f32"), ("inline", "T"), ("contract", "Y")), {"elide", "contract"},
    ),
    "a cast to its own type kept wider": (
        "kernel k(X: f32[N, M]) -> (Y: f32[N]) { U[i] = f32(sum(j) X[i, j])\n Y[i] = U[i] * 2 }",
        (("widen", "U", "f64"),), set(),
    ),
    "written in where a permission is granted and not used": (
        "kernel k(X: f32[N]) -> (Y: f16[N]) { allow elide\n T[i] = f16(X[i] / 7)\n Y[i] = T[i] * T[i] }",
        (("inline", "T"),), set(),
    ),
    "a pipeline whose iterations all load the same": (
        "kernel k(A: f32[M, K], W: f32[K, N]) -> (Y: f32[M, N]) { Y[i, j] = sum(k) A[i, k] * W[k, j] }",
        (("cache_read", "W", "Y.i"), ("pipeline", "Y.i", 2)), set(),
    ),
    "a pipeline that loads from both ends": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[N - 1 - i] + X[i] }",
        (("split", "Y.i", 4), ("cache_read", "X", "Y.io"), ("pipeline", "Y.io", 2)), set(),
    ),
    "a pipeline whose loads overlap": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) { Y[i] = (X[i - 3] else 0) + X[i] }",
        (("split", "Y.i", 2), ("cache_read", "X", "Y.io"), ("pipeline", "Y.io", 3)), set(),
    ),
    "the first of equals where it is read": (
        "kernel k(X: f32[R, C]) -> (V: f32[R]) where C >= 1 { I[r] = argmax(c) X[r, c]\n V[r] = f32(I[r]) * 2 }",
        (("split", "V.r", 2), ("compute_at", "I", "V.ro")), set(),
    ),
    "a copy beside what it copies": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] * 2\n Y[i] = T[i] + (T[i - 1] else 0) }",
        (("split", "Y.i", 4), ("compute_at", "T", "Y.io"), ("cache_read", "T", "Y.io")), set(),
    ),
    "a copy of a copy at one loop": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] + (X[i - 1] else 0) }",
        (("split", "Y.i", 4), ("cache_read", "X", "Y.io"), ("cache_read", "X_cache", "Y.io")), set(),
    ),
    "one buffer for all, filled before its mark": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) where N >= 1 {"
        " T[i in 0..N // 2] = X[i] + 1\n T[i in N // 2..N] = X[i] * 2\n Y[i] = T[N - 1 - i] + T[i] }",
        (("store", "T", None, "", "(i) -> (i // 2, i % 2)"), ("specialise", "N <= 3"), ("compute_root", "T#1")), set(),
    ),
    "what lies beyond a private tensor": (
        "kernel k(A: f32[M, N]) -> (Y: f32[N], Z: f32) where N >= 1, M >= 1 {"
        " T[i in 0..M, j in 0..N] = A[i, j] * 2\n"
        " Y[i in 0..N] = (T[i + 1, 2 * i] else 3)\n Z = (T[0 - 1, 0] else -0.5) }",
        (("compute_at", "T", "Y.i"), ("store", "T", None, "", "(i, j) -> (j, i)")), set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_accepted_step_by_step_is_accepted_whole(name: str) -> None:
    text, steps, permissions = LEGAL[name]
    (kernel,) = tw.parse(text).values()
    schedule = tw.Schedule(kernel)
    for step, *arguments in steps:
        getattr(schedule, str(step))(*arguments)
    compiled = tw.compile(kernel, schedule)
    assert compiled.permissions == permissions
    state = schedule.state
    for n in (1, 2, 5, 9):
        sizes = dict.fromkeys(kernel.program.sizes, n)
        inputs = random_inputs(kernel.program, sizes, n)
        want, got = (f(**inputs) for f in (kernel, compiled))
        pairs = list(zip(want, got, strict=True)) if isinstance(want, tuple) else [(want, got)]
        ran = interpret(state.program, inputs, sizes, {}, state.tree)
        for name_, (_, g) in zip(kernel.program.outputs, pairs, strict=True):
            assert same_bits(np.asarray(g), ran[name_])
        if not permissions:
            assert all(same_bits(np.asarray(w), np.asarray(g)) for w, g in pairs)


def test_a_permission_of_a_reader_is_not_lent_to_what_is_written_in() -> None:
    text = "kernel k(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] * X[i] + 1\n Y[i] = allow contract in (T[i] * 2 + 1) }"
    (kernel,) = tw.parse(text).values()
    with pytest.raises(tw.IllegalTransformError, match="and there only"):
        tw.Schedule(kernel).inline("T")
    tw.Schedule(kernel).contract("Y")


(PLAIN,) = tw.parse(
    "kernel k(X: f32[M, N]) -> (Y: f32[M, N]) { B[i, j] = X[i, j] * 2\n Y[i, j] = B[i, j] + 1 }"
).values()


@pytest.mark.parametrize(
    ("step", "arguments", "keywords"),
    [
        ("store", ("B",), {"fold": [3]}),
        ("store", ("B",), {"fold": 3}),
        ("store", ("B",), {"layout": 5}),
        ("store", ("B",), {"pad": 10**30}),
        ("store", ("B",), {"fold": {0: 10**30}}),
        ("store", ("B",), {"swizzle": 1 << 40}),
        ("tile", ("Y.i", "Y.j", 4, 4), {"names": ("a", "b")}),
        ("split", ("Y.i", 4), {"names": 5}),
        ("widen", ("B", ["f32"]), {}),
    ],
)
def test_a_wrong_call_is_refused(step: str, arguments: tuple[object, ...], keywords: dict[str, object]) -> None:
    with pytest.raises(tw.IllegalTransformError) as caught:
        getattr(tw.Schedule(PLAIN), step)(*arguments, **keywords)
    assert caught.value.refusal.rule == "shape"


@pytest.mark.parametrize(
    "trace",
    [
        '[["store",["B","root","",null,0,0,[3]]]]',
        '[["store",["B",null,"",null,0,0,5]]]',
        '[["store",["B",5]]]',
        '[["store",[["B"],"root"]]]',
        '[["widen",["B",{}]]]',
        '[["split",["Y.i",4,5]]]',
        '[["reorder",[{}]]]',
        '[["reorder",[["Y.i"],"Y.j"]]]',
        '[["contract",[null]]]',
        '[["cache_read",["X",null]]]',
        '[["cache_write",[null,"Y.i"]]]',
        '[["specialise",[3]]]',
        '[["bind",["Y.i",3]]]',
        '[["peel",[]]]',
        '[["block",[1,2]]]',
        '[["flatten",["Y.i"]]]',
        '[["no such step",[]]]',
    ],
)
def test_a_trace_of_anything_is_refused(trace: str) -> None:
    with pytest.raises(tw.IllegalTransformError) as caught:
        tw.Schedule.replay(PLAIN, trace)
    assert caught.value.refusal.rule == "shape"
