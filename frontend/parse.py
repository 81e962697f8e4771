"""From text to syntax tree. Every syntax error of a file is reported, one a statement at most."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from .diagnostic import Diagnostic, Fault, SourceError, diagnostic
from .explain import Place, explain
from .layout import BracketFault, lay_out
from .scan import Token, scan

if TYPE_CHECKING:
    from lark import Lark

    from ..compiler.ir.span import Source
    from .syntax import File

ERRORS = 20


@dataclass(frozen=True)
class Parsed:
    """A syntax tree, the errors beside it, and the names whose definitions were dropped with an error."""

    file: File
    diagnostics: tuple[Diagnostic, ...] = ()
    missing: frozenset[str] = frozenset()
    # Whether parsing gave up before the end: what is not there may only not have been reached.
    incomplete: bool = False


def parse_source(source: Source) -> Parsed:
    """Parse a text as far as it goes.

    Raises:
        SourceError: the text is over a limit or is no text at all.
    """
    tokens = scan(source)
    if all(t.type == "NEWLINE" for t in tokens):
        raise SourceError(
            [
                diagnostic(
                    source,
                    0,
                    1,
                    "an empty file: no kernel",
                    "kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] }",
                )
            ]
        )
    layout = lay_out(tokens)
    faults = list(layout.faults)
    missing = set(layout.missing)
    driver = _Driver(layout.tokens, _lark().parse_interactive(), faults, missing, layout.stopped)
    file = driver.drive()
    faults.sort(key=lambda f: f.at)
    reports = tuple(_report(source, f) for f in faults[:ERRORS])
    return Parsed(file, reports, frozenset(missing), driver.stopped or driver.unnamed or len(faults) >= ERRORS)


def _report(source: Source, fault: Fault) -> Diagnostic:
    message = fault.message
    if isinstance(fault, BracketFault):
        message += f" of line {source.span(fault.opened.start, fault.opened.end).line}"
    return diagnostic(source, *fault.at, message, fault.hint)


@lru_cache(maxsize=1)
def _lark() -> Lark:
    from lark import Lark
    from lark.lexer import Lexer

    from .build import Build

    class Fed(Lexer):
        """No lexer: tokens are fed one by one."""

        def __init__(self, lexer_conf: Any) -> None:
            pass

        def lex(self, lexer_state: Any, parser_state: Any) -> Any:
            return iter(())

    grammar = resources.files(__package__ or "").joinpath("grammar.lark").read_text()
    return Lark(grammar, parser="lalr", lexer=Fed, transformer=Build(), maybe_placeholders=True)


@dataclass
class _Driver:
    """Feeds tokens, and on an error goes back to the start of the statement and on after its end."""

    tokens: list[Token]
    parser: Any
    faults: list[Fault]
    missing: set[str]
    stopped: bool
    start: int = 0
    saved: Any = None
    item: Any = None
    opened: Token | None = field(default=None)
    # Whether a statement was dropped that does not say what it was to define.
    unnamed: bool = False

    def drive(self) -> File:
        from lark.exceptions import UnexpectedToken

        i = 0
        self.saved = self.item = self.parser.copy(deepcopy_values=False)
        while i < len(self.tokens) and len(self.faults) < ERRORS:
            token = self.tokens[i]
            try:
                self.parser.feed_token(token)
            except UnexpectedToken:
                self.faults.append(self._explain(i))
                i = self._recover(i)
                if i < 0:
                    break
                continue
            except Fault as fault:
                self.faults.append(fault)
                i = self._recover(i)
                if i < 0:
                    break
                continue
            i += 1
            if token.type in ("NL", "LBRACE"):
                self._mark(i, token)
        return self._finish()

    def _mark(self, i: int, token: Token) -> None:
        """Remember the state at the start of a statement, and of an item of the file."""
        if token.type == "LBRACE":
            self.opened = token
        elif self.tokens[i - 2].type == "RBRACE":
            self.opened = None
        self.start, self.saved = i, self.parser.copy(deepcopy_values=False)
        if self.opened is None:
            self.item = self.saved

    def _explain(self, i: int) -> Fault:
        # The failed feed may already have reduced: ask a copy brought to this very place.
        fresh = self.saved.copy(deepcopy_values=False)
        for token in self.tokens[self.start : i]:
            fresh.feed_token(token)
        following = self.tokens[i + 1] if i + 1 < len(self.tokens) else None
        accepts = frozenset(fresh.accepts())
        return explain(Place(self.tokens[i], self.tokens[self.start : i], accepts, following))

    def _recover(self, i: int) -> int:
        """Drop the statement of token i; where parsing goes on, or -1 where it cannot."""
        first = self.tokens[self.start]
        head = self.tokens[self.start : self.start + 2]
        self.missing.update(t.text for t in head if t.type == "NAME")
        if len(head) < 2 or head[1].type not in ("LSQB", "EQUAL", "UPDATE", "COLON", "NAME"):
            self.unnamed = True
        self.parser = self.saved.copy(deepcopy_values=False)
        if first.type == "KERNEL":
            # A body without its header would only echo.
            self.stopped = True
            return -1
        i = max(i, self.start)
        while i < len(self.tokens) and self.tokens[i].type != "NL":
            i += 1
        self.start = i + 1
        return i + 1

    def _finish(self) -> File:
        end = Token("$END", "", *(2 * [self.tokens[-1].end if self.tokens else 0]))
        if self.opened is not None:
            if not self.stopped and len(self.faults) < ERRORS:
                at = (self.opened.start, self.opened.end)
                self.faults.append(Fault(at, "the '{' of this kernel is not closed", "end the kernel with }"))
            self.parser = self.saved.copy(deepcopy_values=False)
            self.parser.feed_token(Token("RBRACE", "}", end.start, end.end))
            self.parser.feed_token(Token("NL", "", end.start, end.end))
            return self.parser.feed_token(end)
        self.parser = self.item.copy(deepcopy_values=False)
        return self.parser.feed_token(end)
