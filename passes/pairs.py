"""Reductions that carry two values: an argmax updates the index and the best value that it belongs to in one step.

Its elements may come in any order, as those of a maximum may, as long as a step stays one: the two updates of an
element run in the same iteration, and no update of another element comes between them or runs beside them in a block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from .dependence import one_step, same_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program, Statement
    from ..compiler.ir.tree import Placed
    from .dependence import Dependence

_OUT = isl.dim_type.out


def in_steps(program: Program, pair: Dependence, items: Sequence[Placed], maps: Sequence[isl.Map]) -> bool:
    """Whether the updates of an index and of the best value run step by step in a tree.

    *pair*: a dependence between the two. *maps*: { point -> instance } of each leaf of the tree.
    """
    source, target = program.statement(pair.source), program.statement(pair.target)
    turned = source.tensor == pair.tensor
    index, best, others = (target, source, pair.relation.reverse()) if turned else (source, target, pair.relation)
    updates = [n for n, item in enumerate(items) if item.leaf.statement in (index.name, best.name)]
    for a in (n for n in updates if items[n].leaf.statement == index.name):
        alone = maps[a].domain()
        for b in (n for n in updates if items[n].leaf.statement == best.name):
            first, second = items[a], items[b]
            same = maps[a].apply_range(maps[b].set_tuple_name(_OUT, index.name).reverse())
            same = same_buffer(same, first, second, best.tensor)
            if same.is_empty():
                continue
            alone = alone.subtract(same.domain())
            if not _in_one_body(first, second) or not same.is_subset(one_step(same)):
                return False
            if any(_between(first, items[n], second) for n in updates):
                return False
            beside = same_buffer(maps[a].apply_range(others).apply_range(maps[b].reverse()), first, second, best.tensor)
            if not _in_one_block(beside, first).is_empty():
                return False
        if not alone.is_empty():
            return False
    return True


def best_beside(program: Program, statement: Statement) -> Statement | None:
    """The update of the best value that goes with that of an index; None for all other statements."""
    best = statement.reduction.best if statement.reduction else ""
    own = program.statements_of(statement.stage)
    return next((s for s in own if best and s.tensor == best and s.kind == statement.kind), None)


def _in_one_body(first: Placed, second: Placed) -> bool:
    """Whether two leaves stand in one body, in this order, and no pipeline runs one of them further ahead."""
    levels = range(len(first.loops))
    together = len(first.places) == len(second.places) and first.places[:-1] == second.places[:-1]
    return together and first.places[-1] < second.places[-1] and all(first.lag(n) == second.lag(n) for n in levels)


def _in_one_block(pairs: isl.Map, item: Placed) -> isl.Map:
    """The pairs whose ends differ in the lanes of blocks alone: a leaf runs for all of those before the next one."""
    for level, loop in enumerate(item.loops):
        if loop.kind != "block":
            pairs = pairs.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
    return pairs


def _between(first: Placed, item: Placed, second: Placed) -> bool:
    """Whether a leaf stands between two of one body, in whatever loops of its own."""
    last = len(first.places) - 1
    if item.places[:last] != first.places[:last] or len(item.places) <= last:
        return False
    return first.places[last] < item.places[last] < second.places[last]
