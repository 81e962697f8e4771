"""What another kernel is worth: calls by their shape, and two contestants that were timed by turns."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from .table import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Calls:
    """Calls of one shape. *rows*: of each; *before*, *after*: seconds of each by the one kernel and by the other."""

    shape: str
    count: int
    rows: int
    before: float
    after: float

    @property
    def saved(self) -> float:
        """Seconds of all of them together; below 0 where they take longer."""
        return self.count * (self.before - self.after)


def saved(calls: Sequence[Calls]) -> float:
    """Seconds that all calls together take less."""
    return sum(one.saved for one in calls)


def report(calls: Sequence[Calls], whole: float) -> Iterator[str]:
    """The lines of a table: by shape the calls, their rows, and what they save; then their sum, as a share of *whole*
    seconds of which they are a part."""
    rows = [("shape", "calls", "rows", "before", "after", "saved")]
    rows += [
        (c.shape, f"{c.count:,}", f"{c.count * c.rows:,}", *(f"{1e3 * s:.4g} ms" for s in _seconds(c))) for c in calls
    ]
    yield from aligned(rows)
    count, before = sum(c.count for c in calls), sum(c.count * c.before for c in calls)
    share = f"{100 * before / whole:.2g} % of {1e3 * whole:.4g} ms"
    yield f"{count:,} calls take {share} and save {1e3 * saved(calls):.4g} ms"


def _seconds(calls: Calls) -> tuple[float, float, float]:
    return calls.count * calls.before, calls.count * calls.after, calls.saved


@dataclass(frozen=True)
class Paired:
    """Two contestants timed by turns. *saved*: the median of what the second took less in the same turn, in seconds;
    *ratio*: the median of first / second; *faster*, *slower*: in how many turns the second was so."""

    saved: float
    ratio: float
    faster: int
    slower: int


def paired(first: Sequence[float], second: Sequence[float]) -> Paired:
    """Compare turn by turn: what disturbs a turn disturbs both, and the difference of two medians would take one turn's
    first for another turn's second.

    Raises:
        ValueError: there is no turn, or one of them is lacking.
    """
    if not first or len(first) != len(second):
        raise ValueError("each turn has a time of both contestants")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    faster, slower = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return Paired(median(differences), median(ratios), faster, slower)
