"""Proofs about elements: reads hit defined elements, definitions are total and define nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, make_map, make_set
from ..compiler.ir.expr import Index, Read, Reduce, children
from ..compiler.ir.quasiaffine import Affine, All, Comparison, Formula, Range, Some, conjunction
from .diagnostic import Fault
from .example import least_example, remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compiler.ir.program import Stage, Tensor
    from .scope import Scope

UNDECIDED = "simplify the condition, or write the range"


def reads_of(stage: Stage) -> Iterator[tuple[Read, tuple[Range, ...]]]:
    """Every read of a stage with the ranges in scope where it stands."""
    stack: list[tuple[object, tuple[Range, ...]]] = [(stage.value, stage.ranges)]
    seen: set[int] = set()
    while stack:
        node, ranges = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Read):
            yield node, ranges
        inner = (*ranges, *node.ranges) if isinstance(node, Reduce) else ranges
        stack.extend((child, inner) for child in reversed(children(node)))  # type: ignore[arg-type]  # expressions


def reductions_of(stage: Stage) -> Iterator[tuple[Reduce, tuple[Range, ...]]]:
    """Every reduction of a stage with the ranges in scope outside it."""
    stack: list[tuple[object, tuple[Range, ...]]] = [(stage.value, stage.ranges)]
    seen: set[int] = set()
    while stack:
        node, ranges = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        inner = ranges
        if isinstance(node, Reduce):
            yield node, ranges
            inner = (*ranges, *node.ranges)
        stack.extend((child, inner) for child in reversed(children(node)))  # type: ignore[arg-type]  # expressions


def names_of(ranges: Sequence[Range]) -> tuple[str, ...]:
    return tuple(r.index for r in ranges)


def domain_formula(scope: Scope, ranges: Sequence[Range], guard: Formula) -> Formula:
    return conjunction(scope.context, guard, *(r.formula() for r in ranges))


def image(stage: Stage, scope: Scope) -> isl.Set:
    """The elements that a stage defines."""
    condition = domain_formula(scope, stage.ranges, All())
    return make_map(scope.sizes, names_of(stage.ranges), stage.lefts, condition).range()


def defined_box(stage: Stage) -> tuple[Range, ...] | None:
    """The ranges of the positions, where every left side is an index of its own."""
    by_name = {r.index: r for r in stage.ranges}
    ranges = [by_name[name] for left in stage.lefts if (name := left.bare) in by_name]
    return tuple(ranges) if len(ranges) == len(stage.lefts) == len(set(names_of(ranges))) else None


def check_reads(
    stage: Stage, tensors: Mapping[str, Tensor], stages: Mapping[str, Sequence[Stage]], scope: Scope
) -> Iterator[Fault]:
    """Faults of reads that may miss the tensor (or the part of it that is defined)."""
    source = scope.source
    for read, ranges in reads_of(stage):
        if read.tensor not in tensors or (read.fill is not None and tensors[read.tensor].role != "intermediate"):
            continue
        tensor = tensors[read.tensor]
        assert read.span is not None
        start = source.position(read.span)
        at = (start, start + read.span.width)
        defining = stages.get(read.tensor, ())
        try:
            with budget():
                fault = _check_read(read, ranges, tensor, defining, at, scope)
        except UndecidedError:
            fault = Fault(at, f"the bounds of {read.tensor}[..] could not be decided", UNDECIDED)
        if fault:
            yield fault


def _check_read(
    read: Read,
    ranges: tuple[Range, ...],
    tensor: Tensor,
    defining: Sequence[Stage],
    at: tuple[int, int],
    scope: Scope,
) -> Fault | None:
    if read.fill is not None:
        if _whole_box(tensor, defining, scope):
            return None
        message = f"a padded read of '{read.tensor}', which is not defined on a whole box"
        return Fault(at, message, "declare it with let and define it everywhere, or use a guard: ... if c else ...")
    if tensor.role == "intermediate":
        bad = _outside_defined(read, ranges, defining, scope)
    else:
        bad = _outside_box(read, ranges, tensor, scope)
    if bad is None or bad.is_empty():
        return None
    relevant = _relevant(read, ranges, tensor, scope)
    shown = least_example(bad, relevant)
    if tensor.role == "intermediate" and not all(isinstance(sub, Index) for sub in read.subscripts):
        message = f"a gather from '{read.tensor}', which is not defined on a whole box"
        return Fault(at, f"{message}: at {shown}", "declare it with let and define it everywhere")
    hint = remedy(bad, scope) or _guard_hint(read, tensor)
    return Fault(at, f"reads {read.tensor} outside its range at {shown}", hint)


def _guard_hint(read: Read, tensor: Tensor) -> str:
    for sub, extent in zip(read.subscripts, tensor.extents, strict=False):  # an intermediate has none
        if isinstance(sub, Index) and sub.affine.is_number and sub.affine.constant < 0 and extent.size is not None:
            return f"there is no counting from the end: write {extent.size + sub.affine.constant}"
    return "a guard, ... if c else ..., or a padded read, (X[..] else 0)"


def _relevant(read: Read, ranges: tuple[Range, ...], tensor: Tensor, scope: Scope) -> list[str]:
    """The names that an example of a bad read should show."""
    wanted: set[str] = set()
    for sub in read.subscripts:
        if isinstance(sub, Index):
            wanted.update(sub.affine.names())
    for extent in tensor.extents:
        for end in (*extent.lower, *extent.upper):
            wanted.update(end.names())
    by_name = {r.index: r for r in ranges}
    pending = [n for n in wanted if n in by_name]
    while pending:
        for name in by_name[pending.pop()].names():
            if name not in wanted:
                wanted.add(name)
                if name in by_name:
                    pending.append(name)
    return [n for n in (*scope.sizes, *names_of(ranges)) if n in wanted]


def _outside_box(read: Read, ranges: tuple[Range, ...], tensor: Tensor, scope: Scope) -> isl.Set | None:
    by_name = {r.index: r for r in ranges}
    outside: list[Formula] = []
    for sub, extent in zip(read.subscripts, tensor.extents, strict=True):
        if not isinstance(sub, Index):
            continue
        size = extent.upper[0]
        found = by_name.get(sub.affine.bare or "")
        if found and (Affine() in found.lower and size in found.upper):
            continue  # the index runs over this very extent
        outside += [Comparison("<", sub.affine, Affine()), Comparison(">=", sub.affine, size)]
    if not outside:
        return None
    condition = conjunction(domain_formula(scope, ranges, read.guard), Some(tuple(outside)))
    return make_set(scope.sizes, names_of(ranges), condition)


def _outside_defined(read: Read, ranges: tuple[Range, ...], defining: Sequence[Stage], scope: Scope) -> isl.Set | None:
    by_name = {r.index: r for r in ranges}
    if len(defining) == 1:
        box = defined_box(defining[0])
        if box is not None and all(
            _same_range(sub, b, by_name, box, read) for sub, b in zip(read.subscripts, box, strict=True)
        ):
            return None
    defined = image(defining[0], scope)
    for other in defining[1:]:
        defined = defined.union(image(other, scope))
    domain = make_set(scope.sizes, names_of(ranges), domain_formula(scope, ranges, read.guard))
    # A gathered position may be any between the ends of its dimension: all of those must be defined.
    data = [p for p, sub in enumerate(read.subscripts) if not isinstance(sub, Index)]
    names = tuple(f"data{p}" for p in data)
    images = [
        sub.affine if isinstance(sub, Index) else Affine.name(f"data{p}") for p, sub in enumerate(read.subscripts)
    ]
    inside: list[Formula] = []
    for position in data:
        ends = scope.tensors[read.tensor].extents[position]
        if ends is None:
            return domain
        index = Affine.name(f"data{position}")
        inside += [Comparison("<=", a, index) for a in ends[0]] + [Comparison("<", index, b) for b in ends[1]]
    everywhere = (*names_of(ranges), *names)
    whole = make_set(scope.sizes, everywhere, conjunction(domain_formula(scope, ranges, read.guard), *inside))
    hits = make_map(scope.sizes, everywhere, images, All()).intersect_range(defined).domain()
    missed = whole.subtract(hits)
    if not data:
        return missed
    return missed.project_out(isl.dim_type.set, len(ranges), len(data))


def _whole_box(tensor: Tensor, defining: Sequence[Stage], scope: Scope) -> bool:
    """Whether an intermediate is defined everywhere between the ends of its dimensions."""
    extents = scope.tensors[tensor.name].extents
    names = tuple(f"position{p}" for p in range(len(extents)))
    inside: list[Formula] = []
    for name, ends in zip(names, extents, strict=True):
        if ends is None:
            return False
        index = Affine.name(name)
        inside += [Comparison("<=", a, index) for a in ends[0]] + [Comparison("<", index, b) for b in ends[1]]
    box = make_set(scope.sizes, names, conjunction(scope.context, *inside))
    for stage in defining:
        box = box.subtract(image(stage, scope))
    return box.is_empty()


def _same_range(sub: object, box: Range, by_name: Mapping[str, Range], whole: tuple[Range, ...], read: Read) -> bool:
    """Whether a subscript is an index with the very range that defines this position."""
    if not isinstance(sub, Index):
        return False
    found = by_name.get(sub.affine.bare or "")
    if found is None:
        return False
    mapping = {r.index: s.affine for r, s in zip(whole, read.subscripts, strict=True) if isinstance(s, Index)}
    lower = tuple(a.substituted(mapping) for a in box.lower)
    upper = tuple(a.substituted(mapping) for a in box.upper)
    return set(lower) <= set(found.lower) and set(upper) <= set(found.upper)
