"""Proofs about definitions: total where declared, nothing defined twice or outside, no argmax of nothing."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, decide, least_point, make_map, make_set
from ..compiler.ir.quasiaffine import Affine, All, Comparison, Some, conjunction
from .bounds import UNDECIDED, defined_box, domain_formula, image, names_of, reductions_of
from .diagnostic import Fault
from .example import least_example, remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Stage, Tensor
    from .scope import Scope
    from .syntax import Equation


def check_once(tensor: Tensor, stages: Sequence[tuple[Equation, Stage]], scope: Scope) -> Iterator[Fault]:
    """Faults of a tensor that is defined twice somewhere, outside its shape, or (declared) not everywhere."""
    try:
        with budget():
            faults = list(_check_once(tensor, stages, scope))
        yield from faults
    except UndecidedError:
        yield Fault(
            stages[0][0].at,
            f"whether '{tensor.name}' is defined everywhere and once could not be decided",
            UNDECIDED,
        )


def _check_once(tensor: Tensor, stages: Sequence[tuple[Equation, Stage]], scope: Scope) -> Iterator[Fault]:
    declared = tensor.role in ("output", "declared")
    if len(stages) == 1:
        box = defined_box(stages[0][1])
        if box is not None and (
            not declared
            or all(r.lower == e.lower and r.upper == e.upper for r, e in zip(box, tensor.extents, strict=True))
        ):
            return
    images = [image(stage, scope) for _, stage in stages]
    positions = tuple(f"position{p}" for p in range(tensor.rank))
    images = [_named(i, positions) for i in images]
    box = make_set(scope.sizes, positions, conjunction(scope.context, _box(tensor, positions)))
    if declared:
        beyond = [
            _beyond(e, s, tensor, i.subtract(box), positions, scope) for (e, s), i in zip(stages, images, strict=True)
        ]
        if any(beyond):
            yield from (fault for fault in beyond if fault)
            return  # what is missing or read outside may follow from it
    for equation, stage in stages:
        if _repeats(stage, scope):
            yield Fault(
                equation.at,
                f"'{tensor.name}' is defined twice by this equation",
                "let each index stand bare once on the left",
            )
    for (_, first), (j, second) in combinations(enumerate(images), 2):
        both = first.intersect(second)
        if not decide(both.is_empty):
            message = f"'{tensor.name}' is defined twice: {_element(tensor, both, positions)}"
            yield Fault(stages[j][0].at, message, "let the ranges of its equations be disjoint")
    if declared:
        union = images[0]
        for other in images[1:]:
            union = union.union(other)
        missing = box.subtract(union)
        if not decide(missing.is_empty):
            message = f"'{tensor.name}' is not defined everywhere: {_element(tensor, missing, positions)}"
            yield Fault(stages[0][0].at, message, "add an equation for the rest")


def _box(tensor: Tensor, positions: Sequence[str]) -> All:
    """That the positions lie inside a tensor of declared shape."""
    parts = [(Affine.name(p), e.upper[0]) for p, e in zip(positions, tensor.extents, strict=False)]
    return All(tuple(c for p, size in parts for c in (Comparison("<=", Affine(), p), Comparison("<", p, size))))


def _named(points: isl.Set, names: Sequence[str]) -> isl.Set:
    for position, name in enumerate(names):
        points = points.set_dim_name(isl.dim_type.set, position, name)
    return points


def _repeats(stage: Stage, scope: Scope) -> bool:
    if defined_box(stage) is not None:
        return False
    condition = domain_formula(scope, stage.ranges, All())
    relation = make_map(scope.sizes, names_of(stage.ranges), stage.lefts, condition)
    return not decide(relation.is_injective)


def _beyond(
    equation: Equation, stage: Stage, tensor: Tensor, beyond: isl.Set, positions: Sequence[str], scope: Scope
) -> Fault | None:
    """The fault of an equation that defines the elements *beyond* the shape."""
    if decide(beyond.is_empty):
        return None
    for node, left in zip(equation.lefts or (), stage.lefts, strict=True):
        name = left.bare
        if name in scope.sizes:
            shown = f"{tensor.name}[{', '.join(map(str, stage.lefts))}]"
            message = f"'{name}' is a size, so {shown} is one element, outside the shape"
            return Fault(node.at, message, "give the index its own name")
    return Fault(
        equation.at,
        f"defines {_element(tensor, beyond, positions)} outside its shape",
        "write a smaller range",
    )


def _element(tensor: Tensor, points: isl.Set, positions: Sequence[str]) -> str:
    """`Y[0, 3] at N=4`: the least element of a set of positions."""
    point = least_point(points) or {}
    subscripts = ", ".join(str(point[p]) for p in positions)
    sizes = ", ".join(f"{n}={v}" for n, v in point.items() if n not in positions)
    element = f"{tensor.name}[{subscripts}]" if positions else tensor.name
    return f"{element} at {sizes}" if sizes else element


def check_nonempty(stage: Stage, scope: Scope) -> Iterator[Fault]:
    """Faults of argmax and argmin over a range that can be empty."""
    for reduce, ranges in reductions_of(stage):
        if reduce.op not in ("argmax", "argmin"):
            continue
        assert reduce.span is not None
        start = scope.source.position(reduce.span)
        at = (start, start + reduce.span.width)
        outer = make_set(scope.sizes, names_of(ranges), domain_formula(scope, ranges, All()))
        found = reduce.ranges[0]
        empty = Some(tuple(Comparison("<=", b, a) for a in found.lower for b in found.upper))
        try:
            bad = outer.intersect(make_set(scope.sizes, names_of(ranges), empty))
            if decide(bad.is_empty):
                continue
            relevant = [*scope.sizes, *(n for n in names_of(ranges) if n in set(found.names()))]
            shown = least_example(bad, relevant)
            yield Fault(
                at,
                f"{reduce.op} over an empty range at {shown}",
                remedy(bad, scope) or "promise with where that the range is not empty",
            )
        except UndecidedError:
            yield Fault(at, f"whether the range of {reduce.op} can be empty could not be decided", UNDECIDED)
