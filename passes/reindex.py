"""skew, shift and reverse: the same iterations under other numbers, or in the opposite order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.hulls import pieces
from ..compiler.ir.quasiaffine import TRUE, Affine
from ..compiler.ir.tree import leaves
from .state import State, find_loop, path_to, reindexed, replace_loop, shape

if TYPE_CHECKING:
    from ..compiler.ir.tree import Loop, Node


def shift(state: State, loop: str, offset: int) -> State:
    """Add *offset* to every value of a loop's index; what runs when is unchanged. Always legal.

    Raises:
        IllegalTransformError: no such loop (rule shape).
    """
    find_loop(state, loop, f"shift({loop}, {offset})")
    if type(offset) is not int:
        raise shape(f"shift({loop}, {offset})", "a loop is shifted by a whole number")
    return _renumbered(state, loop, Affine.name(loop) - offset)


def skew(state: State, loop: str, by: str, factor: int) -> State:
    """Number the iterations of *loop* by its index + factor * the index of *by*, a loop around it.

    Always legal on its own; afterwards a reorder of the two may be legal that was not before::

        for t: for x: S[t, x]   ->   for t: for x in t..t + N: S[t, x - t]

    Raises:
        IllegalTransformError: *by* is not around *loop* (rule shape).
    """
    step = f"skew({loop}, {by}, {factor})"
    find_loop(state, loop, step)
    find_loop(state, by, step)
    if type(factor) is not int:
        raise shape(step, "a loop is skewed by a whole number times another")
    around = [outer.index for outer in path_to(state.tree, loop)][:-1]
    if by not in around:
        raise shape(step, f"{by} is not around {loop}", f"around it: {', '.join(around)}" if around else None)
    return _renumbered(state, loop, Affine.name(loop) - Affine.name(by).scaled(factor))


def _renumbered(state: State, loop: str, value: Affine) -> State:
    def change(node: Loop) -> list[Node]:
        body = reindexed(state.program, node.body, loop, (loop,), value, TRUE)
        return [replace(node, body=body)]

    return State(state.program, replace_loop(state.tree, loop, change))


def ascending(state: State, loop: str, step: str) -> State:
    """A descending loop as an ascending one over the same range: index i runs as low + high - i.

    Raises:
        IllegalTransformError: the ends of its range are not one expression in the sizes (rule shape).
    """
    found = find_loop(state, loop, step)
    values: isl.Set | None = None
    for leaf in leaves(found.body):
        level = leaf.indices.index(loop)
        own = leaf.domain.project_out(isl.dim_type.set, level + 1, len(leaf.indices) - level - 1)
        own = own.project_out(isl.dim_type.set, 0, level)
        values = own if values is None else values.union(own)
    assert values is not None
    lows, highs = pieces(values.dim_min(0)), pieces(values.dim_max(0))
    if len(lows) != 1 or len(highs) != 1:
        raise shape(step, f"{loop} runs downwards over a range with several ends", f"reverse({loop}) first")
    turned = _renumbered(state, loop, lows[0] + highs[0] - Affine.name(loop))
    tree = replace_loop(turned.tree, loop, lambda node: [replace(node, descending=False)])
    return State(state.program, tree)


def reverse(state: State, loop: str) -> State:
    """Run a loop downwards. Legal when it carries no dependence.

    Raises:
        IllegalTransformError: no such loop (rule shape).
    """
    find_loop(state, loop, f"reverse({loop})")
    tree = replace_loop(state.tree, loop, lambda node: [replace(node, descending=not node.descending)])
    return State(state.program, tree)
