"""What must hold of bytes, storage and work that are read off programs and their schedules."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
import sympy
import tilewright as tw
from tilewright.cost.capacity import residency
from tilewright.cost.count import number, symbol
from tilewright.cost.estimate import estimate
from tilewright.cost.machine import Figure, machine
from tilewright.cost.roofline import roofline
from tilewright.cost.traffic import moved, stride
from tilewright.cost.work import work

from .schedules import ATTENTION, FFN, PROJECTION, KiB, MiB, asked, kernel, product, sums, tiles_of


def test_operands_are_those_of_the_equation() -> None:
    """Sizes of operands and operations follow from the equation, and so does what they are for any number of rows."""
    text = """kernel p(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
        Y[i, j] = bf16(sum(k) f32(X[i, k]) * f32(W[k, j]))
    }"""
    state = tw.Schedule(kernel(text)).state
    there = {m.tensor: m.there for m in moved(state.program, state.tree) if m.tensor in "XWY"}
    assert {n: amount.at(FFN) / MiB for n, amount in there.items()} == {"X": 8, "W": 96, "Y": 24}
    (update,) = (w for w in work(state.program, state.tree) if w.flops)
    assert update.times.formula is not None
    square = {symbol("K"): 4096, symbol("N"): 4096}
    formulas = [a.formula for a in there.values() if a.formula is not None]
    total = sympy.expand(sympy.Add(*formulas).subs(square))
    flops = (update.flops * update.times.formula).subs(square)
    assert total == 33554432 + 16384 * symbol("M")
    assert sympy.limit(flops / total, symbol("M"), sympy.oo) == 2048


@pytest.mark.parametrize(
    ("side", "local", "doubled", "traffic", "intensity", "ceiling", "blocks"),
    [
        (32, 8, 12, 6168, 15.9377, 5.3963, 7),
        (64, 24, 32, 3096, 31.7519, 10.7509, 3),
        (128, 80, 96, 1560, 63.0154, 21.3363, 1),
    ],
)
def test_larger_tiles_take_storage_and_ask_for_less(
    side: int, local: int, doubled: int, traffic: int, intensity: float, ceiling: float, blocks: int
) -> None:
    """A tile's local storage, the bytes that all tiles ask for, the share of the peak that those leave, and how many
    programs with two versions of each factor fit, are read off one and the same schedule."""
    schedule = product(kernel(PROJECTION), side, side, 32)
    tile = tiles_of(schedule)
    assert (4 * tile.sums + tile.loaded[0].size) / KiB == local
    assert (4 * tile.sums + tile.shared) / KiB == doubled
    total = sum(asked(schedule, **FFN).values())
    assert total / MiB == traffic
    one = sums(schedule)
    roof = roofline(machine("h100-sxm"), one.flops * one.times.at(FFN), total)
    assert roof.intensity == pytest.approx(intensity, abs=1e-4)
    assert 100 * roof.computing / roof.moving == pytest.approx(ceiling, abs=1e-4)
    assert residency(machine("rtx-pro-6000"), 256, 4 * tile.sums + tile.shared).blocks == blocks


def test_sums_are_registers_and_factors_shared_memory() -> None:
    """Sums take registers and no shared memory, so moving them there changes what binds and not how many fit."""
    tile = tiles_of(product(kernel(PROJECTION), 128, 128, 64))
    factors, kept, card = tile.loaded[0].size, 4 * tile.sums, machine("h100-sxm")
    assert (factors / KiB, kept / KiB, tile.sums / 256) == (32, 64, 64)
    inside = residency(card, 256, factors + kept, 64)
    apart = residency(card, 256, factors, 64 + tile.sums // 256)
    assert (inside.blocks, inside.binding) == (2, ("shared memory",))
    assert (apart.blocks, apart.binding, apart.limits["shared memory"]) == (2, ("registers",), 6)


def test_a_product_in_pieces_of_a_matrix_instruction() -> None:
    """Pieces are counted whole in every dimension: so many instructions a warp, and what of them is of no use."""
    found = sums(product(kernel(PROJECTION), 16, 8, 16))
    lanes = found.lanes
    assert lanes is not None
    assert found.tile == (16, 8, 16)
    each = prod(found.tile)

    def pieces(m: int, n: int, k: int) -> int:
        return number(lanes, {"M": m, "N": n, "K": k}) // each

    assert found.flops * each == 4096
    assert (pieces(128, 128, 64), pieces(128, 128, 64) / 8) == (512, 64)
    assert pieces(127, 121, 49) == 512
    assert pieces(129, 129, 65) == 9 * 17 * 5
    for m, n, k, share in ((1, 8, 16, 1 / 16), (1, 1, 16, 1 / 128), (1, 1, 1, 1 / 2048), (17, 8, 16, 17 / 32)):
        assert found.times.at({"M": m, "N": n, "K": k}) / (each * pieces(m, n, k)) == share


def test_bytes_belong_to_a_boundary() -> None:
    """What four programs ask for, what is there, and what passes from memory are three numbers; whether memory gives it
    once or four times hangs on what lies before it."""
    schedule = tw.Schedule(kernel("kernel four(X: f32[K]) -> (Y: f32[P, K]) { Y[p, k] = X[k] * 2 }"))
    schedule.parallel("Y.p")
    schedule.block("Y.k")
    sizes, card = {"P": 4, "K": 8192}, machine("h200")
    one = {n: Figure(v, "", "changed") for n, v in (("multiprocessors", 1), ("blocks", 1), ("cache", 0))}
    for on, given in ((card, 32), (replace(card, figures={**card.figures, **one}), 128)):
        (launch,) = estimate(schedule.state.program, schedule.state.tree, on, sizes).launches
        (read,) = (m for m in launch.moved if m.tensor == "X")
        assert [n / KiB for n in (read.asked.at(sizes), read.there.at(sizes), launch.memory["X"])] == [128, 32, given]


def test_steps_of_the_innermost_loop() -> None:
    """With the sum's index innermost one step of W is a row further, with the column's the next element."""
    program = kernel(PROJECTION).program
    (update,) = (s for s in program.statements if s.kind == "update")
    steps = [stride(program, update, "W", index).subs({symbol("N"): FFN["N"]}) / 2 for index in "kj"]
    assert steps == [12288, 1]


def test_a_strided_region_is_no_span() -> None:
    """A square of a wide matrix counts as its own elements, not as what lies between them."""
    found = kernel("kernel cut(X: bf16[M, N]) -> (Y: bf16[M, 128]) where N >= 128 { Y[i, j] = X[i, j] }")
    schedule, sizes = tw.Schedule(found), {"M": 128, "N": 4096}
    schedule.block("Y.i", "Y.j")
    assert asked(schedule, **sizes)["X"] == 32 * KiB
    (copy,) = found.program.statements
    steps = [int(stride(found.program, copy, "X", index).subs({symbol("N"): 4096})) for index in "ij"]
    assert steps == [8192, 2]
    assert 127 * steps[0] + 128 * steps[1] == 1_040_640


def test_another_block_of_columns() -> None:
    """What is quantised in every block of columns is read there in its wide type: 32 MiB more for each block instead
    of 16. One block of all columns ends that, and wants twelve times the sums."""
    text = """kernel q(A: f16[M, K], W: f8e4m3[K, N]) -> (Y: f16[M, N]) { allow reassociate
        Q[i, k] = sat f8e4m3(f32(A[i, k]))
        Y[i, j] = f16(sum(k) f32(Q[i, k]) * f32(W[k, j]))
    }"""

    def found(inside: bool, columns: int, n: int) -> tuple[float, int]:
        schedule = tw.Schedule(kernel(text))
        if inside:
            schedule.inline("Q")
        for index, size in (("i", 128), ("j", columns), ("k", 64)):
            schedule.split(f"Y.{index}", size)
        schedule.reorder("Y.io", "Y.jo", "Y.ko", "Y.ii", "Y.ji", "Y.ki")
        schedule.block("Y.ii", "Y.ji", "Y.ki")
        tile = sums(schedule).tile
        assert tile is not None
        bytes_ = asked(schedule, M=4096, K=4096, N=n)
        # The greatest of each row is not in the kernel: what is quantised inside reads A once more to find it.
        return (bytes_["A"] + bytes_.get("Q", 0)) / MiB + 32 * inside, tile[0] * tile[1]

    assert [found(inside, 128, 1536)[0] for inside in (False, True)] == [240, 416]
    for inside, more in ((False, 16), (True, 32)):
        assert found(inside, 128, 1536)[0] - found(inside, 128, 1408)[0] == more
    apart, inside = (found(way, 1536, 1536) for way in (False, True))
    assert apart[0] == inside[0]
    assert inside[1] / found(True, 128, 1536)[1] == 12


@pytest.mark.parametrize(("rows", "traffic"), [(128, 260), (82, 404), (53, 624)])
def test_rows_of_attention_that_share_a_sweep(rows: int, traffic: int) -> None:
    """Every block of rows reads all keys and values once; the number of rows need be no power of two."""
    schedule = tw.Schedule(kernel(ATTENTION))
    block, _ = schedule.split("O.i", rows)
    schedule.compute_at("P", block)
    schedule.compute_at("S", block)
    for stage in "SPO":
        schedule.block(*(loop for loop in schedule[stage].loops if loop != block))
    found = asked(schedule, L=8192, D=128)
    assert set(found) == set("QKVO")
    assert sum(found.values()) / MiB == traffic


def test_sums_of_groups_are_scaled_one_by_one() -> None:
    """With a scale for each group of 128, an element has a sum for each of its 16 groups, and they have no place
    in common until each has been scaled."""
    one = kernel("""kernel g(X: f8e4m3[M, G, 128], S: f32[M, G], W: f8e4m3[G, 128, N]) -> (Y: f32[M, N]) {
        P[i, j, g] = sum(k) f32(X[i, g, k]) * f32(W[g, k, j])
        Y[i, j] = sum(g) S[i, g] * P[i, j, g]
    }""")
    state = tw.Schedule(one).state
    times = {w.statement: w.times.at({"M": 1, "N": 1, "G": 2048 // 128}) for w in work(state.program, state.tree)}
    assert (times["S_P_finish"], times["S_P_update"]) == (16, 2048)
    early, late = tw.Schedule(one), tw.Schedule(one)
    early.compute_at("P", "Y.j")
    with tw.testing.refused("dependence"):
        early.store("P", fold={2: 1})
    late.compute_at("P", "Y.g")
    late.store("P", fold={2: 1})
