"""Code for any shape, for a few that others are padded to, or for each: what calls cost that come in several shapes."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from .economics import pays_from, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Policy:
    """One way to have code for calls. *prepared*: seconds before the first; *each*: seconds for a group of calls."""

    name: str
    prepared: float
    each: float

    def seconds(self, groups: float) -> float:
        """What so many groups take with all that is before them."""
        return total(self.prepared, self.each, groups)


def executed(calls: Mapping[int, int], buckets: Sequence[int] = ()) -> int:
    """The rows that are computed for calls, which are given as how many there are of so many rows each. With *buckets*
    a call is padded to the smallest that has room for it.

    Raises:
        ValueError: a call fits into none of the buckets.
    """
    found = 0
    for rows, count in calls.items():
        room = [b for b in buckets if b >= rows]
        if buckets and not room:
            raise ValueError(f"{rows} rows fit into no bucket; the largest is {max(buckets)}")
        found += count * (min(room) if room else rows)
    return found


def cheapest(policies: Sequence[Policy], groups: float) -> Policy:
    """The policy that so many groups take least with; of equal ones that which is ready earlier."""
    return min(policies, key=lambda p: (p.seconds(groups), p.prepared))


def switches(policies: Sequence[Policy]) -> list[tuple[float, Policy]]:
    """From how many groups on each policy is the cheapest, from 0 on: only those that ever are."""
    ready = sorted(policies, key=lambda p: (p.prepared, p.each))
    found = [(0.0, ready[0])]
    for policy in ready[1:]:
        at = _overtakes(found[-1][1], policy)
        if at == inf:
            continue  # it is ready later, and no faster
        # What is overtaken before it has overtaken its own forerunner is never the cheapest.
        while len(found) > 1 and at <= found[-1][0]:
            found.pop()
            at = _overtakes(found[-1][1], policy)
        found.append((at, policy))
    return found


def _overtakes(first: Policy, second: Policy) -> float:
    return pays_from(first.prepared, first.each, second.prepared, second.each)
