"""The code of README.md and of docs/schedules.md, tiles.md, gpu.md, cost.md and refusals.md prints what the pages show.

The fenced ```python blocks of a page run in its order, in one namespace; what a block prints is compared with the
```text block that follows it. `--update-golden` writes what is printed into the page: read the difference.
"""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "docs" / f"{name}.md" for name in ("schedules", "tiles", "gpu", "cpu", "cost", "refusals")),
    ROOT / "README.md",
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """Code of a page: the line on which it begins, and where the output shown for it stands in the page's text."""

    code: str
    line: int
    shown: tuple[int, int] | None


def examples(page: str) -> list[Example]:
    """The python blocks of a page, each with the text block that follows it, if one does."""
    fences = list(FENCE.finditer(page))
    found: list[Example] = []
    for number, fence in enumerate(fences):
        if fence.group(1) != "python":
            continue
        after = fences[number + 1] if number + 1 < len(fences) else None
        shown = after.span(2) if after and after.group(1) == "text" else None
        found.append(Example(fence.group(2), page.count("\n", 0, fence.start(2)) + 1, shown))
    return found


def outputs(path: Path, page: str) -> list[str]:
    """What each python block of the page prints; a traceback names the line of the page."""
    namespace: dict[str, Any] = {"__name__": path.stem}
    printed: list[str] = []
    for example in examples(page):
        code = compile("\n" * (example.line - 1) + example.code, str(path), "exec", dont_inherit=True)
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            exec(code, namespace)
        printed.append("".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines()))
    return printed


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_the_code_of_the_page_prints_what_the_page_shows(
    path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = path.read_text(encoding="utf-8")
    got = outputs(path, page)
    if request.config.getoption("--update-golden"):
        for example, text in reversed(list(zip(examples(page), got, strict=True))):
            if example.shown:
                page = page[: example.shown[0]] + text + page[example.shown[1] :]
        path.write_text(page, encoding="utf-8")
    assert got
    for example, text in zip(examples(page), got, strict=True):
        wanted = page[slice(*example.shown)] if example.shown else ""
        assert text == wanted, f"{path.name}:{example.line} prints something else; --update-golden records it"


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_every_output_shown_belongs_to_code(path: Path) -> None:
    kinds = [fence.group(1) for fence in FENCE.finditer(path.read_text(encoding="utf-8"))]
    assert set(kinds) <= {"python", "text", "sh", "tx", "json"}
    for before, kind in zip(["", *kinds], kinds, strict=False):
        assert kind != "text" or before == "python"


def test_the_tutorial_has_every_step() -> None:
    looking = {"kernel", "state", "trace", "loops", "classes", "diff", "to_json", "replay", "undo"}
    steps = {name for name in dir(tw.Schedule) if not name.startswith("_")} - looking
    page = PAGES[0].read_text(encoding="utf-8")
    missing = sorted(step for step in steps if not re.search(rf"\bs\.{step}\b", page))
    assert not missing, f"docs/schedules.md has no example of {', '.join(missing)}"
