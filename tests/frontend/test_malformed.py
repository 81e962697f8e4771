"""Each malformed program is refused where and as malformed.toml says; its corrected twin is accepted."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import tilewright as tw

CARET = "‸"


@dataclass(frozen=True)
class Malformed:
    """One program of malformed.toml; *line* and *column* count from 1."""

    number: int
    text: str
    line: int
    column: int
    message: str
    hint: str
    twin: str | None


def read_programs() -> list[Malformed]:
    """All programs of malformed.toml, the caret taken out of the text."""
    with open(Path(__file__).with_name("malformed.toml"), "rb") as file:
        tables = tomllib.load(file)["program"]
    programs: list[Malformed] = []
    for table in tables:
        before, _, after = table["text"].rpartition(CARET)
        line = before.count("\n") + 1
        column = len(before) - before.rfind("\n")
        programs.append(
            Malformed(
                table["number"],
                before + after,
                line,
                column,
                table["message"],
                table.get("hint", ""),
                table.get("twin"),
            )
        )
    return programs


PROGRAMS = read_programs()
WITH_TWIN = [p for p in PROGRAMS if p.twin is not None]


def refusal(text: str) -> tw.SourceError:
    """The error that *text* is refused with."""
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(text, name="bad.tx")
    return caught.value


def test_there_are_75_programs_and_most_have_a_twin() -> None:
    assert [p.number for p in PROGRAMS] == list(range(1, 76))
    assert len(WITH_TWIN) == 74, "only the empty file has no corrected form"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: str(p.number))
def test_is_refused_at_the_caret_with_the_message_and_the_hint(program: Malformed) -> None:
    first = refusal(program.text).diagnostics[0]
    assert program.message in first.message
    assert (first.line, first.column) == (program.line, program.column)
    assert program.hint in (first.hint or "")
    assert first.severity == "error"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: str(p.number))
def test_one_mistake_gives_one_message(program: Malformed) -> None:
    assert [d.message for d in refusal(program.text).diagnostics[1:]] == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: str(p.number))
def test_the_text_of_the_error_shows_place_line_and_caret(program: Malformed) -> None:
    error = refusal(program.text)
    first = error.diagnostics[0]
    lines = str(error).split("\n")
    assert lines[0] == f"bad.tx:{program.line}:{program.column}: error: {first.message}"
    if program.text:
        shown, under = lines[1], lines[2]
        source = program.text.split("\n")[program.line - 1]
        gutter = f"{program.line} | "
        assert gutter in shown
        assert under.index("^") == shown.index(gutter) + len(gutter) + program.column - 1
        assert shown.split(gutter, 1)[1] == source.replace("\0", "?")
    if first.hint:
        assert f"hint: {first.hint}" in str(error)


@pytest.mark.parametrize("program", WITH_TWIN, ids=lambda p: str(p.number))
def test_the_corrected_twin_is_accepted(program: Malformed) -> None:
    assert program.twin is not None
    assert tw.parse(program.twin, name="good.tx")
