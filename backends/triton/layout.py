"""Lines of emitted Python no longer than a page is wide: a long call has an argument on each line."""

from __future__ import annotations

import re

WIDTH = 110


def tidied(text: str) -> str:
    """The text without brackets around the whole of an argument."""
    position = 0
    while position < len(text) - 1:
        if text[position] == "(" and position and text[position - 1] in "( ":
            end = _closing(text, position)
            before = text[position - 1] == "(" or text[position - 2 : position] == ", "
            inner = text[position + 1 : end]
            if before and text[end + 1 : end + 2] in (")", ",") and len(_parts(inner)) == 1 and not inner.endswith(","):
                text = text[:position] + inner + text[end + 1 :]
                continue
        position += 1
    return text


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at a place closes."""
    depth = 0
    for position in range(start, len(text)):
        depth += (text[position] in "([") - (text[position] in ")]")
        if depth == 0:
            return position
    return len(text)


def broken(line: str, width: int = WIDTH) -> list[str]:
    """A statement as lines, broken inside its longest brackets, and inside those of its parts, where it is too long."""
    if len(line) <= width or line.lstrip().startswith("#"):
        return [line]
    # What closes a bracket of the line before it is a piece of an expression, whose operators are none of its own.
    closing = line.lstrip().startswith(")")
    chain = None if closing else _chain(line)
    if chain is not None:
        return [piece for part in chain for piece in broken(part, width)]
    span = _longest(line, line.index(")") + 1 if closing else 0)
    if span is None:
        return [line]
    start, end = span
    indent = len(line) - len(line.lstrip())
    inner = line[start + 1 : end]
    parts = _parts(inner)
    pad = " " * (indent + 4)
    if len(parts) == 1 and not inner.endswith(","):
        # Brackets hold it already: it needs none of its own, and its operands no further ones.
        whole = _bare(parts[0])
        parts = [whole] if len(pad) + len(whole) <= width else _operands(whole) or [whole]
        middle = [piece for part in parts for piece in broken(f"{pad}{part}", width)]
        return [line[: start + 1], *middle, *broken(f"{' ' * indent}{line[end:]}", width)]
    called = start > 0 and (line[start - 1].isalnum() or line[start - 1] in "_])")
    comma = "," if called or len(parts) > 1 or inner.endswith(",") else ""
    middle = [piece for part in parts for piece in broken(f"{pad}{part}{comma}", width)]
    return [line[: start + 1], *middle, *broken(f"{' ' * indent}{line[end:]}", width)]


def _chain(line: str) -> list[str] | None:
    """A long chain of one operator in brackets, an operand on each line; None where the line is something else."""
    indent = len(line) - len(line.lstrip())
    end = "," if line.endswith(",") else ""
    text = line.strip().removesuffix(",")
    head, equals = "", re.match(r"\w+ ?= ?", text)
    if equals is not None:
        head, text = equals.group(), text[equals.end() :]
    parts = _operands(text)
    if not parts or (not head and not end and text.startswith("if ")):
        return None
    return [f"{' ' * indent}{head}(", *(f"{' ' * (indent + 4)}{part}" for part in parts), f"{' ' * indent}){end}"]


def _operands(text: str) -> list[str]:
    """The operands of a chain of one operator, which leads each but the first; none where it is something else.

    What the first operand chains by the same operator goes on: operators group from the left.
    """
    for operators in ((" & ", " | "), (" + ", " - "), (" * ", " / ")):
        parts = _split(text, operators)
        if len(parts) > 1:
            words = _split(first := _bare(parts[0]), (" ",))
            alike = len(words) > 1 and all(f" {word} " in operators for word in words[1::2])
            return [*(_operands(first) if alike else parts[:1]), *parts[1:]]
    return []


def _bare(text: str) -> str:
    """The text without brackets around all of it."""
    while text.startswith("(") and _closing(text, 0) == len(text) - 1:
        if len(_parts(text[1:-1])) != 1 or text.endswith(",)"):
            break
        text = text[1:-1]
    return text


def _split(text: str, operators: tuple[str, ...]) -> list[str]:
    """The text before each of some operators outside all brackets; an operator leads its part."""
    parts, depth, last = list[str](), 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and text.startswith(operators, position):
            parts.append(text[last:position].strip())
            last = position + 1
    return [*parts, text[last:].strip()]


def _longest(line: str, first: int) -> tuple[int, int] | None:
    """The outermost round brackets that hold the most, from a place on."""
    depth, start = 0, 0
    found: list[tuple[int, int]] = []
    quoted = False
    for position, letter in enumerate(line[first:], first):
        quoted ^= letter == '"'
        if quoted:
            continue
        if letter in "([":
            start = position if depth == 0 else start
            depth += 1
        elif letter in ")]":
            depth -= 1
            if depth == 0 and letter == ")" and position > start + 1:
                found.append((start, position))
    return max(found, key=lambda pair: pair[1] - pair[0], default=None)


def _parts(text: str) -> list[str]:
    """What stands between the commas outside all brackets."""
    parts, depth, last = list[str](), 0, 0
    for position, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[last:position].strip())
            last = position + 1
    rest = text[last:].strip()
    return [*parts, rest] if rest else parts
