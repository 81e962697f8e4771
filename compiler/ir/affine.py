"""The one door to isl: sets and maps are built here from formulas, by name, memoised and under a budget.

isl is positional: two spaces with different dimension names are equal to it. So every builder takes the
names in order, and callers speak of names only.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import islpy as isl

from .quasiaffine import Affine, All, Comparison, Division, Formula, Some

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

# About a quarter of a second of isl on an ordinary core; the queries of ordinary kernels need a hundredth of it.
OPERATIONS = 1_000_000

T = TypeVar("T")

# The budget in force, if there is one.
_running: list[int] = []


class UndecidedError(Exception):
    """isl did not decide a question within the budget; the asker must refuse."""


@contextmanager
def budget(operations: int = OPERATIONS) -> Generator[None]:
    """Run isl under a limit of elementary operations.

    Raises:
        UndecidedError: the limit was reached.
    """
    context = isl.DEFAULT_CONTEXT
    if _running:
        yield  # the outermost budget holds
        return
    _running.append(operations)
    context.reset_operations()
    context.set_max_operations(operations)
    try:
        yield
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise UndecidedError from error
        raise
    finally:
        _running.clear()
        context.set_max_operations(0)
        context.reset_operations()


def decide(question: Callable[[], T]) -> T:
    """The answer to an isl question asked under the budget.

    Raises:
        UndecidedError: the limit was reached.
    """
    with budget():
        return question()


def _token(name: str) -> str:
    # A prime keeps names apart from isl's own words (mod, floor, and, ...); isl drops it on reading.
    return f"{name}'"


def affine_text(expression: Affine) -> str:
    """isl's text of an expression."""
    parts = [str(expression.constant)]
    for term, factor in expression.terms:
        if isinstance(term, Division):
            inner = affine_text(term.numerator)
            if term.kind == "//":
                parts.append(f"{factor}*floor(({inner})/{term.divisor})")
            else:
                parts.append(f"{factor}*(({inner}) mod {term.divisor})")
        else:
            parts.append(f"{factor}*{_token(term)}")
    return " + ".join(parts)


def formula_text(formula: Formula) -> str:
    """isl's text of a condition."""
    match formula:
        case All(parts):
            return " and ".join(f"({formula_text(p)})" for p in parts) or "1 = 1"
        case Some(parts):
            return " or ".join(f"({formula_text(p)})" for p in parts) or "1 = 0"
        case Comparison(op, left, right):
            sign = "=" if op == "==" else op
            return f"{affine_text(left)} {sign} {affine_text(right)}"


@lru_cache(maxsize=8192)
def _read_set(text: str) -> isl.Set:
    return isl.Set(text)


@lru_cache(maxsize=8192)
def _read_map(text: str) -> isl.Map:
    return isl.Map(text)


def make_set(params: Sequence[str], names: Sequence[str], formula: Formula, tuple_name: str = "") -> isl.Set:
    """`[params] -> { tuple_name[names] : formula }`."""
    head = f"[{', '.join(map(_token, params))}] -> {{ [{', '.join(map(_token, names))}] : "
    result = _read_set(head + formula_text(formula) + " }")
    return result.set_tuple_name(tuple_name) if tuple_name else result


def make_map(
    params: Sequence[str],
    names: Sequence[str],
    images: Sequence[Affine],
    formula: Formula,
    source: str = "",
    target: str = "",
    free: Sequence[str] = (),
) -> isl.Map:
    """`[params] -> { source[names] -> target[images] : exists free : formula }`.

    *free* names further integers that the formula bounds and the images may mention.
    """
    head = f"[{', '.join(map(_token, params))}] -> {{ [{', '.join(map(_token, names))}] -> "
    body = formula_text(formula)
    outputs = ", ".join(affine_text(image) for image in images)
    if free:
        # The outputs become dimensions of their own, so that they may mention the free names.
        fresh = [f"out {position}'".replace(" ", "") for position in range(len(images))]
        equal = " and ".join(f"{f} = {affine_text(e)}" for f, e in zip(fresh, images, strict=True))
        outputs = ", ".join(fresh)
        body = f"exists {', '.join(map(_token, free))} : ({body}){' and ' + equal if equal else ''}"
    result = _read_map(f"{head}[{outputs}] : {body} }}")
    if source:
        result = result.set_tuple_name(isl.dim_type.in_, source)
    return result.set_tuple_name(isl.dim_type.out, target) if target else result


def least_point(points: isl.Set) -> dict[str, int] | None:
    """A point of the set by name, parameters included: the example that a person should be shown.

    All parameters are at least 1 if such a point exists; then their sum is least; then the point is least
    in lexicographic order. None where the set is empty.

    Raises:
        UndecidedError: the limit was reached.
    """
    with budget():
        return _least_point(points)


def _least_point(points: isl.Set) -> dict[str, int] | None:
    count = points.dim(isl.dim_type.param)
    params = [str(points.get_dim_name(isl.dim_type.param, i)) for i in range(count)]
    dims = [str(points.get_dim_name(isl.dim_type.set, i)) for i in range(points.dim(isl.dim_type.set))]
    plain = points.reset_tuple_id() if points.has_tuple_id() else points
    positive = plain
    for i in range(count):
        positive = positive.lower_bound_val(isl.dim_type.param, i, isl.Val(1))
    flat = plain if positive.is_empty() else positive
    if flat.is_empty():
        return None
    flat = flat.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, count)
    flat = flat.insert_dims(isl.dim_type.set, 0, 1)
    total = isl.Constraint.alloc_equality(isl.LocalSpace.from_space(flat.get_space()))
    total = total.set_coefficient_val(isl.dim_type.set, 0, isl.Val(-1))
    for i in range(count):
        total = total.set_coefficient_val(isl.dim_type.set, 1 + i, isl.Val(1))
    point = flat.add_constraint(total).lexmin().sample_point()
    values = [
        int(point.get_coordinate_val(isl.dim_type.set, i + 1).to_python()) for i in range(len(params) + len(dims))
    ]
    return dict(zip(params + dims, values, strict=True))


def range_names(names: Sequence[Any], relation: isl.Map) -> isl.Map:
    """The map with its output dimensions named."""
    for position, name in enumerate(names):
        relation = relation.set_dim_name(isl.dim_type.out, position, str(name))
    return relation


def affine_of_isl(aff: isl.Aff) -> Affine:
    """An isl expression over parameters (and set dimensions, by name) as our own."""
    total = Affine.number(0)
    denominator = int(aff.get_denominator_val().to_python())

    def scaled(value: isl.Val) -> int:
        return int((value * denominator).to_python())

    for kind in (isl.dim_type.param, isl.dim_type.in_):
        for i in range(aff.dim(kind)):
            factor = scaled(aff.get_coefficient_val(kind, i))
            if factor:
                total += Affine.name(str(aff.get_dim_name(kind, i))).scaled(factor)
    for i in range(aff.dim(isl.dim_type.div)):
        factor = scaled(aff.get_coefficient_val(isl.dim_type.div, i))
        if factor:
            total += affine_of_isl(aff.get_div(i)).scaled(factor)
    total += scaled(aff.get_constant_val())
    return total if denominator == 1 else total.divided("//", denominator)
