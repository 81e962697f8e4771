"""Bytes between levels of memory, against a cache that is simulated with the loops as they run."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import tilewright as tw
from tilewright.compiler.ir.tree import placed
from tilewright.compiler.ir.walk import walker
from tilewright.cost import levels as of
from tilewright.cost.levels import Levels, reached

from ..passes.enumeration import touched

WIDTH = 4
TEXTS = {
    "product": "kernel f(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum(k) A[i, k] * B[k, j] }",
    "windows": """kernel f(X: f32[M, N]) -> (Y: f32[M, N]) {
        Y[i, j] = (X[i - 1, j] else 0) + X[i, j] + (X[i + 1, j] else 0)
    }""",
    "turned": "kernel f(X: f32[M, N]) -> (Y: f32[N, M]) { Y[j, i] = X[i, j] }",
}


def made(name: str, how: str) -> tw.Schedule:
    (kernel,) = tw.parse(TEXTS[name]).values()
    schedule = tw.Schedule(kernel)
    stage = "C" if name == "product" else "Y"
    if how in ("ikj", "kij", "jki", "jik", "kji"):
        schedule.reorder(*(f"{stage}.{n}" for n in how))
    elif how == "tiles":
        a, b = ("j", "i") if name == "turned" else ("i", "j")
        ao, bo, ai, bi = schedule.tile(f"{stage}.{a}", f"{stage}.{b}", 4, 4)
        if name == "product":
            ko, ki = schedule.split("C.k", 4)
            schedule.reorder(ao, bo, ko, ai, bi, ki)
    return schedule


def simulated(schedule: tw.Schedule, sizes: dict[str, int], capacity: int) -> int:
    """Bytes that come into a cache of so many, whose least recently used element goes first."""
    program, items = schedule.state.program, placed(schedule.state.tree)
    cache: OrderedDict[object, None] = OrderedDict()
    misses = 0

    def visit(number: int, *indices: int) -> None:
        nonlocal misses
        item = items[number]
        statement = program.statement(item.leaf.statement)
        at = {**sizes, **dict(zip(item.leaf.indices, indices, strict=True))}
        values = {n: a.evaluate(at) for n, a in zip(statement.iterators, item.leaf.instance, strict=True)}
        written, read = touched(program, statement, {**sizes, **values})
        for element in (*read, written):
            if element not in cache:
                misses += 1
            cache[element] = None
            cache.move_to_end(element)
            if len(cache) > capacity // WIDTH:
                cache.popitem(last=False)

    walker(program, schedule.state.tree)(sizes, visit)
    return WIDTH * misses


def reckoned(schedule: tw.Schedule, sizes: dict[str, int], capacity: int) -> float:
    """The same by the model: what is read and written of a tensor comes once."""
    program = schedule.state.program
    passed = Levels(program, reached(program, placed(schedule.state.tree)), sizes).passed(capacity)
    tensors: dict[str, float] = {}
    for (tensor, _), size in passed.items():
        tensors[tensor] = max(tensors.get(tensor, 0.0), size)
    return sum(tensors.values())


ORDERS = {"product": ("ijk", "ikj", "kij", "jki", "tiles"), "windows": ("ij", "tiles"), "turned": ("ji", "tiles")}
CASES = [(name, how, capacity) for name, hows in ORDERS.items() for how in hows for capacity in (64, 400, 1200, 6000)]


@pytest.mark.parametrize(("name", "how", "capacity"), CASES)
def test_what_passes_is_what_a_cache_lets_pass(
    name: str, how: str, capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, "LINE", WIDTH)
    schedule = made(name, how)
    sizes = {n: 4 * p + 1 for n, p in zip(schedule.state.program.sizes, (4, 5, 3), strict=False)}
    want = simulated(schedule, sizes, capacity)
    assert reckoned(schedule, sizes, capacity) == pytest.approx(want, rel=0.15)


def test_a_buffer_that_a_level_holds_never_leaves_it() -> None:
    schedule = made("product", "tiles")
    copy = schedule.cache_read("B", schedule["C"].loops[1])
    program, items = schedule.state.program, placed(schedule.state.tree)
    found = Levels(program, reached(program, items), {"M": 64, "N": 64, "K": 64})
    assert not any(tensor == copy for tensor, _ in found.passed(8000))
    assert found.passed(100)[copy, "read"] > 0


def test_pieces_of_rows_are_whole_lines() -> None:
    schedule = made("turned", "tiles")
    program, items = schedule.state.program, placed(schedule.state.tree)
    passed = Levels(program, reached(program, items), {"M": 64, "N": 64}).passed(256)
    assert passed["Y", "write"] == 4 * 64 * 64
    assert passed["X", "read"] == 4 * 4 * 64 * 64  # 16 bytes of each line
