"""The check of a tile program after the final check: its text, with poisoned lanes, run against the definition.

Masks and fills come after the final check, which sees loops. So what they came to is run at sizes of two tiles and one
more, of one, and of less than a tile: every lane that should not count holds NaN (or the greatest integer), and a
result that it reaches is not the defined one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..passes.refusal import IllegalTransformError, Refusal
from .inputs import default_scalars, random_inputs
from .ir.expr import Reduce, postorder
from .ir.quasiaffine import holds
from .ir.tree import loops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from .arguments import Array
    from .compiled import CompiledKernel
    from .ir.program import Program
    from .schedule import Schedule

# About as many terms of one equation, and operations on tiles, as are computed for one check. FEW: a size beside one of
# two tiles, where more would be too many.
TERMS, OPERATIONS, FEW = 4_200_000, 20_000, 5


@dataclass(frozen=True)
class Compared:
    """What was run beside the definition. *sizes*: at which; *error*: the greatest distance of finite results; *same*:
    whether all of them were the defined bits."""

    sizes: tuple[str, ...]
    error: float
    same: bool


def check_tiles(
    compiled: CompiledKernel,
    schedule: Schedule,
    operations: Callable[[Mapping[str, int]], int] = lambda _: 0,
    also: Mapping[str, int] | None = None,
) -> Compared:
    """Run a compiled kernel, of tiles or of loops, beside the definition: it gives the defined results, or where a
    permission is used, those within the computed bound.

    *operations*: about how many operations on tiles that is, at some sizes; where there are too many, less is run.
    *also*: sizes to run at too, if they are not too many.

    Raises:
        IllegalTransformError: it gave another one (rule unknown): the lowering is at fault.
    """
    kernel = compiled.kernel
    strict = not compiled.permissions
    done: list[str] = []
    error, same = 0.0, True
    for sizes in _sizes(compiled, schedule, operations, also):
        arguments = _arguments(compiled, sizes, strict)
        want, got = (each(f(**arguments)) for f in (kernel, compiled))
        bounds = each(compiled.error_bound(**arguments)) if not strict else tuple(np.zeros(w.shape) for w in want)
        shown = " ".join(f"{n}={v}" for n, v in sizes.items())
        for name, w, g, bound in zip(kernel.program.outputs, want, got, bounds, strict=True):
            same = same and bool(within(w, g, np.zeros(w.shape)).all())
            error = max(error, _apart(w, g))
            wrong = np.argwhere(~within(w, g, bound))
            if len(wrong):
                at = ", ".join(map(str, wrong[0]))
                found, wanted = g[tuple(wrong[0])], w[tuple(wrong[0])]
                text = f"{name}[{at}] is {found} for the target {compiled.target}, and {wanted} by the definition"
                raise IllegalTransformError(
                    Refusal("unknown", "check of the tiles", text, case=shown, kernel=kernel.name)
                )
        done.append(shown)
    return Compared(tuple(done), error, same)


def _apart(want: Array, got: Array) -> float:
    """The greatest distance between two results, where both are finite."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(want.astype(np.float64) - got.astype(np.float64))
    return float(np.max(apart, initial=0.0, where=np.isfinite(apart)))


def each(result: Any) -> tuple[Array, ...]:
    """The results of a call, however many."""
    return tuple(np.asarray(r) for r in (result if isinstance(result, tuple) else (result,)))


def within(want: Array, got: Array, bound: Array) -> Array:
    """Elements that are equal, or as near as the bound says."""
    if want.dtype.kind in "iub":
        return (want == got) | (bound > 0)
    a, b = want.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= bound
    signs = (a != 0) | (np.signbit(a) == np.signbit(b)) | (bound > 0)
    return (near & signs) | (a == b) & signs | (np.isnan(a) & np.isnan(b)) | np.isinf(bound)


def _sizes(
    compiled: CompiledKernel,
    schedule: Schedule,
    operations: Callable[[Mapping[str, int]], int],
    also: Mapping[str, int] | None,
) -> Iterator[dict[str, int]]:
    """Sizes to run at: of two tiles and one more, of one, of a few elements, of one element."""
    program = compiled.kernel.program
    tiles = _tile_sizes(program, schedule)

    def fits(sizes: dict[str, int]) -> bool:
        allowed = holds(program.context, sizes) and _terms(program, sizes) <= TERMS
        return allowed and operations(sizes) <= OPERATIONS

    # Not all sizes the same: which one is meant would not show.
    whole = {n: 2 * tile + 1 + i % 3 for i, (n, tile) in enumerate(tiles.items())}
    found = [whole] if fits(whole) else []
    # Where all of them are too many, one after the other, beside others of a tile or of a few.
    for size in () if found else tiles:
        tile = {n: (2 if n == size else 1) * count + 1 for n, count in tiles.items()}
        few = {n: count if n == size else min(count, FEW) for n, count in tile.items()}
        found += [sizes for sizes in (tile, few) if fits(sizes)][:1]
    for times, more in ((2, 1), (2, 0), (1, 1), (1, 0), (0, 5), (0, 1)):
        sizes = {n: times * tile + more for n, tile in tiles.items()}
        same = dict.fromkeys(sizes, max(sizes.values(), default=1))
        found += [attempt for attempt in (sizes, same) if attempt not in found and fits(attempt)][:1]
    if also is not None and (own := dict(also)) not in found and fits(own):
        found.append(own)
    yield from found


def _terms(program: Program, sizes: Mapping[str, int]) -> int:
    """How often the statement runs that runs most often, about: where a range depends on an outer one, at its end."""
    most = 0
    for statement in program.statements:
        known, count = dict(sizes), 1
        for r in statement.ranges:
            low, high = max(a.evaluate(known) for a in r.lower), min(a.evaluate(known) for a in r.upper)
            count *= max(0, high - low)
            known[r.index] = max(low, high - 1)
        most = max(most, count)
    return most


def _tile_sizes(program: Program, schedule: Schedule) -> dict[str, int]:
    """For each size the largest factor by which a loop that it bounds is split into blocks or vectors."""
    found = dict.fromkeys(program.sizes, 1)
    if not any(loop.kind in ("block", "vector") for loop in loops(schedule.state.tree)):
        return found
    for step in schedule.trace:
        factor = step.arguments[1] if step.name == "split" else None
        if not isinstance(factor, int):
            continue
        bounds = _bounds(program, str(step.arguments[0])) & set(found)
        for name in bounds or set(found):
            found[name] = max(found[name], factor)
    return found


def _bounds(program: Program, loop: str) -> set[str]:
    """The sizes that bound the index which a loop, perhaps split before, runs over; none where that is not known."""
    stage, _, index = loop.partition(".")
    ranges = {
        r.index: r
        for s in program.stages
        if s.name == stage
        for r in (*s.ranges, *(r for n in postorder(s.value) if isinstance(n, Reduce) for r in n.ranges))
    }
    while index and index not in ranges and index[-1] in "oi":
        index = index[:-1]
    return set(ranges[index].names()) if index in ranges else set()


def _arguments(compiled: CompiledKernel, sizes: Mapping[str, int], strict: bool) -> dict[str, Any]:
    program = compiled.kernel.program
    arrays = random_inputs(program, sizes, 1)
    if strict:
        for array in arrays.values():
            if array.dtype.kind not in "iub" and array.size > 3:
                # What takes no part may be anything, an infinity too.
                array.reshape(-1)[[1, array.size // 2]] = (np.inf, np.nan)
    return {**arrays, **default_scalars(program, {}), **sizes}
