"""The check of a tile program after the final check: its text, with poisoned lanes, run against the definition.

Masks and fills come after the final check, which sees loops. So what they came to is run at sizes of two tiles and one
more, of one, and of less than a tile: every lane that should not count holds NaN (or the greatest integer), and a
result that it reaches is not the defined one.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..passes.refusal import IllegalTransformError, Refusal
from .inputs import default_scalars, random_inputs
from .ir.quasiaffine import holds
from .ir.tree import loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .arguments import Array
    from .compile import CompiledKernel
    from .schedule import Schedule

# About as many elements as are computed for one check: with three sizes, and with more, where outer loops are many.
WORK, LESS = 1 << 22, 1 << 18


def check_tiles(compiled: CompiledKernel, schedule: Schedule) -> tuple[str, ...]:
    """Run a tile program beside the definition; the sizes at which it gave the defined result.

    Raises:
        IllegalTransformError: it gave another one (rule unknown): the lowering is at fault.
    """
    kernel = compiled.kernel
    strict = not compiled.permissions
    done: list[str] = []
    for sizes in _sizes(compiled, schedule):
        arguments = _arguments(compiled, sizes, strict)
        want, got = (_each(f(**arguments)) for f in (kernel, compiled))
        bounds = _each(compiled.error_bound(**arguments)) if not strict else tuple(np.zeros(w.shape) for w in want)
        shown = " ".join(f"{n}={v}" for n, v in sizes.items())
        for name, w, g, bound in zip(kernel.program.outputs, want, got, bounds, strict=True):
            wrong = np.argwhere(~_within(w, g, bound))
            if len(wrong):
                at = ", ".join(map(str, wrong[0]))
                found, wanted = g[tuple(wrong[0])], w[tuple(wrong[0])]
                text = f"{name}[{at}] is {found} in tiles, and {wanted} by the definition"
                raise IllegalTransformError(
                    Refusal("unknown", "check of the tiles", text, case=shown, kernel=kernel.name)
                )
        done.append(shown)
    return tuple(done)


def _each(result: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(r) for r in (result if isinstance(result, tuple) else (result,)))


def _within(want: Array, got: Array, bound: Array) -> Array:
    """Elements that are equal, or as near as the bound says."""
    if want.dtype.kind in "iub":
        return (want == got) | (bound > 0)
    a, b = want.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= bound
    signs = (a != 0) | (np.signbit(a) == np.signbit(b)) | (bound > 0)
    return (near & signs) | (a == b) & signs | (np.isnan(a) & np.isnan(b)) | np.isinf(bound)


def _sizes(compiled: CompiledKernel, schedule: Schedule) -> Iterator[dict[str, int]]:
    """Sizes to run at: of two tiles and one more, of one, of a few elements, of one element."""
    program = compiled.kernel.program
    factors = [s.arguments[1] for s in schedule.trace if s.name == "split" and isinstance(s.arguments[1], int)]
    largest = max([1, *factors]) if any(loop.kind == "block" for loop in loops(schedule.state.tree)) else 1
    depth = max(1, len(program.sizes))
    work = WORK if depth <= 3 else LESS
    room = int(work ** (1 / depth))
    wanted = [n for n in (2 * largest + 1, 2 * largest, largest + 1, largest, 5, 1) if n <= room] or [1]
    for number, n in enumerate(dict.fromkeys(wanted)):
        # Not all sizes the same: which one is meant would not show.
        sizes = {name: n + (i % 3 if number == 0 else 0) for i, name in enumerate(program.sizes)}
        for attempt in (sizes, dict.fromkeys(program.sizes, n)):
            if holds(program.context, attempt) and prod(attempt.values()) <= 4 * work:
                yield attempt
                break


def _arguments(compiled: CompiledKernel, sizes: Mapping[str, int], strict: bool) -> dict[str, Any]:
    program = compiled.kernel.program
    arrays = random_inputs(program, sizes, 1)
    if strict:
        for array in arrays.values():
            if array.dtype.kind not in "iub" and array.size > 3:
                # What takes no part may be anything, an infinity too.
                array.reshape(-1)[[1, array.size // 2]] = (np.inf, np.nan)
    return {**arrays, **default_scalars(program, {}), **sizes}
