"""roles: the parts of a tile's work run at once, each in warps of its own, and hand tiles on through buffers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.tree import Loop, Node, Placed, Roles, instance_map, leaves, loops, opened, placed
from .dependence import dependences
from .legality import Violation
from .state import State, find_loop, path_to, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .dependence import Dependence

PARTS = ("the producer", "the consumers", "the epilogue")


def roles(state: State, loop: str, consumers: int, *epilogue: str) -> State:
    """Give the work of an iteration around a pipelined loop to several parts, which run at once.

    The producer runs what the pipeline runs ahead; *consumers* share the rest, each some rows of its tiles; the stages
    named last are run by one more, the epilogue, while the consumers are at the next iteration::

        for tile:                         producer:  for tile: for ko: A_cache = A[tile, ko]
            for ko: A_cache = A[tile, ko]
                    C += f(A_cache)   ->  consumers: for tile: for ko: C += f(A_cache)
            Y[tile] = g(C)                epilogue:  for tile: Y[tile] = g(C)

    A buffer that one part fills and a later one reads is handed on: whoever fills it waits until it is empty, whoever
    reads it until it is full. Legal if the parts share nothing else that one of them writes.

    Raises:
        IllegalTransformError: the loop is no pipeline, or something around it runs in order; there is no such stage
            after the loop, or others follow it (rule shape). Parts share what is not handed on (rule race).
    """
    step = f"roles({', '.join([loop, str(consumers), *epilogue])})"
    found = find_loop(state, loop, step)
    if found.stages < 2:
        raise shape(step, f"{loop} is no pipeline: nothing is loaded ahead", f"pipeline({loop}, 3) first")
    if type(consumers) is not int or consumers < 1:
        raise shape(step, f"there is one consumer or more; this is {consumers!r}")
    beside = list(leaves(_body_around(state.tree, loop)))
    inside = {leaf.statement for leaf in leaves((found,))}
    names: set[str] = set()
    for stage in epilogue:
        own = {s.name for s in state.program.statements if s.stage == stage}
        here = own & {leaf.statement for leaf in beside}
        if not here or here & inside:
            text = f"{stage} is no stage that runs beside {loop}, in the same iteration of the loops around it"
            raise shape(step, text, "compute it there first, or name a stage that is")
        names |= here
    made = Roles(consumers, frozenset(names))
    return State(state.program, replace_loop(state.tree, loop, lambda node: [replace(node, roles=made)]))


def require_roles(step: str, state: State) -> None:
    """Check that what is around every loop with roles has the form that they need.

    Raises:
        IllegalTransformError: it has not (rule shape).
    """
    for loop in loops(state.tree):
        if loop.roles is None:
            continue
        if loop.stages < 2:
            raise shape(step, f"{loop.index} has roles, and would be no pipeline", "give it roles last")
        for outer in path_to(state.tree, loop.index)[:-1]:
            if outer.kind not in ("bind", "parallel"):
                text = f"{outer.index}, around {loop.index}, runs in order, and roles are at several of its iterations"
                raise shape(step, text, f"parallel({outer.index}) or bind it first, and mark it so only")
        last = 0
        for part, item in _parts(state, loop):
            if part and part < last:
                stage = state.program.statement(item.leaf.statement).stage
                text = f"{stage} runs after {PARTS[last]}, and is of {PARTS[part]}"
                raise shape(step, text, "name every stage from the first of the epilogue on")
            last = max(last, part)


def clash(state: State) -> tuple[str, Violation] | None:
    """What parts of a loop with roles share and do not hand on: why not, and a dependence between them."""
    for loop in loops(state.tree):
        if loop.roles is None:
            continue
        around = path_to(state.tree, loop.index)[:-1]
        parts = _parts(state, loop)
        for d in dependences(state.program):
            for a, first in parts:
                for b, second in parts:
                    if a == b or (first.leaf.statement, second.leaf.statement) != (d.source, d.target):
                        continue
                    why = _not_handed(d, first, second, a < b, len(around) + (min(a, b) == 0))
                    maps = (instance_map(state.program, first.leaf), instance_map(state.program, second.leaf))
                    pairs = maps[0].apply_range(d.relation).apply_range(maps[1].reverse())
                    if why and not pairs.is_empty():
                        text = f"{PARTS[a]} and {PARTS[b]} of {loop.index} run at once and share {d.tensor}: {why}."
                        return text, Violation(d, first, second, pairs, "order")
    return None


def _not_handed(d: Dependence, first: Placed, second: Placed, ahead: bool, depth: int) -> str:
    """Why a dependence between two parts is not one through a buffer that is handed on; "" where it is."""
    if len(first.scope(d.tensor)) != len(second.scope(d.tensor)):
        return ""  # two tensors of one name
    if len(first.scope(d.tensor)) < depth:
        return "it has no buffer of its own in each iteration (`cache_write` or `store` makes one)"
    if d.kind == "flow" and ahead:
        return ""
    # Within one buffer; what comes after in the next one waits until that is empty.
    return "" if d.kind == "anti" and not ahead else "the part that reads it is not behind the one that writes it"


def _parts(state: State, loop: Loop) -> list[tuple[int, Placed]]:
    """The leaves around a loop with roles, with the part that runs each."""
    assert loop.roles is not None
    around = tuple(path_to(state.tree, loop.index)[:-1])
    epilogue = loop.roles.epilogue
    found: list[tuple[int, Placed]] = []
    for item in placed(state.tree):
        name = item.leaf.statement
        if item.loops[: len(around)] == around:
            found.append((0 if name in loop.ahead and loop in item.loops else 2 if name in epilogue else 1, item))
    return found


def _body_around(tree: Sequence[Node], name: str) -> tuple[Node, ...]:
    """The body in which a loop stands, buffers opened."""
    if any(isinstance(node, Loop) and node.index == name for node in opened(tree)):
        return tuple(opened(tree))
    for node in opened(tree):
        if isinstance(node, Loop):
            found = _body_around(node.body, name)
            if found:
                return found
    return ()
