"""From characters to tokens, and the limits on a source text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..compiler.ir.span import Source
from .diagnostic import SourceError, diagnostic

BYTES = 256 * 1024
TOKENS = 40_000
NESTING = 10_000
NAME_LENGTH = 200
NUMBER_LENGTH = 100
EXPONENT_DIGITS = 5

WORDS = frozenset(["const", "def", "kernel", "where", "allow", "let", "in", "if", "else", "and", "or", "not", "sat"])

_SYMBOLS = {
    "<=": "CMP", "<": "CMP", ">=": "CMP", ">": "CMP", "==": "CMP", "!=": "CMP",
    "+=": "UPDATE", "-=": "UPDATE", "*=": "UPDATE", "/=": "UPDATE", ":=": "UPDATE",
    "->": "ARROW", "..": "DOTDOT", "//": "DSLASH",
    "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH", "%": "PERCENT", "=": "EQUAL", ",": "COMMA", ":": "COLON",
    "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE",
}  # fmt: skip

_PATTERN = re.compile(
    r"""(?P<BLANK>[ \t]+|\#[^\r\n]*)
    |(?P<NEWLINE>\r?\n)
    |(?P<NAME>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<NUMBER>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]|\.(?!\.)))
    |(?P<WRONG>[0-9][A-Za-z0-9_]*(?:\.(?!\.)[A-Za-z0-9_]*)?|\.[0-9]+(?![0-9]))
    |(?P<SYMBOL>[<>=!+\-*/:]=|->|\.\.|//|[<>+\-*/%=,:()\[\]{}])
    |(?P<OTHER>.)""",
    re.VERBOSE | re.DOTALL,
)
_EXPONENT = re.compile(r"[eE][+-]?0*([0-9]*)$")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text[start:end]. BAD tokens fit nowhere; their text says why."""

    type: str
    text: str
    start: int
    end: int


def scan(source: Source) -> list[Token]:
    """The tokens of a text, NEWLINE tokens included; `#!..` comments and blanks dropped.

    Raises:
        SourceError: the text is over a limit, or is no text.
    """
    text = source.text
    if len(text) > BYTES or len(text.encode(errors="replace")) > BYTES:
        raise _over(
            Source(source.path, text[:200]),
            0,
            f"the file is larger than {BYTES // 1024} KiB",
            "split it into several files",
        )
    control = re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", text)
    if control:
        at = control.start()
        message = f"control character U+{ord(text[at]):04X}: this is not a text file"
        raise SourceError([diagnostic(source, at, at + 1, message)])
    lone = re.search(r"[\ud800-\udfff]", text)
    if lone:
        at = lone.start()
        message = f"character U+{ord(text[at]):04X}: this is not a text"
        raise SourceError([diagnostic(Source(source.path, text[:at] + "?"), at, at + 1, message)])
    tokens: list[Token] = []
    for match in _PATTERN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "BLANK":
            continue
        word, start, end = match.group(), match.start(), match.end()
        tokens.append(Token(_type(kind, word), word, start, end))
        if kind in ("NAME", "NUMBER"):
            _check_length(source, tokens[-1])
        if len(tokens) > TOKENS:
            raise _over(source, start, f"the file has more than {TOKENS:,} tokens", "split it into several files")
    if tokens and tokens[0].text == "\ufeff":
        del tokens[0]  # a byte order mark
    return tokens


def _type(kind: str, word: str) -> str:
    if kind == "NAME":
        return word.upper() if word in WORDS else "NAME"
    if kind == "SYMBOL":
        return _SYMBOLS[word]
    return kind if kind in ("NEWLINE", "NUMBER") else "BAD"


def _check_length(source: Source, token: Token) -> None:
    length = token.end - token.start
    if token.type == "NUMBER":
        exponent = _EXPONENT.search(token.text)
        if exponent and len(exponent.group(1)) > EXPONENT_DIGITS:
            message = f"an exponent has at most {EXPONENT_DIGITS} digits"
            raise SourceError([diagnostic(source, token.start, token.end, message)])
        if length > NUMBER_LENGTH:
            raise _over(source, token.start, f"a number has at most {NUMBER_LENGTH} characters", None)
    elif length > NAME_LENGTH:
        raise _over(source, token.start, f"a name has at most {NAME_LENGTH} characters", None)


def _over(source: Source, at: int, message: str, hint: str | None) -> SourceError:
    return SourceError([diagnostic(source, at, at + 1, message, hint)])
