"""Marks on loops: parallel, vectorize, unroll, bind; and fuse, which prints two loops as one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import islpy as isl

from ..compiler.ir.tree import Kind, Leaf, Loop, leaves, loops
from .state import State, find_loop, replace_loop, shape

STEPS = {"vector": "vectorize"}
GRID = ("grid.x", "grid.y", "grid.z", "processors")


def mark(state: State, loop: str, kind: Kind, target: str = "") -> State:
    """Say how a loop runs. parallel, vector and bind are legal when the loop carries no dependence.

    Raises:
        IllegalTransformError: no such loop, or no such target of bind (rule shape).
    """
    step = f"{STEPS.get(kind, kind)}({loop}{f', {target}' if target else ''})"
    found = find_loop(state, loop, step)
    around = next((outer for outer in loops(state.tree) if outer.fused and outer.body[0] == found), None)
    if around is not None:
        raise shape(step, f"{loop} is fused with {around.index}: they run in one way", f"mark {around.index}")
    if found.stages > 1:
        raise shape(step, f"{loop} is a pipeline, whose iterations run in order")
    if kind == "bind" and target not in GRID:
        raise shape(step, f"a loop is bound to {', '.join(GRID)}; not to {target!r}")
    return State(state.program, replace_loop(state.tree, loop, lambda n: [_marked(n, kind, target)]))


def flatten(state: State, *names: str) -> State:
    """Make the axes of block loops, which lie directly inside one another, one axis of a tile.

    Raises:
        IllegalTransformError: fewer than two loops, or they are no blocks in one another (rule shape).
    """
    step = f"flatten({', '.join(names)})"
    if len(names) < 2:
        raise shape(step, "flatten takes two loops or more")
    for name in names:
        if find_loop(state, name, step).kind != "block":
            raise shape(step, f"{name} is no axis of a tile", f"block({name}) first")
    for outer, inner in itertools.pairwise(names):
        state = fuse(state, outer, inner)
    return state


def _marked(loop: Loop, kind: Kind, target: str) -> Loop:
    """The loop, and those fused with it, marked."""
    inner = loop.body[0]
    body = (_marked(inner, kind, target),) if loop.fused and isinstance(inner, Loop) else loop.body
    return replace(loop, kind=kind, target=target, body=body)


def fuse(state: State, outer: str, inner: str) -> State:
    """Run two nested loops as one over the product of their ranges; the order of the iterations stays.

    Raises:
        IllegalTransformError: *inner* is not the only thing inside *outer*, or its range depends on it (rule shape).
    """
    step = f"fuse({outer}, {inner})"
    found = find_loop(state, outer, step)
    within = find_loop(state, inner, step)
    if any(inside.index == outer for inside in loops(within.body)):
        raise shape(step, f"{inner} is around {outer}", f"fuse({inner}, {outer})")
    if found.body != (within,):
        raise shape(step, f"{inner} is not the only thing inside {outer}", "fuse loops that are directly nested")
    if found.kind != within.kind or found.descending or within.descending:
        raise shape(step, "two loops that run in different ways cannot be one", "fuse before marking them")
    for leaf in leaves((within,)):
        if not rectangular(leaf, outer, inner):
            raise shape(step, f"the range of {inner} depends on {outer}", "a fused loop runs over a rectangle")
    return State(state.program, replace_loop(state.tree, outer, lambda node: [replace(node, fused=True)]))


def rectangular(leaf: Leaf, outer: str, inner: str) -> bool:
    """Whether the values of *inner* are the same for every value of *outer*."""
    first, second = leaf.indices.index(outer), leaf.indices.index(inner)
    kept = leaf.domain
    for position in reversed(range(len(leaf.indices))):
        if position not in (first, second) and position > first:
            kept = kept.project_out(isl.dim_type.set, position, 1)
    at = first + 1
    alone = kept.project_out(isl.dim_type.set, first, 1).insert_dims(isl.dim_type.set, first, 1)
    outer_values = kept.project_out(isl.dim_type.set, at, 1).insert_dims(isl.dim_type.set, at, 1)
    return bool(alone.intersect(outer_values).is_subset(kept))
