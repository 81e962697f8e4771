"""What the checklist asks of schedules and of the order of sums (R5.2-11 to 14, R5.4-2 to 13)."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.codegen import Bounds
from tilewright.compiler.ir.tree import Leaf, Loop
from tilewright.passes.footprint import footprints

MATMUL_SILU = """kernel matmul_silu(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
    C[i, j] = bf16(sum(k) f32(A[i, k]) * f32(W[k, j]))
    Y[i, j] = bf16(silu(f32(C[i, j])))
}"""
FREE = MATMUL_SILU.replace("{", "{ allow reassociate, elide", 1)


def kernel(text):
    return next(iter(tw.parse(text).values()))


def schedule(text, *steps):
    made = tw.Schedule(kernel(text))
    for name, *arguments in steps:
        getattr(made, name)(*arguments)
    return made


def refused(text, *steps):
    made = schedule(text, *steps[:-1])
    name, *arguments = steps[-1]
    with pytest.raises(tw.IllegalTransformError) as caught:
        getattr(made, name)(*arguments)
    return caught.value.refusal


def extents(made, **sizes):
    """How many values each loop has where the loops around it have their first ones."""
    found = {}

    def walk(nodes, around, known, values, bounds):
        for node in nodes:
            if isinstance(node, Leaf):
                continue
            if not isinstance(node, Loop):
                walk(node.body, around, known, values, bounds)
                continue
            _, low, high, inside = bounds.loop(node, around, known)
            first, last = (eval(text, {"min": min, "max": max}, values) for text in (low, high))
            found[node.index] = last - first
            walk(node.body, (*around, node.index), inside, {**values, name(node.index): first}, bounds)

    def name(text):
        return re.sub(r"\W", "_", text)

    bounds = Bounds(made.state.program, name)
    walk(made.state.tree, (), bounds.start(), sizes, bounds)
    return found


TILED = (
    ("tile", "C.i", "C.j", 64, 64),
    ("split", "C.k", 32),
    ("reorder", "C.io", "C.jo", "C.ko", "C.ii", "C.ji", "C.ki"),
)
BIG = {"M": 1024, "N": 12288, "K": 4096}


def test_r5_4_2_split_gives_the_extents_and_keeps_the_indices():
    found = extents(schedule(MATMUL_SILU, *TILED), **BIG)
    assert (found["C.io"], found["C.jo"], found["C.ko"]) == (16, 192, 128)
    assert (found["C.ii"], found["C.ji"], found["C.ki"]) == (64, 64, 32)
    update = "S_C_update"
    (leaf,) = [x for x in leaves_of(schedule(MATMUL_SILU, *TILED)) if x.statement == update]
    assert [str(a) for a in leaf.instance] == ["64 * C.io + C.ii", "64 * C.jo + C.ji", "32 * C.ko + C.ki"]


def leaves_of(made):
    from tilewright.compiler.ir.tree import leaves

    return leaves(made.state.tree)


def tiles(text, bm, bn, bk):
    """The product in tiles of bm x bn x bk, its activation in the tile."""
    made = schedule(text, ("tile", "Y.i", "Y.j", bm, bn), ("compute_at", "C", "Y.jo"), ("split", "C.k", bk))
    made.reorder("C.ko", "C.i", "C.j", "C.ki")
    made.block("Y.ii", "Y.ji")
    made.block("C.i", "C.j", "C.ki")
    made.block("C.i_a", "C.j_a")
    made.block("C.i_b", "C.j_b")
    return made


def test_r5_4_3_a_split_that_does_not_divide_masks_its_last_tile():
    made = tiles(FREE, 16, 32, 8)
    compiled = tw.compile(made.kernel, made, target="tiles")
    assert "+ 16 * Y_io < M" in compiled.source
    # Loads and stores outside an array raise; whole numbers add up the same in any order.
    for sizes in ({"M": 25, "N": 75, "K": 20}, {"M": 1, "N": 1, "K": 1}, {"M": 16, "N": 32, "K": 8}):
        inputs = {
            n: np.rint(a.astype(float) * 2).astype(a.dtype)
            for n, a in random_inputs(made.kernel.program, sizes, 1).items()
        }
        assert same_bits(np.asarray(compiled(**inputs)), np.asarray(made.kernel(**inputs)))


def test_r5_4_4_ko_does_not_leave_a_resident_accumulator():
    steps = (("tile", "Y.i", "Y.j", 64, 64), ("compute_at", "C", "Y.jo"), ("split", "C.k", 32))
    assert schedule(MATMUL_SILU, ("reorder", "C.j", "C.i")).trace
    refusal = refused(MATMUL_SILU, *steps, ("reorder", "C.ko", "Y.io"))
    assert refusal.rule == "shape"
    assert "C" in refusal.message


def test_r5_4_5_fused_tile_loops_have_the_product_of_the_extents():
    made = schedule(MATMUL_SILU, *TILED)
    made.fuse("C.io", "C.jo")
    found = extents(made, **BIG)
    assert found["C.io"] * found["C.jo"] == 3072
    inputs = random_inputs(made.kernel.program, {"M": 70, "N": 65, "K": 3}, 1)
    assert same_bits(np.asarray(tw.compile(made.kernel, made)(**inputs)), np.asarray(made.kernel(**inputs)))


def cached():
    made = schedule(MATMUL_SILU, ("tile", "Y.i", "Y.j", 64, 64), ("compute_at", "C", "Y.jo"), ("split", "C.k", 32))
    made.reorder("C.ko", "C.i", "C.j", "C.ki")
    made.cache_read("A", "C.ko")
    made.cache_read("W", "C.ko")
    return made


def test_r5_4_6_lifetimes_show_in_the_printed_schedule():
    text = str(cached())
    inside = text[text.index("for C.ko") :]
    assert text.index("buffer C.acc: f32[64, 64], 16 KiB, new in each iteration") < text.index("for C.ko")
    assert "buffer A_cache: bf16[64, 32], 4 KiB, new in each iteration" in inside
    assert "buffer W_cache: bf16[32, 64], 4 KiB, new in each iteration" in inside


def test_r5_4_7_a_product_in_tiles_is_never_stored_whole():
    made = tiles(FREE, 16, 32, 8)
    source = tw.compile(made.kernel, made, target="tiles").source
    assert re.findall(r"(\w+) = np.zeros", source) == ["Y"]


def test_r5_4_8_an_activation_inside_the_sum_is_refused():
    refusal = refused(MATMUL_SILU, ("split", "C.k", 1), ("reverse_compute_at", "Y", "C.ko"))
    assert refusal.rule == "dependence"
    assert refusal.remedy == "reverse_compute_at(Y, C.j)"
    # What it would be to activate each block of the sum: silu(1) + silu(-1) is not silu(0).
    inside = kernel("kernel inside(A: f32[K], W: f32[K]) -> (y: f32) { y = sum(k) silu(A[k] * W[k]) }")
    outside = kernel("kernel outside(A: f32[K], W: f32[K]) -> (y: f32) { c = sum(k) A[k] * W[k]\n y = silu(c) }")
    A, W = np.array([1, -1], np.float32), np.array([1, 1], np.float32)
    assert f"{float(inside(A, W)):.4f}" == "0.4621"
    assert float(outside(A, W)) == 0


def test_r5_4_9_a_rounding_is_dropped_with_permission_only():
    refusal = refused(MATMUL_SILU, ("widen", "C", "f32"))
    assert refusal.rule == "rounding"
    assert refusal.witness is not None
    assert (float(refusal.witness.defined), float(refusal.witness.asked)) == (
        pytest.approx(187 / 256, abs=1e-6),
        pytest.approx(188 / 256, abs=1e-6),
    )
    made = schedule(FREE, ("widen", "C", "f32"))
    A = np.array([[1, 2**-8]]).astype("bfloat16")
    W = np.ones((2, 1)).astype("bfloat16")
    assert float(made.kernel(A, W)[0, 0]) == 187 / 256
    assert float(tw.compile(made.kernel, made)(A, W)[0, 0]) == 188 / 256


def test_r5_4_10_normalised_parts_of_a_softmax_are_not_enough():
    text = """kernel mean(w: f32[N], v: f32[N]) -> (Y: f32[N]) {
        s = sum(k) w[k]
        Y[k] = w[k] * v[k] / s
    }"""
    assert refused(text, ("reverse_compute_at", "Y", "s.k")).rule == "dependence"
    assert schedule(text, ("compute_at", "s", "Y.k")).trace
    # Blocks of one that come to 1 and 3 whatever their weights are, and two totals.
    total = kernel("kernel total(w: f32[N], v: f32[N]) -> (y: f32) { y = (sum(k) w[k] * v[k]) / (sum(k) w[k]) }")
    v = np.array([1, 3], np.float32)
    found = [float(total(np.array(w, np.float32), v)) for w in ([1, 2], [2, 1])]
    assert found == [pytest.approx(7 / 3), pytest.approx(5 / 3)]


def test_r5_4_11_quantising_waits_for_the_greatest():
    text = """kernel quantise(X: f32[N]) -> (Y: f32[N]) where N >= 1 {
        m = max(k) abs(X[k])
        q[k] = f8e4m3(X[k] * (448.0 / m))
        Y[k] = f32(q[k]) * (m / 448.0)
    }"""
    assert refused(text, ("reverse_compute_at", "q", "m.k")).rule == "dependence"
    row = kernel(text)
    assert float(row(np.array([1, 10], np.float32))[0]) == pytest.approx(55 / 56, rel=1e-6)
    assert float(row(np.array([1], np.float32))[0]) == 1
    # The format: ties to even, nothing above 448, no infinity.
    to_f8 = kernel("kernel to_f8(x: f32[N]) -> (y: f32[N]) { q[i] = f8e4m3(x[i])\n y[i] = f32(q[i]) }")
    codes = to_f8(np.array([44.8, 448, 1e6, 17, 19], np.float32))
    assert codes[:2].tolist() == [44, 448]
    assert np.isnan(codes[2])
    assert codes[3:].tolist() == [16, 20]


def test_r5_4_12_a_place_changes_no_type():
    made = schedule(MATMUL_SILU, ("compute_at", "C", "Y.j"))
    before = {n: t.dtype for n, t in made.state.program.tensors.items()}
    for space in ("register", "shared", "global"):
        made.store("C", None, space)
        assert {n: t.dtype for n, t in made.state.program.tensors.items()} == before
    inputs = random_inputs(made.kernel.program, {"M": 3, "N": 5, "K": 7}, 1)
    assert same_bits(np.asarray(tw.compile(made.kernel, made)(**inputs)), np.asarray(made.kernel(**inputs)))


def test_r5_4_13_footprints_follow_from_accesses():
    found = extents(cached(), **BIG)
    assert (found["A_cache.i"], found["A_cache.k"]) == (64, 32)
    assert (found["W_cache.k"], found["W_cache.j"]) == (32, 64)
    state = cached().state
    touched = {(loop, tensor): counts for loop, tensor, counts in footprints(state.program, state.tree)}
    assert touched["C.ko", "A"] == ["64", "32"]
    assert touched["C.ko", "W"] == ["32", "64"]
    assert touched["Y.jo", "A"] == ["64", "K"]


def test_r5_2_11_parts_of_k_are_merged_parts_of_m_and_n_are_not():
    made = schedule(FREE, ("split", "C.i", 4), ("parallel", "C.io"), ("split", "C.j", 4))
    assert not any(s.kind == "merge" for s in made.state.program.statements)
    made.split("C.k", 4)
    made.rfactor("C.ko")
    assert [s.name for s in made.state.program.statements if s.kind == "merge"] == ["S_C_merge"]
    assert refused(FREE, ("split", "C.k", 4), ("parallel", "C.ko")).rule == "race"


def test_r5_2_12_reassociation_is_refused_with_the_pair():
    text = "kernel total(X: f32[N]) -> (y: f32) { y = sum(i) X[i] }"
    refusal = refused(text, ("reverse", "y.i"))
    assert refusal.rule == "rounding"
    assert refusal.witness is not None
    numbers = [float(t) for t in re.findall(r"[-\d.e]+", dict(refusal.witness.inputs)["X"])]
    assert numbers == [1, pytest.approx(2**-24), pytest.approx(2**-24)]
    assert schedule(text.replace("sum", "max"), ("reverse", "y.i")).trace


def test_r5_2_13_partial_sums_are_merged_in_one_order():
    made = schedule("kernel total(X: f32[N]) -> (y: f32) { allow reassociate\n y = sum(i) X[i] }", ("split", "y.i", 4))
    made.rfactor("y.io")
    made.parallel("y.io")
    blocks = kernel("kernel total(X: f32[N]) -> (y: f32) { y = sum(i, blocks=4) X[i] }")
    X = np.random.default_rng(0).standard_normal(33).astype(np.float32)
    assert same_bits(np.asarray(tw.compile(made.kernel, made)(X)), np.asarray(blocks(X)))


def test_r5_2_13_the_totals_of_every_order_of_arrival_are_listed():
    # Eight partial sums of a row made from integers alone: 40,320 orders, three totals, one ulp apart.
    h = (np.arange(1, 4097, dtype=np.uint64) * 2654435761) % 2**32
    signs = 1.0 - 2.0 * ((h >> 19) & 1)
    row = (signs * 0.5 ** ((h >> 20) & 3) * (1 + (h >> 25) / 128)).astype(np.float32)
    partials = np.array([np.add.accumulate(part * part)[-1] for part in row.reshape(8, 512)])
    found = tw.testing.merge_orders(partials)
    assert list(found.values()) == [1216, 33160, 5944]
    values = list(found)
    assert all(np.nextafter(a, np.float32(np.inf)) == b for a, b in itertools.pairwise(values))
    assert tw.testing.merge_orders(np.float32([1, 2, 4])) == {np.float32(7): 6}
    with pytest.raises(ValueError, match="1 to 16 numbers"):
        tw.testing.merge_orders(np.ones(17, np.float32))
