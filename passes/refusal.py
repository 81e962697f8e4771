"""Refusals: a request that was not carried out, as data that prints as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..compiler.ir.errors import TilewrightError

if TYPE_CHECKING:
    from ..compiler.ir.span import Span

Rule = Literal["dependence", "rounding", "race", "bounds", "coverage", "capacity", "target", "shape", "unknown"]


@dataclass(frozen=True)
class Refusal:
    """What was refused (*step*), by which rule, why, where, and what would make it possible."""

    rule: Rule
    step: str
    message: str
    span: Span | None = None
    remedy: str | None = None

    def __str__(self) -> str:
        lines = [f"refused [{self.rule}]: {self.step}", f"  {self.message}"]
        if self.span:
            lines.append(f"  at {self.span}")
        if self.remedy:
            lines.append(f"  instead: {self.remedy}")
        return "\n".join(lines)


class IllegalTransformError(TilewrightError):
    """A refusal as an exception; `refusal` is the data."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal)
        self.refusal = refusal

    def __str__(self) -> str:
        return str(self.refusal)
