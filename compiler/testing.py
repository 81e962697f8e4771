"""For users' own tests: that a schedule step is refused, by the rule and for the reason that the author means."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..passes.refusal import IllegalTransformError, Refusal

if TYPE_CHECKING:
    from collections.abc import Generator


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
