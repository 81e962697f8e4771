"""skew, shift and reverse: the same iterations under other numbers, or in the opposite order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.quasiaffine import TRUE, Affine
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


def reverse(state: State, loop: str) -> State:
    """Run a loop downwards. Legal when it carries no dependence.

    Raises:
        IllegalTransformError: no such loop (rule shape).
    """
    find_loop(state, loop, f"reverse({loop})")
    tree = replace_loop(state.tree, loop, lambda node: [replace(node, descending=not node.descending)])
    return State(state.program, tree)
