"""Places in source text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one source line: line and column count from 1, width in characters (at least 1)."""

    path: str
    line: int
    column: int
    width: int = 1

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Source:
    """A text and the name it is reported under."""

    path: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]

    def span(self, start: int, end: int) -> Span:
        """The place of text[start:end], cut at the end of its first line."""
        line = bisect_right(self._line_starts, start)
        first = self._line_starts[line - 1]
        stop = self._line_starts[line] - 1 if line < len(self._line_starts) else len(self.text)
        return Span(self.path, line, start - first + 1, max(1, min(end, stop) - start))

    def position(self, span: Span) -> int:
        """Where a span of this text begins, as an index into it."""
        return self._line_starts[span.line - 1] + span.column - 1

    def line(self, number: int) -> str:
        """The text of a line (counted from 1), without its end."""
        starts = self._line_starts
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")
