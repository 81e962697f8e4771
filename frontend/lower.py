"""From checked equations to the program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.hulls import hull, joined
from ..compiler.ir.program import Nested, Program, Stage, Tensor, stages_of
from ..compiler.ir.statements import lower_stage
from .bounds import reads_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        extents = tuple(joined(column, scope) for column in zip(*hulls, strict=True))
        dtype = scope.tensors[name].dtype
        assert dtype is not None
        found[name] = Tensor(name, dtype, extents, "intermediate", scope.span(scope.tensors[name].at))
    return found


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
    return replace(item, members=members, extent=joined(columns, scope))


def _tensors_read(stage: Stage) -> set[str]:
    return {read.tensor for read, _ in reads_of(stage)}
