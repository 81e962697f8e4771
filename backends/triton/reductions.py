"""Reductions over axes of a tile as Triton says them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lower.printing import atom, tuple_text
from .operations import combine_name, pairs_name

if TYPE_CHECKING:
    from ..lower.tile import Reduce
    from .kernel import KernelPrinter


def reduction_text(printer: KernelPrinter, value: Reduce) -> str:
    """The lanes of some axes combined: by adjacent pairs where that is the program's order, else as Triton likes."""
    own = list(value.value.axes)
    over = [a for a in own if a in value.over]
    rest = [a for a in own if a not in over]
    if value.pairs:
        count, lanes = printer.lanes(rest), printer.lanes(over)
        flat = f"tl.reshape({printer.aligned(value.value, [*rest, *over])}, ({count}, {lanes}))"
        text = f"{pairs_name(value.combine, value.dtype)}({flat}, {count}, {lanes.bit_length() - 1})"
        if not rest:
            return f"tl.sum({text}, 0)"
        text = text if len(rest) == 1 else f"tl.reshape({text}, {printer.shape(rest)})"
    else:
        text = _free(printer, value, sorted((own.index(a) for a in over), reverse=True))
    order = tuple_text([str(rest.index(a)) for a in value.axes])
    return text if rest == list(value.axes) else f"tl.permute({text}, {order})"


def _free(printer: KernelPrinter, value: Reduce, places: list[int]) -> str:
    text = printer.text(value.value)
    if value.combine in ("any", "all"):
        # Triton's own functions take numbers.
        text, word = f"{atom(text)}.to(tl.int32)", "max" if value.combine == "any" else "min"
        for place in places:
            text = f"tl.{word}({text}, {place})"
        return f"({text} != 0)"
    for place in places:
        text = f"tl.reduce({text}, {place}, {combine_name(value.combine, value.dtype)})"
    return text
