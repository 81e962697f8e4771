"""The statements of a stage: a reduction becomes init, update, merge where its order needs one, and finish."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .dtype import I64, DType
from .expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Order,
    Partial,
    Read,
    Reduce,
    Select,
    Unary,
    children,
)
from .program import Extent, Reduction, Stage, Statement, Tensor
from .quasiaffine import Affine, Range

Hull = Callable[[tuple[Range, ...], tuple[Affine, ...]], tuple[Extent, ...]]


@dataclass
class _Lowering:
    """The statements found so far, and names for what they introduce."""

    stage: Stage
    hull: Hull
    count: int
    statements: list[Statement] = field(default_factory=list[Statement])
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    made: int = 0

    def label(self) -> str:
        """`C` for the only reduction of stage C, `C.1`, `C.2` where there are several."""
        self.made += 1
        return self.stage.name if self.count == 1 else f"{self.stage.name}.{self.made}"


def lower_stage(stage: Stage, hull: Hull) -> tuple[list[Statement], list[Tensor]]:
    """The statements of a stage in the order in which an instance of it runs, and their accumulators.

    *hull* gives the extents of an array that holds the given positions for all values of the ranges.
    """
    found = _reductions(stage.value, stage.ranges)
    work = _Lowering(stage, hull, len(found))
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


def identity(op: str, dtype: DType) -> float | int | bool:
    """What a reduction of nothing gives, and what its accumulator starts from."""
    if op in ("any", "all"):
        return op == "all"
    if op in ("sum", "prod"):
        return (0 if op == "sum" else 1) if dtype.is_int else (0.0 if op == "sum" else 1.0)
    greatest = op in ("max", "argmax")
    if dtype.is_int:
        return dtype.least if greatest else dtype.greatest
    extreme = dtype.largest if dtype.overflow == "nan" else float("inf")
    return -extreme if greatest else extreme


def combined(op: str, accumulator: Expr, element: Expr, fused: bool = False) -> Expr:
    """One step of a reduction; *fused*: a product is added with one rounding."""
    dtype = accumulator.dtype
    if fused and isinstance(element, Binary) and element.op == "*":
        return Call("fma", (element.left, element.right, accumulator), dtype, element.span)
    if op in ("any", "all"):
        # The element first: every element is evaluated, whatever the others gave.
        return Logic("or" if op == "any" else "and", (element, accumulator))
    symbol = {"sum": "+", "prod": "*", "min": "min", "max": "max", "argmax": "max", "argmin": "min"}[op]
    return Binary(symbol, accumulator, element, dtype)


def better(op: str, element: Expr, best: Expr) -> Expr:
    """Whether argmax (argmin) moves on to *element*: it is greater (less), or the first NaN."""
    sign = ">" if op == "argmax" else "<"
    wins: Expr = Compare(sign, element, best)
    if element.dtype.is_float:
        first_nan = Logic("and", (Compare("!=", element, element), Compare("==", best, best)))
        wins = Logic("or", (wins, first_nan))
    return wins


def _lower_reduction(reduce: Reduce, outer: tuple[Range, ...], replaced: dict[int, Expr], work: _Lowering) -> Expr:
    """Statements for one reduction; what stands in its place afterwards."""
    label = work.label()
    body = rebuilt(reduce.body, replaced)
    if reduce.op in ("argmax", "argmin"):
        return _lower_arg(reduce, outer, body, label, work)
    if reduce.order.kind in ("lanes", "blocks"):
        return _lower_ordered(reduce, outer, body, label, work)
    total = _accumulator(f"{label}.acc", reduce.dtype, outer, _names(outer), work)
    shared = Reduction(reduce.op, reduce.order, total.tensor, reduce.permissions)
    _init(label, outer, total, reduce, shared, work)
    _step(f"S_{label}_update", "update", (*outer, *reduce.ranges), total, body, reduce, shared, work)
    return total


def _names(ranges: Sequence[Range]) -> tuple[Affine, ...]:
    return tuple(Affine.name(r.index) for r in ranges)


def _accumulator(
    name: str, dtype: DType, ranges: tuple[Range, ...], position: tuple[Affine, ...], work: _Lowering
) -> Read:
    """A new tensor that holds one value for each of these positions, and the read of it."""
    work.tensors.append(Tensor(name, dtype, work.hull(ranges, position), "accumulator", work.stage.span))
    return Read(name, tuple(Index(p) for p in position), dtype, work.stage.span)


def _position(read: Read) -> tuple[Affine, ...]:
    return tuple(s.affine for s in read.subscripts if isinstance(s, Index))


def _init(
    label: str, ranges: tuple[Range, ...], target: Read, reduce: Reduce, shared: Reduction, work: _Lowering
) -> None:
    start = Const(identity(reduce.op, target.dtype), target.dtype)
    name = f"S_{label}_init"
    work.statements.append(
        Statement(
            name,
            work.stage.name,
            "init",
            ranges,
            target.tensor,
            _position(target),
            start,
            shared,
            reduce.span,
        )
    )


def _step(
    name: str,
    kind: str,
    ranges: tuple[Range, ...],
    target: Read,
    element: Expr,
    reduce: Reduce,
    shared: Reduction,
    work: _Lowering,
) -> None:
    value = combined(reduce.op, target, element, reduce.fused)
    work.statements.append(
        Statement(name, work.stage.name, kind, ranges, target.tensor, _position(target), value, shared, reduce.span)  # type: ignore[arg-type]  # update or merge
    )


def _lower_arg(reduce: Reduce, outer: tuple[Range, ...], body: Expr, label: str, work: _Lowering) -> Expr:
    """argmax and argmin carry the best value and its index; the index moves first, while the old value is there."""
    found = reduce.ranges[0]
    best = _accumulator(f"{label}.best", body.dtype, outer, _names(outer), work)
    index = _accumulator(f"{label}.acc", I64, outer, _names(outer), work)
    of_best = Reduction(reduce.op, reduce.order, best.tensor, reduce.permissions)
    of_index = Reduction(reduce.op, reduce.order, index.tensor, reduce.permissions)
    start: Expr = Index(found.lower[0])
    for other in found.lower[1:]:
        start = Binary("max", start, Index(other), I64)
    everywhere = (*outer, found)
    stage = work.stage.name
    _init(f"{label}_best", outer, best, reduce, of_best, work)
    work.statements.append(
        Statement(
            f"S_{label}_init",
            stage,
            "init",
            outer,
            index.tensor,
            _position(index),
            start,
            of_index,
            reduce.span,
        )
    )
    moved = Select(better(reduce.op, body, best), Index(Affine.name(found.index)), index, I64)
    work.statements.append(
        Statement(
            f"S_{label}_update",
            stage,
            "update",
            everywhere,
            index.tensor,
            _position(index),
            moved,
            of_index,
            reduce.span,
        )
    )
    _step(f"S_{label}_best_update", "update", everywhere, best, body, reduce, of_best, work)
    return index


def _lower_ordered(reduce: Reduce, outer: tuple[Range, ...], body: Expr, label: str, work: _Lowering) -> Expr:
    """lanes= and blocks=: partial accumulators, then their merge."""
    size, kind = reduce.order.size, reduce.order.kind
    inner = reduce.ranges[-1]
    k = Affine.name(inner.index)
    if kind == "lanes":
        part = Range("lane", (Affine(),), (Affine.number(size),))
        part_ranges = (*outer, part)
        slot = k.divided("%", size)
        position = (*_names(outer), slot)
    else:
        low = tuple(a.divided("//", size) for a in inner.lower)
        high = tuple((b - 1).divided("//", size) + 1 for b in inner.upper)
        part = Range("block", low, high)
        part_ranges = (*outer, *reduce.ranges[:-1], part)
        slot = k.divided("//", size)
        position = (*_names((*outer, *reduce.ranges[:-1])), slot)
    partial = _accumulator(f"{label}.{kind}", reduce.dtype, part_ranges, _names(part_ranges), work)
    total = _accumulator(f"{label}.acc", reduce.dtype, outer, _names(outer), work)
    shared = Reduction(reduce.op, reduce.order, partial.tensor, reduce.permissions)
    merged = Reduction(reduce.op, Order(), total.tensor, reduce.permissions)
    _init(f"{label}_{kind}", part_ranges, partial, reduce, shared, work)
    slot_read = replace(partial, subscripts=tuple(Index(p) for p in position))
    _step(f"S_{label}_update", "update", (*outer, *reduce.ranges), slot_read, body, reduce, shared, work)
    if kind == "lanes":
        prefix = tuple(Index(p) for p in _names(outer))
        value = Partial(partial.tensor, prefix, size, reduce.op, reduce.dtype, reduce.span)
        work.statements.append(
            Statement(
                f"S_{label}_merge",
                work.stage.name,
                "merge",
                outer,
                total.tensor,
                _position(total),
                value,
                merged,
                reduce.span,
            )
        )
    else:
        _init(label, outer, total, reduce, merged, work)
        _step(f"S_{label}_merge", "merge", part_ranges, total, partial, reduce, merged, work)
    return total


def rebuilt(root: Expr, replaced: dict[int, Expr]) -> Expr:
    """The expression with nodes (by identity) replaced; parts without a replacement are kept as they are."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if id(node) in replaced:
            done[id(node)] = replaced[id(node)]
        elif ready:
            done[id(node)] = with_children(node, tuple(done[id(c)] for c in children(node)))
        else:
            stack.append((node, True))
            stack.extend((c, False) for c in children(node))
    return done[id(root)]


def with_children(node: Expr, new: tuple[Expr, ...]) -> Expr:
    """The node over other operands (in the order of `children`); itself where they are the same."""
    if all(a is b for a, b in zip(children(node), new, strict=True)):
        return node
    match node:
        case Read():
            count = len(node.subscripts)
            return replace(node, subscripts=new[:count], fill=new[count] if node.fill is not None else None)
        case Allow(operand=Reduce()) if isinstance(new[0], Read):
            return new[0]  # what was granted to the reduction is noted in its statements
        case Unary() | Cast() | Allow():
            return replace(node, operand=new[0])
        case Binary() | Compare():
            return replace(node, left=new[0], right=new[1])
        case Logic():
            return replace(node, operands=new)
        case Select():
            return replace(node, then=new[0], condition=new[1], other=new[2])
        case Call():
            return replace(node, arguments=new)
        case Reduce():
            return replace(node, body=new[0])
        case _:
            return node
