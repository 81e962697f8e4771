"""What lanes hold that take no part: the fill of loads that makes them neutral in a reduction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Binary, Cast, Const, Unary
from ...compiler.ir.quasiaffine import conjunction
from ...compiler.ir.scalar import binary, cast, unary
from .masks import formula_set, names_in, parts_of
from .tile import Elem, Full, Load, Number, Value, Where, operands

if TYPE_CHECKING:
    import islpy as isl

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.quasiaffine import Formula


@dataclass(frozen=True, eq=False)
class Known:
    """What holds where a leaf runs: sizes and outer loops, and the lanes of its axes."""

    points: isl.Set

    def implies(self, mask: Formula, wanted: Formula) -> bool:
        """Whether a condition holds in every lane in which a mask does."""
        names = sorted(names_in(mask) | names_in(wanted))
        inside = self.points.intersect(formula_set(names, mask))
        return bool(inside.is_subset(formula_set(names, wanted)))


def neutralised(value: Value, missing: Formula, identity: Number, known: Known) -> Value:
    """A value that is the identity of a reduction in every lane in which *missing* fails.

    Where a load's mask covers a condition and a fill carries the identity through the operations above it, the load is
    filled; for the rest a `Where` stands around the value.
    """
    rest = list(parts_of(missing)) if parts_of(missing) else []
    for fill in dict.fromkeys((0, identity)):
        done = [c for c in rest if _outside(value, c, fill, known) == _plain(identity, value.dtype)]
        if done:
            value = filled(value, conjunction(*done), fill, known)
            rest = [c for c in rest if c not in done]
            break
    if not rest:
        return value
    return Where(conjunction(*rest), value, Full(identity, (), value.dtype), value.axes, value.dtype)


def _plain(number: Number, dtype: DType) -> Number:
    return float(number) if dtype.is_float else number


def _outside(value: Value, condition: Formula, fill: Number, known: Known) -> Number | None:
    """What a value is in lanes in which a condition fails, loads being filled; None where that is not one number."""
    match value:
        case Load():
            fits = value.fill is None or value.fill == fill
            return _plain(fill, value.dtype) if fits and known.implies(value.mask, condition) else None
        case Full():
            return value.value
        case Elem(node=Const()):
            return value.node.value if isinstance(value.node, Const) else None
        case Elem():
            inner = [_outside(v, condition, fill, known) for v in value.operands]
            if any(n is None for n in inner):
                return None
            return _folded(value, [n for n in inner if n is not None])
        case Where():
            # Where its own condition fails too, it is the other value.
            if known.implies(value.mask, condition):
                return _outside(value.other, condition, fill, known)
            return None
        case _:
            return None


def _folded(value: Elem, inner: list[Number]) -> Number | None:
    """An operation on numbers, as the language does it."""
    match value.node:
        case Binary(op=op):
            return binary(op, inner[0], inner[1], value.dtype)
        case Unary(op=op):
            return unary(op, inner[0], value.dtype)
        case Cast(operand=operand, saturating=saturating):
            return cast(inner[0], operand.dtype, value.dtype, saturating)
        case _:
            return None


def filled(value: Value, condition: Formula, fill: Number, known: Known) -> Value:
    """The value with every load filled whose mask covers a condition."""
    if isinstance(value, Load):
        covered = value.fill is None and known.implies(value.mask, condition)
        return replace(value, fill=_plain(fill, value.dtype)) if covered else value
    if isinstance(value, Elem):
        inner = tuple(filled(v, condition, fill, known) for v in value.operands)
        return replace(value, operands=inner)
    return value


def cleared(value: Value, condition: Formula, known: Known) -> Value:
    """The value with zeros in the lanes in which a condition on its own axes fails."""
    if _outside(value, condition, 0, known) == 0:
        return filled(value, condition, 0, known)
    return Where(condition, value, Full(_plain(0, value.dtype), (), value.dtype), value.axes, value.dtype)


def finite(value: Value, used: Formula, over: tuple[str, ...], known: Known) -> Value:
    """The value with zeros in lanes along *over* that are never *used*: they hold anything, also what is not finite."""
    for part in parts_of(used):
        if names_in(part) & set(over):
            value = cleared(value, part, known)
    return value


def loads(value: Value) -> list[Load]:
    """The loads in a value."""
    found = [value] if isinstance(value, Load) else []
    return found + [load for inner in operands(value) for load in loads(inner)]
