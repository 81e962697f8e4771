"""The entries of the catalogue: programs, steps of which the last is refused, and legal twins."""

from __future__ import annotations

import time
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tilewright as tw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FOLDER = Path(__file__).parent
RULES = ("dependence", "rounding", "race", "coverage", "shape")

# A step as the files write it: its name, then its arguments.
Written = tuple[str, list[Any]]


@dataclass(frozen=True, eq=False)
class Entry:
    """One refusal. *twin*: steps that are accepted, at *sizes* with the bits of the definition.

    *whole*: the twin is run on whole numbers, since its kernel permits another order of its sums.
    """

    rule: str
    name: str
    kernel: str
    text: str
    steps: Sequence[Written]
    twin_kernel: str
    twin_text: str
    twin: Sequence[Written]
    sizes: Mapping[str, int] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.rule}/{self.name}"


def read_entries(rule: str) -> list[Entry]:
    """The entries of one file, in its order."""
    with (FOLDER / f"{rule}.toml").open("rb") as file:
        tables = tomllib.load(file)
    found: list[Entry] = []
    for table in tables["refusal"]:
        kernel = table["kernel"]
        other = table.get("twin_kernel", kernel)
        found.append(
            Entry(
                rule,
                table["name"],
                kernel,
                tables["kernels"][kernel],
                [tuple(step) for step in table["steps"]],
                other,
                tables["kernels"][other],
                table["twin"],
                table.get("sizes", {}),
                table.get("whole", False),
            )
        )
    return found


ENTRIES = [entry for rule in RULES for entry in read_entries(rule)]


@cache
def kernel_of(text: str, name: str) -> tw.Kernel:
    """The only kernel of a text."""
    (kernel,) = tw.parse(text, f"{name}.tx").values()
    return kernel


def take(schedule: tw.Schedule, steps: Sequence[Written]) -> None:
    """Take written steps, one after the other."""
    for name, arguments in steps:
        getattr(schedule, name)(*arguments)


@dataclass(frozen=True)
class Met:
    """A refusal as it was met, the schedule that it left behind, and what that was before."""

    error: tw.IllegalTransformError
    schedule: tw.Schedule
    before: tuple[str, object]
    seconds: float


@cache
def met(entry: Entry) -> Met:
    """Take an entry's steps; the last one must be refused."""
    schedule = tw.Schedule(kernel_of(entry.text, entry.kernel))
    take(schedule, entry.steps[:-1])
    before = (str(schedule), schedule.trace)
    start = time.process_time()
    with pytest.raises(tw.IllegalTransformError) as caught:
        take(schedule, entry.steps[-1:])
    return Met(caught.value, schedule, before, time.process_time() - start)


def each(*rules: str) -> pytest.MarkDecorator:
    """One test for each entry of these rules."""
    return pytest.mark.parametrize("entry", [e for e in ENTRIES if e.rule in (rules or RULES)], ids=str)
