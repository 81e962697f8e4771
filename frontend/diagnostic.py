"""Messages about a source text: what, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..compiler.ir.errors import TilewrightError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..compiler.ir.span import Source, Span


@dataclass(frozen=True)
class Diagnostic:
    """One message: *message* says what is wrong, *hint* what to write instead."""

    message: str
    span: Span
    hint: str | None = None
    severity: Literal["error", "warning"] = "error"
    line_text: str = ""

    @property
    def path(self) -> str:
        return self.span.path

    @property
    def line(self) -> int:
        return self.span.line

    @property
    def column(self) -> int:
        return self.span.column

    def __str__(self) -> str:
        lines = [f"{self.span}: {self.severity}: {self.message}"]
        if self.line_text.strip():
            number = str(self.line)
            shown, caret = _excerpt(self.line_text, self.column, self.span.width)
            lines.append(f" {number} | {shown}")
            lines.append(f" {' ' * len(number)} | {caret}")
        if self.hint:
            lines.append(f"   hint: {self.hint}")
        return "\n".join(lines)


def _excerpt(line: str, column: int, width: int, room: int = 100) -> tuple[str, str]:
    """The part of a long line round the column, unprintable characters replaced, and its caret."""
    first = 0
    if len(line) > room:
        first = max(0, min(column - 1 - room // 3, len(line) - room))
    part = "".join(c if c.isprintable() else "?" if c != "\t" else " " for c in line[first : first + room])
    start = column - 1 - first
    return part, " " * start + "^" * max(1, min(width, len(part) - start))


def diagnostic(
    source: Source, start: int, end: int, message: str, hint: str | None = None, *, warning: bool = False
) -> Diagnostic:
    """A message about source.text[start:end]."""
    span = source.span(start, end)
    return Diagnostic(message, span, hint, "warning" if warning else "error", source.line(span.line))


class SourceError(TilewrightError):
    """A source text that is no program: `diagnostics` says why, errors in the order of the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(str(d) for d in self.diagnostics)


class Fault(Exception):
    """One error found while checking; caught where checking goes on with the next equation."""

    def __init__(self, at: tuple[int, int], message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.message = message
        self.hint = hint
