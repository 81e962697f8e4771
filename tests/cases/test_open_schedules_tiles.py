"""Tiles, lanes and fusion of programs that other compilers got wrong (OPEN-01, 02, 06, 07, 14)."""

from __future__ import annotations

import numpy as np
import pytest

from .programs import Array, f32, hex_bits, ulps
from .scheduling import Wanted, denied, kept

COPY = """
kernel copy(N: size) -> (G: i32[N]) {
    F[i in 0..N] = i32(i)
    G[i] = F[i]
}
"""
NESTED = (("split", "G.i", 2), ("split", "G.ii", 4, ("ia", "ib")))
OPEN_01: dict[str, tuple[int, tuple[Wanted, ...]]] = {
    "S1": (16, NESTED),
    "S2": (16, (*NESTED, ("reverse", "G.io"))),
    "S3": (16, (*NESTED, ("parallel", "G.io"))),
    "S4": (16, (*NESTED, ("vectorize", "G.ib"), ("compute_at", "F", "G.ia"))),
    "S5": (13, (("split", "G.i", 5), ("split", "G.ii", 3))),
    "S6": (3, (("split", "G.i", 8), ("split", "G.ii", 16))),
}


@pytest.mark.parametrize("name", OPEN_01)
def test_open_01_an_inner_factor_larger_than_what_it_splits(name: str) -> None:
    N, steps = OPEN_01[name]
    for size in (N, 2 * N + 1, 1, 0):
        assert kept(COPY, *steps, N=size).tolist() == list(range(size))


STATISTICS = """
kernel statistics(x: f32[R, N]) -> (M: f32[R], L: f32[R], P: f32[R], Q: f32[R], S: f32[R], A: bool[R], I: i64[R])
    where N >= 1 {
    M[r] = max(k) x[r, k]
    L[r] = min(k) x[r, k]
    P[r] = prod(k, lanes=8) x[r, k]
    Q[r] = min(k) (-x[r, k])
    S[r] = sum(k, lanes=8) exp(x[r, k] - M[r])
    A[r] = all(k) (x[r, k] < 0)
    I[r] = argmax(k) x[r, k]
}
"""
LANES = ("M", "L", "P", "Q", "S", "A")
ROW = f32([-3.5, -1.5, -2.25, -7.0, -4.0])


@pytest.mark.parametrize("width", [8, 4, 6])
@pytest.mark.parametrize("rows", [1, 3])
def test_open_02_idle_lanes_add_nothing(width: int, rows: int) -> None:
    steps = [("split", f"{t}.k", width) for t in (*LANES, "I")]
    # The six of width 6 go round the eight lanes of a product; each still has an element of its own.
    steps += [("vectorize", f"{t}.ki") for t in LANES]
    steps += [("parallel", f"{t}.r") for t in (*LANES, "I")]
    M, L, P, Q, S, A, best = kept(STATISTICS, *steps, x=np.tile(ROW, (rows, 1)))
    assert (M.tolist(), L.tolist(), P.tolist()) == ([-1.5] * rows, [-7.0] * rows, [-330.75] * rows)
    assert (Q.tolist(), A.tolist(), best.tolist()) == ([1.5] * rows, [True] * rows, [1] * rows)
    assert (ulps(S, np.full(rows, 1.69387360604)) <= 4).all()


@pytest.mark.parametrize("N", [1, 9])
def test_open_02_one_element_and_one_more_than_the_lanes(N: int) -> None:
    steps = [s for t in LANES for s in (("split", f"{t}.k", 8), ("vectorize", f"{t}.ki"))]
    x = -np.arange(1, N + 1, dtype=np.float32).reshape(1, N)
    M, L, P, Q, _, A, best = kept(STATISTICS, *steps, x=x)
    found = [M[0], L[0], P[0], Q[0], A[0], best[0]]
    assert found == [-1, -N, np.prod(x.astype(np.float64)), 1, True, 0]


def test_open_02_the_first_of_equals_is_not_found_at_once() -> None:
    refusal = denied("race", STATISTICS, ("split", "I.k", 8), ("vectorize", "I.ki")).refusal
    assert "I.ki" in refusal.message
    denied("rounding", STATISTICS.replace("k, lanes=8", "k"), ("split", "P.k", 8), ("vectorize", "P.ki"))


SOFTMAX = """
kernel softmax(x: f32[R, K], c: f32) -> (y: f32[R, K]) {
    m[r] = max(k) c * x[r, k]
    e[r, k] = exp(c * x[r, k] - m[r])
    s[r] = sum(k, lanes=8) e[r, k]
    y[r, k] = e[r, k] / s[r]
}
"""
OPEN_06: dict[str, tuple[Wanted, ...]] = {
    "three passes": (),
    "rows in parallel": tuple(("parallel", f"{t}.r") for t in "mesy"),
    "a row at a time": (
        ("compute_at", "s", "y.r"),
        ("compute_at", "e", "y.r"),
        ("compute_at", "m", "y.r"),
        ("parallel", "y.r"),
    ),
    "tiles of two": tuple(("split", f"{t}.k", 2) for t in "mesy"),
    "eight lanes": tuple(s for t in "mesy" for s in (("split", f"{t}.k", 8), ("vectorize", f"{t}.ki"))),
}
INF, NAN = np.inf, np.nan
ROWS = [
    (1, [-INF, -INF, 0, 0], [0, 0, 0.5, 0.5]),
    (1, [-INF, 0, -INF, 0], [0, 0.5, 0, 0.5]),
    (1, [-INF] * 4, [NAN] * 4),
    (1, [INF, 0, 0, 0], [NAN] * 4),
    (1, [NAN, 0, 0, 0], [NAN] * 4),
    (-1e30, [1, 2, 3], [1, 0, 0]),
    (-2, [1, 2, 4], [0.878879, 0.118943, 0.002179]),
]


@pytest.mark.parametrize("name", OPEN_06)
def test_open_06_softmax_of_masked_and_scaled_rows(name: str) -> None:
    for c, x, want in ROWS:
        y = kept(SOFTMAX, *OPEN_06[name], x=f32([x]), c=c)[0]
        np.testing.assert_allclose(y, want, rtol=4e-4 if c == -2 else 0, atol=0)


def test_open_06_one_pass_is_refused() -> None:
    # Between the maximum and its use stands the end of the maximum: no loop can run over both.
    apart = denied("shape", SOFTMAX, ("compute_at", "m", "e.r"), ("merge", "m.k", "e.k"))
    assert "m.k" in apart.refusal.message
    early = denied("dependence", SOFTMAX, ("distribute", "m.r"), ("merge", "m.r3", "e.r", -1))
    assert "m[r]" in early.refusal.message


ROUNDED = """
kernel rounded(n: i64[6]) -> (y: f32[6], s: f32) {
    x[k] = f32(n[k] + 1) / 7
    h[k] = f16(x[k])
    y[k] = f32(h[k])
    s = sum(k) y[k]
}
"""
MERGED = (("merge", "x.k", "h.k"), ("merge", "x.k", "y.k"))
OPEN_07: dict[str, tuple[Wanted, ...]] = {
    "apart": (),
    "one loop": MERGED,
    "computed where read": (("compute_at", "h", "y.k"), ("compute_at", "x", "h.k")),
    "lanes": tuple(s for t in "xhy" for s in (("split", f"{t}.k", 4), ("vectorize", f"{t}.ki"))),
    "h written in": (("inline", "h"),),
    "x and h written in": (("inline", "x"), ("inline", "h")),
    "copies": (("cache_read", "h", "y.k"), ("cache_write", "y", "y.k"), ("cache_read", "y", "s.k")),
    "in the sum": (("compute_at", "y", "s.k"), ("compute_at", "h", "s.k"), ("compute_at", "x", "s.k")),
}


@pytest.mark.parametrize("name", OPEN_07)
@pytest.mark.parametrize(
    ("narrow", "bits", "total"),
    [
        ("f16", "3e124000 3e924000 3edb6000 3f124000 3f36e000 3f5b6000", "403ff800"),
        ("bf16", "3e120000 3e920000 3edb0000 3f120000 3f370000 3f5b0000", "403fc000"),
    ],
)
def test_open_07_fusion_keeps_a_rounding(name: str, narrow: str, bits: str, total: str) -> None:
    y, s = kept(ROUNDED.replace("f16", narrow), *OPEN_07[name], n=np.arange(6))
    assert hex_bits(y) == bits.split()
    assert hex_bits(np.asarray(s)) == [total]


def test_open_07_the_sum_keeps_its_order() -> None:
    for last in (("reverse", "s.k"), ("parallel", "s.k"), ("vectorize", "s.k")):
        denied("rounding", ROUNDED, last)
    denied("rounding", ROUNDED, ("split", "s.k", 3), ("reorder", "s.ki", "s.ko"))
    denied("rounding", ROUNDED, ("split", "s.k", 2), ("rfactor", "s.ko"))


def test_open_07_no_step_drops_the_rounding() -> None:
    witness = denied("rounding", ROUNDED, ("widen", "h", "f32")).refusal.witness
    assert witness is not None
    assert witness.element.startswith(("y", "s"))


def test_open_07_twin_there_and_back() -> None:
    text = """
kernel same(z: f16[N]) -> (y: f16[N]) {
    w[k] = f32(z[k])
    y[k] = f16(w[k])
}
"""
    z = np.array([1, 0.1, 65504, 6e-8, -0.0, np.inf, np.nan], np.float16)
    for steps in ((), (("merge", "w.k", "y.k"),), (("compute_at", "w", "y.k"), ("parallel", "y.k"))):
        got = kept(text, *steps, z=z)
        assert np.isnan(got[-1])
        assert hex_bits(got[:-1]) == hex_bits(z[:-1])


P1 = """
kernel p1(A: i32[15]) -> (C: i32[5, 3]) {
    B[i] = A[i] + 1
    C[i, j] = 2 * B[i + 5 * j]
}
"""
P2 = """
kernel p2(a: i32[K]) -> (c: i32[K - 4]) where K >= 4 {
    b[i in 1..K - 1] = a[i - 1] + a[i] + a[i + 1]
    c[i] = b[i + 1] + b[i + 2] + b[i + 3]
}
"""
P3 = """
kernel p3(A: f32[N], B: f32[N]) -> (D: f32[N], E: f32[N]) {
    D[i] = 2 * (A[i] + B[i])
    E[i] = D[i] + A[i]
}
"""


@pytest.mark.parametrize("steps", [(("compute_at", "B", "C.i"),), (("compute_at", "B", "C.j"),)], ids=["i", "j"])
def test_open_14_a_producer_read_at_a_stride(steps: tuple[Wanted, ...]) -> None:
    C: Array = kept(P1, *steps, ("parallel", "C.i"), A=np.arange(15, dtype=np.int32))
    assert C.tolist() == [[2, 12, 22], [4, 14, 24], [6, 16, 26], [8, 18, 28], [10, 20, 30]]


OPEN_14: dict[str, tuple[Wanted, ...]] = {
    "a tile at a time": (("split", "c.i", 4), ("compute_at", "b", "c.io"), ("parallel", "c.io")),
    "an element at a time": (("split", "c.i", 4), ("compute_at", "b", "c.ii"), ("parallel", "c.io")),
    "tiles moved along": (("split", "c.i", 4), ("compute_at", "b", "c.io"), ("shift", "b.i", 2), ("reverse", "c.ii")),
}


@pytest.mark.parametrize("name", OPEN_14)
@pytest.mark.parametrize("N", [9, 8, 1, 0])
def test_open_14_tiles_need_the_halo_of_both_stencils(name: str, N: int) -> None:
    want = [9 * i * i + 12 for i in range(2, N + 2)]
    assert kept(P2, *OPEN_14[name], a=np.arange(N + 4, dtype=np.int32) ** 2).tolist() == want
    if N == 9:
        assert want == [48, 93, 156, 237, 336, 453, 588, 741, 912]


@pytest.mark.parametrize("N", [1000, 1024, 33, 32, 31, 1, 0])
def test_open_14_a_consumer_moved_into_the_tiles_of_its_producer(N: int) -> None:
    A = np.arange(N, dtype=np.float32)
    steps = (("split", "D.i", 32), ("split", "E.i", 32), ("merge", "D.io", "E.io"), ("parallel", "D.io"))
    D, E = kept(P3, *steps, A=A, B=2 * A)
    assert (D.tolist(), E.tolist()) == ((6 * A).tolist(), (7 * A).tolist())


def test_open_14_a_consumer_of_the_next_tile_cannot_move() -> None:
    ahead = P3.replace("D[i] + A[i]", "D[i + 1] + A[i] if i < N - 1 else A[i]")
    steps = (("split", "D.i", 32), ("split", "E.i", 32), ("merge", "D.io", "E.io"))
    refusal = denied("dependence", ahead, *steps).refusal
    assert refusal.witness is not None
    assert "D[i + 1]" in refusal.message
    N = 65
    A = np.arange(N, dtype=np.float32)
    D, E = kept(ahead, ("merge", "D.i", "E.i", 1), A=A, B=2 * A)
    assert D.tolist() == (6 * A).tolist()
    assert E.tolist() == [*(6 * A[1:] + A[:-1]).tolist(), A[-1]]
