"""A pytest plugin: closes a run with a table of the refusals that its tests provoked.

`--refusals=table` (the default), `full` (each printed whole) or `none`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

    from ..passes.refusal import Refusal

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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, or the refusals in full."""
    from ..passes import refusal

    if not refusal.noted:
        return
    found = list({(r.rule, r.message, r.case, r.span): r for r in refusal.noted}.values())
    terminalreporter.section(f"{len(found)} different refusals")
    if config.getoption("--refusals") == "full":
        for item in found:
            terminalreporter.write_line(f"{item}\n")
        return
    for line in table(found[:ROWS]):
        terminalreporter.write_line(line)
    if len(found) > ROWS:
        terminalreporter.write_line(f"(+{len(found) - ROWS} more; --refusals=full prints all)")


def table(found: list[Refusal]) -> list[str]:
    """A line for each refusal: rule, step, kernel, smallest case."""
    rows = [("rule", "step", "kernel", "smallest case")]
    rows += [(r.rule, _cut(r.step), r.kernel, r.case or "") for r in found]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    return ["  ".join([*(f"{row[i]:{widths[i]}}" for i in range(3)), row[3]]).rstrip() for row in rows]


def _cut(text: str, width: int = 48) -> str:
    return text if len(text) <= width else text[: width - 2] + ".."
