"""The one door to isl: sets and maps are built here from formulas, by name, memoised and under a budget.

isl is positional: two spaces with different dimension names are equal to it. So every builder takes the
names in order, and callers speak of names only.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import islpy as isl

from .quasiaffine import Affine, All, Comparison, Division, Formula, Some

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

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


def affine_text(expression: Affine, tokens: Mapping[str, str]) -> str:
    """isl's text of an expression; *tokens* are the words that stand for its names."""
    parts = [str(expression.constant)]
    for term, factor in expression.terms:
        if isinstance(term, Division):
            inner = affine_text(term.numerator, tokens)
            if term.kind == "//":
                parts.append(f"{factor}*floor(({inner})/{term.divisor})")
            else:
                parts.append(f"{factor}*(({inner}) mod {term.divisor})")
        else:
            parts.append(f"{factor}*{tokens[term]}")
    return " + ".join(parts)


def formula_text(formula: Formula, tokens: Mapping[str, str]) -> str:
    """isl's text of a condition."""
    match formula:
        case All(parts):
            return " and ".join(f"({formula_text(p, tokens)})" for p in parts) or "1 = 1"
        case Some(parts):
            return " or ".join(f"({formula_text(p, tokens)})" for p in parts) or "1 = 0"
        case Comparison(op, left, right):
            sign = "=" if op == "==" else op
            return f"{affine_text(left, tokens)} {sign} {affine_text(right, tokens)}"


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


@lru_cache(maxsize=8192)
def _read_set(text: str, params: tuple[str, ...], names: tuple[str, ...]) -> isl.Set:
    with budget():
        result = _parsed(isl.Set, text)
    for position, name in enumerate(params):
        result = result.set_dim_name(isl.dim_type.param, position, name)
    for position, name in enumerate(names):
        result = result.set_dim_name(isl.dim_type.set, position, name)
    return result


@lru_cache(maxsize=8192)
def _read_map(text: str, params: tuple[str, ...], names: tuple[str, ...]) -> isl.Map:
    with budget():
        result = _parsed(isl.Map, text)
    for position, name in enumerate(params):
        result = result.set_dim_name(isl.dim_type.param, position, name)
    for position, name in enumerate(names):
        result = result.set_dim_name(isl.dim_type.in_, position, name)
    return result


def forget() -> None:
    """Empty the memo (for timing)."""
    _read_set.cache_clear()
    _read_map.cache_clear()


def _tokens(params: Sequence[str], names: Sequence[str], free: Sequence[str] = ()) -> dict[str, str]:
    # Words of our own: any name will do, isl's words (mod, floor, and, ...) and `C.i` among them.
    groups = (("p", params), ("i", names), ("e", free))
    return {name: f"{letter}{position}" for letter, group in groups for position, name in enumerate(group)}


def make_set(params: Sequence[str], names: Sequence[str], formula: Formula, tuple_name: str = "") -> isl.Set:
    """`[params] -> { tuple_name[names] : formula }`."""
    tokens = _tokens(params, names)
    head = f"[{', '.join(tokens[n] for n in params)}] -> {{ [{', '.join(tokens[n] for n in names)}] : "
    result = _read_set(head + formula_text(formula, tokens) + " }", tuple(params), tuple(names))
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
    tokens = _tokens(params, names, free)
    head = f"[{', '.join(tokens[n] for n in params)}] -> {{ [{', '.join(tokens[n] for n in names)}] -> "
    body = formula_text(formula, tokens)
    outputs = ", ".join(affine_text(image, tokens) for image in images)
    if free:
        # The outputs become dimensions of their own, so that they may mention the free names.
        fresh = [f"o{position}" for position in range(len(images))]
        equal = " and ".join(f"{f} = {affine_text(e, tokens)}" for f, e in zip(fresh, images, strict=True))
        outputs = ", ".join(fresh)
        body = f"exists {', '.join(tokens[n] for n in free)} : ({body}){' and ' + equal if equal else ''}"
    result = _read_map(f"{head}[{outputs}] : {body} }}", tuple(params), tuple(names))
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
