"""Gathers whose faults count only where data says so: what a loop nest cannot check in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.expr import Expr, Index, Logic, Read, Reduce, Scalar, Select, children, postorder

if TYPE_CHECKING:
    from ...compiler.ir.program import Program


def gather_by_chance(program: Program) -> Read | None:
    """The first gather inside a reduction that stands in a branch that data decides, or None.

    The updates of such a reduction are statements of their own: they run before the branch is taken, and a position
    out of range must not be an error if it is not.
    """
    for stage in program.stages:
        found = _first(stage.value)
        if found is not None:
            return found
    return None


def _first(value: Expr) -> Read | None:
    # (node, whether data decides that it counts, whether it is inside a reduction of which that is so)
    stack: list[tuple[Expr, bool, bool]] = [(value, False, False)]
    while stack:
        node, chance, inside = stack.pop()
        match node:
            case Read() if inside and node.fill is None and not all(isinstance(s, Index) for s in node.subscripts):
                return node
            case Select():
                either = chance or _data(node.condition)
                stack += [(node.other, either, inside), (node.then, either, inside), (node.condition, chance, inside)]
            case Logic() if len(node.operands) == 2:
                left, right = node.operands
                stack += [(right, chance or _data(left), inside), (left, chance, inside)]
            case Reduce():
                stack.append((node.body, chance, chance))
            case _:
                stack += [(child, chance, inside) for child in children(node)]
    return None


def _data(condition: Expr) -> bool:
    return any(isinstance(node, (Read, Scalar)) for node in postorder(condition))
