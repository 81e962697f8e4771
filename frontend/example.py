"""Examples and remedies: the smallest sizes at which something goes wrong, and what would exclude them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, least_point, make_set
from ..compiler.ir.quasiaffine import Affine, All, Comparison, conjunction

if TYPE_CHECKING:
    from collections.abc import Collection

    from .scope import Scope


def least_example(bad: isl.Set, names: Collection[str]) -> str:
    """`N=1, i=0`: the least point of a set that is not empty, as far as *names* go (all, if it is empty).

    Raises:
        UndecidedError: isl gave up.
    """
    point = least_point(bad) or {}
    shown = {n: v for n, v in point.items() if not names or n in names}
    return ", ".join(f"{name}={value}" for name, value in shown.items())


def remedy(bad: isl.Set, scope: Scope) -> str | None:
    """`where L >= 4`: a promise about sizes that excludes every bad case, if it is one conjunction.

    Sizes of 0 alone being bad, the remedy is that they are at least 1.
    """
    try:
        with budget():
            return _remedy(bad, scope)
    except UndecidedError:
        return None


def _remedy(bad: isl.Set, scope: Scope) -> str | None:
    params = bad.params()
    zero = _positive_enough(params, scope)
    if zero:
        return zero
    large = All(tuple(Comparison(">=", Affine.name(n), Affine.number(2)) for n in scope.sizes))
    context = make_set(scope.sizes, (), conjunction(scope.context, large)).params()
    good = context.subtract(params).coalesce()
    for name in scope.sizes:
        if good.lower_bound_val(isl.dim_type.param, _position(good, name), isl.Val(9)).is_empty():
            return None
    if good.n_basic_set() != 1:
        return None
    simple = good.gist(context).get_basic_sets()
    if len(simple) != 1:
        return None
    if not params.intersect(isl.Set.from_basic_set(simple[0])).is_empty():
        return None  # derived for sizes of at least 2, it does not hold for all
    conditions = [_condition_text(c) for c in simple[0].get_constraints() if not c.is_div_constraint()]
    return f"where {', '.join(conditions)}" if conditions and all(conditions) else None


def _position(points: isl.Set, name: str) -> int:
    return points.find_dim_by_name(isl.dim_type.param, name)


def _positive_enough(params: isl.Set, scope: Scope) -> str | None:
    """The sizes that, each at least 1, exclude every bad case."""
    for name in scope.sizes:
        position = _position(params, name)
        if position >= 0 and params.lower_bound_val(isl.dim_type.param, position, isl.Val(1)).is_empty():
            return f"where {name} >= 1"
    return None


def _condition_text(constraint: isl.Constraint) -> str:
    """`4 * G >= H`, with every term on the side where it is positive; "" where it has divisions."""
    left, right = Affine(), Affine()
    count = constraint.dim(isl.dim_type.param)
    if constraint.dim(isl.dim_type.div):
        return ""
    for i in range(count):
        factor = int(constraint.get_coefficient_val(isl.dim_type.param, i).to_python())
        name = Affine.name(str(constraint.get_dim_name(isl.dim_type.param, i)))
        if factor > 0:
            left += name.scaled(factor)
        elif factor < 0:
            right += name.scaled(-factor)
    constant = int(constraint.get_constant_val().to_python())
    if constant > 0:
        left += constant
    else:
        right += -constant
    return f"{left} {'==' if constraint.is_equality() else '>='} {right}"
