"""reverse_compute_at: a reader computed inside a loop of what it reads, as soon as that is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map
from ..compiler.ir.quasiaffine import Affine, All
from ..compiler.ir.tree import Alloc, Loop, Node, leaves, loops
from .compute_at import distinct, extracted, find_stage, prefix, under
from .dependence import dependences
from .reorder import sorted_leaves
from .state import State, find_loop, path_to, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program


def reverse_compute_at(state: State, stage: str, loop: str) -> State:
    """Compute a stage inside a loop of what it reads, at the end of the iteration that computes the last of that.

    The stage's own loops come along; each element is computed once. Legal when whatever else reads the stage comes
    later still.

    Raises:
        IllegalTransformError: no such stage or loop, the loop is the stage's own, or computes nothing that the stage
            reads (rule shape).
    """
    step = f"reverse_compute_at({stage}, {loop})"
    program = state.program
    find_stage(program, stage, step)
    find_loop(state, loop, step)
    own, rest = extracted(state, stage, step)
    if loop not in [found.index for found in loops(rest)]:
        raise shape(step, f"{loop} is a loop of {stage} itself", f"name a loop of a stage that {stage} reads")
    path = path_to(rest, loop)
    latest = _latest(program, stage, path)
    if latest is None:
        raise shape(step, f"nothing inside {loop} computes what {stage} reads", _where_computed(state, stage))
    around = tuple(found.index for found in path)
    needed = {
        s.name: latest.reverse().apply_range(_instances(program, stage, s.name)) for s in program.statements_of(stage)
    }
    own = distinct(own, {found.index for found in loops(rest)})
    moved = under(program, own, around, needed)
    tree = replace_loop(rest, loop, lambda node: [replace(node, body=_appended(node.body, moved))])
    return State(program, sorted_leaves(tree))


def _latest(program: Program, stage: str, path: Sequence[Loop]) -> isl.Map | None:
    """{ [data indices of the stage] -> the iteration of the loops on the path that computes the last it reads }.

    What it reads of a reduction is computed where that is updated.
    """
    around = tuple(loop.index for loop in path)
    inside = list(leaves(path[-1].body))
    found: isl.Map | None = None
    for name, read in _read_instances(program, stage).items():
        for leaf in inside:
            if leaf.statement == name:
                when = read.apply_range(prefix(program, leaf, around).reverse())
                found = when if found is None else found.union(when)
    if found is None or found.is_empty():
        return None
    # The last in the order in which the loops run.
    images = [Affine.name(loop.index).scaled(-1 if loop.descending else 1) for loop in path]
    order = make_map(program.sizes, around, images, All())
    return found.apply_range(order).lexmax().apply_range(order.reverse())


def _read_instances(program: Program, stage: str) -> dict[str, isl.Map]:
    """{ [data indices of the stage] -> instances of each statement that what it reads comes from }."""
    count = len(program.stage(stage).ranges)
    flows = [d for d in dependences(program) if d.kind == "flow"]
    own = {s.name: s.stage for s in program.statements}
    found: dict[str, isl.Map] = {}
    todo: list[tuple[str, isl.Map]] = []
    for flow in flows:
        if own[flow.target] == stage and own[flow.source] != stage:
            read = flow.relation.reverse()
            read = read.project_out(isl.dim_type.in_, count, read.dim(isl.dim_type.in_) - count)
            todo.append((flow.source, read.reset_tuple_id(isl.dim_type.in_)))
    while todo:
        name, read = todo.pop()
        if name in found and read.is_subset(found[name]):
            continue
        found[name] = found[name].union(read) if name in found else read
        for flow in flows:
            if flow.target == name and own[flow.source] == own[name] and not flow.reduction and flow.source != name:
                todo.append((flow.source, read.apply_range(flow.relation.reverse())))
    return found


def _instances(program: Program, stage: str, statement: str) -> isl.Map:
    """{ [data indices of the stage] -> instances of one of its statements }."""
    domain = program.domain(program.statement(statement))
    count = len(program.stage(stage).ranges)
    whole = domain.identity()
    excess = whole.dim(isl.dim_type.in_) - count
    return whole.project_out(isl.dim_type.in_, count, excess).reset_tuple_id(isl.dim_type.in_)


def _appended(body: tuple[Node, ...], moved: tuple[Node, ...]) -> tuple[Node, ...]:
    """A body with more at its end; inside a buffer that spans it."""
    if len(body) == 1 and isinstance(body[0], Alloc):
        return (replace(body[0], body=_appended(body[0].body, moved)),)
    return (*body, *moved)


def _where_computed(state: State, stage: str) -> str | None:
    """The loops that compute what a stage reads."""
    program = state.program
    reads = {a.tensor for s in program.statements_of(stage) for a in s.accesses if a.kind == "read"}
    around = dict.fromkeys(
        n
        for leaf in leaves(state.tree)
        if program.statement(leaf.statement).stage != stage and program.statement(leaf.statement).tensor in reads
        for n in leaf.indices
    )
    return f"that is computed inside {', '.join(around)}" if around else None
