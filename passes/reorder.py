"""reorder: the loops of a nest in another order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, fresh
from .state import State, find_loop, path_to, renamed, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, eq=False)
class _Item:
    """Something below the nest: a leaf, or a loop or buffer that is no part of it; and the nest's loops around it."""

    node: Node
    around: frozenset[str]


def reorder(state: State, *names: str) -> State:
    """Bring the loops *names*, which lie inside one another, into this order; loops between them keep their places.

    What stands inside only some of them (the start and the end of a reduction) keeps those, in the new order, sharing
    the loops before the first one that it lacks::

        for i: for j: init; for k: update; finish     reorder(k, i, j)
            ->   for i: for j: init
                 for k: for i: for j: update
                 for i: for j: finish

    Legal when every dependence still runs forward.

    Raises:
        IllegalTransformError: the loops are not inside one another (rule shape).
    """
    step = f"reorder({', '.join(names)})"
    if len(set(names)) != len(names) or len(names) < 2:
        raise shape(step, "reorder takes two or more different loops")
    for name in names:
        find_loop(state, name, step)
    deepest = max(names, key=lambda n: len(path_to(state.tree, n)))
    path = path_to(state.tree, deepest)
    inside = [loop.index for loop in path]
    for name in names:
        if name not in inside:
            raise shape(step, f"{name} does not lie around {deepest}, nor inside it", "reorder loops of one nest")
    first = min(inside.index(n) for n in names)
    nest = path[first:]
    wished = iter(names)
    order = [next(wished) if loop.index in names else loop.index for loop in nest]
    by_name = {loop.index: loop for loop in nest}
    for loop in nest:
        if loop.fused:
            raise shape(step, f"{loop.index} is fused with the loop inside it", "reorder before fusing")
    items = list(_items((nest[0],), set(by_name), frozenset(), step))
    taken = set(state.loop_names)
    rebuilt = _build(items, order, by_name, taken, set())
    return State(state.program, sorted_leaves(replace_loop(state.tree, nest[0].index, lambda _: rebuilt)))


def _items(nodes: Sequence[Node], nest: set[str], around: frozenset[str], step: str) -> list[_Item]:
    found: list[_Item] = []
    for node in nodes:
        if isinstance(node, Loop) and node.index in nest:
            found += _items(node.body, nest, around | {node.index}, step)
        elif isinstance(node, Alloc) and _holds(node.body, nest):
            raise shape(step, f"the buffer of {node.tensor} lies between these loops", "reorder before compute_at")
        else:
            found.append(_Item(node, around))
    return found


def _holds(nodes: Sequence[Node], nest: set[str]) -> bool:
    return any(
        not isinstance(n, Leaf) and ((isinstance(n, Loop) and n.index in nest) or _holds(n.body, nest)) for n in nodes
    )


def _build(
    items: list[_Item], order: list[str], by_name: dict[str, Loop], taken: set[str], used: set[str]
) -> tuple[Node, ...]:
    """The items under the loops they have, in the order; neighbours share a loop that all of them have."""
    if not items:
        return ()
    if not order:
        return tuple(item.node for item in items)
    name, rest = order[0], order[1:]
    result: list[Node] = []
    i = 0
    while i < len(items):
        has = name in items[i].around
        j = i
        while j < len(items) and (name in items[j].around) == has:
            j += 1
        run = items[i:j]
        if has:
            body = _build(run, rest, by_name, taken, used)
            result.append(_loop(name, body, by_name, taken, used, _whole(run, by_name)))
        else:
            result += _build(run, rest, by_name, taken, used)
        i = j
    return tuple(result)


def _whole(run: list[_Item], by_name: dict[str, Loop]) -> bool:
    """Whether a run reaches the innermost loop of the nest: it keeps the names."""
    return any(len(item.around) == len(by_name) for item in run)


def _loop(
    name: str, body: tuple[Node, ...], by_name: dict[str, Loop], taken: set[str], used: set[str], keeps: bool
) -> Loop:
    """The loop with another body: under its own name, or a new one for a copy; leaves get their indices in order."""
    index = name
    if not keeps or name in used:
        index = fresh(f"{name}_{'a' if not used else 'b'}", taken)
        taken.add(index)
        body = renamed(body, {name: index})
    else:
        used.add(name)
    return replace(by_name[name], index=index, body=body)


def sorted_leaves(nodes: Sequence[Node], around: tuple[str, ...] = ()) -> tuple[Node, ...]:
    """The nodes with the dimensions of every leaf's domain in the order of the loops around it."""
    result: list[Node] = []
    for node in nodes:
        match node:
            case Leaf():
                result.append(permuted(node, around))
            case Loop():
                result.append(replace(node, body=sorted_leaves(node.body, (*around, node.index))))
            case Alloc():
                result.append(replace(node, body=sorted_leaves(node.body, around)))
    return tuple(result)


def permuted(leaf: Leaf, order: tuple[str, ...]) -> Leaf:
    """The leaf with its indices in another order."""
    if leaf.indices == order:
        return leaf
    domain = leaf.domain
    current = list(leaf.indices)
    for target, name in enumerate(order):
        at = current.index(name)
        if at != target:
            # Through a parameter dimension: isl moves dimensions between kinds only.
            domain = domain.move_dims(isl.dim_type.param, 0, isl.dim_type.set, at, 1)
            domain = domain.move_dims(isl.dim_type.set, target, isl.dim_type.param, 0, 1)
            current.insert(target, current.pop(at))
    for position, name in enumerate(order):
        domain = domain.set_dim_name(isl.dim_type.set, position, name)
    return Leaf(leaf.statement, order, domain, leaf.instance)
