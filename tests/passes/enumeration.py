"""Programs by plain enumeration: what runs, in which order, and what each instance touches; without isl."""

from __future__ import annotations

import math
import random
from functools import cache
from itertools import islice, product, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import tilewright as tw
from tilewright.compiler.ir.expr import Binary, Compare, Const, Index, Logic, Partial, Read, Select, children
from tilewright.compiler.ir.program import stages_of
from tilewright.compiler.ir.quasiaffine import holds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tilewright.compiler.ir.expr import Expr
    from tilewright.compiler.ir.program import Nested, Program, Statement
    from tilewright.compiler.ir.quasiaffine import Range

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").glob("*.tx")), *sorted((ROOT / "tests/kernels").glob("*.tx"))]

# What the files lack: reductions inside choices, slices with several ends, recurrences in both directions.
ODD = """
kernel guarded(X: f32[N, K]) -> (Y: f32[N]) {
    Y[i] = (sum(k) X[i + 1, k]) if i < N - 1 else 0
}
kernel guarded_self(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = (sum(k in 0..i, lanes=2) Y[k] * Y[i - 1]) if i % 3 > 0 else X[i]
}
kernel sides(X: f32[M], Z: f32[N]) -> (y: f32[M]) {
    T[0, j in 2..M + 2] = X[j - 2]
    T[1, j in 3..N + 3] = Z[j - 3]
    y[i] = T[0, i + 2] + (T[1, i + 3] if i < N else 0)
}
kernel blocks(X: f32[N]) -> (y: f32[N]) {
    y[i] = sum(k in i..N, blocks=2) X[k]
}
kernel pads(X: f32[N]) -> (y: f32[N]) {
    T[i] = X[i] * 2
    y[i] = (T[i - 1] else 0) + (T[i + 2] else 1) + (T[2 * i] else 0)
}
kernel both_ways(X: f32[M, N]) -> (Y: f32[M, N]) {
    Y[i, j] = X[i, j] + (Y[i - 1, j] if i > 0 else 0) + (Y[i, j + 1] if j < N - 1 else 0)
}
kernel evens(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = (Y[i // 2] if i > 1 and i % 2 == 0 else X[i])
}
kernel gathers(X: f32[M, N], at: i32[N]) -> (Y: f32[N], best: i64) where N >= 1 {
    T[i, j] = X[i, j]
    best = argmax(j in 0..N) at[j]
    Y[j] = sum(i in 0..M) T[i, best] * T[i, at[j]]
}
"""
KERNELS = {f"{f.parent.name}/{f.stem}:{n}": k.program for f in FILES for n, k in tw.load(f).items()}
KERNELS |= {f"odd:{n}": k.program for n, k in tw.parse(ODD).items()}

# Sizes of at most LARGEST are tried, LARGEST + 1 tuples of them a kernel, where there are no more instances than this.
LARGEST, INSTANCES = 5, 1200
# The one kernel whose promise needs more.
GIVEN = {
    "kernels/conv1d_dilated:conv1d_dilated": [{"B": 2, "L": 13, "C": 2, "O": 1}, {"B": 1, "L": 17, "C": 1, "O": 3}]
}

Instance = tuple[str, tuple[int, ...]]
Element = tuple[str, tuple[int, ...]]


# What runs, in order.


def span(each: Range, values: Mapping[str, int]) -> range:
    """The values of an index."""
    return range(max(a.evaluate(values) for a in each.lower), min(b.evaluate(values) for b in each.upper))


def points(ranges: Sequence[Range], values: dict[str, int], limit: int = 1 << 30) -> list[dict[str, int]]:
    """*values* with the indices of the ranges, in lexicographic order, up to about *limit* of them."""
    found = [values]
    for each in ranges:
        found = list(islice(({**p, each.index: v} for p in found for v in span(each, p)), limit))
    return found


def in_domain(program: Program, sizes: Mapping[str, int], limit: int) -> set[Instance] | None:
    """Every instance by the ranges of its statement and its guard; None where there are more than *limit*."""
    found: set[Instance] = set()
    for statement in program.statements:
        every = points(statement.ranges, dict(sizes), limit + 1)
        held = [p for p in every if holds(statement.guard, p)]
        found |= {(statement.name, tuple(p[n] for n in statement.iterators)) for p in held}
        if len(every) > limit or len(found) > limit:
            return None
    return found


def instances(program: Program, sizes: Mapping[str, int]) -> list[Instance]:
    """Every instance in the order of the definition: a nest for each equation, common loops for a recurrence."""
    return [found for item in program.order for found in _of_item(program, item, sizes, {})]


def _of_item(program: Program, item: Nested, sizes: Mapping[str, int], fixed: Mapping[int, int]) -> Iterator[Instance]:
    if isinstance(item, str):
        statements = program.statements_of(item)
        for point in _of_stage(program, item, sizes, fixed):
            yield from _nest(statements, len(program.stage(item).ranges), point)
        return
    stages = tuple(stages_of((item,)))
    values = {
        program.stage(name).lefts[item.position].evaluate(point)
        for name in stages
        for point in _of_stage(program, name, sizes, fixed)
    }
    for value in sorted(values, reverse=item.descending):
        for member in item.members:
            yield from _of_item(program, member, sizes, {**fixed, item.position: value})


def _of_stage(
    program: Program, name: str, sizes: Mapping[str, int], fixed: Mapping[int, int]
) -> Iterator[dict[str, int]]:
    """The values of an equation's indices at which it defines the elements with these positions."""
    stage = program.stage(name)
    for point in points(stage.ranges, dict(sizes)):
        if all(stage.lefts[place].evaluate(point) == value for place, value in fixed.items()):
            yield point


def _nest(statements: Sequence[Statement], depth: int, values: dict[str, int]) -> Iterator[Instance]:
    """Statements in turn; neighbours that run over the same further index share its loop."""
    while statements:
        first, *others = statements
        if len(first.ranges) == depth:
            if holds(first.guard, values):
                yield first.name, tuple(values[n] for n in first.iterators)
            statements = others
            continue
        each = first.ranges[depth]
        together = list(takewhile(lambda s, each=each: each in s.ranges[depth : depth + 1], statements))
        for value in span(each, values):
            yield from _nest(together, depth + 1, {**values, each.index: value})
        statements = statements[len(together) :]


# What an instance touches.


def known(node: Expr, values: Mapping[str, int]) -> int | bool | None:
    """The value of an expression of indices and sizes; None where it depends on data."""
    if isinstance(node, Const) and not isinstance(node.value, float):
        return node.value
    if isinstance(node, Index):
        return node.affine.evaluate(values)
    if isinstance(node, Compare):
        a, b = known(node.left, values), known(node.right, values)
        if a is None or b is None:
            return None
        return {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b}[node.op]
    if isinstance(node, Logic):
        found = [known(x, values) for x in node.operands]
        if node.op == "not":
            return None if found[0] is None else not found[0]
        deciding = node.op == "or"
        return deciding if deciding in found else None if None in found else not deciding
    if isinstance(node, Binary) and node.op in ("min", "max"):
        a, b = known(node.left, values), known(node.right, values)
        return None if a is None or b is None else min(a, b) if node.op == "min" else max(a, b)
    return None


def reads(program: Program, node: Expr, values: Mapping[str, int], live: bool, totals: bool) -> Iterator[Element]:
    """What evaluating an expression may read: of a choice both sides, unless indices alone decide it.

    A reduction within a choice runs in statements of its own, before it; with *totals*, what it gives counts as
    read also where the choice leaves it out.
    """
    if isinstance(node, Partial):
        prefix = tuple(s.affine.evaluate(values) for s in node.prefix)
        yield from ((node.tensor, (*prefix, lane)) for lane in range(node.count))
    elif isinstance(node, Select):
        chosen = known(node.condition, values)
        yield from reads(program, node.condition, values, live, totals)
        yield from reads(program, node.then, values, live and chosen is not False, totals)
        yield from reads(program, node.other, values, live and chosen is not True, totals)
    else:
        for child in children(node):
            yield from reads(program, child, values, live, totals)
    if isinstance(node, Read):
        counts = live or (totals and program.tensors[node.tensor].role == "accumulator")
        yield from elements(program, node, values) if counts and holds(node.guard, values) else ()


def elements(program: Program, node: Read, values: Mapping[str, int]) -> Iterator[Element]:
    """The elements of a read: any along a dimension whose position is data, only those inside where it is padded."""
    positions: list[range] = []
    for sub, extent in zip(node.subscripts, program.tensors[node.tensor].extents, strict=True):
        low = min(a.evaluate(values) for a in extent.lower)
        inside = range(low, max(b.evaluate(values) for b in extent.upper))
        here = sub.affine.evaluate(values) if isinstance(sub, Index) else None
        if here is None:
            positions.append(inside)
        else:
            positions.append(range(here, here + (node.fill is None or here in inside)))
    yield from ((node.tensor, position) for position in product(*positions))


def touched(
    program: Program, statement: Statement, values: Mapping[str, int], totals: bool = True
) -> tuple[Element, set[Element]]:
    """The element that an instance writes, and those it reads."""
    written = (statement.tensor, tuple(a.evaluate(values) for a in statement.position))
    return written, set(reads(program, statement.value, values, True, totals))


@cache
def chosen_sizes(name: str) -> list[dict[str, int]]:
    """Sizes that keep the kernel's promises: for each greatest size a seeded choice with few enough instances."""
    if name in GIVEN:
        return GIVEN[name]
    program, draw = KERNELS[name], random.Random(name)
    every = [dict(zip(program.sizes, t, strict=True)) for t in product(range(LARGEST + 1), repeat=len(program.sizes))]
    every = [s for s in every if holds(program.context, s)]
    draw.shuffle(every)
    found: list[dict[str, int]] = []
    for largest in range(LARGEST + 1):
        fitting = (s for s in every if max(s.values()) == largest and math.prod(s.values()) <= INSTANCES)
        small = (s for s in list(fitting)[:60] if in_domain(program, s, INSTANCES) is not None)
        found += [s for s in [next(small, None)] if s is not None]
    return found
