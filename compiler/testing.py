"""For users' own tests: that a step is refused for the reason that the author means, and what an order decides."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..passes.refusal import IllegalTransformError, Refusal

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

# The sums of every subset are kept: 2^16 of them are a matter of seconds.
MOST_PARTIALS = 16


class Refused:
    """What a `refused` block caught: `refusal`, and its text."""

    refusal: Refusal

    def __str__(self) -> str:
        return str(self.refusal)


@contextmanager
def refused(rule: str, words: str = "") -> Generator[Refused]:
    """The block must end in a refusal of this rule whose text contains *words*::

        with tw.testing.refused("rounding") as r:
            schedule.reverse("C.k")
        assert r.refusal.witness is not None

    Raises:
        AssertionError: nothing was refused, another rule refused it, or the words are not in the text.
    """
    caught = Refused()
    try:
        yield caught
    except IllegalTransformError as error:
        caught.refusal = error.refusal
    else:
        raise AssertionError(f"nothing was refused; expected a refusal of rule {rule}")
    if caught.refusal.rule != rule:
        raise AssertionError(f"expected a refusal of rule {rule}, got:\n{caught.refusal}")
    if words not in str(caught.refusal):
        raise AssertionError(f"{words!r} is not in the text of the refusal:\n{caught.refusal}")


def merge_orders(partials: Sequence[Any] | np.ndarray[Any, Any]) -> dict[Any, int]:
    """Every total that partial sums can come to when they are added in the order in which they arrive, least first.

    *partials*: up to 16 numbers of one NumPy type; each addition rounds to that type. Returns, for each total, in how
    many of the n! orders it comes out. One total: the order does not matter to these numbers. A schedule never leaves
    it open (`rfactor` merges in ascending order); this shows what an atomic add would leave to chance.

    Raises:
        ValueError: there are none, or more than 16.
    """
    numbers = np.asarray(partials)
    count = numbers.size
    if numbers.ndim != 1 or not 1 <= count <= MOST_PARTIALS:
        raise ValueError(
            f"merge_orders takes a row of 1 to {MOST_PARTIALS} numbers, not an array of shape {numbers.shape}"
        )
    # totals[s]: what the members of the subset s (a bit for each) come to, and in how many of their orders.
    totals: list[dict[Any, int]] = [{} for _ in range(1 << count)]
    for member in range(count):
        totals[1 << member] = {numbers[member]: 1}
    for subset in range(1, 1 << count):
        for member in range(count):
            before = subset & ~(1 << member)
            if before == subset or before == 0:
                continue
            for total, orders in totals[before].items():
                found = total + numbers[member]
                totals[subset][found] = totals[subset].get(found, 0) + orders
    return dict(sorted(totals[-1].items()))
