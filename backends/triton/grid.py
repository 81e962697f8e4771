"""Which iterations of the loops of a grid a program runs: its number taken apart, and how many numbers there are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .loops import taken_apart

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..lower.tile import For, Grouped
    from ..naming import Names


# What the second and the third axis of a grid count to.
AXIS = 65535


@dataclass(frozen=True)
class Count:
    """How often a loop of the grid runs: *name* is its parameter; *low*, *high*: its ends in Python's words.

    *grouped*: how often in all, when it runs in groups that the loop named *outer* counts.
    """

    name: str
    low: str
    high: str
    grouped: Grouped | None = None
    outer: str = ""


@dataclass(frozen=True)
class Grid:
    """The loops that programs are numbered by, the innermost last and fastest. *shared*: among as many programs as the
    device has processors, each of which runs every so-manieth."""

    counts: tuple[Count, ...] = ()
    shared: bool = False

    @property
    def several(self) -> bool:
        """Whether there is more than one loop."""
        return len(self.counts) > 1

    @property
    def plane(self) -> bool:
        """Whether the loops are axes of the grid themselves, so that no number has to be taken apart: two that run from
        0 on. What the second axis cannot count goes on along the third."""
        plain = len(self.counts) == 2 and self.groups is None and not self.shared
        return plain and all(c.low == "0" for c in self.counts)

    @property
    def tall(self) -> str:
        """Whether a launch needs the third axis, in the host's words; "" where it never does."""
        return f"{self.counts[0].name} > {AXIS}" if self.plane else ""

    @property
    def programs(self) -> str:
        """The grid of a launch, as a tuple."""
        if self.plane:
            outer, inner = (c.name for c in self.counts)
            return f"({inner}, min({outer}, {AXIS}), ({outer} + {AXIS - 1}) // {AXIS})"
        return f"(min({self.total}, processors(device)),)" if self.shared else f"({self.total},)"

    @property
    def total(self) -> str:
        """How many iterations there are."""
        # A loop in groups counts those of all groups.
        return " * ".join(c.name for n, c in enumerate(self.counts) if n != self.groups) or "1"

    @property
    def groups(self) -> int | None:
        """The place of the loop that counts the groups of the last one."""
        last = self.counts[-1] if self.counts else None
        if last is None or last.grouped is None:
            return None
        return next(n for n, c in enumerate(self.counts) if c.name == last.outer)

    def host(self, names: Names) -> Iterator[str]:
        """The lines that give the counts their values."""
        for count in self.counts:
            text = count.high if count.low == "0" else f"{count.high} - ({count.low})"
            if count.grouped is not None:
                # All groups are full but the last.
                outer = names[count.grouped.outer]
                yield f"{outer} = {self.counts[self.groups or 0].name} - 1"
                yield f"{count.name} = {count.grouped.size} * {outer} + {count.grouped.high}"
                continue
            sure = re.fullmatch(r"\w+|\(\w+ \+ \d+\) // \d+", text) is not None
            yield f"{count.name} = {text if sure else f'max(0, {text})'}"


def grid_of(names: Names, chain: Sequence[For]) -> Grid:
    """The grid that some loops in one another are."""
    counts: list[Count] = []
    for position, loop in enumerate(chain):
        assert loop.span is not None
        found = loop.grouped if position == len(chain) - 1 else None
        place = next((n for n, o in enumerate(chain[:position]) if found and o.index == found.outer), None)
        # A group has to begin at 0, and be counted by a loop that runs whatever the others do.
        whole = place is not None and all(o.rectangular for o in chain[:position]) and counts[place].low == "0"
        outer = counts[place].name if whole and place is not None else ""
        name = names.fresh(f"{names[loop.index]}_count")
        counts.append(Count(name, *loop.span, found if whole else None, outer))
    return Grid(tuple(counts), bool(chain) and chain[0].shared)


def numbers(names: Names, grid: Grid, chain: Sequence[For], number: str) -> Iterator[str]:
    """The lines that take the number of an iteration apart."""
    loops, counts = [names[loop.index] for loop in chain], grid.counts
    parts = [(index, count.name, count.low) for index, count in zip(loops, counts, strict=True)]
    if grid.plane:
        yield f"{loops[1]} = tl.program_id(0)"
        yield f"{loops[0]} = tl.program_id(1)"
        yield "if TALL:"
        yield f"    {loops[0]} += tl.num_programs(1) * tl.program_id(2)"
        return
    if grid.groups is None:
        yield from taken_apart(number, parts)
        return
    last = counts[-1]
    assert last.grouped is not None
    outer, between = grid.groups, [c.name for c in counts[grid.groups + 1 : -1]]
    if outer:
        whole = " * ".join([*between, last.name])
        yield from taken_apart(f"{number} // ({whole})", parts[:outer])
        number, before = names.fresh("number"), number
        yield f"{number} = {before} % ({whole})"
    # All groups are full but the last.
    each = " * ".join([str(last.grouped.size), *between])
    within, size = names.fresh("within"), names.fresh(f"{loops[-1]}_size")
    yield f"{loops[outer]} = {number} // ({each})"
    yield f"{within} = {number} % ({each})"
    yield f"{size} = {chain[-1].high}"
    yield from taken_apart(f"{within} // {size}", parts[outer + 1 : -1])
    yield f"{loops[-1]} = {within} % {size}"
