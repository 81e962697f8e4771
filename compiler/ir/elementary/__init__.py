"""The elementary functions: each defined once, as a sequence of correctly rounded operations.

Every target prints its code from the sequence, and the scalar interpreter evaluates it, so the
functions have the same bits everywhere.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from ..dtype import F32, F64
from . import f32, f64
from .evaluate import evaluate
from .parts import rsqrt
from .sequence import Builder, Op, Sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..dtype import DType

__all__ = ["FUNCTIONS", "NONPOSITIVE", "NORMAL", "SEQUENCES", "Builder", "Op", "Sequence", "evaluate", "sequence"]

FUNCTIONS: tuple[str, ...] = ("exp", "exp2", "log", "log2", "tanh", "erf", "sin", "cos", "rsqrt")
# Shorter sequences on f32 where the result is no smaller than normal numbers are: half of it, but nobody knows what for
# NaN; and the result with the same bits.
NORMAL: dict[str, tuple[str, str]] = {"exp": ("exp_half", "exp_normal"), "exp2": ("exp2_half", "exp2_normal")}

# The same bits on f32 in fewer operations, for numbers that are not above 0.
NONPOSITIVE: dict[str, str] = {"exp": "exp_nonpositive", "exp2": "exp2_nonpositive"}

_F32: tuple[Callable[[], Sequence], ...] = (
    f32.exp,
    f32.exp2,
    f32.log,
    f32.log2,
    f32.tanh,
    f32.erf,
    f32.sin,
    f32.cos,
    partial(rsqrt, F32),
)
_F64: tuple[Callable[[], Sequence], ...] = (
    f64.exp,
    f64.exp2,
    f64.log,
    f64.log2,
    f64.tanh,
    f64.erf,
    f64.sin,
    f64.cos,
    partial(rsqrt, F64),
)
_SHORTER: dict[str, Callable[[], Sequence]] = {
    "exp_half": partial(f32.exp_normal, True),
    "exp_normal": partial(f32.exp_normal, False),
    "exp2_half": partial(f32.exp2_normal, True),
    "exp2_normal": partial(f32.exp2_normal, False),
    "exp_nonpositive": f32.exp_nonpositive,
    "exp2_nonpositive": f32.exp2_nonpositive,
}
# Every sequence: (function, type).
SEQUENCES = tuple((f, t) for f in (*FUNCTIONS, *_SHORTER) for t in ("f32", "f64") if t == "f32" or f in FUNCTIONS)


@cache
def sequence(name: str, dtype: DType) -> Sequence:
    """The definition of the function *name* on f32 or f64, or one of NORMAL and NONPOSITIVE on f32.

    A narrower float uses the sequence of f32 (``dtype.wide``) and rounds its result once more.

    Raises:
        ValueError: there is no such function, or *dtype* is another type.
    """
    if name in _SHORTER and dtype == F32:
        return _SHORTER[name]()
    if name not in FUNCTIONS:
        raise ValueError(f"no elementary function {name!r}; there are {', '.join(FUNCTIONS)}")
    if dtype not in (F32, F64):
        raise ValueError(f"elementary functions are defined on f32 and f64, not on {dtype}")
    return (_F32 if dtype == F32 else _F64)[FUNCTIONS.index(name)]()
