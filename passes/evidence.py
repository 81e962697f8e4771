"""The evidence of a refusal: the two instances that clash at the smallest sizes, and an input that shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import least_point
from ..compiler.ir.show import element_text, expression_text
from ..compiler.ir.span import Source, Span
from .legality import Violation, examine
from .refusal import Place, Refusal
from .witness import larger_witness, sizes_text, witness

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..compiler.ir.program import Access, Program, Statement
    from ..compiler.ir.tree import Placed
    from .state import State


@dataclass(frozen=True)
class Clash:
    """The smallest case of a violation: sizes, and the two points by loop index."""

    sizes: dict[str, int]
    first: dict[str, int]
    second: dict[str, int]

    @property
    def extent(self) -> int:
        return sum(self.sizes.values())


def smallest(program: Program, violation: Violation) -> Clash | None:
    """The least sizes, and the first pair at them."""
    pairs = violation.pairs
    ins = pairs.dim(isl.dim_type.in_)
    outs = pairs.dim(isl.dim_type.out)
    flat = pairs.wrap().flatten()
    names = [f"a{i}" for i in range(ins)] + [f"b{i}" for i in range(outs)]
    for position, name in enumerate(names):
        flat = flat.set_dim_name(isl.dim_type.set, position, name)
    point = least_point(flat)
    if point is None:
        return None
    sizes = {n: point[n] for n in program.sizes if n in point}
    first = dict(zip(_first_names(violation), (point[f"a{i}"] for i in range(ins)), strict=True))
    second = dict(zip(violation.target.leaf.indices, (point[f"b{i}"] for i in range(outs)), strict=True))
    return Clash({n: sizes.get(n, 1) for n in program.sizes}, first, second)


def _first_names(violation: Violation) -> tuple[str, ...]:
    if violation.why == "missing":
        return tuple(f"it{i}" for i in range(violation.pairs.dim(isl.dim_type.in_)))
    return violation.source.leaf.indices


def with_evidence(
    refusal: Refusal, asked: State, violation: Violation, smaller: Callable[[int], State | None]
) -> Refusal:
    """The refusal with its smallest case, spans and witness.

    *smaller(limit)*: the asked-for state with every tile size cut to the limit, or None.
    """
    program = asked.program
    own = smallest(program, violation)
    refusal = replace(refusal, message=message(program, violation, own), places=places(program, violation, own))
    best: tuple[State, Violation, Clash, int] | None = None
    for limit in (1, 2, 3, 0):
        state = asked if limit == 0 else smaller(limit)
        found = violation if limit == 0 else _same_violation(state, violation)
        clash = smallest(program, found) if state is not None and found is not None else None
        if (
            state is not None
            and found is not None
            and clash is not None
            and (best is None or clash.extent < best[2].extent)
        ):
            best = state, found, clash, limit
    if best is None:
        return refusal
    state, found, clash, limit = best
    parts = [sizes_text(clash.sizes)] if clash.sizes else []
    parts += [f"tiles of at most {limit}"] if limit and smaller(0) else []
    dependence = violation.dependence
    if dependence.reduction:
        shown = larger_witness(state, clash.sizes, program.statement(dependence.source))
    else:
        shown = witness(state, clash.sizes)
    return replace(
        refusal,
        case=", ".join(parts) or None,
        searched=True,
        instances=_instances(program, found, clash),
        witness=shown,
    )


def _same_violation(state: State | None, violation: Violation) -> Violation | None:
    """A violation of the same dependence in another state."""
    if state is None:
        return None
    wanted = violation.dependence
    for found in examine(state).violations:
        if found.dependence.ends == wanted.ends and found.why == violation.why:
            return found
    # A race shows as a carried dependence.
    return None


def _instances(program: Program, violation: Violation, clash: Clash) -> str:
    target = instance_text(program, violation.target, clash.second, clash.sizes)
    if violation.why == "missing":
        statement = program.statement(violation.dependence.source)
        values = dict(zip(statement.iterators, clash.first.values(), strict=True))
        position = [str(a.evaluate({**clash.sizes, **values})) for a in statement.position]
        element = f"{statement.tensor}[{', '.join(position)}]" if position else statement.tensor
        return f"{target}  reads {element}, which this iteration does not compute"
    source = instance_text(program, violation.source, clash.first, clash.sizes)
    return f"{target}  comes before  {source}"


def instance_text(program: Program, item: Placed, point: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """`C[0, 0] += .. at (C.k=1)`."""
    statement = program.statement(item.leaf.statement)
    where = {**sizes, **point}
    values = dict(zip(statement.iterators, (a.evaluate(where) for a in item.leaf.instance), strict=True))
    position = [str(a.evaluate({**sizes, **values})) for a in statement.position]
    element = f"{statement.tensor}[{', '.join(position)}]" if position else statement.tensor
    verb = _verb(statement)
    at = ", ".join(f"{n}={v}" for n, v in point.items())
    return f"{element}{f' {verb}' if verb else ''} at ({at})" if at else element


def places(program: Program, violation: Violation, clash: Clash | None) -> tuple[Place, ...]:
    """The source of both ends: the write, and the access that it clashes with."""
    source = Source("", program.source)
    dependence = violation.dependence
    first, second = _ends(program, violation, clash)
    notes = {"flow": ("written here", "read here"), "anti": ("read here", "written here")}
    before, after = notes.get(dependence.kind, ("written here", "written again here"))
    statement = program.statement(dependence.source)
    before = "updated here" if statement.kind == "update" else before
    found: list[Place] = []
    if dependence.reduction:
        _add_place(found, source, statement.span, before)
        return tuple(found)
    _add_place(found, source, first.span if first else statement.span, before)
    _add_place(found, source, second.span if second else program.statement(dependence.target).span, after)
    return tuple(found)


def _ends(program: Program, violation: Violation, clash: Clash | None) -> tuple[Access | None, Access | None]:
    """The two accesses that meet: of the dependence's tensor, and at the smallest case on one element."""
    dependence = violation.dependence
    kinds = {"flow": ("write", "read"), "anti": ("read", "write"), "output": ("write", "write")}[dependence.kind]
    first, second = program.statement(dependence.source), program.statement(dependence.target)
    one = [a for a in first.accesses if a.tensor == dependence.tensor and a.kind == kinds[0]]
    other = [a for a in second.accesses if a.tensor == dependence.tensor and a.kind == kinds[1]]
    if clash is not None:
        if violation.why == "missing":
            left = dict(zip(first.iterators, clash.first.values(), strict=True))
        else:
            left = _values(violation.source, first, clash.first, clash.sizes)
        right = _values(violation.target, second, clash.second, clash.sizes)
        for a in one:
            for b in other:
                if _position(a, {**clash.sizes, **left}) == _position(b, {**clash.sizes, **right}):
                    return a, b
    return (one[0] if one else None), (other[0] if other else None)


def _values(item: Placed, statement: Statement, point: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    where = {**sizes, **point}
    return dict(zip(statement.iterators, (a.evaluate(where) for a in item.leaf.instance), strict=True))


def _position(access: Access, values: Mapping[str, int]) -> tuple[int | None, ...]:
    known = not access.free
    return tuple(a.evaluate(values) if a is not None and known else None for a in access.affine)


def _add_place(found: list[Place], source: Source, span: Span | None, note: str) -> None:
    if span is not None and all(p.span != span for p in found):
        found.append(Place(span, source.line(span.line), note))


def message(program: Program, violation: Violation, clash: Clash | None = None) -> str:
    """What would go wrong, in a sentence."""
    dependence = violation.dependence
    first, second = program.statement(dependence.source), program.statement(dependence.target)
    one, other = _ends(program, violation, clash)
    target = element_text(second.tensor, second.position)
    source = element_text(first.tensor, first.position)
    if dependence.reduction:
        return f"the updates of {source} would run in another order, which rounds differently."
    if violation.why == "missing":
        return f"{target} would read {_shown(other, dependence.tensor)}, which is not computed where it looks for it."
    if dependence.kind == "flow":
        early = {"update": "its last update", "init": "it is started"}.get(first.kind, "it is written")
        return f"{target} would read {_shown(other, dependence.tensor)} before {early}."
    if dependence.kind == "anti":
        return f"{target} would be written before {source} has read the old {_shown(one, dependence.tensor)}."
    return f"{source} would be overwritten: two writes of {dependence.tensor} would change places."


def _shown(access: Access | None, tensor: str) -> str:
    """An element as the source names it."""
    if access is None or any(a is None for a in access.affine) or access.free:
        return f"an element of {tensor}"
    return element_text(tensor, [a for a in access.affine if a is not None])


def _verb(statement: Statement) -> str:
    """How an instance is told apart from others that write the same element."""
    if statement.kind == "init":
        return f"= {expression_text(statement.value)}"
    if statement.kind in ("update", "merge") and statement.reduction:
        return {"sum": "+= ..", "prod": "*= .."}.get(statement.reduction.op, f"= {statement.reduction.op}(..)")
    return ""
