"""Where equations end: newlines become NL tokens or vanish, and brackets are matched.

An equation is one line. A line goes on inside ( ) and [ ], after a binary operator, `=` or `,`, and from
`kernel` to its `{`. A line that begins like a statement never continues another, so a bracket still open
there is reported where it was opened, and not at the end of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .diagnostic import Fault
from .scan import NESTING, Token

CLOSER = {"LPAR": "RPAR", "LSQB": "RSQB"}
OPENS = frozenset(CLOSER)
CONTINUES = frozenset(
    [
        "PLUS",
        "MINUS",
        "STAR",
        "SLASH",
        "DSLASH",
        "PERCENT",
        "CMP",
        "EQUAL",
        "COMMA",
        "ARROW",
        "AND",
        "OR",
        "NOT",
        "IF",
        "ELSE",
        "IN",
        "WHERE",
        "DOTDOT",
        "COLON",
        "UPDATE",
    ]
)
BEGINS = frozenset(["LET", "ALLOW", "RBRACE", "KERNEL", "CONST", "DEF"])


@dataclass
class Layout:
    """Tokens with NL where a statement ends; *faults*, *missing* names, and whether the rest was given up."""

    tokens: list[Token] = field(default_factory=list[Token])
    faults: list[Fault] = field(default_factory=list[Fault])
    missing: set[str] = field(default_factory=set[str])
    stopped: bool = False


def lay_out(tokens: list[Token]) -> Layout:
    """Resolve newlines and check brackets. A statement with a bracket fault is dropped whole."""
    result = Layout()
    out = result.tokens
    open_brackets: list[Token] = []
    statement = 0  # where the current statement begins in `out`
    header = False
    i = 0
    while i < len(tokens):
        token = tokens[i]
        fault: Fault | None = None
        if token.type == "NEWLINE":
            begins = _begins_statement(tokens, i + 1, out, bool(open_brackets))
            if open_brackets and begins:
                bracket = open_brackets[-1]
                fault = Fault((bracket.start, bracket.end), f"'{bracket.text}' is never closed")
            elif not _goes_on(out, bool(open_brackets), header, begins):
                out.append(Token("NL", "", token.start, token.start))
                statement, header = len(out), False
        elif token.type in OPENS:
            open_brackets.append(token)
            out.append(token)
            if len(open_brackets) > NESTING:
                message = f"brackets are nested deeper than {NESTING:,}"
                result.faults.append(Fault((token.start, token.end), message))
                result.stopped = True
                del out[statement:]
                return result
        elif token.type in ("RPAR", "RSQB"):
            fault = _close(open_brackets, token)
            out.append(token)
        elif token.type == "RBRACE" and not open_brackets:
            if out and out[-1].type not in ("NL", "LBRACE"):
                out.append(Token("NL", "", token.start, token.start))
            out += [token, Token("NL", "", token.end, token.end)]
            statement = len(out)
        else:
            header = header or token.type == "KERNEL"
            out.append(token)
            if token.type == "LBRACE" and not open_brackets:
                statement, header = len(out), False
        if fault:
            result.faults.append(fault)
            dropped = out[statement:]
            del out[statement:]
            open_brackets.clear()
            result.missing.update(t.text for t in dropped[:2] if t.type == "NAME")
            if any(t.type == "KERNEL" for t in dropped):
                result.stopped = True
                return result
            i = _next_statement(tokens, i)
            continue
        i += 1
    if open_brackets:
        bracket = open_brackets[-1]
        result.faults.append(Fault((bracket.start, bracket.end), f"'{bracket.text}' is never closed"))
        result.stopped = True
        del out[statement:]
    elif out and out[-1].type != "NL":
        end = out[-1].end
        out.append(Token("NL", "", end, end))
    return result


def _close(open_brackets: list[Token], token: Token) -> Fault | None:
    at = (token.start, token.end)
    if not open_brackets:
        return Fault(at, f"'{token.text}' closes nothing")
    opened = open_brackets.pop()
    if CLOSER[opened.type] != token.type:
        return BracketFault(at, opened, token)
    return None


class BracketFault(Fault):
    """A closing bracket of the wrong kind; the message needs the line of the opening one."""

    def __init__(self, at: tuple[int, int], opened: Token, token: Token) -> None:
        super().__init__(at, f"'{token.text}' closes '{opened.text}'")
        self.opened = opened


def _goes_on(out: list[Token], inside: bool, header: bool, begins: bool) -> bool:
    """Whether a newline here ends nothing."""
    if inside or not out or out[-1].type in ("NL", "LBRACE"):
        return True
    return not begins and (header or out[-1].type in CONTINUES)


def _begins_statement(tokens: list[Token], i: int, out: list[Token], inside: bool) -> bool:
    """Whether the next line begins like a statement: `name[..] =`, `name =`, let, allow, `}` and so on."""
    while i < len(tokens) and tokens[i].type == "NEWLINE":
        i += 1
    if i >= len(tokens):
        return False
    if tokens[i].type in BEGINS:
        return True
    if tokens[i].type != "NAME" or i + 1 >= len(tokens):
        return False
    i += 1
    if tokens[i].type in ("EQUAL", "UPDATE"):
        # After a comma or a parenthesis inside a call this is an option, `sum(k,<newline> lanes=8)`.
        return not (inside and out and out[-1].type in ("COMMA", "LPAR"))
    if tokens[i].type != "LSQB":
        return False
    depth = newlines = 0
    while i < len(tokens):
        kind = tokens[i].type
        depth += (kind == "LSQB") - (kind == "RSQB")
        newlines += kind == "NEWLINE"
        if newlines > (0 if inside else 1):
            return False  # a left side stands on one line, or on two
        if depth == 0:
            return i + 1 < len(tokens) and tokens[i + 1].type in ("EQUAL", "UPDATE")
        i += 1
    return False


def _next_statement(tokens: list[Token], i: int) -> int:
    """The first token of the next line that begins like a statement."""
    while i < len(tokens):
        if tokens[i].type == "NEWLINE" and _begins_statement(tokens, i + 1, [], False):
            return i + 1
        i += 1
    return i
