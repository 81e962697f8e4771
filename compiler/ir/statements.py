"""The statements of a stage: a reduction becomes init, update, merge where its order needs one, and finish."""

from __future__ import annotations

from dataclasses import replace

from .expr import Expr, Index, Order, Partial, Reduce, children
from .firsts import lower_first
from .program import Reduction, Stage, Statement, Tensor
from .quasiaffine import Affine, Range
from .rebuild import rebuilt
from .reduction import Hull, Lowering, accumulator, add_init, add_step, blocks_of, names


def lower_stage(stage: Stage, hull: Hull) -> tuple[list[Statement], list[Tensor]]:
    """The statements of a stage in the order in which an instance of it runs, and their accumulators.

    *hull* gives the extents of an array that holds the given positions for all values of the ranges.
    """
    found = _reductions(stage.value, stage.ranges)
    work = Lowering(stage, hull, len(found))
    replaced: dict[int, Expr] = {}
    for reduce, ranges in found:
        first = len(work.statements)
        replaced[id(reduce)] = _lower_reduction(reduce, ranges, replaced, work)
        work.statements[first:] = [replace(s, guard=reduce.guard) for s in work.statements[first:]]
    value = rebuilt(stage.value, replaced)
    name = f"S_{stage.name}_finish" if found else f"S_{stage.name}"
    kind = "finish" if found else "assign"
    work.statements.append(
        Statement(name, stage.name, kind, stage.ranges, stage.tensor, stage.lefts, value, None, stage.span)
    )
    return work.statements, work.tensors


def _reductions(root: Expr, ranges: tuple[Range, ...]) -> list[tuple[Reduce, tuple[Range, ...]]]:
    """The reductions of an expression, inner ones before those that contain them, with the ranges outside each."""
    found: list[tuple[Reduce, tuple[Range, ...]]] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, tuple[Range, ...], bool]] = [(root, ranges, False)]
    while stack:
        node, outer, ready = stack.pop()
        if ready and isinstance(node, Reduce):
            found.append((node, outer))
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        inner = outer
        if isinstance(node, Reduce):
            stack.append((node, outer, True))
            inner = (*outer, *node.ranges)
        stack.extend((child, inner, False) for child in reversed(children(node)))
    return found


def _lower_reduction(reduce: Reduce, outer: tuple[Range, ...], replaced: dict[int, Expr], work: Lowering) -> Expr:
    """Statements for one reduction; what stands in its place afterwards."""
    label = work.label()
    body = rebuilt(reduce.body, replaced)
    if reduce.op in ("argmax", "argmin"):
        return lower_first(reduce, outer, body, label, work)
    if reduce.order.kind in ("lanes", "blocks"):
        return _lower_ordered(reduce, outer, body, label, work)
    total = accumulator(f"{label}.acc", reduce.dtype, outer, names(outer), work)
    shared = Reduction(reduce.op, reduce.order, total.tensor, reduce.permissions)
    add_init(label, outer, total, reduce, shared, work)
    add_step(f"S_{label}_update", "update", (*outer, *reduce.ranges), total, body, reduce, shared, work)
    return total


def _lower_ordered(reduce: Reduce, outer: tuple[Range, ...], body: Expr, label: str, work: Lowering) -> Expr:
    """lanes= and blocks=: partial accumulators, then their merge."""
    size, kind = reduce.order.size, reduce.order.kind
    inner = reduce.ranges[-1]
    k = Affine.name(inner.index)
    if kind == "lanes":
        part = Range("lane", (Affine(),), (Affine.number(size),))
        part_ranges = (*outer, part)
        slot = k.divided("%", size)
        position = (*names(outer), slot)
    else:
        part = blocks_of(inner, size)
        part_ranges = (*outer, *reduce.ranges[:-1], part)
        slot = k.divided("//", size)
        position = (*names((*outer, *reduce.ranges[:-1])), slot)
    partial = accumulator(f"{label}.{kind}", reduce.dtype, part_ranges, names(part_ranges), work)
    total = accumulator(f"{label}.acc", reduce.dtype, outer, names(outer), work)
    shared = Reduction(reduce.op, reduce.order, partial.tensor, reduce.permissions)
    merged = Reduction(reduce.op, Order(), total.tensor, reduce.permissions)
    add_init(f"{label}_{kind}", part_ranges, partial, reduce, shared, work)
    slot_read = replace(partial, subscripts=tuple(Index(p) for p in position))
    add_step(f"S_{label}_update", "update", (*outer, *reduce.ranges), slot_read, body, reduce, shared, work)
    if kind == "lanes":
        prefix = tuple(Index(p) for p in names(outer))
        value = Partial(partial.tensor, prefix, size, reduce.op, reduce.dtype, reduce.span)
        name, at = f"S_{label}_merge", tuple(p.affine for p in prefix)
        work.statements.append(
            Statement(name, work.stage.name, "merge", outer, total.tensor, at, value, merged, reduce.span)
        )
    else:
        add_init(label, outer, total, reduce, merged, work)
        add_step(f"S_{label}_merge", "merge", part_ranges, total, partial, reduce, merged, work)
    return total
