"""What memory gives and takes of a launch's tensors, behind the second cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import islpy as isl

from .count import most
from .launches import order
from .reuse import Reads, from_memory, panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from ..compiler.ir.program import Program
    from .launches import Launch
    from .machine import Machine
    from .traffic import Moved


def given(
    program: Program, launch: Launch, sizes: Mapping[str, int], mine: Sequence[Moved], slots: int, machine: Machine
) -> dict[str, float]:
    """The bytes of each tensor that memory gives or takes."""
    found = {key(m): float(m.there.at(sizes)) for m in mine if m.kind == "write"}
    written = sum(found.values())
    reads = [m for m in mine if m.kind == "read"]
    if not launch.grid:
        return found | {m.tensor: float(m.there.at(sizes)) for m in reads}
    rows = order(program, launch, sizes)
    own = [_reads(program, m, launch, rows, sizes) for m in reads]
    cache = machine.figure("cache").value
    found_reads = from_memory(own, slots, cache, written / max(1, len(rows)))
    there = {m.tensor: float(m.there.at(sizes)) for m in reads}
    return found | {name: max(value, there[name]) for name, value in found_reads.items()}


def key(found: Moved) -> str:
    """What a tensor's bytes are called, which may be read and written."""
    return found.tensor if found.kind == "read" else f"{found.tensor} written"


def run(program: Program, launch: Launch, found: Moved) -> int | None:
    """The bytes that a program reads or writes in one piece of a row of a tensor; None: no number bounds them."""
    tensor = program.tensors[found.tensor]
    grid, kind = len(launch.grid), isl.dim_type.set
    longest = 0
    for points in found.asked.points if tensor.rank else ():
        # What a program reads in one iteration after the other comes from the cache.
        own = points.project_out(kind, grid, points.dim(kind) - tensor.rank - grid)
        count = most(own, own.dim(kind) - 1)
        if count is None:
            return None
        longest = max(longest, count * tensor.dtype.bits // 8)
    return longest or tensor.dtype.bits // 8


def stretched(program: Program, launch: Launch, found: Moved, granule: float) -> float:
    """By how much more memory moves than is asked for, in pieces of a *granule*, where a program's rows are short."""
    length = run(program, launch, found) if program.tensors[found.tensor].rank else None
    return 1.0 if length is None else -(-length // granule) * granule / length


def _reads(
    program: Program, found: Moved, launch: Launch, rows: np.ndarray[Any, Any], sizes: Mapping[str, int]
) -> Reads:
    """What programs read of a tensor: the same where the loops of the grid that it hangs on are at the same place."""
    depends = [
        n for n in range(len(launch.grid)) if any(_hangs_on(points, n, found.places) for points in found.asked.points)
    ]
    numbered = panels(rows, depends)
    count = int(numbered.max()) + 1 if len(numbered) else 1
    return Reads(found.tensor, numbered, found.there.at(sizes) / count)


def _hangs_on(points: isl.Set, loop: int, places: int) -> bool:
    """Whether the elements (the last *places* dimensions) differ with a loop of the grid."""
    kind = isl.dim_type.set
    loops_ = points.dim(kind) - places
    kept = points.project_out(kind, loop + 1, loops_ - loop - 1).project_out(kind, 0, loop)
    relation = isl.Map.from_range(kept).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, 1)
    first = relation.intersect_domain(relation.domain().lexmin()).range()
    return not relation.range().is_subset(first)
