"""How often the operations of a tile program run, without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tile import For, If

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..naming import Names
    from .tile import Stmt


def operations(body: Sequence[Stmt], names: Names, values: Mapping[str, int]) -> int:
    """About how many operations on tiles run, where the names of sizes have these values: a loop's body as often as
    that of its middle iteration, whatever their conditions say."""
    total = 0
    for stmt in body:
        match stmt:
            case For():
                # The ends are our own text, of numbers, names and these two functions.
                known = {"__builtins__": {}, "min": min, "max": max}
                low, high = (int(eval(end, known, dict(values))) for end in (stmt.low, stmt.high))
                inside = {**values, names[stmt.index]: (low + high) // 2}
                total += max(0, high - low) * operations(stmt.body, names, inside)
            case If():
                total += operations(stmt.body, names, values)
            case _:
                total += 1
    return total
