"""Sums in parts: programs that each add up a part, and a launch that merges the parts in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .recipe import SQUARE, block_all, summed_in_tiles
from .state import shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .groups import Contraction, Group
    from .recipe import Sizes, Steps


def in_parts(steps: Steps, group: Group, one: Contraction, sizes: Sizes) -> None:
    """Split a sum: programs for parts of it, which leave what they come to in memory, and a launch that merges them in
    order and does what comes after."""
    stage, root = one.stage, steps.state.program.stage(group.root)
    if set(group.members) - {stage} or len(one.summed) != 1:
        raise shape("parts", "a sum in parts is alone but for what reads it, and runs over one index")
    own = [f"{stage}.{r.index}" for r in steps.state.program.stage(stage).ranges]
    summed = f"{stage}.{one.summed[0]}"
    outer, inner = steps.split(summed, sizes.part)
    steps.rfactor(outer)
    part = steps.merge(f"{stage}.block", outer)
    # The parts get loops of their own, and what merges them the loops of what reads it.
    apart = [steps.distribute(loop) for loop in reversed(own)][::-1]
    merged = [found[1] for found in apart]
    for number in range(2, len(apart[0])):
        for mine, found in zip(merged, apart, strict=True):
            steps.merge(mine, found[number])
    if group.root != stage:
        for mine, read in zip(merged, root.ranges, strict=True):
            steps.merge(mine, f"{group.root}.{read.index}")
    row, column = own.index(f"{stage}.{one.rows[-1]}"), own.index(f"{stage}.{one.columns[-1]}")
    names = ", ".join(n.split(".")[-1] for n in own)
    steps.store(f"{stage}.blocks", layout=f"({names}, block) -> (block, {names})")
    first = _tiles(steps, one, own, part, inner, sizes)
    ro, ri = steps.split(merged[row], SQUARE)
    co, ci = steps.split(merged[column], sizes.lanes // SQUARE)
    grid = [*(n for n in merged if n not in (merged[row], merged[column])), ro, co]
    steps.reorder(*grid, ri, ci)
    steps.reorder(f"{stage}.block2", ri, ci)
    for name in dict.fromkeys((stage, group.root)):
        block_all(steps, name, (*grid, f"{stage}.block2", *first))
    for name in grid:
        steps.parallel(name)


def _tiles(steps: Steps, one: Contraction, own: Sequence[str], part: str, inner: str, sizes: Sizes) -> list[str]:
    """The launch of the parts: tiles of rows and columns for each, whose factors are loaded ahead; its outer loops."""
    row, column = f"{one.stage}.{one.rows[-1]}", f"{one.stage}.{one.columns[-1]}"
    ro, ri = steps.split(row, sizes.rows)
    co, ci = steps.split(column, sizes.columns)
    grid = [*(n for n in own if n not in (row, column)), ro, co, part]
    steps.reorder(*grid, ri, ci)
    ko, copies = summed_in_tiles(steps, one, (), inner, (ri, ci), sizes)
    for copy in copies:
        block_all(steps, copy, (*grid, ko))
    for name in grid:
        steps.parallel(name)
    return [*grid, ko]
