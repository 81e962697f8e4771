"""The texts that isl reads: of expressions, conditions, sets and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .quasiaffine import Affine, All, Comparison, Division, Formula, Some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def affine_text(expression: Affine, tokens: Mapping[str, str]) -> str:
    """isl's text of an expression; *tokens* are the words that stand for its names."""
    parts = [str(expression.constant)]
    for term, factor in expression.terms:
        if isinstance(term, Division):
            inner = affine_text(term.numerator, tokens)
            if term.kind == "//":
                parts.append(f"{factor}*floor(({inner})/{term.divisor})")
            else:
                parts.append(f"{factor}*(({inner}) mod {term.divisor})")
        else:
            parts.append(f"{factor}*{tokens[term]}")
    return " + ".join(parts)


def formula_text(formula: Formula, tokens: Mapping[str, str]) -> str:
    """isl's text of a condition."""
    match formula:
        case All(parts):
            return " and ".join(f"({formula_text(p, tokens)})" for p in parts) or "1 = 1"
        case Some(parts):
            return " or ".join(f"({formula_text(p, tokens)})" for p in parts) or "1 = 0"
        case Comparison(op, left, right):
            sign = "=" if op == "==" else op
            return f"{affine_text(left, tokens)} {sign} {affine_text(right, tokens)}"


def _tokens(params: Sequence[str], names: Sequence[str], free: Sequence[str] = ()) -> dict[str, str]:
    # Words of our own: any name will do, isl's words (mod, floor, and, ...) and `C.i` among them.
    groups = (("p", params), ("i", names), ("e", free))
    return {name: f"{letter}{position}" for letter, group in groups for position, name in enumerate(group)}


def set_text(params: Sequence[str], names: Sequence[str], formula: Formula) -> str:
    """`[params] -> { [names] : formula }`."""
    tokens = _tokens(params, names)
    head = f"[{', '.join(tokens[n] for n in params)}] -> {{ [{', '.join(tokens[n] for n in names)}] : "
    return f"{head}{formula_text(formula, tokens)} }}"


def map_text(
    params: Sequence[str], names: Sequence[str], images: Sequence[Affine], formula: Formula, free: Sequence[str]
) -> str:
    """`[params] -> { [names] -> [images] : exists free : formula }`."""
    tokens = _tokens(params, names, free)
    head = f"[{', '.join(tokens[n] for n in params)}] -> {{ [{', '.join(tokens[n] for n in names)}] -> "
    body = formula_text(formula, tokens)
    outputs = ", ".join(affine_text(image, tokens) for image in images)
    if free:
        # The outputs become dimensions of their own, so that they may mention the free names.
        fresh = [f"o{position}" for position in range(len(images))]
        equal = " and ".join(f"{f} = {affine_text(e, tokens)}" for f, e in zip(fresh, images, strict=True))
        outputs = ", ".join(fresh)
        body = f"exists {', '.join(tokens[n] for n in free)} : ({body}){' and ' + equal if equal else ''}"
    return f"{head}[{outputs}] : {body} }}"
