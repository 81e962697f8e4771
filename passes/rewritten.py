"""The final check of a program that a step rewrote: only the order of reductions differs, and each may."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..compiler.ir.expr import Expr, Order, Reduce, children, postorder
from ..compiler.ir.hulls import hull
from ..compiler.ir.statements import lower_stage
from .points import failed

if TYPE_CHECKING:
    from ..compiler.ir.program import Program, Stage, Statement


@dataclass(frozen=True)
class Reordering:
    """A reduction in another order than the kernel's, and whether that can change its bits."""

    text: str
    exact: bool


def reorderings(original: Program, program: Program) -> tuple[Reordering, ...]:
    """The reductions that a program computes in another order than the kernel.

    Everything else about the two must be the same: tensors that the kernel names, equations, and the statements
    that the equations come to.

    Raises:
        IllegalTransformError: something else differs (rule dependence), or an order that is not free (rule rounding).
    """
    if program is original:
        return ()
    found: list[Reordering] = []
    if [s.name for s in program.stages] != [s.name for s in original.stages]:
        raise failed("dependence", original, "the equations are not the kernel's")
    for stage, own in zip(program.stages, original.stages, strict=True):
        expected = list(original.statements_of(own.name))
        if stage is not own:
            _require_same_stage(original, own, stage)
            found += _orders(original, own, stage)
            expected, partial = lower_stage(stage, lambda ranges, position: hull(ranges, position, program))
            if any(program.tensors.get(t.name) != t for t in partial):
                raise failed("bounds", original, f"the partial results of {stage.name} have other extents")
        if not _same_statements(expected, program.statements_of(stage.name)):
            raise failed("dependence", original, f"the statements of {stage.name} are not those of its equation")
    if any(program.tensors.get(n) != t for n, t in original.tensors.items() if t.role != "accumulator"):
        raise failed("dependence", original, "the tensors are not the kernel's")
    return tuple(found)


def _require_same_stage(program: Program, own: Stage, stage: Stage) -> None:
    rest = [f.name for f in fields(own) if f.name != "value"]
    alike = all(getattr(own, name) == getattr(stage, name) for name in rest)
    if not alike or not _same(own.value, stage.value, orders=False):
        raise failed("dependence", program, f"the equation of {stage.name} is not the kernel's")


def _orders(program: Program, own: Stage, stage: Stage) -> list[Reordering]:
    """What the orders of a stage's reductions have become; each must be free."""
    found: list[Reordering] = []
    updates = [s for s in program.statements_of(own.name) if s.kind == "update" and s.reduction is not None]
    for before, after in zip(_reduction_orders(own.value), _reduction_orders(stage.value), strict=True):
        if before == after:
            continue
        reduction = updates[0].reduction if len(updates) == 1 else None
        if reduction is None:
            raise failed("unknown", program, f"{own.name} has several reductions: which one changed is not decided")
        if before.kind != "ascending" or not program.free_order(updates[0]):
            raise failed("rounding", program, f"the reduction of {own.name} is computed in another order: {after}")
        exact = reduction.exact(program.tensors[updates[0].tensor].dtype)
        found.append(Reordering(f"{own.name}: {reduction.op} with {after}", exact))
    return found


def _reduction_orders(value: Expr) -> list[Order]:
    return [node.order for node in postorder(value) if isinstance(node, Reduce)]


def _same_statements(a: list[Statement], b: tuple[Statement, ...]) -> bool:
    if len(a) != len(b):
        return False
    rest = [f.name for f in fields(b[0]) if f.name != "value"]
    return all(
        all(getattr(x, name) == getattr(y, name) for name in rest) and _same(x.value, y.value, orders=True)
        for x, y in zip(a, b, strict=True)
    )


def _same(a: Expr, b: Expr, orders: bool) -> bool:
    """Whether two expressions are one, node for node; with *orders*, in the order of their reductions too."""
    first, second = list(postorder(a)), list(postorder(b))
    if len(first) != len(second):
        return False
    at = {id(node): i for i, node in enumerate(first)}
    other = {id(node): i for i, node in enumerate(second)}
    for x, y in zip(first, second, strict=True):
        if type(x) is not type(y) or [at[id(c)] for c in children(x)] != [other[id(c)] for c in children(y)]:
            return False
        below = {id(c) for c in (*children(x), *children(y))}
        for name in (f.name for f in fields(x)):
            if name == "order" and not orders:
                continue
            left, right = getattr(x, name), getattr(y, name)
            if not (_equal(left, right) or (_all_in(left, below) and _all_in(right, below))):
                return False
    return True


def _equal(left: Any, right: Any) -> bool:
    """Numbers with their signs of zero and type; a NaN is itself."""
    if isinstance(left, (int, float)):
        return repr(left) == repr(right)
    return left == right


def _all_in(value: Any, below: set[int]) -> bool:
    """Whether a field holds nothing but children, which are compared by their places."""
    return id(value) in below or (isinstance(value, tuple) and all(id(v) in below for v in value))
