"""Sums that a program leaves unfinished and comes back to: what they move where there is no room to keep them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.tree import placed
from .count import determined
from .traffic import Amount, accumulators, amount, outer, touched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Access, Program
    from ..compiler.ir.tree import Node, Placed


@dataclass(frozen=True, eq=False)
class Panel:
    """The sums of an accumulator that are unfinished at once, because a loop over terms goes round one over sums.

    *visits*: their bytes, as often as a program begins or goes on with them; *there*: each once; *panels*: how many
    panels there are, one after the other.
    """

    launch: int
    tensor: str
    visits: Amount
    there: Amount
    panels: Amount

    def size(self, sizes: Mapping[str, int]) -> float:
        """Bytes of one panel."""
        return self.there.at(sizes) / self.panels.at(sizes)

    def spilled(self, sizes: Mapping[str, int], room: float) -> int:
        """Bytes that are written out, and as many that are read again, in a program with *room* bytes for sums: all of
        them at every visit but the first, or none."""
        return self.visits.at(sizes) - self.there.at(sizes) if self.size(sizes) > room else 0


def unfinished(program: Program, tree: Sequence[Node]) -> tuple[Panel, ...]:
    """The panels of a schedule, launch by launch."""
    names = accumulators(program, tree)
    found: list[Panel] = []
    for item in placed(tree):
        statement = program.statement(item.leaf.statement)
        if statement.kind != "update":
            continue
        for access in statement.accesses:
            if access.kind == "write" and access.tensor in names:
                panel = _panel(program, item, access)
                if panel is not None:
                    found.append(panel)
    return tuple(found)


def _panel(program: Program, item: Placed, access: Access) -> Panel | None:
    """What an update comes back to; None where every sum is finished before the next is begun."""

    def points(deepest: int) -> isl.Set:
        return touched(program, item, access, deepest=deepest)[1]

    # A loop is over sums if a sum, with the loops outside, says in which of its iterations it is added to.
    over_sums = [determined(points(n + 1), n) for n in range(len(outer(item)))]
    last = max((n for n, own in enumerate(over_sums) if own), default=-1)
    first = next((n for n, own in enumerate(over_sums[: last + 1]) if not own), None)
    if first is None:
        return None

    rank = program.tensors[access.tensor].rank
    width = program.tensors[access.tensor].dtype.bits // 8
    return Panel(
        item.places[0],
        access.tensor,
        amount(program, (points(last + 1),), width),
        amount(program, (points(0),), width),
        amount(program, (points(first).project_out(isl.dim_type.set, first, rank),), 1),
    )
