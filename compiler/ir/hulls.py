"""What holds at all sizes: comparisons proved by isl, and boxes that hold every position."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from .affine import affine_of_isl, decide, make_map, make_set
from .program import Extent
from .quasiaffine import NEGATED, Affine, Comparison, Formula, Range, conjunction

if TYPE_CHECKING:
    from collections.abc import Sequence

    import islpy as isl


class Sized(Protocol):
    """A kernel's sizes and what is promised of them: a `Program`, or the scope of one that is being checked."""

    @property
    def sizes(self) -> Sequence[str]: ...

    @property
    def context(self) -> Formula: ...


def proved(where: Sized, op: str, left: Affine, right: Affine) -> bool:
    """Whether `left op right` holds at all sizes that the caller may give.

    Raises:
        UndecidedError: isl gave up.
    """
    if left == right:
        return op in ("<=", "==", ">=")
    if (left - right).is_number:
        return _holds(op, (left - right).constant)
    against = Comparison(NEGATED[op], left, right)
    return decide(make_set(where.sizes, (), conjunction(where.context, against)).is_empty)


def _holds(op: str, difference: int) -> bool:
    return {"<": difference < 0, "<=": difference <= 0, "==": difference == 0, "!=": difference != 0,
            ">=": difference >= 0, ">": difference > 0}[op]  # fmt: skip


def joined(column: Sequence[Extent], where: Sized) -> Extent:
    if all(e == column[0] for e in column):
        return column[0]
    # Each end of a meet bounds it: the first serves in a hull.
    lower = _outermost([a for e in column for a in (e.lower[:1] if e.meet else e.lower)], "<=", where)
    upper = _outermost([b for e in column for b in (e.upper[:1] if e.meet else e.upper)], ">=", where)
    return Extent(lower, upper)


def _outermost(ends: list[Affine], op: str, where: Sized) -> tuple[Affine, ...]:
    """Ends without those that isl proves to lie inside another."""
    kept: list[Affine] = []
    for end in dict.fromkeys(ends):
        if any(proved(where, op, other, end) for other in kept):
            continue
        kept = [other for other in kept if not proved(where, op, end, other)]
        kept.append(end)
    return tuple(kept)


def hull(ranges: tuple[Range, ...], position: tuple[Affine, ...], where: Sized) -> tuple[Extent, ...]:
    """The least box with ends in sizes that holds the positions for all values of the ranges."""
    by_name = {r.index: r for r in ranges}
    points: isl.Set | None = None
    extents: list[Extent] = []
    for dim, place in enumerate(position):
        found = by_name.get(place.bare or "")
        if found and all(n in where.sizes for n in found.names()):
            several = len(found.lower) > 1 or len(found.upper) > 1
            extents.append(Extent(found.lower, found.upper, meet=several))
        elif all(n in where.sizes for n in place.names()):
            extents.append(Extent((place,), (place + 1,)))
        else:
            if points is None:
                condition = conjunction(where.context, *(r.formula() for r in ranges))
                points = make_map(where.sizes, [r.index for r in ranges], position, condition).range()
            lower = pieces(decide(partial(points.dim_min, dim)))
            upper = tuple(end + 1 for end in pieces(decide(partial(points.dim_max, dim))))
            lower = _outermost(list(lower) or [Affine()], "<=", where)
            upper = _outermost(list(upper) or [Affine()], ">=", where)
            extents.append(Extent(lower, upper))
    return tuple(extents)


def pieces(bound: isl.PwAff) -> tuple[Affine, ...]:
    """The different expressions that a piecewise one consists of."""
    # isl's order of pieces is its own affair.
    return tuple(sorted(dict.fromkeys(affine_of_isl(aff) for _, aff in bound.get_pieces()), key=str))
