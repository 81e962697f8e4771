"""inline: an equation written into its readers, computed again for each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Allow, Index, Read, Reduce, postorder
from ..compiler.ir.quasiaffine import Affine, conjunction, substituted
from ..compiler.ir.rebuild import rebuilt
from .compute_at import find_stage, pruned, tidy, without_buffers
from .rewrite import in_order, with_stages, without_stage
from .state import State, shape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Program, Stage
    from ..compiler.ir.quasiaffine import Formula


def inline(state: State, stage: str) -> State:
    """Write an equation into its readers, and compute its tensor nowhere.

    Rewrite::

        T[i] = e(i);  Y[j] = f(T[2*j])   ->   Y[j] = f(e(2*j))

    The value is that of the equation, its roundings included, wherever it is read.

    Raises:
        IllegalTransformError: no such equation; or its tensor is an output, has several equations, is a sum, reads
            itself, or is read where data decide or beyond its edge (rule shape).
    """
    step = f"inline({stage})"
    program = state.program
    find_stage(program, stage, step)
    found = program.stage(stage)
    _require_plain(program, found, step)
    _require_no_more_permitted(program, found, step)
    stages: list[Stage] = []
    for reader in in_order(program):
        if reader is found:
            continue
        value = _written_in(reader.value, found, step)
        stages.append(reader if value is reader.value else replace(reader, value=value))
    tensors = {n: t for n, t in program.tensors.items() if n != found.tensor}
    other = with_stages(program, stages, tensors)
    names = {s.name for s in program.statements_of(stage)}
    tree = tidy(without_buffers(pruned(state.tree, names, keep=False), {found.tensor}))
    return State(replace(other, order=without_stage(program.order, stage)), tree)


def _require_plain(program: Program, stage: Stage, step: str) -> None:
    """Refuse what cannot be said in a reader's place."""
    tensor = stage.tensor
    if tensor in program.outputs:
        raise shape(step, f"{tensor} is an output: it has to be written", f"inline an equation that {tensor} reads")
    if sum(s.tensor == tensor for s in program.stages) > 1:
        raise shape(step, f"{tensor} has several equations", "compute_at computes them all where they are read")
    copy = next(
        (s.name for s in program.stages if s.copies and isinstance(s.value, Read) and s.value.tensor == tensor), ""
    )
    if stage.copies or copy:
        raise shape(step, f"{copy or stage.name} is a copy of what it reads, and stays one", "inline before caching")
    if any(isinstance(n, Reduce) for n in postorder(stage.value)):
        raise shape(
            step,
            f"{stage.name} is a reduction: every read would run it again",
            f"compute_at computes {stage.name} where it is read",
        )
    if any(isinstance(n, Read) and n.tensor == tensor for n in postorder(stage.value)):
        raise shape(step, f"{tensor} is computed from itself", "a recurrence keeps its storage")
    indices = [r.index for r in stage.ranges]
    if sorted(n for n in (a.bare for a in stage.lefts) if n in indices) != sorted(indices):
        raise shape(
            step,
            f"the indices of {tensor} do not stand alone on the left",
            f"an index for each of {tensor}'s positions",
        )


def _require_no_more_permitted(program: Program, stage: Stage, step: str) -> None:
    """Refuse where a reader permits round the read what it permits for its own operations only."""
    for reader in program.stages:
        for node in postorder(reader.value):
            more = set(node.permissions) - set(program.permissions) if isinstance(node, (Allow, Reduce)) else set[str]()
            if more and any(isinstance(n, Read) and n.tensor == stage.tensor for n in postorder(node)):
                text = f"{reader.name} permits {', '.join(sorted(more))} where it reads {stage.tensor}, and there only"
                raise shape(step, text, "an expression that is written in would be permitted more than it was")


def _written_in(value: Expr, stage: Stage, step: str) -> Expr:
    """An expression of a reader with the equation in place of its reads."""
    replaced: dict[int, Expr] = {}
    for node in postorder(value):
        if not isinstance(node, Read) or node.tensor != stage.tensor:
            continue
        if node.fill is not None:
            raise shape(
                step,
                f"{stage.tensor} is read beyond its edge (else)",
                f"compute_at computes {stage.name} where it is read",
            )
        positions = [s.affine for s in node.subscripts if isinstance(s, Index)]
        if len(positions) != len(node.subscripts):
            raise shape(step, f"data decide which element of {stage.tensor} is read", f"compute_root({stage.name})")
        known = {left.bare: at for left, at in zip(stage.lefts, positions, strict=True) if left.bare}
        replaced[id(node)] = _moved(stage.value, known, node.guard, step)
    return rebuilt(value, replaced) if replaced else value


def _moved(value: Expr, known: Mapping[str, Affine], guard: Formula, step: str) -> Expr:
    """An expression with its indices expressed by a reader's, where a read of it matters under a guard."""
    done: dict[int, Expr] = {}
    for node in postorder(value):
        if isinstance(node, Index):
            affine = node.affine.substituted(known)
            if affine.too_large():
                raise shape(step, "the subscripts would become too long to reason about", "inline fewer equations")
            done[id(node)] = replace(node, affine=affine)
            continue
        inner = rebuilt(node, done)
        if isinstance(inner, Read):
            inner = replace(inner, guard=conjunction(guard, substituted(inner.guard, known)))
        done[id(node)] = inner
    return done[id(value)]
