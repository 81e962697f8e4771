"""How far the sum of a matrix unit may lie from the exact one, and from itself where its terms are off."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ir.fold import LAST, LEAST, Unit, unit_of
from .inexact import Inexact, off

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.expr import Reduce


def tf32_loss(size: Any) -> Any:
    """By how much products of f32 factors up to a *size* may change when both factors lose what tf32 does not hold."""
    return size * (2.0**-9 + 2.0**-20 + 2.0**-24) + 2.0**-139


def fold_total(node: Reduce, term: Inexact, factors: Sequence[Inexact], mask: Any, axes: tuple[int, ...]) -> Inexact:
    """An `mma=` sum of the terms where *mask* holds, in arrays of its shape; *factors*: the two of each term.

    A step cuts each of its terms, and the accumulator, by less than 2**-align of the largest, and their sum by less
    than 2**(1 - bits) of itself. The largest goes by its factors' exponents, which subnormal numbers do not reach.
    """
    unit = unit_of(node.order, node.body)
    error, slack = (np.where(mask, p, 0) for p in (term.error, term.slack))
    if unit.cut:
        # Both cuts are toward zero: near one of their steps, a little more or less may be a whole step.
        loss = np.where(mask, tf32_loss(term.size), 0)
        error, slack = error + np.where(error > 0, loss, 0), slack + loss
    count = mask.sum(axes)
    outer = prod(mask.shape[a] for a in axes[:-1])
    steps = np.minimum(count, count / unit.block + 2 * outer)
    each = steps * ((unit.block + 1) * 2.0**-unit.align + 2.0 ** (1 - unit.bits))
    if node.order.promote:
        each = each + (count / node.order.promote + 2 * outer) * 2.0**-node.dtype.precision
    growth = np.where(each < 1, each / np.where(each < 1, 1 - each, 1), np.inf)
    largest = np.maximum(term.size + slack, _scale(factors[0], unit) * _scale(factors[1], unit))
    reach = np.where(mask, largest, 0).sum(axes)
    own = growth * reach + steps * ((unit.block + 1) * 2.0 ** (LEAST - unit.align) + 2.0**LAST)
    large = reach * (1 + growth) > node.dtype.largest
    bound = np.where(large, np.inf, error.sum(axes) + 2 * own)
    known = np.where(large, np.inf, slack.sum(axes) + own)
    moved = error.max(axes, initial=0) > 0
    return Inexact(np.where(mask, term.value, 0).sum(axes), off(moved, bound), off(count > 0, known))


def _scale(factor: Inexact, unit: Unit) -> Any:
    """Two to the exponent that a matrix unit sees, at most."""
    size = np.asarray(factor.size, np.float64)
    exponent = np.where(np.isfinite(size), np.frexp(size)[1] - 1, 1024)
    return np.where(size == 0, 0.0, np.exp2(np.maximum(exponent, unit.least).astype(np.float64)))
