"""Schedules run instance by instance, and the small recurrences on which their legality is known by counting."""

from __future__ import annotations

from functools import cache
from itertools import product
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from tilewright.compiler.ir.tree import placed
from tilewright.compiler.ir.walk import walker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Pair = tuple[int, int]


def kernel(text: str) -> tw.Kernel:
    """The only kernel of a text."""
    (found,) = tw.parse(text).values()
    return found


@cache
def recurrence(rows: int, columns: int) -> tw.Kernel:
    """A[i, j] needs A[i - rows, j - columns]: one distance, in a nest of A.i and A.j."""
    inside = f"i >= {rows} and i < M + {rows} and j >= {columns} and j < N + {columns}"
    return kernel(
        "kernel needs(X: i32[M, N]) -> (A: i32[M, N]) {"
        f" A[i, j] = X[i, j] + (A[i - ({rows}), j - ({columns})] if {inside} else 0) }}"
    )


def nest(distance: Pair) -> tw.Schedule:
    """A schedule of `recurrence(*distance)` with A.i outside A.j: the definition may have its own reasons."""
    schedule = tw.Schedule(recurrence(*distance))
    if schedule.loops != ("A.i", "A.j"):
        schedule.reorder("A.i", "A.j")
    return schedule


def run(schedule: tw.Schedule, sizes: Mapping[str, int]) -> list[tuple[str, tuple[int, ...]]]:
    """The instances that a schedule runs, in its order: statement, values of its iterators."""
    items = placed(schedule.state.tree)
    found: list[tuple[str, tuple[int, ...]]] = []

    def visit(number: int, *indices: int) -> None:
        leaf = items[number].leaf
        values = {**sizes, **dict(zip(leaf.indices, indices, strict=True))}
        found.append((leaf.statement, tuple(a.evaluate(values) for a in leaf.instance)))

    walker(schedule.kernel.program, schedule.state.tree)(sizes, visit)
    return found


def points(schedule: tw.Schedule, sizes: Mapping[str, int], statement: str) -> list[tuple[int, ...]]:
    """The instances of one statement, in order."""
    return [point for name, point in run(schedule, sizes) if name == statement]


def grid(rows: int, columns: int) -> list[Pair]:
    """Every pair below (rows, columns), in lexicographic order."""
    return list(product(range(rows), range(columns)))


def keeps(order: Sequence[Pair], distance: Pair) -> bool:
    """Whether every point comes after the one at this distance before it."""
    rank = {point: n for n, point in enumerate(order)}
    before = {(i, j): (i - distance[0], j - distance[1]) for i, j in order}
    return all(rank[b] < rank[p] for p, b in before.items() if b in rank)


def agrees(schedule: tw.Schedule, step: Callable[[tw.Schedule], object], order: Sequence[Pair], distance: Pair) -> None:
    """A step on `nest(distance)` is accepted exactly if the order that it asks for, given whole, keeps it."""
    size = {"M": max(i for i, _ in order) + 1, "N": max(j for _, j in order) + 1}
    if keeps(order, distance):
        step(schedule)
        assert points(schedule, size, "S_A") == list(order)
    else:
        text = str(schedule)
        assert refused(step, schedule).rule == "dependence"
        assert str(schedule) == text


def refused(step: Callable[[tw.Schedule], object], schedule: tw.Schedule) -> tw.Refusal:
    """The refusal of a step; nothing else may change."""
    before = (str(schedule), schedule.trace, schedule.loops)
    with pytest.raises(tw.IllegalTransformError) as caught:
        step(schedule)
    assert (str(schedule), schedule.trace, schedule.loops) == before
    return caught.value.refusal


def lines(schedule: tw.Schedule) -> list[str]:
    """The lines of a schedule without the notes behind them."""
    return [line.partition("  #")[0].rstrip() for line in str(schedule).splitlines()]


def distinct(values: Iterable[object]) -> bool:
    """Whether no value stands twice."""
    found = list(values)
    return len(set(found)) == len(found)
