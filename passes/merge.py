"""merge and distribute: two neighbouring loops as one, and one loop as several (loop fusion and fission)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.quasiaffine import TRUE, Affine
from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, fresh
from .reindex import ascending
from .state import State, find_loop, reindexed, renamed, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence


def merge(state: State, first: str, second: str, shifted: int = 0) -> State:
    """Run two neighbouring loops as one, under the name of the first; the second's iteration i runs at i + *shifted*.

    Rewrite::

        for i: S[i]; for j: T[j]   ->   for i: S[i]; T[i]     (each where its own range has i)

    If one of them runs downwards it is renumbered upwards first, from its last value, so that the other sets the
    direction. Legal when no instance of T is needed by, or needs, a later S.

    Raises:
        IllegalTransformError: the loops are not neighbours, or run in different ways (rule shape).
    """
    step = f"merge({first}, {second})" if not shifted else f"merge({first}, {second}, {shifted})"
    if type(shifted) is not int:
        raise shape(step, "the second loop is shifted by a whole number")
    a, b = find_loop(state, first, step), find_loop(state, second, step)
    if a.descending != b.descending:
        state = ascending(state, first if a.descending else second, step)
        a, b = find_loop(state, first, step), find_loop(state, second, step)
    if a.kind != b.kind or a.fused or b.fused:
        raise shape(step, f"{first} and {second} run in different ways", "merge before marking, reversing or fusing")
    if not _neighbours(state.tree, first, second):
        raise shape(step, f"{second} does not stand right behind {first}", "merge loops that follow each other")
    value = Affine.name(second) - shifted
    body = renamed(reindexed(state.program, b.body, second, (second,), value, TRUE), {second: first})
    tree = replace_loop(state.tree, second, lambda _: [])
    return State(state.program, replace_loop(tree, first, lambda node: [replace(node, body=(*node.body, *body))]))


def _neighbours(nodes: Sequence[Node], first: str, second: str) -> bool:
    names = [n.index if isinstance(n, Loop) else "" for n in nodes]
    if first in names and names.index(first) + 1 < len(names) and names[names.index(first) + 1] == second:
        return True
    return any(_neighbours(n.body, first, second) for n in nodes if not isinstance(n, Leaf))


def distribute(state: State, loop: str) -> tuple[State, tuple[str, ...]]:
    """Give every member of a loop's body a loop of its own; the first keeps the name. Returns the names.

    Legal when no dependence runs from a later member to an earlier one in a later iteration.

    Raises:
        IllegalTransformError: the body has one member, or a buffer that its members share (rule shape).
    """
    step = f"distribute({loop})"
    found = find_loop(state, loop, step)
    if any(isinstance(node, Alloc) for node in found.body):
        raise shape(step, f"a buffer is private to each iteration of {loop}", "distribute before compute_at")
    if len(found.body) < 2:
        raise shape(step, f"{loop} has one member: there is nothing to distribute")
    taken = set(state.loop_names)
    names = [loop]
    parts: list[Node] = [replace(found, body=found.body[:1])]
    for member in found.body[1:]:
        name = fresh(loop, taken)
        taken.add(name)
        names.append(name)
        parts.append(replace(found, index=name, body=renamed((member,), {loop: name})))
    return State(state.program, replace_loop(state.tree, loop, lambda _: parts)), tuple(names)
