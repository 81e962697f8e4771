"""A schedule for a CPU: a fixed heuristic made of steps that anybody could take, each of them checked.

Elementwise equations are written into their readers, but for functions of a row that several read. Then each output, or
tensor that is kept, is one nest. A sum of products whose factors have indices of their own gets tiles
(cpu_products.py); rows that are reduced stay in a buffer of one row; all else
runs along the last index. The last index is a vector's, the first one parallel. Where a step is refused, the heuristic
does without it.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from .auto import inline_all
from .cpu_products import FEW, known_rows, product, streamed, tiled
from .groups import dimensions, groups, reductions, transposed
from .recipe import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.expr import Reduce
    from .cpu_products import CpuSizes, Product
    from .groups import Group
    from .recipe import Steps

# A factor of so many bytes is read again for each panel without a loss: products of 512 to 1,024 are 3 to 8 % faster by
# panels of 56 rows than of 336, those of 1,280 (6.5 MB) and more slower. The model of costs does not see why.
NEAR = 9 << 19


def schedule_for_cpu(
    steps: Steps, sizes: CpuSizes, at: Mapping[str, int] | None = None, near: int | None = None
) -> None:
    """Take the steps. What no recipe fits stays as it is, and runs element by element.

    *at*: sizes that it is made for; it runs at others as well. *near*: the rows of a panel where the factor with
    columns is so small at those sizes that the last cache gives it quickly (None: as many as ever).
    """
    inline_all(steps, None)
    program = steps.state.program
    for group in groups(program):
        names = (*group.members, group.root)
        found = [p for n in names if (p := product(program, program.stage(n))) is not None]
        if len(found) == 1 and _contracted(steps, group, found[0], sizes, at, near):
            continue
        if any(reductions(program.stage(n)) for n in names) and attempt(steps, _rows, steps, group):
            continue
        attempt(steps, _elements, steps, group, sizes)


def _contracted(
    steps: Steps, group: Group, one: Product, sizes: CpuSizes, at: Mapping[str, int] | None, near: int | None
) -> bool:
    program = steps.state.program
    if at is not None and near is not None:
        other = program.tensors[one.right]
        if prod(other.shape(at)) * other.dtype.bits // 8 <= NEAR:
            sizes = replace(sizes, panel=near)
    rows = known_rows(program, one, at) if at is not None else FEW + 1
    if 0 < rows <= FEW and attempt(steps, streamed, steps, group, one, sizes, rows):
        return True
    return attempt(steps, tiled, steps, group, one, sizes)


def _rows(steps: Steps, group: Group) -> None:
    """A row at a time: what only it needs is computed in the row's iteration. A sum that is one number is one row."""
    program = steps.state.program
    root = program.stage(group.root)
    names = (*group.members, group.root)
    reduced = [n for n in names if reductions(program.stage(n))]
    of = dimensions(program, group)
    shared = [r.index for r in root.ranges if all(any(r.index in d for d in of[m].values()) for m in reduced)]
    if not shared and root.ranges:
        return
    grid = [f"{group.root}.{n}" for n in shared]
    inside = [f"{group.root}.{r.index}" for r in root.ranges if r.index not in shared]
    if len(grid) + len(inside) > 1:
        steps.reorder(*grid, *inside)
    for member in reversed(group.members) if grid else ():
        steps.compute_at(member, grid[-1])
    for name in names if grid else reduced:
        stage = program.stage(name)
        lanes = [n for n in reductions(stage) if n.order.kind == "lanes"]
        if lanes:
            attempt(steps, _lanes, steps, name, lanes[0])
        elif reductions(stage):
            # Legal where the order of the sum makes no difference, or is left free.
            attempt(steps, steps.vectorize, f"{name}.{reductions(stage)[0].ranges[-1].index}")
        else:
            last = steps[name].loops[-1]
            if last not in grid:
                attempt(steps, steps.vectorize, last)
    if grid:
        steps.parallel(grid[0])


def _lanes(steps: Steps, name: str, node: Reduce) -> None:
    """A sum that goes by lanes, a vector of them at a time."""
    loop = f"{name}.{node.ranges[-1].index}"
    _, inner = steps.split(loop, node.order.size)
    steps.vectorize(inner)
    for own in steps[name].loops:
        if own.split(".")[-1] == "lane":
            steps.vectorize(own)


def _elements(steps: Steps, group: Group, sizes: CpuSizes) -> None:
    root = steps.state.program.stage(group.root)
    order: Sequence[str] = [f"{group.root}.{r.index}" for r in root.ranges]
    if not order or reductions(root):
        return
    other = transposed(root, root.ranges[-1].index)
    if other is not None:
        # Elements of one line of the cache are read in rows, and written in columns.
        across, along = f"{group.root}.{other}", order[-1]
        ao, bo, _, bi = steps.tile(across, along, sizes.side, sizes.side)
        rest = [n for n in order if n not in (across, along)]
        steps.reorder(*rest, ao, bo)
        steps.vectorize(bi)
        steps.parallel(rest[0] if rest else ao)
        return
    if len(order) == 1:
        outer, inner = steps.split(order[0], sizes.chunk)
        steps.vectorize(inner)
        steps.parallel(outer)
        return
    steps.vectorize(order[-1])
    steps.parallel(order[0])
