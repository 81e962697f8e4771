"""How many points a set has, as an expression in the sizes that a person can read."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import islpy as isl
import sympy

from ..compiler.ir.affine import UndecidedError, budget
from ..compiler.ir.codegen import between, expression

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OPERATIONS = 4_000_000
_SET, _PARAM, _IN, _OUT = isl.dim_type.set, isl.dim_type.param, isl.dim_type.in_, isl.dim_type.out


@lru_cache(maxsize=1024)
def symbol(name: str) -> sympy.Symbol:
    """A size: a whole number of at least 1."""
    return sympy.Symbol(name, integer=True, positive=True)


def count(points: isl.Set) -> sympy.Expr | None:
    """The number of points of a set for all sizes of at least 1; None where this method finds no expression.

    Dimensions that the others determine are left out, the outer ones first. What remains is a box, whose sides are
    multiplied, or a shape whose rows are summed up, the innermost dimension first.
    """
    try:
        with budget(OPERATIONS):
            return _count(_with_sizes(points.coalesce()))
    except UndecidedError:
        return None


def _with_sizes(points: isl.Set) -> isl.Set:
    """Sizes of 0 make nothing, and would put a condition before every expression."""
    for position in range(points.dim(_PARAM)):
        points = points.lower_bound_val(_PARAM, position, isl.Val(1))
    return points


def _count(points: isl.Set) -> sympy.Expr | None:
    if points.is_empty():
        return sympy.Integer(0)
    rank = points.dim(_SET)
    for order in (range(rank), reversed(range(rank))):
        kept = points
        dropped: list[int] = []
        for position in order:
            at = position - sum(d < position for d in dropped)
            if determined(kept, at):
                kept = kept.project_out(_SET, at, 1).coalesce()
                dropped.append(position)
        found = _box(kept)
        found = _box(_joined(kept)) if found is None else found
        found = _summed(kept) if found is None else found
        if found is not None:
            return found
    return None


def _joined(points: isl.Set) -> isl.Set:
    """The points with two dimensions as one, again and again, where one counts within the other: c * a + b for a and b,
    0 <= b < c, is another name for the pair."""
    rank = points.dim(_SET)
    for inner in range(rank):
        least, greatest = points.dim_min_val(inner), points.dim_max_val(inner)
        if not (least.is_zero() and greatest.is_int() and greatest.is_pos()):
            continue
        for outer in range(rank):
            joined = points if outer == inner else _pair(points, outer, inner, int(greatest.to_python()) + 1)
            # Worth it if the pair has no other ends than those of the whole number.
            if outer != inner and _length(_line(joined, outer - (inner < outer))) is not None:
                return _joined(joined)
    return points


def _pair(points: isl.Set, outer: int, inner: int, size: int) -> isl.Set:
    """The points with size * outer + inner in the place of both."""
    domain = points.get_space()
    identity = isl.MultiAff.identity(domain.map_from_set())
    one = identity.get_aff(outer).scale_val(isl.Val(size)).add(identity.get_aff(inner))
    whole = isl.Map.from_multi_aff(identity.set_aff(outer, one)).project_out(_OUT, inner, 1)
    return points.apply(whole).coalesce()


def _line(points: isl.Set, position: int) -> isl.Set:
    """What one dimension can be."""
    rank = points.dim(_SET)
    return points.project_out(_SET, position + 1, rank - position - 1).project_out(_SET, 0, position)


def determined(points: isl.Set, position: int) -> bool:
    """Whether the other dimensions say what this one is."""
    rank = points.dim(_SET)
    relation = isl.Map.from_range(points).move_dims(_IN, 0, _OUT, 0, position)
    relation = relation.move_dims(_IN, position, _OUT, 1, rank - position - 1)
    return bool(relation.is_single_valued())


def _box(points: isl.Set) -> sympy.Expr | None:
    """The product of a box's sides; None where it is none."""
    rank = points.dim(_SET)
    box = isl.Set.universe(points.get_space())
    sides: list[sympy.Expr] = []
    for position in range(rank):
        line = _line(points, position)
        side = _length(line)
        if side is None:
            return None
        sides.append(side)
        box = _across(box.project_out(_SET, position, 1), line, position, rank)
    return sympy.Mul(*sides) if box.is_subset(points) else None


def _length(line: isl.Set) -> sympy.Expr | None:
    """How many points a set of one dimension has that has no holes; None where it has some, or conditions on sizes."""
    known = line.params()
    least, greatest = line.dim_min(0), line.dim_max(0)
    low, high = _value(least, known), _value(greatest, known)
    if low is None or high is None or not _without_holes(line, least, greatest):
        return None
    return high - low + 1


def _without_holes(line: isl.Set, least: isl.PwAff, greatest: isl.PwAff) -> bool:
    """Whether a set of one dimension has every point between its ends."""
    points = line.set_dim_name(_SET, 0, "point").move_dims(_PARAM, line.dim(_PARAM), _SET, 0, 1).params()
    return bool(between(least, greatest, "point").intersect(line.params()).is_subset(points))


def _summed(points: isl.Set) -> sympy.Expr | None:
    """The rows of a shape summed up, where their ends are affine."""
    rank = points.dim(_SET)
    names = [f"row{n}" for n in range(rank)]
    for position, name in enumerate(names):
        points = points.set_dim_name(_SET, position, name)
    total: sympy.Expr = sympy.Integer(1)
    for position in reversed(range(rank)):
        line = points
        if position:
            line = points.move_dims(_PARAM, points.dim(_PARAM), _SET, 0, position)
        known = line.params()
        low, high = _value(line.dim_min(0), known), _value(line.dim_max(0), known)
        if low is None or high is None:
            return None
        x = sympy.Symbol(names[position], integer=True)
        rows = {n: sympy.Symbol(n, integer=True) for n in names}
        swap = {symbol(n): v for n, v in rows.items()}
        low, high, total = (_expr(part.xreplace(swap)) for part in (low, high, total))
        if total.has(x) and (total.has(sympy.floor) or total.has(sympy.Min) or total.has(sympy.Max)):
            return None
        if not _without_holes(line, line.dim_min(0), line.dim_max(0)):
            return None
        total = _expr(sympy.summation(total, (x, low, high))) if total.has(x) else total * (high - low + 1)
        points = points.project_out(_SET, position, 1)
    return _expr(sympy.factor(sympy.expand(total)))


def _expr(found: Any) -> sympy.Expr:
    """What sympy's own types leave open: an expression."""
    assert isinstance(found, sympy.Expr)
    return found


def _value(value: isl.PwAff, known: isl.Set) -> sympy.Expr | None:
    """A piecewise affine expression of the sizes; None where it has conditions."""
    isl.DEFAULT_CONTEXT.set_ast_build_detect_min_max(1)
    value = value.gist(known).coalesce()
    names = tuple(str(known.get_dim_name(_PARAM, n)) for n in range(known.dim(_PARAM)))
    words = {name: f"size{n}" for n, name in enumerate(names)}
    try:
        text = expression(isl.AstBuild.from_context(known).expr_from_pw_aff(value), lambda name: words[name])
    except KeyError:
        return None
    return None if " if " in text else _parsed(text, names)


@lru_cache(maxsize=4096)
def _parsed(text: str, names: tuple[str, ...]) -> sympy.Expr:
    """What a text says of sizes, the first of which it calls size0."""
    if text.isdigit():
        return sympy.Integer(text)
    given: dict[str, Any] = {f"size{n}": symbol(name) for n, name in enumerate(names)}
    words_of: dict[str, Any] = {**given, "min": sympy.Min, "max": sympy.Max}
    return ceilings(_expr(sympy.parse_expr(text, words_of)))


def ceilings(found: sympy.Expr) -> sympy.Expr:
    """The expression with `(x + n - 1) // n` as the ceiling that it is."""

    def ceiling(inner: sympy.Expr) -> sympy.Expr:
        rest, constant = inner.as_independent(*inner.free_symbols, as_Add=True)[::-1]
        lowest = sympy.denom(sympy.together(rest))
        if rest.free_symbols and constant == sympy.Rational(lowest - 1, lowest):
            return sympy.ceiling(rest)
        return sympy.floor(inner)

    return _expr(found.replace(sympy.floor, ceiling))


def most(points: isl.Set, position: int) -> int | None:
    """The most values that a dimension has while those before it stand still, ends included; None: no bound."""
    line = points.project_out(_SET, position + 1, points.dim(_SET) - position - 1)
    if line.is_empty():
        return 0
    relation = isl.Map.from_range(line).move_dims(_IN, 0, _OUT, 0, position)
    # Two values of the dimension behind the same ones before it, and how far they are apart.
    value = relation.reverse().apply_range(relation).deltas().dim_max_val(0)
    return int(value.to_python()) + 1 if value.is_int() else None


def number(found: sympy.Expr, sizes: Mapping[str, int]) -> int:
    """An expression at these sizes.

    Raises:
        KeyError: a size is missing.
    """
    missing = sorted(str(s) for s in found.free_symbols if str(s) not in sizes)
    if missing:
        raise KeyError(f"{', '.join(missing)} has no value")
    return int(found.subs({s: sizes[str(s)] for s in found.free_symbols}))


def fixed(points: isl.Set, sizes: Mapping[str, int], names: Sequence[str]) -> isl.Set:
    """A set at given sizes."""
    for name in names:
        position = points.find_dim_by_name(_PARAM, name)
        if position >= 0:
            points = points.fix_val(_PARAM, position, isl.Val(sizes[name]))
    return points.project_out(_PARAM, 0, points.dim(_PARAM))


def listed(points: isl.Set, sizes: Mapping[str, int], names: Sequence[str]) -> int:
    """The number of points of a set at given sizes, one by one, but for dimensions that hang on no others."""
    points = fixed(points, sizes, names)
    total = 1
    for position in reversed(range(points.dim(_SET))):
        line, rest = _line(points, position), points.project_out(_SET, position, 1).coalesce()
        if determined(points, position):
            points = rest
        elif _across(rest, line, position, points.dim(_SET)).is_subset(points):
            points = rest
            total *= int(line.count_val().to_python())
    return total * int(points.count_val().to_python())


def _across(rest: isl.Set, line: isl.Set, position: int, rank: int) -> isl.Set:
    """Every point of a set without a dimension, at every point of that dimension."""
    own = line.insert_dims(_SET, 0, position).insert_dims(_SET, position + 1, rank - position - 1)
    return rest.insert_dims(_SET, position, 1).reset_tuple_id().intersect(own.reset_tuple_id())
