"""What to say where the grammar does not go on: one ordered list of cases, most telling first."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .diagnostic import Fault
from .scan import WORDS, Token

if TYPE_CHECKING:
    from collections.abc import Sequence

REDUCTIONS = ("sum", "prod", "min", "max", "any", "all", "argmax", "argmin")
OPERATORS = frozenset(
    ["PLUS", "MINUS", "STAR", "SLASH", "DSLASH", "PERCENT", "CMP", "AND", "OR", "NOT", "IF", "ELSE", "EQUAL"]
)
_OPERAND_ENDS = ("NAME", "NUMBER", "RPAR", "RSQB")
_STATEMENTS = ("for", "while", "return", "print", "import", "var", "int", "float")


@dataclass(frozen=True)
class Place:
    """A token the parser refused, the tokens of its statement before it, what it would have taken, the next one."""

    token: Token
    before: Sequence[Token]
    accepts: frozenset[str]
    following: Token | None

    @property
    def previous(self) -> Token | None:
        return self.before[-1] if self.before else None


def explain(place: Place) -> Fault:
    """The message for an unexpected token."""
    for case in (_bad_text, _header, _statement_start, _operator, _standalone, _expression):
        fault = case(place)
        if fault:
            return fault
    return _plain(place)


def _fault(token: Token, message: str, hint: str | None = None) -> Fault:
    return Fault((token.start, max(token.end, token.start + 1)), message, hint)


def _bad_text(place: Place) -> Fault | None:
    token = place.token
    if token.type != "BAD":
        return None
    text = token.text
    if not text.isprintable():
        return _fault(token, f"the character U+{ord(text[0]):04X} is not allowed outside comments")
    if text[0].isdigit() or (text[0] == "." and len(text) > 1):
        return _fault(token, f"'{text}' is not a number", _number_hint(text))
    if text in ("&", "|"):
        return _fault(token, f"unexpected '{text}'", "write 'and'" if text == "&" else "write 'or'")
    if text == "!":
        return _fault(token, "unexpected '!'", "write 'not'")
    if text == "^":
        return _fault(token, "there is no power operator", "write x * x")
    if text == ";":
        return _fault(token, "one equation a line; no ';'", "begin a new line")
    if text == "@":
        return _fault(token, "there is no matrix product operator", "write sum(k) A[i, k] * B[k, j]")
    if ord(text[0]) > 127:
        hint = _ascii_hint(text[0])
        return _fault(token, f"'{text}' (U+{ord(text[0]):04X}) is not allowed outside comments", hint)
    return _fault(token, f"unexpected '{text}'")


def _ascii_hint(character: str) -> str | None:
    known = {
        "\u2212": "-",
        "\u2013": "-",
        "\u00d7": "*",
        "\u00b7": "*",
        "\u2264": "<=",
        "\u2265": ">=",
        "\u2260": "!=",
        "\u2192": "->",
    }
    if character in known:
        return f"write {known[character]} for {unicodedata.name(character, 'it').lower()}"
    return "names are of ASCII letters, digits and _"


def _number_hint(text: str) -> str:
    """How a malformed number might be meant; total for any text."""
    if text.startswith("."):
        return f"write 0{text}"
    if text.endswith(".") and text[:-1].isdigit():
        return f"write {text}0"
    try:
        return f"write {int(text, 0)}"
    except ValueError:
        return "a name does not begin with a digit" if text[-1:].isalpha() else "write it as 3, 0.5 or 1e-5"


def _header(place: Place) -> Fault | None:
    token, before = place.token, place.before
    if not before or before[0].type != "KERNEL":
        return None
    if any(t.type == "LBRACE" for t in before):
        return None
    accepts = place.accepts
    if "ARROW" in accepts:
        return _fault(token, "'->' is missing before the results", "kernel f(X: f32[N]) -> (Y: f32[N]) { ... }")
    if before[-1].type == "ARROW":
        return _fault(token, "the results stand in parentheses", "write -> (Y: f32[N])")
    if "LBRACE" in accepts:
        if token.type in ("NL", "$END", "KERNEL", "CONST", "DEF", "LET", "ALLOW"):
            name = before[1]
            return _fault(name, "the kernel has no body { ... }", "after the results: { equations }")
        return _fault(token, f"expected '{{' or 'where' before {_shown(token)}")
    if accepts == frozenset(("COLON",)):
        name = before[-1]
        return _fault(token, f"the type of '{name.text}' is missing", f"write {name.text}: f32[N]")
    if token.text in WORDS and "NAME" in accepts:
        return _word(token)
    return None


def _word(token: Token) -> Fault:
    return _fault(token, f"'{token.text}' is a word of the language and cannot name anything", "choose another name")


def _statement_start(place: Place) -> Fault | None:
    token, before = place.token, place.before
    if before:
        return None
    in_kernel = "RBRACE" in place.accepts
    following = place.following.type if place.following else ""
    if in_kernel:
        if token.type == "KERNEL":
            return _fault(token, "'kernel' inside a kernel: a '}' is missing above", "close the kernel above with }")
        if token.type in OPERATORS:
            hint = "end that line with the operator, or put the expression in parentheses"
            return _fault(token, "the equation ended on the line before", hint)
        if token.type in ("CONST", "DEF"):
            return _fault(token, f"'{token.text}' stands outside kernels", "move it above the kernel")
        if token.text in WORDS and following in ("LSQB", "EQUAL"):
            return _word(token)
        return None
    if token.type == "RBRACE":
        return _fault(token, "'}' closes nothing")
    hint = "kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] }"
    return _fault(token, "a file holds const, def and kernel", hint)


def _operator(place: Place) -> Fault | None:
    token, previous = place.token, place.previous
    if previous is None:
        return None
    if token.type == "UPDATE":
        hint = "a sum is written Y[i] = sum(k) X[i, k]; a carried value as a recurrence"
        return _fault(token, f"'{token.text}' is not an equation: every element is defined once", hint)
    if token.type == "STAR" and previous.type == "STAR":
        return _fault(token, "there is no power operator", "write x * x")
    if token.type == "CMP" and token.text == "==" and place.accepts & {"EQUAL"}:
        return _fault(token, "an equation is written with one '='", "write =")
    if token.type == "EQUAL" and "CMP" in place.accepts:
        return _fault(token, "'=' defines; a comparison is written '=='", "write ==")
    missing_left = token.type in OPERATORS - {"NOT", "EQUAL", "MINUS"}
    if previous.type in OPERATORS and (token.type in ("NL", "$END", "RPAR", "RSQB", "RBRACE", "COMMA") or missing_left):
        return _fault(previous, f"'{previous.text}' needs something on its right")
    if token.type == "NL" and _open_if(place.before):
        return _fault(token, "'if' needs its 'else'", "write a if c else b")
    return None


def _open_if(tokens: Sequence[Token]) -> bool:
    """Whether an `if` waits for its `else` at the end of these tokens, outside closed brackets."""
    waiting = [0]
    for token in tokens:
        if token.type in ("LPAR", "LSQB"):
            waiting.append(0)
        elif token.type in ("RPAR", "RSQB") and len(waiting) > 1:
            waiting.pop()
        elif token.type in ("IF", "ELSE"):
            waiting[-1] += 1 if token.type == "IF" else -1
    return any(w > 0 for w in waiting)


def _standalone(place: Place) -> Fault | None:
    token, before = place.token, place.before
    reduction = _call_before(before)
    if reduction is not None and reduction.text in REDUCTIONS:
        if token.type in ("NAME", "NUMBER", "LPAR", "SAT"):
            return _fault(
                reduction,
                "a reduction inside an operator needs parentheses",
                f"write ({reduction.text}(..) ..)",
            )
        if token.type in ("MINUS", "NL", "RPAR", "RSQB", "COMMA", "$END"):
            hint = "a body that begins with '-' needs parentheses"
            return _fault(reduction, f"'{reduction.text}' has no body", hint)
    if token.type == "ELSE" and before and before[-1].type == "RSQB" and not _open_if(before):
        hint = "put it in parentheses: (X[i - 1] else 0)"
        return _fault(token, "a padded read stands alone", hint)
    if token.type == "ALLOW":
        return _fault(token, "'allow .. in' stands alone", "put it in parentheses: (allow reassociate in ..)")
    return None


def _call_before(tokens: Sequence[Token]) -> Token | None:
    """The name of the call that ends just here, `name(...)`."""
    if not tokens or tokens[-1].type != "RPAR":
        return None
    depth = 0
    for i in range(len(tokens) - 1, 0, -1):
        depth += (tokens[i].type in ("RPAR", "RSQB")) - (tokens[i].type in ("LPAR", "LSQB"))
        if depth == 0:
            return tokens[i - 1] if tokens[i - 1].type == "NAME" else None
    return None


def _expression(place: Place) -> Fault | None:
    token, before, previous = place.token, place.before, place.previous
    if previous is None:
        return None
    if token.type == "LSQB" and previous.type == "RSQB":
        return _fault(token, "one pair of brackets holds all subscripts", "write A[i, j]")
    if token.type == "COLON":
        if any(t.type == "EQUAL" for t in before) or (before[0].type != "LET" and _inside(before, "IN")):
            return _fault(token, "a range is written a..b", "write k in 0..K")
        if previous.type in ("RSQB", "NAME"):
            return _fault(token, "a type is declared on a line of its own", "write let C: f32[M, N]")
    if before[0].text in _STATEMENTS and before[0].type == "NAME" and len(before) == 1:
        message = "there are no loops or statements: an equation defines every element"
        return _fault(before[0], message, "write Y[i] = X[i]; the index runs over its whole range")
    if token.text in WORDS and token.text not in ("if", "else", "in", "and", "or", "not") and "NAME" in place.accepts:
        return _word(token)
    if token.text == "in" and "NAME" in place.accepts:
        return _word(token)
    if previous.type in _OPERAND_ENDS and token.type in ("NAME", "NUMBER", "LPAR", "SAT", "LSQB"):
        return _fault(token, f"an operator is missing between '{previous.text}' and '{token.text}'")
    return None


def _inside(tokens: Sequence[Token], kind: str) -> bool:
    return any(t.type == kind for t in tokens)


_WANTED = {
    "NAME": "a name",
    "NUMBER": "a number",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "EQUAL": "'='",
    "NL": "the end of the line",
    "COLON": "':'",
    "DOTDOT": "'..'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
}
_SHOWN = {"NL": "the end of the line", "$END": "the end of the file"}


def _shown(token: Token) -> str:
    return _SHOWN.get(token.type, f"'{token.text}'")


def _plain(place: Place) -> Fault:
    wanted = [text for kind, text in _WANTED.items() if kind in place.accepts]
    if "NUMBER" in place.accepts:
        wanted = ["an expression"]
    expected = f"expected {' or '.join(wanted[:4])}, found " if wanted else "unexpected "
    return _fault(place.token, expected + _shown(place.token))
