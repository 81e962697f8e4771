"""Sets over named integers, and the conditions that they come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import affine_of_isl, make_set
from ...compiler.ir.codegen import as_params, without
from ...compiler.ir.quasiaffine import TRUE, Affine, All, Comparison, Formula, Some, conjunction

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ...compiler.ir.tree import Leaf


class UnsayableError(Exception):
    """A set that no condition on sizes, loops and lanes describes."""


def named(leaf: Leaf, names: Sequence[str]) -> isl.Set:
    """The domain of a leaf as a parameter set, its indices under other names."""
    return as_params(leaf.domain, names)


def formula_set(names: Sequence[str], formula: Formula) -> isl.Set:
    """A condition on named integers as a parameter set."""
    return (
        make_set((), tuple(names), formula).move_dims(isl.dim_type.param, 0, isl.dim_type.set, 0, len(names)).params()
    )


def box(axes: Iterable[tuple[str, int]]) -> isl.Set:
    """That each axis is a number of one of its lanes."""
    pairs = list(axes)
    parts: list[Formula] = []
    for name, extent in pairs:
        parts += [
            Comparison(">=", Affine.name(name), Affine()),
            Comparison("<", Affine.name(name), Affine.number(extent)),
        ]
    return formula_set([n for n, _ in pairs], conjunction(*parts))


def condition(points: isl.Set) -> Formula:
    """The condition that a parameter set is.

    Raises:
        UnsayableError: it needs a quantifier.
    """
    plain = points.remove_redundancies().coalesce()
    parts: list[Formula] = []
    for basic in plain.get_basic_sets():
        found: list[Formula] = []
        for constraint in basic.get_constraints():
            aff = constraint.get_aff()
            try:
                value = affine_of_isl(aff)
            except isl.Error as error:
                raise UnsayableError from error
            if value.is_number and (value.constant == 0 if constraint.is_equality() else value.constant >= 0):
                continue
            found.append(Comparison("==" if constraint.is_equality() else ">=", value, Affine()))
        parts.append(All(tuple(sorted(found, key=str))))
    if not parts:
        return Some()
    return TRUE if All() in parts else parts[0] if len(parts) == 1 else Some(tuple(sorted(parts, key=str)))


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The conditions all of which a formula asks for."""
    return formula.parts if isinstance(formula, All) else (formula,)


def normal(condition: Formula) -> object:
    """A comparison as what is at least 0, whatever the order of its terms; other conditions as they are."""
    if not isinstance(condition, Comparison) or condition.op not in ("<", ">="):
        return condition
    both = condition.left - condition.right
    both = both if condition.op == ">=" else both.scaled(-1) - 1
    return frozenset(both.terms), both.constant


def names_in(formula: Formula) -> set[str]:
    """The names that a condition mentions."""
    if isinstance(formula, Comparison):
        return {*formula.left.names(), *formula.right.names()}
    return {n for part in formula.parts for n in names_in(part)}


def projected(points: isl.Set, kept: Iterable[str]) -> isl.Set:
    """A parameter set with every parameter projected out that is not kept."""
    names = [str(points.get_dim_name(isl.dim_type.param, i)) for i in range(points.dim(isl.dim_type.param))]
    return without(points, [n for n in names if n not in set(kept)])
