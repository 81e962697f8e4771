"""pipeline: what a loop's iteration loads is loaded some iterations ahead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.tree import Alloc, Loop, Node, leaves
from .state import State, find_loop, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program


def pipeline(state: State, loop: str, stages: int) -> State:
    """Run the part of a loop's body that fills its private buffers *stages* - 1 iterations before the rest.

    Each such buffer then has *stages* versions, and iteration i uses version i modulo *stages*::

        for ko: X_cache = X[ko]; use(X_cache)
            ->   iteration ko:  X_cache[(ko + 2) % 3] = X[ko + 2];  use(X_cache[ko % 3])        (stages = 3)

    Legal when what runs ahead needs nothing from the iterations that it overtakes, in this order and in the loop's own.

    Raises:
        IllegalTransformError: no such loop, a number of stages below 2, or nothing in the loop fills a buffer that is
            private to its iterations (rule shape).
    """
    step = f"pipeline({loop}, {stages})"
    found = find_loop(state, loop, step)
    if type(stages) is not int or stages < 2:
        raise shape(step, f"a pipeline has 2 stages or more; this is {stages!r}")
    if found.kind != "serial" or found.fused:
        raise shape(step, f"{loop} is marked {found.kind if not found.fused else 'as fused'}", "pipeline a serial loop")
    ahead = _ahead(state.program, found)
    if not ahead:
        text = f"nothing at the start of {loop} fills a buffer of its own iteration: nothing could run ahead"
        raise shape(step, text, "cache_read a tensor at this loop first")
    marked = lambda node: [replace(node, stages=stages, ahead=frozenset(ahead))]  # noqa: E731
    return State(state.program, replace_loop(state.tree, loop, marked))


def _ahead(program: Program, loop: Loop) -> list[str]:
    """The statements of the members at the start of a body that write nothing but buffers private to an iteration."""
    private, members = _members(loop.body)
    found: list[str] = []
    for count, member in enumerate(members):
        names = [leaf.statement for leaf in leaves((member,))]
        if count == len(members) - 1 or not all(_fills(program, name, private) for name in names):
            break
        found += names
    later = {leaf.statement for member in members for leaf in leaves((member,))} - set(found)
    return [name for name in found if name not in later]


def _fills(program: Program, statement: str, private: Sequence[str]) -> bool:
    found = program.statement(statement)
    return found.tensor in private and found.kind == "assign"


def _members(body: Sequence[Node]) -> tuple[list[str], list[Node]]:
    """The tensors with a buffer directly in a body, and its members."""
    private: list[str] = []
    members: list[Node] = []
    for node in body:
        if isinstance(node, Alloc):
            inside, below = _members(node.body)
            private += [node.tensor, *inside]
            members += below
        else:
            members.append(node)
    return private, members
