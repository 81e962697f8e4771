"""The one door to isl: sets and maps are built here from formulas, by name, memoised and under a budget.

isl is positional: two spaces with different dimension names are equal to it. So every builder takes the
names in order, and callers speak of names only.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import islpy as isl

from .isl_text import map_text, set_text
from .quasiaffine import Affine, All, Comparison, Formula, Some

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
    """Run isl under a limit of elementary operations; inside another budget, that one holds.

    isl's context is one for the process, and so is the limit: threads take turns at isl, not at their budgets.

    Raises:
        UndecidedError: the limit was reached.
    """
    context = isl.DEFAULT_CONTEXT
    if _running:
        try:
            yield  # the outermost budget holds
        except isl.Error as error:
            if "maximal number of operations" in str(error):
                raise UndecidedError from error
            raise
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


def _parsed(kind: Callable[[str], T], text: str) -> T:
    """The set or map of a text. Where the budget ends inside the text, isl calls that a syntax error.

    Raises:
        UndecidedError: the limit was reached.
    """
    try:
        return kind(text)
    except isl.Error as error:
        context = isl.DEFAULT_CONTEXT
        limit = context.get_max_operations()
        if not limit or "syntax error" not in str(error):
            raise
        context.set_max_operations(0)
        try:
            kind(text)
        finally:
            context.set_max_operations(limit)
        raise UndecidedError from error


def _comparisons(formula: Formula) -> list[Comparison] | None:
    """The comparisons that all have to hold, where a formula is no more than that and nothing in it is divided."""
    match formula:
        case Comparison(op, left, right):
            return [formula] if op != "!=" and _undivided(left) and _undivided(right) else None
        case All(parts):
            found = [_comparisons(part) for part in parts]
            return None if None in found else [c for comparisons in found for c in comparisons or ()]
        case Some():
            return None


def _undivided(expression: Affine) -> bool:
    return all(isinstance(term, str) for term, _ in expression.terms)


Places = dict[str, tuple[isl.dim_type, int]]


def _constraint(local: isl.LocalSpace, places: Places, found: Comparison) -> isl.Constraint:
    """A comparison without divisions; *places*: the dimension of each name."""
    rising = found.op in ("<", "<=")
    difference = found.right - found.left if rising else found.left - found.right
    kind = isl.Constraint.alloc_equality if found.op == "==" else isl.Constraint.alloc_inequality
    constraint = kind(local)
    for name, factor in difference.terms:
        constraint = constraint.set_coefficient_val(*places[str(name)], _val(factor))
    return constraint.set_constant_val(_val(difference.constant - (found.op in ("<", ">"))))


def _val(number: int) -> isl.Val:
    # A machine word goes in as it is, a greater number as text.
    return isl.Val(number if number.bit_length() < 63 else str(number))


def _places(params: Sequence[str], names: Sequence[str], kind: isl.dim_type) -> Places:
    return {n: (k, i) for k, group in ((isl.dim_type.param, params), (kind, names)) for i, n in enumerate(group)}


@lru_cache(maxsize=8192)
def _set(params: tuple[str, ...], names: tuple[str, ...], formula: Formula) -> isl.Set:
    with budget():
        comparisons = _comparisons(formula)
        if comparisons is None:
            result = _parsed(isl.Set, set_text(params, names, formula))
        else:
            # Constraint by constraint: four times as fast as isl reads them from a text.
            space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, len(params), len(names))
            local, places = isl.LocalSpace.from_space(space), _places(params, names, isl.dim_type.set)
            points = isl.BasicSet.universe(space)
            for comparison in comparisons:
                points = points.add_constraint(_constraint(local, places, comparison))
            result = isl.Set.from_basic_set(points)
    for position, name in enumerate(params):
        result = result.set_dim_name(isl.dim_type.param, position, name)
    for position, name in enumerate(names):
        result = result.set_dim_name(isl.dim_type.set, position, name)
    return result


@lru_cache(maxsize=8192)
def _map(
    params: tuple[str, ...],
    names: tuple[str, ...],
    images: tuple[Affine, ...],
    formula: Formula,
    free: tuple[str, ...],
) -> isl.Map:
    with budget():
        comparisons = None if free or not all(map(_undivided, images)) else _comparisons(formula)
        if comparisons is None:
            result = _parsed(isl.Map, map_text(params, names, images, formula, free))
        else:
            space = isl.Space.alloc(isl.DEFAULT_CONTEXT, len(params), len(names), len(images))
            local, places = isl.LocalSpace.from_space(space), _places(params, names, isl.dim_type.in_)
            pairs = isl.BasicMap.universe(space)
            for position, image in enumerate(images):
                same = _constraint(local, places, Comparison("==", image, Affine()))
                pairs = pairs.add_constraint(same.set_coefficient_val(isl.dim_type.out, position, isl.Val(-1)))
            for comparison in comparisons:
                pairs = pairs.add_constraint(_constraint(local, places, comparison))
            result = isl.Map.from_basic_map(pairs)
    for position, name in enumerate(params):
        result = result.set_dim_name(isl.dim_type.param, position, name)
    for position, name in enumerate(names):
        result = result.set_dim_name(isl.dim_type.in_, position, name)
    return result


def forget() -> None:
    """Empty the memo (for timing)."""
    _set.cache_clear()
    _map.cache_clear()


def make_set(params: Sequence[str], names: Sequence[str], formula: Formula, tuple_name: str = "") -> isl.Set:
    """`[params] -> { tuple_name[names] : formula }`."""
    result = _set(tuple(params), tuple(names), formula)
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
    result = _map(tuple(params), tuple(names), tuple(images), formula, tuple(free))
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
    summed = flat.add_constraint(total)
    try:
        point = summed.lexmin().sample_point()
    except isl.Error as error:
        if "maximal number of operations" in str(error):
            raise
        point = summed.sample_point()  # isl's lexmin fails on some sets with divisions; any example will do then
    values = [
        int(point.get_coordinate_val(isl.dim_type.set, i + 1).to_python()) for i in range(len(params) + len(dims))
    ]
    return dict(zip(params + dims, values, strict=True))


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
