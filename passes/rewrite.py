"""Programs with other equations: what the steps share that rewrite a program and not only its tree."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Index, Read, postorder
from ..compiler.ir.hulls import hull
from ..compiler.ir.program import Shared, Stage, Tensor, stages_of
from ..compiler.ir.quasiaffine import Affine, Range
from ..compiler.ir.rebuild import rebuilt
from ..compiler.ir.show import expression_text
from ..compiler.ir.statements import lower_stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Nested, Program, Statement


def with_stages(program: Program, stages: Sequence[Stage], tensors: Mapping[str, Tensor]) -> Program:
    """The program with these equations, in this order, over these tensors (accumulators follow from the equations).

    Equations that the program has already keep their statements. The order of computation is left as it was, for the
    caller to change.
    """
    kept = {id(s) for s in program.stages}
    statements: list[Statement] = []
    made: dict[str, Tensor] = {n: t for n, t in tensors.items() if t.role != "accumulator"}
    partial = replace(program, tensors=made)
    for stage in stages:
        if id(stage) in kept:
            own = list(program.statements_of(stage.name))
            accumulators = [program.tensors[s.tensor] for s in own if s.tensor != stage.tensor]
        else:
            own, accumulators = lower_stage(stage, lambda r, p: hull(r, p, partial))
        statements += own
        made.update({t.name: t for t in accumulators})
    return replace(program, stages=tuple(stages), tensors=made, statements=tuple(statements))


def in_order(program: Program) -> list[Stage]:
    """The equations in the order in which the definition computes them."""
    return [program.stage(name) for name in stages_of(program.order)]


def without_stage(order: Iterable[Nested], name: str) -> tuple[Nested, ...]:
    """The order of computation without an equation."""
    found: list[Nested] = []
    for item in order:
        if isinstance(item, Shared):
            members = without_stage(item.members, name)
            found += [replace(item, members=members)] if members else []
        elif item != name:
            found.append(item)
    return tuple(found)


def beside(order: Sequence[Nested], new: str, at: int) -> tuple[Nested, ...]:
    """The order of computation with an equation before the item of that number."""
    return (*order[:at], new, *order[at:])


def item_of(order: Sequence[Nested], stage: str) -> int:
    """The number of the item of an order that an equation is in."""
    return next(i for i, item in enumerate(order) if stage in stages_of((item,)))


def redirected(value: Expr, tensor: str, other: str, *, padded: bool = False) -> Expr:
    """The expression with its reads of a tensor turned to another one, at the same positions. *padded*: that has what
    reads beyond an edge are to find."""
    replaced: dict[int, Expr] = {}
    for node in postorder(value):
        if isinstance(node, Read):
            inner = rebuilt(node, replaced)
            if isinstance(inner, Read) and node.tensor == tensor:
                replaced[id(node)] = replace(inner, tensor=other, fill=None if padded else inner.fill)
    return rebuilt(value, replaced)


def copy_of(tensor: Tensor, name: str, indices: Sequence[str], source: str, fill: Expr | None = None) -> Stage:
    """The equation `name[indices] = source[indices]` over the whole of a tensor; *fill*: where the source has none."""
    ranges = tuple(Range(i, e.lower, e.upper) for i, e in zip(indices, tensor.extents, strict=True))
    lefts = tuple(Affine.name(i) for i in indices)
    value = Read(source, tuple(Index(a) for a in lefts), tensor.dtype, tensor.span, fill=fill)
    text = f"{name}[{', '.join(indices)}] = {source}[{', '.join(indices)}]" if indices else f"{name} = {source}"
    if fill is not None:
        text += f" else {expression_text(fill)}"
    return Stage(name, name, lefts, ranges, value, span=tensor.span, text=text, copies=True)


def taken_names(program: Program) -> set[str]:
    """The names of a program's tensors, equations, sizes and scalars."""
    return {*program.tensors, *(s.name for s in program.stages), *program.sizes, *program.scalars}
