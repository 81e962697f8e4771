"""argmax and argmin: the index of the first of the greatest (least) elements, carried with its value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from .dtype import I64, DType
from .expr import Binary, Compare, Expr, Index, Logic, Order, Read, Reduce, Select
from .program import Reduction, Statement
from .quasiaffine import Affine
from .reduction import Lowering, accumulator, add_init, add_step, blocks_of, names, position

if TYPE_CHECKING:
    from .quasiaffine import Range


def lower_first(reduce: Reduce, outer: tuple[Range, ...], body: Expr, label: str, work: Lowering) -> Expr:
    """argmax and argmin carry the best value and its index; in blocks, for each block and then for all of them."""
    (found,) = reduce.ranges
    place = Index(Affine.name(found.index))
    if reduce.order.kind != "blocks":
        index, best = _first_best(label, "", outer, reduce, body.dtype, work)
        _move(label, "update", (*outer, found), (index, best), (place, body), reduce, work)
        return index
    block = blocks_of(found, reduce.order.size)
    slot = (*names(outer), Affine.name(found.index).divided("//", reduce.order.size))
    parts = _first_best(label, "blocks", (*outer, block), reduce, body.dtype, work)
    at = tuple(replace(part, subscripts=tuple(Index(p) for p in slot)) for part in parts)
    _move(label, "update", (*outer, found), (at[0], at[1]), (place, body), reduce, work)
    whole = replace(reduce, order=Order())
    index, best = _first_best(label, "", outer, whole, body.dtype, work)
    _move(label, "merge", (*outer, block), (index, best), parts, whole, work)
    return index


def _first_best(
    label: str,
    part: str,
    ranges: tuple[Range, ...],
    reduce: Reduce,
    dtype: DType,
    work: Lowering,
) -> tuple[Read, Read]:
    """New tensors for the index and the best value, for each of these positions, and their starts."""
    first: Expr = Index(reduce.ranges[0].lower[0])
    for other in reduce.ranges[0].lower[1:]:
        first = Binary("max", first, Index(other), I64)
    word = f"_{part}" if part else ""
    best = accumulator(f"{label}.best{word}", dtype, ranges, names(ranges), work)
    index = accumulator(f"{label}.{part or 'acc'}", I64, ranges, names(ranges), work)
    add_init(f"{label}_best{word}", ranges, best, reduce, _of(reduce, best), work)
    add_init(f"{label}{word}", ranges, index, reduce, _of(reduce, index), work, first)
    return index, best


def _of(reduce: Reduce, accumulator: Read, best: str = "") -> Reduction:
    return Reduction(reduce.op, reduce.order, accumulator.tensor, reduce.permissions, best)


def _move(
    label: str,
    kind: Literal["update", "merge"],
    ranges: tuple[Range, ...],
    held: tuple[Read, Read],
    element: tuple[Expr, Expr],
    reduce: Reduce,
    work: Lowering,
) -> None:
    """One step: the index moves first, while the old best value is there. *held*, *element*: an index and a value."""
    index, best = held
    moved = Select(_better(reduce.op, element[1], element[0], best, index), element[0], index, I64)
    name, shared = f"S_{label}_{kind}", _of(reduce, index, best.tensor)
    work.statements.append(
        Statement(name, work.stage.name, kind, ranges, index.tensor, position(index), moved, shared, reduce.span)
    )
    add_step(f"S_{label}_best_{kind}", kind, ranges, best, element[1], reduce, _of(reduce, best), work)


def _better(op: str, element: Expr, place: Expr, best: Expr, index: Expr) -> Expr:
    """Whether argmax (argmin) moves on to the element at *place*: it is greater (less), or equal and stands before.

    A NaN is greater (less) than every number and equal to another. So the order of the elements decides nothing.
    """
    wins: Expr = Compare(">" if op == "argmax" else "<", element, best)
    earlier = Compare("<", place, index)
    equal = Logic("and", (Compare("==", element, best), earlier))
    if not element.dtype.is_float:
        return Logic("or", (wins, equal))
    over_numbers = Logic("or", (Compare("==", best, best), earlier))
    nan = Logic("and", (Compare("!=", element, element), over_numbers))
    return Logic("or", (Logic("or", (wins, equal)), nan))
