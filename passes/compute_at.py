"""compute_at and compute_root: where a stage is computed, by the region that its readers need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.quasiaffine import Affine, All
from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, fresh, instance_map, leaves, loops
from .dependence import dependences
from .pairs import best_beside
from .reorder import sorted_leaves
from .state import State, find_loop, path_to, renamed, replace_loop, shape, stages_below

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program


def compute_at(state: State, stage: str, loop: str) -> State:
    """Compute a stage inside a loop of its reader: in each iteration, what that iteration needs.

    The stage's own loops come along. An intermediate becomes private to the iteration, so that parts which several
    iterations need are computed once in each; an output, and a tensor with several equations, stays shared.

    Legal when every reader still finds its elements, after their last update.

    Raises:
        IllegalTransformError: no such stage or loop, the loop is the stage's own, or holds no reader (rule shape).
    """
    step = f"compute_at({stage}, {loop})"
    program = state.program
    find_stage(program, stage, step)
    find_loop(state, loop, step)
    own, rest = extracted(state, stage, step)
    if loop not in [found.index for found in loops(rest)]:
        raise shape(step, f"{loop} is a loop of {stage} itself", "name a loop of a stage that reads it")
    around = tuple(found.index for found in path_to(rest, loop))
    readers = [leaf for leaf in leaves(path_to(rest, loop)[-1].body) if reads(program, leaf, stage)]
    if not readers:
        raise shape(step, f"nothing inside {loop} reads {stage}", _where_read(state, stage))
    needed = _needed(program, stage, readers, around)
    rest = without_buffers(rest, set(_private(program, stage)))
    taken = {found.index for found in loops(rest)}
    own = distinct(own, taken)
    moved = under(program, own, around, needed)
    written = {s.name: s.tensor for s in program.statements}
    inside = {written[leaf.statement] for leaf in leaves(moved)} | {program.stage(stage).tensor}
    touched = [t for t in _private(program, stage) if t in inside]

    def change(node: Loop) -> list[Node]:
        body = _inserted(program, node.body, moved, stage)
        for tensor in reversed(touched):
            body = (Alloc(tensor, body),)
        return [replace(node, body=body)]

    return State(program, sorted_leaves(tidy(replace_loop(rest, loop, change))))


def _inserted(program: Program, nodes: Sequence[Node], moved: tuple[Node, ...], stage: str) -> tuple[Node, ...]:
    """The nodes with others before the first that reads the stage; inside a buffer of what those themselves use."""
    first = next(i for i, n in enumerate(nodes) if any(reads(program, leaf, stage) for leaf in leaves((n,))))
    node = nodes[first]
    used = {a.tensor for leaf in leaves(moved) for a in program.statement(leaf.statement).accesses}
    if isinstance(node, Alloc) and _buffers(node) & used:
        inner = replace(node, body=_inserted(program, node.body, moved, stage))
        return (*nodes[:first], inner, *nodes[first + 1 :])
    return (*nodes[:first], *moved, *nodes[first:])


def _buffers(node: Node) -> set[str]:
    """The tensors of buffers directly inside one another, from a node on."""
    found: set[str] = set()
    while isinstance(node, Alloc):
        found.add(node.tensor)
        if len(node.body) != 1:
            break
        node = node.body[0]
    return found


def compute_root(state: State, stage: str) -> State:
    """Compute a stage whole, in its own nest as in the definition, right before the first nest that reads it.

    Raises:
        IllegalTransformError: no such stage, or the definition itself shares its loops with others (rule shape).
    """
    step = f"compute_root({stage})"
    program = state.program
    find_stage(program, stage, step)
    _, rest = extracted(state, stage, step)
    whole = [node for node in definition_tree(program) if stages_below(program, (node,)) == {stage}]
    if not whole:
        raise shape(step, f"{stage} is part of a recurrence: its loops are common to several equations")
    private = _private(program, stage)
    rest = without_buffers(rest, set(private))
    nest = distinct(tuple(whole), {found.index for found in loops(rest)})
    # Buffers outside every loop hold what the nest uses too, wherever it comes to stand.
    buffers, rest = _at_root(rest)
    at = next((i for i, n in enumerate(rest) if any(reads(program, leaf, stage) for leaf in leaves((n,)))), len(rest))
    tree: tuple[Node, ...] = (*rest[:at], *nest, *rest[at:])
    for buffer in reversed(buffers):
        tree = (replace(buffer, body=tree),)
    return State(program, tree)


def _at_root(nodes: Sequence[Node]) -> tuple[list[Alloc], tuple[Node, ...]]:
    """The buffers outside every loop, outermost first, and the nodes without them."""
    buffers: list[Alloc] = []
    rest: list[Node] = []
    for node in nodes:
        if isinstance(node, Alloc):
            inner, below = _at_root(node.body)
            buffers += [node, *inner]
            rest += below
        else:
            rest.append(node)
    return buffers, tuple(rest)


def find_stage(program: Program, stage: str, step: str) -> None:
    """Refuse a name that is no stage."""
    names = [s.name for s in program.stages]
    if stage not in names:
        from difflib import get_close_matches

        near = get_close_matches(stage, names, 2, 0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else f"the stages are {', '.join(names)}"
        raise shape(step, f"there is no stage {stage}", hint)


def extracted(state: State, stage: str, step: str) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """(the loops of a stage alone, the tree without it).

    Loops that the stage shares with others, and those around the place where it was computed, are left out of the
    first: its leaves run their whole instances there, as often as the definition does.
    """
    names = {s.name for s in state.program.statements_of(stage)}
    own = pruned(state.tree, names, keep=True)
    rest = tidy(pruned(state.tree, names, keep=False))
    shared = {loop.index for loop in loops(own)} & {loop.index for loop in loops(rest)}
    if shared:
        # Under common loops: take the nest of the definition instead.
        whole = pruned(definition_tree(state.program), names, keep=True)
        common = {loop.index for loop in loops(pruned(definition_tree(state.program), names, keep=False))}
        if common & {loop.index for loop in loops(whole)}:
            raise shape(step, f"{stage} is part of a recurrence: its loops are common to several equations")
        own = whole
    return without_buffers(own, set(state.program.tensors)), rest


def pruned(nodes: Sequence[Node], names: set[str], keep: bool) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf):
            if (node.statement in names) == keep:
                result.append(node)
            continue
        body = pruned(node.body, names, keep)
        if body:
            result.append(replace(node, body=body))
    return tuple(result)


def without_buffers(nodes: Sequence[Node], tensors: set[str]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf):
            result.append(node)
            continue
        body = without_buffers(node.body, tensors)
        result += body if isinstance(node, Alloc) and node.tensor in tensors else (replace(node, body=body),)
    return tuple(result)


def tidy(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes without buffers that nothing inside touches any more."""
    return tuple(n for n in nodes if isinstance(n, Leaf) or n.body)


def reads(program: Program, leaf: Leaf, stage: str) -> bool:
    statement = program.statement(leaf.statement)
    tensor = program.stage(stage).tensor
    return statement.stage != stage and any(a.kind == "read" and a.tensor == tensor for a in statement.accesses)


def _where_read(state: State, stage: str) -> str | None:
    readers = [leaf for leaf in leaves(state.tree) if reads(state.program, leaf, stage)]
    around = dict.fromkeys(name for leaf in readers for name in leaf.indices)
    return f"it is read inside {', '.join(around)}" if around else None


def _needed(program: Program, stage: str, readers: Sequence[Leaf], around: tuple[str, ...]) -> dict[str, isl.Map]:
    """For each statement of the stage: { [loops around] -> instance } that the readers need, directly or not."""
    flows = [d for d in dependences(program) if d.kind == "flow"]
    needed: dict[str, isl.Map] = {}
    own = program.statements_of(stage)
    names = {s.name for s in own}
    for flow in flows:
        for reader in readers:
            if flow.source in names and reader.statement == flow.target:
                _add(needed, flow.source, prefix(program, reader, around).apply_range(flow.relation.reverse()))
    # Statements of a stage may need each other in turn (argmax: the best value and its index).
    for _ in own:
        before = dict(needed)
        for flow in flows:
            if flow.source in names and flow.target in before and flow.target != flow.source:
                _add(needed, flow.source, before[flow.target].apply_range(flow.relation.reverse()))
        for statement in own:
            best = best_beside(program, statement)
            if best is not None and statement.name in before:
                # The last of a row moves no index any more, if the elements come in this order.
                _add(needed, best.name, before[statement.name].set_tuple_name(isl.dim_type.out, best.name))
        if needed.keys() == before.keys() and all(needed[n].is_equal(before[n]) for n in needed):
            break
    return needed


def _add(needed: dict[str, isl.Map], name: str, relation: isl.Map) -> None:
    needed[name] = needed[name].union(relation).coalesce() if name in needed else relation.coalesce()


def prefix(program: Program, leaf: Leaf, around: tuple[str, ...]) -> isl.Map:
    """{ [loops around] -> instances of the leaf's statement that run inside }."""
    relation = instance_map(program, leaf)
    return relation.project_out(isl.dim_type.in_, len(around), len(leaf.indices) - len(around))


def distinct(nodes: tuple[Node, ...], taken: set[str]) -> tuple[Node, ...]:
    """The nodes with loops renamed that the rest of the tree has too."""
    names: dict[str, str] = {}
    for loop in loops(nodes):
        if loop.index in taken:
            names[loop.index] = fresh(loop.index, {*taken, *names.values()})
    return renamed(nodes, names) if names else nodes


def under(
    program: Program, nodes: Sequence[Node], around: tuple[str, ...], needed: dict[str, isl.Map]
) -> tuple[Node, ...]:
    """The nodes under further loops, each leaf cut down to what those need of it."""
    result: list[Node] = []
    for node in nodes:
        if not isinstance(node, Leaf):
            body = under(program, node.body, around, needed)
            result += [replace(node, body=body)] if body else []
            continue
        if node.statement not in needed:
            continue
        indices = (*around, *node.indices)
        images = [Affine.name(n) for n in node.indices]
        pick = make_map(program.sizes, indices, images, All()).intersect_range(node.domain)
        context = make_map(program.sizes, indices, [Affine.name(n) for n in around], All())
        runs = pick.apply_range(instance_map(program, node))
        wanted = context.apply_range(needed[node.statement])
        result.append(Leaf(node.statement, indices, runs.intersect(wanted).domain().coalesce(), node.instance))
    return tuple(result)


def _private(program: Program, stage: str) -> list[str]:
    """The tensors of a stage that an iteration may have to itself."""
    tensor = program.stage(stage).tensor
    alone = sum(s.tensor == tensor for s in program.stages) == 1
    own = [s.tensor for s in program.statements_of(stage) if program.tensors[s.tensor].role == "accumulator"]
    if alone and program.tensors[tensor].role in ("intermediate", "declared"):
        own.append(tensor)
    return list(dict.fromkeys(own))
