"""Index expressions and extents as text: Python ints, or i64 arrays along the axes of a stage."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, Comparison, Some
from .axes import Axes, substitution
from .text import Value, index_strength

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Extent, Program
    from ..naming import Names, Writer


@dataclass
class Positions:
    """What every part of a stage's emission shares. *bound*: indices fixed by the loops of a recurrence."""

    program: Program
    names: Names
    axes: Axes
    writer: Writer
    bound: dict[str, Affine] = field(default_factory=dict[str, Affine])
    arrays: set[str] = field(default_factory=set[str])

    def substituted(self, affine: Affine) -> Affine:
        return substitution(self.bound)(affine)

    def integer(self, affine: Affine) -> Value:
        """An index expression: a Python int, or an i64 array where it mentions vector indices."""
        affine = self.substituted(affine)
        found = frozenset(n for n in affine.names() if n in self.axes.vector)
        self.arrays |= found
        text = str(affine.renamed({n: self.names[n] for n in set(affine.names())}))
        return Value(text, found, index_strength(affine), not found)

    def ends(self, function: str, ends: Sequence[Affine]) -> str:
        """An end of a range as Python text."""
        texts = [self.integer(e).text for e in ends]
        return texts[0] if len(texts) == 1 else f"{function}({', '.join(texts)})"

    def index_array(self, name: str) -> str:
        """The line that makes the array of a vector index."""
        lower, upper = self.axes.box[name]
        low, high = self.ends("max", lower), self.ends("min", upper)
        span = high if low == "0" else f"{low}, {high}"
        after = len(self.axes.vector) - self.axes.position(name) - 1
        shape = "".join([f".reshape(-1{', 1' * after})" if after else ""])
        return f"{self.names[name]} = np.arange({span}){shape}"

    def extent_text(self, extent: Extent) -> str:
        """The number of positions of a dimension."""
        high = self.ends(extent.high_word, extent.upper)
        if extent.lower != (Affine(),):
            low = self.ends(extent.low_word, extent.lower)
            one = re.fullmatch(r"\w+(\([^()]*\))?", low)  # a name, a number or a call
            high = f"{high} - {low}" if one else f"{high} - ({low})"
        if len(extent.upper) == 1 and extent.lower == (Affine(),) and self.axes.nonnegative(extent.upper[0]):
            return high
        return f"max(0, {high})"

    def _length_text(self, lower: tuple[Affine, ...], upper: tuple[Affine, ...]) -> str:
        low, high = self.ends("max", lower), self.ends("min", upper)
        return high if low == "0" else f"{high} - ({low})"

    def _never_empty(self, ends: tuple[tuple[Affine, ...], tuple[Affine, ...]]) -> bool:
        empty = Some(tuple(Comparison("<=", b, a) for a in ends[0] for b in ends[1]))
        return self.axes.never(empty, [])
