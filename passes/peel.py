"""peel and specialise: a loop, or the whole program, in two parts, one of which needs fewer tests."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_set
from ..compiler.ir.tree import Leaf, Loop, Node, fresh, leaves, loops, map_leaves
from .state import State, find_loop, path_to, renamed, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..compiler.ir.quasiaffine import Formula


def peel(state: State, loop: str) -> tuple[State, tuple[str, str]]:
    """Run the iterations of a loop whose inner loops are full in one loop, and the others after it in another.

    An iteration is full when each loop inside it that has a fixed range, such as the inner one of a split, runs over
    all of that at every leaf::

        for io: for ii in 0..16: if 16*io + ii < M: S
            ->   for io in 0..M // 16: for ii in 0..16: S
                 for io_edge in M // 16..(M + 15) // 16: for ii: if ..: S

    The iterations from the first that is not full on are the second loop, so that the order stays. Always legal.
    Returns the state and the names of the two loops.

    Raises:
        IllegalTransformError: no such loop, it is fused, or one of the two would be empty at all sizes (rule shape).
    """
    step = f"peel({loop})"
    found = find_loop(state, loop, step)
    if found.fused:
        raise shape(step, f"{loop} is fused with the loop inside it", "peel before fusing")
    around = tuple(outer.index for outer in path_to(state.tree, loop))
    partial = _from_first_partial(found, around)
    if partial is None:
        raise shape(step, f"every iteration of {loop} is full: nothing is to be peeled off")
    names = {n.index: fresh(f"{n.index}_edge", set(state.loop_names)) for n in loops((found,))}
    whole = _kept((found,), around, lambda prefix: prefix.subtract(partial))
    edge = _kept((found,), around, lambda prefix: prefix.intersect(partial))
    if not whole:
        raise shape(step, f"no iteration of {loop} is full at any size", "split by a factor that fits, or specialise")
    return (
        State(state.program, replace_loop(state.tree, loop, lambda _: [*whole, *renamed(edge, names)])),
        (loop, names[loop]),
    )


def _from_first_partial(loop: Loop, around: tuple[str, ...]) -> isl.Set | None:
    """{ [loops around and the loop itself] : this iteration or one before it is not full }; None where all are."""
    depth = len(around)
    bad: isl.Set | None = None
    for leaf in leaves(loop.body):
        missing = _missing(leaf.domain, depth)
        bad = missing if bad is None else bad.union(missing)
    if bad is None or bad.is_empty():
        return None
    # { [around] -> [around] } from an iteration to itself and those after it in the same loop
    later = isl.Map.lex_ge(bad.get_space()) if loop.descending else isl.Map.lex_le(bad.get_space())
    for position in range(depth - 1):
        later = later.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return bad.apply(later).coalesce()


def _missing(domain: isl.Set, depth: int) -> isl.Set:
    """The prefixes of a domain at which an inner index of a fixed range misses one of its values."""
    inner = domain.dim(isl.dim_type.set) - depth
    prefix = domain.project_out(isl.dim_type.set, depth, inner)
    bad = prefix.subtract(prefix)
    for position in range(depth, depth + inner):
        values = domain.project_out(isl.dim_type.set, position + 1, depth + inner - position - 1)
        values = values.project_out(isl.dim_type.set, depth, position - depth)
        alone = _fixed(values, depth)
        if alone is None:
            continue
        box = prefix.insert_dims(isl.dim_type.set, depth, 1)
        box = box.lower_bound_val(isl.dim_type.set, depth, alone[0]).upper_bound_val(isl.dim_type.set, depth, alone[1])
        partial = box.subtract(values).project_out(isl.dim_type.set, depth, 1).intersect(prefix)
        # Where no iteration is full beside one that is not, the index is not this loop's to split.
        full = prefix.subtract(partial).project_out(isl.dim_type.set, depth - 1, 1)
        if not partial.project_out(isl.dim_type.set, depth - 1, 1).intersect(full).is_empty():
            bad = bad.union(partial)
    return bad


def _fixed(values: isl.Set, position: int) -> tuple[isl.Val, isl.Val] | None:
    """The least and the greatest value of a dimension over all sizes, where it has them."""
    low, high = values.dim_min_val(position), values.dim_max_val(position)
    return (low, high) if low.is_int() and high.is_int() else None


def _kept(nodes: Sequence[Node], around: tuple[str, ...], part: Callable[[isl.Set], isl.Set]) -> tuple[Node, ...]:
    """The nodes with every leaf cut to a part of the iterations of the loops around; without empty ones."""
    depth = len(around)

    def cut(leaf: Leaf) -> Leaf:
        inner = leaf.domain.dim(isl.dim_type.set) - depth
        prefix = part(leaf.domain.project_out(isl.dim_type.set, depth, inner))
        kept = leaf.domain.intersect(prefix.add_dims(isl.dim_type.set, inner))
        return replace(leaf, domain=kept.coalesce())

    return _nonempty(map_leaves(nodes, cut))


def _nonempty(nodes: Sequence[Node]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf):
            result += [] if node.domain.is_empty() else [node]
            continue
        body = _nonempty(node.body)
        result += [replace(node, body=body)] if body else []
    return tuple(result)


def specialise(state: State, condition: Formula, text: str) -> tuple[State, tuple[str, ...]]:
    """Run the whole program in one of two copies: where a condition on the sizes holds, and where it does not.

    The first copy keeps the names of its loops; each is then scheduled for itself, and the tests that the condition
    makes needless vanish from the first. Always legal. Returns the state and the names of the loops of the second copy.

    Raises:
        IllegalTransformError: the condition always holds or never does (rule shape).
    """
    step = f"specialise({text})"
    program = state.program
    fact = make_set(program.sizes, (), condition).params()
    context = make_set(program.sizes, (), program.context).params()
    if context.is_subset(fact) or context.intersect(fact).is_empty():
        word = "always" if context.is_subset(fact) else "never"
        raise shape(
            step, f"the condition {word} holds, for what is known of the sizes", "a condition that some sizes meet"
        )
    names = {name: fresh(f"{name}_general", set(state.loop_names)) for name in state.loop_names}
    special = _nonempty(map_leaves(state.tree, lambda f: replace(f, domain=f.domain.intersect_params(fact).coalesce())))
    general = _nonempty(
        map_leaves(
            state.tree, lambda f: replace(f, domain=f.domain.subtract(f.domain.intersect_params(fact)).coalesce())
        )
    )
    general = renamed(general, names)
    return State(program, (*special, *general)), tuple(loop.index for loop in loops(general))
