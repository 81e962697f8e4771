"""What the texts of tiles have in common, in whatever target: index expressions, lanes and conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, All, Comparison, Formula, Some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Program
    from ..naming import Names, Writer


@dataclass
class TilePrinter:
    """Prints index expressions and conditions; *axes* are always those of the whole that the text is part of."""

    program: Program
    names: Names
    writer: Writer

    def integer(self, affine: Affine, axes: Sequence[str]) -> str:
        """An index expression, its axes spread over those of the whole."""
        words = {n: self.lane(n, axes) if n in axes else self.names[n] for n in affine.names()}
        return str(affine.renamed(words))

    def lane(self, axis: str, axes: Sequence[str]) -> str:
        name = self.names[axis]
        if len(axes) == 1:
            return name
        return f"{name}[{', '.join(':' if a == axis else 'None' for a in axes)}]"

    def condition(self, formula: Formula, axes: Sequence[str]) -> str:
        match formula:
            case Comparison():
                return self.comparison(formula, axes)
            case All(parts) | Some(parts):
                sign = " & " if isinstance(formula, All) else " | "
                texts = [self.condition(p, axes) for p in parts]
                if len(texts) == 1:
                    return texts[0]
                return sign.join(f"({t})" for t in texts) if texts else str(isinstance(formula, All))

    def comparison(self, found: Comparison, axes: Sequence[str]) -> str:
        """`a < b` with every term on the side where it is positive."""
        both = found.left - found.right
        more = Affine(tuple((t, c) for t, c in both.terms if c > 0))
        less = Affine(tuple((t, -c) for t, c in both.terms if c < 0))
        if found.op != ">=":
            return f"{self.integer(more + both.constant, axes)} {found.op} {self.integer(less, axes)}"
        if both.constant < 0 and less == Affine():
            return f"{self.integer(more, axes)} >= {-both.constant}"
        if both.constant == -1:
            return f"{self.integer(less, axes)} < {self.integer(more, axes)}"
        return f"{self.integer(less, axes)} <= {self.integer(more + both.constant, axes)}"
