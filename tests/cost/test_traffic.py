"""Bytes that loops ask for: formulas against a counter that runs with the loops, on ragged shapes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.compiler.ir.tree import placed
from tilewright.compiler.ir.walk import walker
from tilewright.cost.traffic import moved
from tilewright.cost.work import work

from ..passes.enumeration import touched

EXAMPLES = Path(__file__).parents[2] / "examples"
# Two tiles and one more of each size, and less than a tile.
SIZES = {
    "matmul_silu": [{"M": 9, "K": 7, "N": 10}, {"M": 1, "K": 2, "N": 3}],
    "softmax": [{"R": 5, "C": 9}, {"R": 1, "C": 1}],
    "conv2d": [{"N": 1, "H": 3, "W": 5, "C": 2, "O": 3}],
    "triangle": [{"N": 9}, {"N": 2}],
    "stencil": [{"N": 11}],
}
OWN = {
    "triangle": "kernel triangle(X: f32[N, N]) -> (Y: f32[N]) { Y[i] = sum(j in 0..i + 1) X[i, j] }",
    "stencil": "kernel stencil(X: f32[N]) -> (Y: f32[N]) { Y[i] = (X[i - 1] else 0) + X[i] + (X[i + 1] else 0) }",
}


def kernel(name: str) -> tw.Kernel:
    if name in OWN:
        return tw.parse(OWN[name])[name]
    return next(found[name] for path in EXAMPLES.glob("*.tx") if name in (found := tw.load(path)))


def tiled(name: str) -> tw.Schedule:
    """The kernel in small tiles, of which some are loaded and grouped."""
    schedule = tw.Schedule(kernel(name))
    if name != "matmul_silu":
        for loop in schedule.loops[:2]:
            schedule.split(loop, 4)
        return schedule
    row, column, ri, ci = schedule.tile("Y.i", "Y.j", 4, 4)
    schedule.compute_at("C", column)
    ko, ki = schedule.split("C.k", 3)
    schedule.reorder(ko, "C.i", "C.j", ki)
    schedule.cache_read("A", ko)
    schedule.cache_read("W", ko)
    for stage in ("A_cache", "W_cache", "C"):
        schedule.block(*(loop for loop in schedule[stage].loops if loop not in (row, column, ko)))
    schedule.block(ri, ci)
    schedule.group(row, column, 2)
    return schedule


Counts = dict[tuple[int, str, str], set[object]]


def counters(schedule: tw.Schedule, sizes: dict[str, int]) -> tuple[Counts, Counts]:
    """What each iteration of the loops asks for, counted as they run; and the elements alone."""
    program, items = schedule.state.program, placed(schedule.state.tree)
    asked: Counts = {}
    there: Counts = {}

    def visit(number: int, *indices: int) -> None:
        item = items[number]
        statement = program.statement(item.leaf.statement)
        at = {**sizes, **dict(zip(item.leaf.indices, indices, strict=True))}
        values = {n: a.evaluate(at) for n, a in zip(statement.iterators, item.leaf.instance, strict=True)}
        written, read = touched(program, statement, {**sizes, **values})
        outer = tuple((p.index, i) for p, i in zip(item.loops, indices, strict=True) if p.kind != "block")
        for kind, elements in (("write", [written]), ("read", read)):
            for element in elements:
                # A sum that one launch alone adds up is no memory.
                if not item.scope(element[0]) and program.tensors[element[0]].role != "accumulator":
                    key = (item.places[0], element[0], kind)
                    asked.setdefault(key, set()).add((outer, element))
                    there.setdefault(key, set()).add(element)

    walker(program, schedule.state.tree)(sizes, visit)
    return asked, there


@pytest.mark.parametrize("name", SIZES)
def test_the_formula_is_what_a_counter_counts(name: str) -> None:
    schedule = tiled(name)
    program = schedule.state.program
    for some in SIZES[name]:
        sizes = {n: some.get(n, 1) for n in program.sizes}
        asked, there = counters(schedule, sizes)
        found = {(m.launch, m.tensor, m.kind): m for m in moved(program, schedule.state.tree)}
        for key, m in found.items():
            width = program.tensors[m.tensor].dtype.bits // 8
            assert m.asked.at(sizes) == width * len(asked.get(key, ())), (key, sizes)
            assert m.there.at(sizes) == width * len(there.get(key, ())), (key, sizes)
        assert {key for key, elements in asked.items() if elements} <= set(found)


def test_a_grouped_product_has_the_formulas_of_its_tiles() -> None:
    schedule = tw.Schedule(kernel("matmul_silu"))
    runpy.run_path(str(EXAMPLES / "schedules" / "matmul_large.py"))["schedule"](schedule)
    found = {m.tensor: m for m in moved(schedule.state.program, schedule.state.tree)}
    assert {n: str(m.asked) for n, m in found.items()} == {
        "A": "2*K*M*ceiling(N/256)",
        "W": "2*K*N*ceiling(M/128)",
        "Y": "2*M*N",
    }
    assert {n: str(m.there) for n, m in found.items()} == {"A": "2*K*M", "W": "2*K*N", "Y": "2*M*N"}


def test_work_is_counted_with_what_is_computed_again() -> None:
    schedule = tw.Schedule(kernel("matmul_silu"))
    before = {w.statement: str(w.times) for w in work(schedule.state.program, schedule.state.tree)}
    assert before["S_C_update"] == "K*M*N"
    text = """kernel halo(X: f32[N]) -> (Y: f32[N]) where N >= 4 {
        B[i in 0..N] = X[i] * 2
        Y[i] = B[i] + (B[i + 1] else 0)
    }"""
    again = tw.Schedule(tw.parse(text)["halo"])
    again.split("Y.i", 4)
    again.compute_at("B", "Y.io")
    (made,) = (w for w in work(again.state.program, again.state.tree) if w.statement == "S_B")
    assert made.times.at({"N": 16}) == 16 + 3
    assert made.flops == 1


@pytest.mark.parametrize("tile", [64, 128])
def test_larger_tiles_ask_for_less(tile: int) -> None:
    # 5-3, table-5.2.2
    text = """kernel projection(A: bf16[M, K], W: bf16[K, N]) -> (C: bf16[M, N]) {
        C[i, j] = bf16(allow reassociate in sum(k) f32(A[i, k]) * f32(W[k, j]))
    }"""
    schedule = tw.Schedule(tw.parse(text)["projection"])
    row, column, ri, ci = schedule.tile("C.i", "C.j", tile, tile)
    ko, ki = schedule.split("C.k", 32)
    schedule.reorder(row, column, ko, ri, ci, ki)
    schedule.cache_read("A", ko)
    schedule.cache_read("W", ko)
    sizes = {"M": 1024, "K": 4096, "N": 12288}
    found = {m.tensor: m.asked.at(sizes) / 2**20 for m in moved(schedule.state.program, schedule.state.tree)}
    want = {64: {"A": 1536, "W": 1536, "C": 24}, 128: {"A": 768, "W": 768, "C": 24}}[tile]
    assert {n: found[n] for n in want} == want
    flops = 2 * sizes["M"] * sizes["K"] * sizes["N"]
    intensity = flops / (sum(found[n] for n in want) * 2**20)
    assert intensity == pytest.approx({64: 4096 / 129, 128: 4096 / 65}[tile])
