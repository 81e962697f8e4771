"""A schedule for a GPU: a fixed heuristic made of steps that anybody could take, each of them checked.

Elementwise equations are written into their readers, but for functions of a row that several read. Then each output, or
tensor that something multiplies, is one launch: what only it needs is computed where a program needs it. A contraction
gets tiles of rows and columns and loads its factors ahead; an equation over rows that are summed, or of which the
greatest element is taken, a program for each row; all else tiles along the last index. Where a step is refused, the
heuristic does without it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Call, postorder
from .groups import (
    Contraction,
    Group,
    contraction,
    dimensions,
    greatest,
    groups,
    multiplied,
    reads,
    reductions,
    same_rows,
    transposed,
)
from .parts import in_parts
from .recipe import SQUARE, attempt, block_all, summed_in_tiles
from .rows import along_row, piece_of_row, read_again, read_along

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program, Stage
    from .recipe import Sizes, Steps


def schedule_for_gpu(steps: Steps, sizes: Sizes, contracts: bool = True, apart: frozenset[str] = frozenset()) -> None:
    """Take the steps. What no recipe fits stays as it is: one program runs it, element by element.

    *contracts*: whether contractions get tiles of rows and columns, for matrix units; *apart*: equations that have a
    launch of their own, whoever reads them.
    """
    inline_all(steps, sizes.whole, apart)
    program = steps.state.program
    waiting = groups(program, apart)
    while waiting:
        group = waiting.pop(0)
        found = [c for n in (*group.members, group.root) if (c := contraction(program, program.stage(n)))]
        if contracts and sizes.part and len(found) == 1 and attempt(steps, in_parts, steps, group, found[0], sizes):
            continue
        if contracts and found and attempt(steps, _contractions, steps, group, found, sizes):
            continue
        together = [group]
        while waiting and not {waiting[0].root, group.root} & apart and _joins(program, together, waiting[0]):
            together.append(waiting.pop(0))
        if len(together) > 1 and attempt(steps, _rows_together, steps, together, sizes):
            continue
        waiting = [*together[1:], *waiting]
        attempt(steps, _along_rows, steps, group, sizes)


def _joins(program: Program, together: Sequence[Group], group: Group) -> bool:
    """Whether a group without contractions can have the programs of those before it, which reduce its rows."""
    names = (*group.members, group.root)
    return any(reductions(program.stage(n)) for g in together for n in (*g.members, g.root)) and (
        not any(contraction(program, program.stage(n)) for n in names)
        and any(same_rows(program, g, group) for g in together)
    )


def inline_all(steps: Steps, longest: int | None, apart: frozenset[str] = frozenset()) -> None:
    """Write the elementwise equations into their readers, but for what a contraction multiplies, and functions of a row
    that stays where it is, which is not longer than *longest* (None: any)."""
    program = steps.state.program
    factors = multiplied(program)
    kept: list[str] = []
    for stage in program.stages:
        if stage.tensor in (*program.outputs, *factors) or reductions(stage) or stage.name in apart:
            continue
        if _costs_more(program, stage, longest):
            kept.append(stage.name)
        else:
            attempt(steps, steps.inline, stage.name)
    within = {name for group in groups(steps.state.program, apart) for name in group.members}
    for name in kept:
        if name not in within and longest is not None:
            attempt(steps, steps.inline, name)


def _costs_more(program: Program, stage: Stage, longest: int | None) -> bool:
    """Whether an equation calls a function of elements of a row that fits into a tile, and several read them."""
    calls = any(isinstance(node, Call) and node.function != "fma" for node in postorder(stage.value))
    readers = [s for s in program.stages if stage.tensor in {n.tensor for n in reads(s.value)}]
    row = bool(stage.ranges)
    if longest is not None and row:
        bound = greatest(program, stage.name, stage.ranges[-1].index)
        row = bound is not None and bound < longest
    return calls and row and len(readers) > 1 and any(reductions(reader) for reader in readers)


def _contractions(steps: Steps, group: Group, found: Sequence[Contraction], sizes: Sizes) -> None:
    """Tiles of rows and columns; the sums in tiles too, with their factors loaded ahead. All other indices are grid."""
    program = steps.state.program
    order = [r.index for r in program.stage(group.root).ranges]
    of = dimensions(program, group)
    rows = [n for n in order if any(n in of[c.stage][r] for c in found for r in c.rows)]
    columns = [n for n in order if any(n in of[c.stage][r] for c in found for r in c.columns)]
    if not rows or not columns or set(rows) & set(columns):
        _along_rows(steps, group, sizes)
        return
    loop = {n: f"{group.root}.{n}" for n in order}
    split = {n: steps.split(loop[n], size) for n, size in _spread(rows, sizes, any(c.padded for c in found)).items()}
    co, ci = steps.split(loop[columns[-1]], sizes.columns)
    outer = [loop[n] for n in order if n not in (*split, columns[-1])]
    ro, ri = [o for o, _ in split.values()], [i for _, i in split.values()]
    steps.reorder(*outer, *ro, co, *ri, ci)
    for member in reversed(group.members):
        steps.compute_at(member, co)
    serial: list[str] = []
    copies: list[str] = []
    for one in found:
        *before, last = (f"{one.stage}.{n}" for n in one.summed)
        own = [f"{one.stage}.{r.index}" for r in program.stage(one.stage).ranges]
        ko, loaded = summed_in_tiles(steps, one, before, last, [*ri, ci] if one.stage == group.root else own, sizes)
        serial += [*before, ko]
        copies += loaded
        for outside, within in itertools.pairwise([*before, ko]):
            # One loop over all that is summed: loads are under way across its whole length.
            attempt(steps, steps.fuse, outside, within)
    grid = [*outer, *ro, co]
    for stage in (*copies, *group.members, group.root):
        block_all(steps, stage, (*grid, *serial))
    tiles = (ro[-1], co)
    if sizes.together > 1:
        tiles = steps.group(ro[-1], co, sizes.together)
    first, *rest = (*outer, *ro[:-1], *tiles)
    if sizes.processors:
        steps.bind(first, "processors")
    else:
        steps.parallel(first)
    for name in rest:
        steps.parallel(name)
    if sizes.consumers:
        last = [] if any(one.stage == group.root for one in found) else [group.root]
        attempt(steps, lambda: steps.roles(serial[-1], sizes.consumers, *last))


def _spread(rows: Sequence[str], sizes: Sizes, padded: bool) -> dict[str, int]:
    """By how much to split which of the indices that are rows together: the last one; where neighbours are read, which
    are fewer round a square, the last two by 8, and one more by what is left."""
    if not padded or len(rows) < 2 or sizes.rows < SQUARE**2:
        return {rows[-1]: sizes.rows}
    left = sizes.rows // SQUARE**2
    if len(rows) == 2 or left == 1:
        return {rows[-2]: SQUARE * left, rows[-1]: SQUARE}
    return {rows[-3]: left, rows[-2]: SQUARE, rows[-1]: SQUARE}


def _along_rows(steps: Steps, group: Group, sizes: Sizes) -> None:
    """A program for each row, or for some rows where a sum over one has to run in its order; else tiles of elements."""
    program = steps.state.program
    root = program.stage(group.root)
    order = [r.index for r in root.ranges]
    reduced = [n for n in (*group.members, group.root) if reductions(program.stage(n))]
    if not order and (group.members or not reduced):
        return
    if not reduced:
        _elementwise(steps, root, order, sizes)
        return
    of = dimensions(program, group)
    shared = [n for n in order if all(any(n in d for d in of[m].values()) for m in reduced)]
    for name in _rows(steps, group, shared, sizes, ordered=not all(_any_order(program, name) for name in reduced)):
        steps.parallel(name)


def _rows_together(steps: Steps, together: Sequence[Group], sizes: Sizes) -> None:
    """One program for a row of several groups: the first ones reduce it, and the others read what they come to."""
    program = steps.state.program
    rows = [r.index for r in program.stage(together[0].root).ranges]
    names = [n for g in together for n in (*g.members, g.root) if reductions(program.stage(n))]
    ordered = not all(_any_order(program, n) for n in names)
    (first, *others) = [
        _rows(steps, g, [r.index for r in program.stage(g.root).ranges[: len(rows)]], sizes, ordered) for g in together
    ]
    for grid in others:
        for mine, other in zip(first, grid, strict=True):
            steps.merge(mine, other)
    for name in first:
        steps.parallel(name)


def _rows(steps: Steps, group: Group, shared: Sequence[str], sizes: Sizes, ordered: bool) -> list[str]:
    """The loops over a group's rows, those of the index *shared*, with all else inside as tiles of a row or of some."""
    program = steps.state.program
    root = program.stage(group.root)
    order = [r.index for r in root.ranges]
    grid = [f"{root.name}.{n}" for n in shared]
    inside = [f"{root.name}.{n}" for n in order if n not in shared]
    rows: list[str] = []
    if grid:
        grid[-1], row = steps.split(grid[-1], sizes.strict if ordered else 1)
        rows = [row]
        steps.reorder(*grid, *inside, *rows)
    for member in reversed(group.members):
        steps.compute_at(member, grid[-1] if grid else inside[0])
    serial = list(grid)
    piece = piece_of_row(program, group, shared, sizes.whole) if rows and not ordered else 0
    for name in (*group.members, group.root):
        stage = program.stage(name)
        summed = [f"{name}.{r.index}" for node in reductions(stage) for r in node.ranges]
        own = [*inside, *rows] if name == group.root else [f"{name}.{r.index}" for r in stage.ranges]
        along = summed or (list(inside) if name == group.root else [])
        if piece:
            along = [f"{name}.{n}" for n in along_row(program, group, name, shared)]
        across = [n for n in own if n not in along]
        if along and ordered:
            steps.reorder(*along, *across)
            serial += along
        elif along:
            lanes = [node.order.size for node in reductions(stage) if node.order.kind == "lanes"]
            bound = greatest(program, name, along[-1].split(".")[-1])
            if not lanes and not piece and bound is not None and bound < sizes.whole:
                steps.reorder(*along[:-1], *across, along[-1])
                serial += along[:-1]
                continue
            outer, inner = steps.split(along[-1], piece or (lanes[0] if lanes else sizes.lanes))
            steps.reorder(*along[:-1], outer, *across, inner)
            serial += [*along[:-1], outer]
            if piece:
                steps.unroll(outer)
    copies: list[str] = []
    if grid and (piece or len(serial) == len(grid)):
        for tensor in read_along(program, group, shared) if piece else read_again(program, group, shared):
            attempt(steps, lambda t: copies.append(steps.cache_read(t, grid[-1])), tensor)
    for copy in copies if piece else ():
        *others, last = (n for n in steps[copy].loops if n not in grid)
        outer, inner = steps.split(last, piece)
        steps.reorder(outer, *others, inner)
        steps.unroll(outer)
        serial.append(outer)
    for name in (*copies, *group.members, group.root):
        block_all(steps, name, serial)
    return grid


def _elementwise(steps: Steps, root: Stage, order: Sequence[str], sizes: Sizes) -> None:
    last = order[-1]
    other = transposed(root, last)
    grid = [f"{root.name}.{n}" for n in order]
    inner: list[str] = []
    for index, size in ((other, sizes.side), (last, sizes.side if other else sizes.elements)):
        if index is not None:
            place = grid.index(f"{root.name}.{index}")
            grid[place], within = steps.split(grid[place], size)
            inner.append(within)
    steps.reorder(*grid, *inner)
    steps.block(*inner)
    for name in grid:
        steps.parallel(name)


def _any_order(program: Program, name: str) -> bool:
    """Whether lanes may share each sum of an equation."""
    updates = [s for s in program.statements_of(name) if s.kind == "update" and s.reduction is not None]
    return all(program.free_order(s) or (s.reduction and s.reduction.order.kind == "lanes") for s in updates)
