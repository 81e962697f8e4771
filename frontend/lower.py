"""From checked equations to the program."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..compiler.ir.affine import affine_of_isl, decide, make_map
from ..compiler.ir.program import Extent, Nested, Program, Stage, Tensor, stages_of
from ..compiler.ir.quasiaffine import Affine, Range
from ..compiler.ir.statements import lower_stage
from .bounds import domain_formula, names_of, reads_of
from .ranges import proved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import islpy as isl

    from . import syntax as s
    from .scope import Scope
    from .signature import Signature


def stage_names(stages: Sequence[tuple[s.Equation, Stage]]) -> list[tuple[s.Equation, Stage]]:
    """Name stages for schedules: the tensor, or `U#1`, `U#2` in text order where it has several equations."""
    count: dict[str, int] = {}
    for _, stage in stages:
        count[stage.tensor] = count.get(stage.tensor, 0) + 1
    seen: dict[str, int] = {}
    named: list[tuple[s.Equation, Stage]] = []
    for equation, stage in stages:
        name = stage.tensor
        if count[name] > 1:
            seen[name] = seen.get(name, 0) + 1
            name = f"{name}#{seen[name]}"
        named.append((equation, replace(stage, name=name)))
    return named


def intermediate_tensors(stages: Sequence[tuple[s.Equation, Stage]], scope: Scope) -> dict[str, Tensor]:
    """The tensors that equations introduce, with the hull of what they define."""
    by_tensor: dict[str, list[Stage]] = {}
    for _, stage in stages:
        if scope.tensors[stage.tensor].role == "intermediate":
            by_tensor.setdefault(stage.tensor, []).append(stage)
    found: dict[str, Tensor] = {}
    for name, defining in by_tensor.items():
        hulls = [hull(stage.ranges, stage.lefts, scope) for stage in defining]
        extents = tuple(_joined(column, scope) for column in zip(*hulls, strict=True))
        dtype = scope.tensors[name].dtype
        assert dtype is not None
        found[name] = Tensor(name, dtype, extents, "intermediate", scope.span(scope.tensors[name].at))
    return found


def _joined(column: Sequence[Extent], scope: Scope) -> Extent:
    if all(e == column[0] for e in column):
        return column[0]
    # Each end of a meet bounds it: the first serves in a hull.
    lower = _outermost([a for e in column for a in (e.lower[:1] if e.meet else e.lower)], "<=", scope)
    upper = _outermost([b for e in column for b in (e.upper[:1] if e.meet else e.upper)], ">=", scope)
    return Extent(lower, upper)


def _outermost(ends: list[Affine], op: str, scope: Scope) -> tuple[Affine, ...]:
    """Ends without those that isl proves to lie inside another."""
    kept: list[Affine] = []
    for end in dict.fromkeys(ends):
        if any(proved(scope, op, other, end) for other in kept):
            continue
        kept = [other for other in kept if not proved(scope, op, end, other)]
        kept.append(end)
    return tuple(kept)


def hull(ranges: tuple[Range, ...], position: tuple[Affine, ...], scope: Scope) -> tuple[Extent, ...]:
    """The least box with ends in sizes that holds the positions for all values of the ranges."""
    by_name = {r.index: r for r in ranges}
    points: isl.Set | None = None
    extents: list[Extent] = []
    for dim, place in enumerate(position):
        found = by_name.get(place.bare or "")
        if found and all(n in scope.sizes for n in found.names()):
            several = len(found.lower) > 1 or len(found.upper) > 1
            extents.append(Extent(found.lower, found.upper, meet=several))
        elif all(n in scope.sizes for n in place.names()):
            extents.append(Extent((place,), (place + 1,)))
        else:
            if points is None:
                condition = domain_formula(scope, ranges, scope.context)
                points = make_map(scope.sizes, names_of(ranges), position, condition).range()
            lower = _pieces(decide(partial(points.dim_min, dim)))
            upper = tuple(end + 1 for end in _pieces(decide(partial(points.dim_max, dim))))
            lower = _outermost(list(lower) or [Affine()], "<=", scope)
            upper = _outermost(list(upper) or [Affine()], ">=", scope)
            extents.append(Extent(lower, upper))
    return tuple(extents)


def _pieces(bound: isl.PwAff) -> tuple[Affine, ...]:
    # isl's order of pieces is its own affair.
    return tuple(sorted(dict.fromkeys(affine_of_isl(aff) for _, aff in bound.get_pieces()), key=str))


def build_program(
    kernel: s.Kernel,
    signature: Signature,
    declared: Mapping[str, Tensor],
    stages: Sequence[tuple[s.Equation, Stage]],
    order: tuple[Nested, ...],
    permissions: tuple[str, ...],
    scope: Scope,
    documentation: str,
) -> Program:
    """The program of a kernel whose every check has passed."""
    tensors = {**signature.tensors, **declared, **intermediate_tensors(stages, scope)}
    used = {read for _, stage in stages for read in _tensors_read(stage)} | {stage.tensor for _, stage in stages}
    tensors = {n: t for n, t in tensors.items() if t.role != "constant" or n in used}
    by_name = {stage.name: stage for _, stage in stages}
    order = tuple(_with_extents(item, by_name, scope) for item in order)
    statements = []
    for name in stages_of(order):
        found, accumulators = lower_stage(by_name[name], lambda r, p: hull(r, p, scope))
        statements += found
        tensors.update({t.name: t for t in accumulators})
    return Program(
        name=kernel.name.text,
        parameters=signature.inputs,
        outputs=signature.outputs,
        sizes=tuple(scope.sizes),
        scalars=dict(scope.scalars),
        tensors=tensors,
        promises=signature.promises,
        context=scope.context,
        stages=tuple(stage for _, stage in stages),
        order=order,
        statements=tuple(statements),
        permissions=permissions,
        documentation=documentation,
        span=scope.span(kernel.at),
        source=scope.source.text,
    )


def _with_extents(item: Nested, by_name: Mapping[str, Stage], scope: Scope) -> Nested:
    """The order with the range of each common loop."""
    if isinstance(item, str):
        return item
    stages = [by_name[name] for name in stages_of((item,))]
    columns = [hull(stage.ranges, (stage.lefts[item.position],), scope)[0] for stage in stages]
    members = tuple(_with_extents(m, by_name, scope) for m in item.members)
    return replace(item, members=members, extent=_joined(columns, scope))


def _tensors_read(stage: Stage) -> set[str]:
    return {read.tensor for read, _ in reads_of(stage)}
