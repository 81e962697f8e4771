"""rfactor: a reduction in blocks with partial results of their own, so that the blocks may run at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_set
from ..compiler.ir.expr import Order, Reduce, postorder
from ..compiler.ir.quasiaffine import Affine, Comparison, Formula, conjunction, substituted
from ..compiler.ir.rebuild import rebuilt
from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, fresh, leaves, loops
from .rewrite import in_order, with_stages
from .state import State, find_loop, shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Program, Stage, Statement


@dataclass(frozen=True)
class Factored:
    """A reduction that a loop over blocks splits: the update, the reduced index, the size of a block."""

    update: Statement
    index: str
    size: int


def rfactor(state: State, loop: str) -> State:
    """Give each iteration of *loop*, a loop over blocks of a reduced index, a partial result of its own.

    Rewrite::

        sum(k) e   ->   sum(k, blocks=f) e      where k was split by f and *loop* is the outer of the two

    The blocks start from the identity and are combined in ascending order, always: the result does not depend on how
    many run at once. It is another order of the sum, so a float sum or product needs `allow reassociate`; min, max
    and integers need nothing.

    Raises:
        IllegalTransformError: the loop is no outer loop of a split reduced index, or its stage has several reductions
            or another order already (rule shape).
    """
    step = f"rfactor({loop})"
    find_loop(state, loop, step)
    found = _factored(state, loop, step)
    program = state.program
    stage = program.stage(found.update.stage)
    reduce = _only_reduction(stage, found, step)
    other = _in_blocks(program, stage, reduce, found.size)
    tree = _with_blocks(other, state.tree, stage.name, {s.name: s for s in other.statements})
    return State(other, tree)


def _factored(state: State, loop: str, step: str) -> Factored:
    """The reduction that the loop runs over in blocks."""
    stage_of = {s.name: s for s in state.program.statements}
    for leaf in leaves(state.tree):
        statement = stage_of[leaf.statement]
        if statement.kind != "update" or loop not in leaf.indices:
            continue
        outer = len(state.program.stage(statement.stage).ranges)
        for found, value in list(zip(statement.ranges, leaf.instance, strict=True))[outer:]:
            size = dict(value.terms).get(loop, 0)
            if size > 1 and _inside(state.program, leaf, value - Affine.name(loop).scaled(size), size):
                return Factored(statement, found.index, size)
    raise shape(
        step, f"{loop} does not run over blocks of a reduced index", "split the reduced index: rfactor the outer loop"
    )


def _inside(program: Program, leaf: Leaf, rest: Affine, size: int) -> bool:
    """Whether 0 <= rest < size at every point of a leaf."""
    bad = make_set(program.sizes, leaf.indices, Comparison("<", rest, Affine()))
    bad = bad.union(make_set(program.sizes, leaf.indices, Comparison(">=", rest, Affine.number(size))))
    return bool(leaf.domain.intersect(bad).is_empty())


def _only_reduction(stage: Stage, found: Factored, step: str) -> Reduce:
    reductions = [n for n in postorder(stage.value) if isinstance(n, Reduce)]
    if len(reductions) != 1:
        raise shape(step, f"{stage.name} has several reductions", "give each its own equation")
    (reduce,) = reductions
    if reduce.order.kind != "ascending":
        raise shape(step, f"this sum has an order already: {reduce.order}")
    if reduce.ranges[-1].index != found.index:
        raise shape(step, f"{found.index} is not the innermost reduced index", "write it last in the sum")
    return reduce


def reordered(before: Program, after: Program) -> tuple[Statement, ...]:
    """The updates, by their old statements, whose order a step has changed and whose order is not theirs to choose.

    Those that a permission frees are among them; exact ones are not.
    """
    kept = {s.name: s for s in after.statements}
    found: list[Statement] = []
    for statement in before.statements:
        other = kept.get(statement.name)
        if statement.kind != "update" or statement.reduction is None or other is None or other.reduction is None:
            continue
        exact = statement.reduction.exact(before.tensors[statement.tensor].dtype)
        if other.reduction.order != statement.reduction.order and not exact:
            found.append(statement)
    return tuple(found)


def _in_blocks(program: Program, stage: Stage, reduce: Reduce, size: int) -> Program:
    """The program with the reduction in blocks."""
    blocked = replace(reduce, order=Order("blocks", size))
    changed = replace(stage, value=rebuilt(stage.value, {id(reduce): blocked}))
    stages = [changed if s is stage else s for s in in_order(program)]
    return with_stages(program, stages, program.tensors)


def _with_blocks(
    program: Program, nodes: tuple[Node, ...], stage: str, statements: dict[str, Statement]
) -> tuple[Node, ...]:
    """The tree with the new statements: partial starts for the starts, and starts and merges before the end."""
    taken = {loop.index for loop in loops(nodes)}
    return tuple(_walk(program, nodes, stage, statements, taken))


def _walk(
    program: Program, nodes: tuple[Node, ...], stage: str, statements: dict[str, Statement], taken: set[str]
) -> list[Node]:
    result: list[Node] = []
    here = {node.statement: node for node in nodes if isinstance(node, Leaf)}
    # An argmax has a best value beside its index, and two of everything.
    partial = {
        f"S_{stage}_init": f"S_{stage}_blocks_init",
        f"S_{stage}_best_init": f"S_{stage}_best_blocks_init",
    }
    buffers = {f"{stage}.acc": f"{stage}.blocks", f"{stage}.best": f"{stage}.best_blocks"}
    merges = [statements[n] for n in (f"S_{stage}_merge", f"S_{stage}_best_merge") if n in statements]
    # The whole starts where it is merged, if that is beside: nothing stands between the start of a block and its terms.
    starts = [here[name] for name in here if name in partial] if f"S_{stage}_finish" in here else []
    for node in nodes:
        if not isinstance(node, Leaf):
            body = tuple(_walk(program, node.body, stage, statements, taken))
            inner = replace(node, body=body)
            if isinstance(node, Alloc) and node.tensor in buffers:
                inner = replace(inner, body=(Alloc(buffers[node.tensor], body),))
            result.append(inner)
        elif node.statement in partial:
            result.append(_over_blocks(program, node, [statements[partial[node.statement]]], taken))
            result += [] if node in starts else [node]
        elif node.statement == f"S_{stage}_finish":
            result += [*starts, _over_blocks(program, node, merges, taken), node]
        else:
            result.append(node)
    return result


def _over_blocks(program: Program, beside: Leaf, run: Sequence[Statement], taken: set[str]) -> Loop:
    """A loop over the blocks, and over outer reduced indices, that runs statements beside a leaf of their stage."""
    statement = run[0]
    count = len(beside.instance)
    indices, instance = list(beside.indices), list(beside.instance)
    known = dict(zip(statement.iterators[:count], beside.instance, strict=True))
    conditions: list[Formula] = []
    made: list[str] = []
    for found in statement.ranges[count:]:
        name = fresh(f"{statement.stage}.{found.index}", taken)
        taken.add(name)
        made.append(name)
        index = Affine.name(name)
        known[found.index] = index
        conditions += [Comparison("<=", a.substituted(known), index) for a in found.lower]
        conditions += [Comparison("<", index, b.substituted(known)) for b in found.upper]
        indices.append(name)
        instance.append(index)
    domain = beside.domain.add_dims(isl.dim_type.set, len(made))
    # The leaf beside may run where the reduction does not matter.
    conditions.append(substituted(statement.guard, known))
    domain = domain.intersect(make_set(program.sizes, tuple(indices), conjunction(*conditions)))
    body: tuple[Node, ...] = tuple(Leaf(s.name, tuple(indices), domain, tuple(instance)) for s in run)
    for name in reversed(made[1:]):
        body = (Loop(name, body),)
    return Loop(made[0], body)
