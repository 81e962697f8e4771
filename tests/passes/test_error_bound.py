"""The bound on what permissions may change: it holds, it is 0 where nothing is permitted, and it is not idle."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.passes import error_bound

MATMUL = """kernel matmul(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    allow reassociate, contract, elide
    C[i, j] = sum(k) A[i, k] * B[k, j]
}"""
CHAIN = """kernel chain(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N], Z: f32[M]) {
    allow reassociate, contract, elide
    C[i, j] = bf16(sum(k) f32(A[i, k]) * f32(W[k, j]))
    Y[i, j] = bf16(tanh(f32(C[i, j])) * 0.5 - exp(f32(C[i, j])) / 3)
    Z[i] = max(j) (f32(C[i, j]) if f32(C[i, j]) > 0 else sqrt(abs(f32(C[i, j]))))
}"""
SCAN = """kernel scan(X: f32[T, N]) -> (Y: f32[T]) {
    allow reassociate, contract
    s[t] = sum(i) X[t, i]
    U[t] = (U[t - 1] if t > 0 else 0) * 0.5 + s[t]
    Y[t] = U[t] + 1
}"""
PRODUCT = "kernel product(X: f32[N]) -> (y: f32) { allow reassociate\n y = prod(i) X[i] }"
SCHEDULES = {
    "blocks": (MATMUL, (("split", "C.k", 8), ("rfactor", "C.ko"))),
    "fma": (MATMUL, (("contract", "C"),)),
    "blocks by fma": (MATMUL, (("contract", "C"), ("split", "C.k", 8), ("rfactor", "C.ko"))),
    "backwards": (MATMUL, (("reverse", "C.k"),)),
    "no rounding between": (CHAIN, (("widen", "C", "f32"),)),
    "everything": (
        CHAIN,
        (("widen", "C", "f32"), ("contract", "C"), ("contract", "Y"), ("split", "C.k", 4), ("rfactor", "C.ko")),
    ),
    "recurrence": (SCAN, (("split", "s.i", 4), ("rfactor", "s.io"), ("contract", "U"))),
    "product": (PRODUCT, (("split", "y.i", 4), ("rfactor", "y.io"))),
}  # fmt: skip


def compiled(text: str, steps: tuple[tuple[object, ...], ...]) -> tw.CompiledKernel:
    kernel = next(iter(tw.parse(text).values()))
    schedule = tw.Schedule(kernel)
    for name, *arguments in steps:
        getattr(schedule, str(name))(*arguments)
    return tw.compile(kernel, schedule)


def each(result: object) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(r, np.float64) for r in (result if isinstance(result, tuple) else (result,)))


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_and_is_not_idle(name: str, seed: int) -> None:
    made = compiled(*SCHEDULES[name])
    program = made.kernel.program
    sizes = {n: (17, 9, 33, 5)[(seed + i) % 4] for i, n in enumerate(program.sizes)}
    arguments = random_inputs(program, sizes, seed)
    want, got, bound = each(made.kernel(**arguments)), each(made(**arguments)), each(made.error_bound(**arguments))
    for w, g, b in zip(want, got, bound, strict=True):
        assert b.shape == w.shape
        assert np.all(np.abs(w - g) <= b)
        size = np.abs(w).max() if w.size else 1
        assert np.all(b[np.isfinite(b)] <= 2 * max(size, 1)), "a bound that says nothing"


@pytest.mark.parametrize("text", [MATMUL, CHAIN, SCAN, PRODUCT], ids=["matmul", "chain", "scan", "product"])
def test_what_uses_no_permission_is_off_by_nothing(text: str) -> None:
    made = compiled(text, ())
    arguments = random_inputs(made.kernel.program, dict.fromkeys(made.kernel.program.sizes, 7), 1)
    assert made.numerics == ()
    assert all(np.all(b == 0) for b in each(made.error_bound(**arguments)))


def test_a_strict_part_of_a_kernel_is_off_by_nothing() -> None:
    text = """kernel parts(X: f32[N]) -> (y: f32, z: f32) {
        y = allow reassociate in sum(i) X[i]
        z = sum(i) X[i]
    }"""
    made = compiled(text, (("split", "y.i", 4), ("rfactor", "y.io")))
    y, z = each(made.error_bound(np.linspace(0.1, 1, 33, dtype=np.float32)))
    assert y > 0
    assert z == 0


def test_a_choice_that_rounding_may_turn_is_off_by_the_difference() -> None:
    text = """kernel choice(X: f32[N]) -> (y: f32) {
        allow reassociate
        s = sum(i) X[i]
        y = 100 if s > 1 else 0
    }"""
    made = compiled(text, (("split", "s.i", 2), ("rfactor", "s.io")))
    assert each(made.error_bound(np.array([1, 2**-24, 2**-24], np.float32)))[0] == pytest.approx(100, rel=0.01)
    assert each(made.error_bound(np.array([3, 2**-24, 2**-24], np.float32)))[0] == 0


def test_large_equations_are_bounded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled(*SCHEDULES["everything"])
    arguments = random_inputs(made.kernel.program, {"M": 9, "N": 7, "K": 11}, 1)
    whole = each(made.error_bound(**arguments))
    monkeypatch.setattr(error_bound, "POINTS", 100)
    assert all(np.array_equal(a, b) for a, b in zip(whole, each(made.error_bound(**arguments)), strict=True))


def test_permissions_are_named_with_what_used_them() -> None:
    assert compiled(*SCHEDULES["everything"]).numerics == (
        "elide: C: not rounded to bf16, but kept as f32",
        "reassociate: C: sum with blocks=4",
        "contract: C: each product is added by fma",
        "contract: Y: - of a product by fma",
    )
    assert compiled(*SCHEDULES["backwards"]).numerics == ("reassociate: the updates of a sum run in another order",)


@pytest.mark.parametrize(
    ("text", "size", "holds"),
    [
        (MATMUL, "M", True),
        (MATMUL, "K", False),
        (CHAIN, "M", True),
        (SCAN, "T", True),
        ("kernel mean(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] / f32(N) }", "N", False),
        ("kernel shift(X: f32[N]) -> (Y: f32[N]) { Y[i] = (X[i + 1] else 0) }", "N", False),
        ("kernel ends(X: f32[N]) -> (Y: f32[N]) where N >= 1 { Y[i in 0..N - 1] = X[i]\n Y[N - 1] = 2 }", "N", False),
        ("kernel tied(X: f32[M, N]) -> (Y: f32[M]) where N == M { Y[i] = sum(j) X[i, j] }", "M", False),
        ("kernel turn(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[N - 1 - i] }", "N", False),
    ],
)
def test_batch_invariance_is_proved_where_no_element_depends_on_the_size(text: str, size: str, holds: bool) -> None:
    assert compiled(text, ()).prove("batch_invariant", size) is holds


def test_an_order_that_loops_decide_is_not_proved_the_same() -> None:
    """For few rows the sum runs downwards: what is permitted, but not the same for every batch."""
    specialised = (("specialise", "M <= 4"), ("reverse", "C.k"))
    made = compiled(MATMUL, specialised)
    assert not made.prove("batch_invariant", "M")
    arguments = random_inputs(made.kernel.program, {"M": 5, "N": 7, "K": 33}, 1)
    few = {**arguments, "A": arguments["A"][:4]}
    assert np.asarray(made(**few)).tobytes() != np.asarray(made(**arguments))[:4].tobytes()


def test_a_batch_invariant_row_keeps_its_bits() -> None:
    made = compiled(*SCHEDULES["everything"])
    assert made.prove("batch_invariant", "M")
    arguments = random_inputs(made.kernel.program, {"M": 9, "N": 7, "K": 11}, 1)
    whole = made(**arguments)
    for rows in (1, 2, 5):
        part = made(**{**arguments, "A": arguments["A"][:rows]})
        assert all(a.tobytes() == b[:rows].tobytes() for a, b in zip(part, whole, strict=True))


def test_other_properties_and_sizes_are_wrong_calls() -> None:
    made = compiled(MATMUL, ())
    with pytest.raises(ValueError, match="there is no property"):
        made.prove("fast", "M")
    with pytest.raises(ValueError, match="there is no size"):
        made.prove("batch_invariant", "Q")


REVERSED = "r = allow reassociate in (sum(j) Z[j])"
Z = np.array([1e8, 1, -1e8, 3, 0.1, 7], np.float32)
TRAPS: dict[str, tuple[str, tuple[tuple[object, ...], ...], dict[str, object]]] = {
    "a factor that is itself a sum": (
        f"kernel k(X: f32[N], Z: f32[K]) -> (Y: f32) {{ s = sum(i) X[i]\n {REVERSED}\n Y = s * r }}",
        (("reverse", "r.j"),),
        {"X": np.array([1e8, 5, -1e8, -5], np.float32), "Z": Z},
    ),
    "a branch on a sum": (
        f"kernel k(X: f32[N], Z: f32[K]) -> (Y: f32) {{ s = sum(i) X[i]\n {REVERSED}\n Y = r if s == 0 else 0 }}",
        (("reverse", "r.j"),),
        {"X": np.array([1e8, 1, -1e8], np.float32), "Z": Z},
    ),
    "a branch on what saturates": (
        f"kernel k(X: f32[N], Z: f32[K]) -> (Y: f32[N]) {{ {REVERSED}\n"
        " Y[i] = r if f32(sat f8e4m3(X[i])) > 3 else 0 }",
        (("reverse", "r.j"),),
        {"X": np.array([1e6, 1, 4], np.float32), "Z": Z},
    ),
    "an element chosen by what wraps": (
        "kernel k(X: f32[2, K], L: i32[N]) -> (Y: f32[N]) {"
        " r[i in 0..2] = allow reassociate in (sum(j) X[i, j])\n Y[q] = r[i64(i8(L[q]))] }",
        (("reverse", "r.j"),),
        {"X": np.stack([Z, 0 * Z]), "L": np.array([256, 0], np.int32)},
    ),
    "an element chosen by a large integer": (
        "kernel k(X: f32[2, K], L: i64[N]) -> (Y: f32[N]) {"
        " r[i in 0..2] = allow reassociate in (sum(j) X[i, j])\n Y[q] = r[L[q] % 2] }",
        (("reverse", "r.j"),),
        {"X": np.stack([0 * Z, Z]), "L": np.array([2**53 + 1, 2], np.int64)},
    ),
    "a branch on an elementary function": (
        f"kernel k(X: f32[N], Z: f32[K]) -> (Y: f32[N]) {{ {REVERSED}\n Y[i] = r if exp(X[i]) > 2.7182817 else 0 }}",
        (("reverse", "r.j"),),
        {"X": np.array([1, 0.99999994, 1.0000001], np.float32), "Z": Z},
    ),
    "a sum that overflows in one order": (
        "kernel k(X: f32[N]) -> (Y: f32) { allow reassociate\n Y = sum(i) X[i] }",
        (("reverse", "Y.i"),),
        {"X": np.array([3e38, 3e38, -3e38], np.float32)},
    ),
    "a product that overflows in one order": (
        "kernel k(X: f32[N]) -> (Y: f32) { allow reassociate\n Y = prod(i) X[i] }",
        (("reverse", "Y.i"),),
        {"X": np.array([1e30, 1e30, 1e-30, 1e-30], np.float32)},
    ),
    "a product that underflows in one order": (
        "kernel k(X: f32[N]) -> (Y: f32) { allow reassociate\n Y = prod(i) X[i] }",
        (("reverse", "Y.i"),),
        {"X": np.array([1e-20, 1e-20, 1e20, 3], np.float32)},
    ),
    "a cast that overflows to NaN and is dropped": (
        "kernel k(X: f32[N]) -> (Y: f32[N]) { allow elide\n T[i] = f8e4m3(X[i])\n Y[i] = f32(T[i]) }",
        (("widen", "T", "f32"),),
        {"X": np.array([1e6, 1], np.float32)},
    ),
    "a product that overflows before an infinity is taken off": (
        "kernel k(A: f32[N], B: f32[N], C: f32[N]) -> (Y: f32[N]) { allow contract\n"
        " T[i] = A[i] * B[i] - C[i]\n Y[i] = T[i] * 2 }",
        (("contract", "T"),),
        {"A": np.array([1e30], np.float32), "B": np.array([1e30], np.float32), "C": np.array([np.inf], np.float32)},
    ),
    "the root of what may be negative": (
        "kernel k(X: f32[N]) -> (Y: f32) { allow reassociate\n v = sum(i) X[i]\n Y = sqrt(v) }",
        (("reverse", "v.i"),),
        {"X": np.array([1e8, 1, -1e8, -1], np.float32)},
    ),
    "an integer that is off and wraps": (
        "kernel k(X: f32[N]) -> (Y: i32) { r = allow reassociate in (sum(j) X[j])\n T = i32(r)\n Y = i32(i8(T)) }",
        (("reverse", "r.j"),),
        {"X": np.array([1e8, 1, -1e8, 127], np.float32)},
    ),
    "a product that is written in and fused": (
        "kernel k(A: f32[N], B: f32[N], C: f32[N]) -> (Y: f32[N]) { allow contract\n"
        " T[i] = A[i] * B[i]\n Y[i] = T[i] + C[i] }",
        (("inline", "T"), ("contract", "Y")),
        {n: np.linspace(0.1, 1.3, 7, dtype=np.float32) * (-1 if n == "C" else 1) for n in "ABC"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TRAPS)
def test_the_bound_is_not_fooled(name: str) -> None:
    text, steps, arguments = TRAPS[name]
    made = compiled(text, steps)
    with np.errstate(all="ignore"):
        want, got, bound = each(made.kernel(**arguments)), each(made(**arguments)), each(made.error_bound(**arguments))
        for w, g, b in zip(want, got, bound, strict=True):
            assert np.all((np.abs(w - g) <= b) | (w == g) | (np.isnan(w) & np.isnan(g)) | np.isinf(b)), (w, g, b)
            assert np.any(w != g) or name.startswith(("a branch on an elem", "a product that is written")), "no trap"
