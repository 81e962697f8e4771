"""What the run-time functions for quotients come to on arrays, for each value that a reciprocal may have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..numpy.runtime import fma_f32

RECIPROCALS = 3
TINY, SCALE = np.finfo(np.float32).tiny, np.float32(0.0625)
ABOVE, BELOW = (np.float32(0.0625 * (1 + sign * 2.0**-23)) for sign in (1, -1))


def reciprocal(x: Any, number: int) -> Any:
    """One of the numbers that `rcp.approx.ftz.f32` may come to: the nearest, and those beside it within one unit."""
    held = np.where(np.abs(x) < TINY, np.copysign(np.float32(0), x), x)
    near = np.float32(1) / held
    beside = near if number == 0 else np.nextafter(near, np.float32(np.inf if number == 1 else -np.inf))
    off = np.abs(beside.astype(np.float64) - 1 / held.astype(np.float64))
    found = np.where((near == 0) | ~(off <= np.spacing(np.abs(near))), near, beside)
    return np.where(np.abs(found) < TINY, np.copysign(np.float32(0), found), found)


def _quotient(a: Any, b: Any, number: int) -> Any:
    r = reciprocal(b, number)
    near = a * r
    return fma_f32(fma_f32(near, -b, a), r, near)


def _far_quotient(a: Any, b: Any, number: int) -> Any:
    r = reciprocal(b * SCALE, number) * SCALE
    near = a * r
    rest = fma_f32(near, -b, a)
    return np.where(np.abs(rest) > 0, fma_f32(rest, r, near), near)


def _fine_quotient(a: Any, b: Any, number: int) -> Any:
    r = reciprocal(b * SCALE, number)
    near = a * ABOVE * r
    rest = fma_f32(near, -b, a)
    return np.where(np.abs(rest) > 0, fma_f32(rest, r * BELOW, near), near)


QUOTIENTS = {"quotient": _quotient, "quotient_far": _far_quotient, "quotient_fine": _fine_quotient}
