"""A pytest plugin: closes a run with a table of the refusals that its tests provoked.

`--refusals=table` (the default), `full` (each printed whole) or `none`. Runs that pytest-xdist shares out end in one
table too.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..passes.refusal import Refusal

# Where a worker of pytest-xdist leaves what it noted.
OUTPUT = "tilewright_refusals"

ROWS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --refusals."""
    group = parser.getgroup("tilewright")
    text = "what to show of the refusals that tests provoked"
    group.addoption("--refusals", choices=("table", "full", "none"), default="table", help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note refusals."""
    from ..passes import refusal

    if config.getoption("--refusals") != "none":
        refusal.noted = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what a worker noted to the process that reports."""
    from ..passes import refusal

    output: dict[str, bytes] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[OUTPUT] = pickle.dumps(_different(refusal.noted or []))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take what a worker noted."""
    from ..passes import refusal

    found = getattr(node, "workeroutput", {}).get(OUTPUT)
    if found and refusal.noted is not None:
        refusal.noted += pickle.loads(found)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, or the refusals in full."""
    from ..passes import refusal

    if not refusal.noted:
        return
    found = _different(refusal.noted)
    terminalreporter.section(f"{len(found)} different refusals")
    if config.getoption("--refusals") == "full":
        for item in found:
            terminalreporter.write_line(f"{item}\n")
        return
    for line in table(found[:ROWS]):
        terminalreporter.write_line(line)
    if len(found) > ROWS:
        terminalreporter.write_line(f"(+{len(found) - ROWS} more; --refusals=full prints all)")


def _different(found: list[Refusal]) -> list[Refusal]:
    return list({(r.rule, r.message, r.case, r.span): r for r in found}.values())


def table(found: list[Refusal]) -> list[str]:
    """A line for each refusal: rule, step, kernel, smallest case."""
    rows = [("rule", "step", "kernel", "smallest case")]
    rows += [(r.rule, _cut(r.step), r.kernel, r.case or "") for r in found]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return ["  ".join([*(f"{row[i]:{widths[i]}}" for i in range(3)), row[3]]).rstrip() for row in rows]


def _cut(text: str, width: int = 48) -> str:
    return text if len(text) <= width else text[: width - 2] + ".."
