"""Refusals of what cannot be said in tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...compiler.ir.span import Source
from ...passes.refusal import IllegalTransformError, Place, Refusal, Rule

if TYPE_CHECKING:
    from ...compiler.ir.program import Program
    from ...compiler.ir.span import Span


def cannot(
    program: Program, message: str, remedy: str | None, span: Span | None = None, rule: Rule = "target"
) -> IllegalTransformError:
    """The refusal of a schedule that tiles do not carry out."""
    refusal = Refusal(rule, "lower to tiles", message, span, remedy=remedy, kernel=program.name)
    if span is not None:
        line = Source("", program.source).line(span.line)
        refusal = replace(refusal, places=(Place(span, line, "here"),))
    return IllegalTransformError(refusal)
