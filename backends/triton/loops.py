"""Heads of loops in Triton text; fused loops are one, whose number is taken apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..lower.printing import atom
from ..lower.tile import For

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..lower.tile import Stmt
    from ..naming import Names


def fused(stmt: For) -> tuple[list[For], Sequence[Stmt]]:
    """The loops that are one, outermost first, and what they run."""
    chain, body = [stmt], stmt.body
    while chain[-1].fused and len(body) == 1 and isinstance(body[0], For) and not body[0].descending:
        chain.append(body[0])
        body = body[0].body
    return chain, body


def range_text(chain: Sequence[For]) -> str:
    """`range(..)` of a loop; of several as one, over the numbers of their iterations together."""
    last = chain[-1]
    stages = f", num_stages={last.stages}" if last.stages > 1 else ""
    word = "tl.range" if stages else "range"
    if len(chain) > 1:
        return f"{word}(0, {' * '.join(_count(loop) for loop in chain)}{stages})"
    low, high, step = last.low, last.high, ""
    if last.kind == "unroll" and low.isdigit() and high.isdigit():
        word = "tl.static_range"
    if last.descending:
        low, high, step = f"{atom(high)} - 1", f"{atom(low)} - 1", ", -1"
    span = high if low == "0" and not step and not stages else f"{low}, {high}{step}{stages}"
    return f"{word}({span})"


def apart(number: str, chain: Sequence[For], names: Names) -> Iterator[str]:
    """The lines that take the number of a fused loop's iteration apart."""
    return taken_apart(number, [(names[loop.index], _count(loop), loop.low) for loop in chain])


def taken_apart(number: str, loops: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    """The lines that take a number apart into the indices of loops, the innermost the fastest: for each loop its index,
    how often it runs, and its first value."""
    for position in reversed(range(len(loops))):
        index, count, low = loops[position]
        inner = [n for _, n, _ in loops[position + 1 :]]
        text = number
        if inner:
            text = f"{number} // {inner[0]}" if len(inner) == 1 else f"{number} // ({' * '.join(inner)})"
        text = f"{text} % {count}" if position else text
        yield f"{index} = {text}{'' if low == '0' else f' + {atom(low)}'}"


def _count(loop: For) -> str:
    """How often a loop runs, as a factor: never less than 0 times, for two such factors make a positive one."""
    if loop.low == "0" and re.fullmatch(r"\w+|\(\w+ \+ \d+\) // \d+", loop.high):
        return atom(loop.high)
    return f"max(0, {loop.high if loop.low == '0' else f'{atom(loop.high)} - {atom(loop.low)}'})"
