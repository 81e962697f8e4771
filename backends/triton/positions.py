"""Index expressions as Triton says them, and where elements lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine
from ..lower.printing import TilePrinter, atom

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.program import Extent
    from ...compiler.ir.quasiaffine import Division
    from ..lower.tile import Value

# Factors from here on are multiplied in 64 bits.
LARGE = 1 << 16


@dataclass
class PositionPrinter(TilePrinter):
    """Prints index expressions. *nonnegative*: the sizes, loops and axes that are never below 0; *orders*: of the
    dimensions of tensors in memory, outermost first, where it is not their own."""

    nonnegative: set[str]
    orders: Mapping[str, tuple[int, ...]]

    def aligned(self, value: Value, axes: Sequence[str]) -> str:
        """A value whose axes are some of *axes*, in that order, with new ones of one lane where it has none."""
        raise NotImplementedError

    def pointer(self, tensor: str, index: Sequence[Affine | Value], axes: Sequence[str]) -> str:
        """Where elements lie in memory, row by row."""
        total = [self.names[tensor]]
        extents = self.program.tensors[tensor].extents
        order = self.orders.get(tensor, tuple(range(len(extents))))
        for position, dimension in enumerate(order):
            place, extent = index[dimension], extents[dimension]
            low = self.low(extent)
            if place == Affine() and low == "0":
                continue
            text = self.integer(place, axes) if isinstance(place, Affine) else self.aligned(place, axes)
            text = text if low == "0" else f"{text} - {atom(low)}"
            steps = [atom(self.count(extents[d])) for d in order[position + 1 :]]
            total.append(" * ".join([atom(text), *steps]) if steps else text)
        return " + ".join(total)

    def low(self, extent: Extent) -> str:
        """The first position of a dimension."""
        return self._extreme(extent.low_word, extent.lower)

    def high(self, extent: Extent) -> str:
        """One past the last position of a dimension."""
        return self._extreme(extent.high_word, extent.upper)

    def count(self, extent: Extent) -> str:
        """The number of positions of a dimension, where there are any."""
        low = self.low(extent)
        return self.high(extent) if low == "0" else f"{self.high(extent)} - {atom(low)}"

    def _extreme(self, word: str, ends: Sequence[Affine]) -> str:
        *texts, last = (self.integer(a, ()) for a in ends)
        for text in reversed(texts):
            last = f"{word}({text}, {last})"
        return last

    def integer(self, affine: Affine, axes: Sequence[str]) -> str:
        parts: list[str] = []
        # What is the same in all lanes first, and something positive in front.
        for term, factor in sorted(affine.terms, key=lambda pair: (pair[1] < 0, pair[0] in axes)):
            if isinstance(term, str):
                text = self.lane(term, axes) if term in axes else self.names[term]
            else:
                text = self.division(term, axes)
            if abs(factor) >= LARGE:
                # The launcher looks at how far sizes reach; what a factor alone can take beyond 31 bits is wide here.
                text = f"tl.cast({text}, tl.int64)"
            text = text if abs(factor) == 1 else f"{abs(factor)} * {text}"
            sign = "-" if factor < 0 else "+"
            parts.append(f" {sign} {text}" if parts else f"-{text}" if factor < 0 else text)
        if affine.constant or not parts:
            sign = "-" if affine.constant < 0 else "+"
            size = str(abs(affine.constant))
            size = size if abs(affine.constant) < 1 << 30 else f"tl.full((), {size}, tl.int64)"
            parts.append(f" {sign} {size}" if parts else f"-{size}" if affine.constant < 0 else size)
        return "".join(parts)

    def division(self, term: Division, axes: Sequence[str]) -> str:
        """Triton's own division is toward 0: it will do for what is never below 0."""
        inner = self.integer(term.numerator, axes)
        if self.is_nonnegative(term.numerator):
            return f"({atom(inner)} {term.kind} {term.divisor})"
        return f"floor_{'div' if term.kind == '//' else 'mod'}({inner}, {term.divisor})"

    def is_nonnegative(self, affine: Affine) -> bool:
        return affine.constant >= 0 and all(
            factor > 0
            and (
                term in self.nonnegative
                if isinstance(term, str)
                else term.kind == "%" or self.is_nonnegative(term.numerator)
            )
            for term, factor in affine.terms
        )
