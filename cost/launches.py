"""The launches of a schedule for a GPU: how many programs each has, in which order, and in how many waves they run."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import islpy as isl
import numpy as np
import sympy

from ..compiler.ir.codegen import Bounds
from ..compiler.ir.tree import Loop, leaves, opened
from .count import count, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node


@dataclass(frozen=True, eq=False)
class Launch:
    """An outermost loop nest. *grid*: the loops whose iterations are programs, outermost first; *programs*: how many
    there are, in the sizes; *persistent*: whether as many programs as there is room for share them."""

    number: int
    node: Node
    grid: tuple[Loop, ...]
    programs: sympy.Expr | None
    persistent: bool

    def count(self, program: Program, sizes: Mapping[str, int]) -> int:
        """How many programs there are at these sizes."""
        return number(self.programs, sizes) if self.programs is not None else len(order(program, self, sizes))


@dataclass(frozen=True)
class Waves:
    """So many programs on a machine that holds *slots* of them at once. *waves*: how often it is filled, the last time
    perhaps in part; *busy*: the share of slots that have something to do."""

    programs: int
    slots: int
    waves: int
    busy: float

    @property
    def tail(self) -> int:
        """The programs of the last wave."""
        return self.programs - (self.waves - 1) * self.slots

    def __str__(self) -> str:
        """`3 waves of 132 programs, the last of 120: 97 % of the slots busy`."""
        if self.waves == 1:
            return f"1 wave of {self.programs} programs: {100 * self.busy:.3g} % of {self.slots} slots busy"
        shown = f"{self.waves} waves of {self.slots} programs, the last of {self.tail}"
        return f"{shown}: {100 * self.busy:.3g} % of the slots busy"


def waves(programs: int, slots: int) -> Waves:
    """The waves of equal programs.

    Raises:
        ValueError: there is no slot, or no program.
    """
    if programs < 1 or slots < 1:
        raise ValueError("waves are of one program or more, on one slot or more")
    found = ceil(programs / slots)
    return Waves(programs, slots, found, programs / (found * slots))


def launches(program: Program, tree: Sequence[Node]) -> tuple[Launch, ...]:
    """The launches, in their order."""
    found: list[Launch] = []
    for place, node in enumerate(opened(tree)):
        grid: list[Loop] = []
        inner: Node = node
        while isinstance(inner, Loop) and inner.kind in ("bind", "parallel"):
            grid.append(inner)
            if len(inner.body) != 1:
                break
            inner = inner.body[0]
        names = [loop.index for loop in grid]
        formula = count(_points(node, names)) if names else sympy.Integer(1)
        shared = bool(grid) and grid[0].target == "processors"
        found.append(Launch(place, node, tuple(grid), formula, shared))
    return tuple(found)


def _points(node: Node, names: Sequence[str]) -> isl.Set:
    """{ [indices of the grid] } of a nest."""
    found: isl.Set | None = None
    for leaf in leaves((node,)):
        rest = len(leaf.indices) - len(names)
        own = leaf.domain.project_out(isl.dim_type.set, len(names), rest).reset_tuple_id()
        found = own if found is None else found.union(own).coalesce()
    assert found is not None
    return found


def order(program: Program, launch: Launch, sizes: Mapping[str, int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The indices of the grid's loops for every program, in the order of their numbers: [programs, loops]."""
    words = {name: f"size{n}" for n, name in enumerate(program.sizes)}
    words |= {loop.index: f"loop{n}" for n, loop in enumerate(launch.grid)}
    given = {words[name]: value for name, value in sizes.items() if name in words}
    bounds = Bounds(program, lambda name: words[name])
    known = bounds.start()
    rows = np.zeros((1, 0), np.int64)
    around: list[str] = []
    for loop in launch.grid:
        condition, low, high, known = bounds.loop(loop, around, known)
        text = f"(({low}), ({high})) if ({condition or True}) else (0, 0)"
        # Most bounds do not hang on the loops around.
        fixed = None if any(words[n] in text for n in around) else _ends(text, given)
        made = [np.zeros((0, len(around) + 1), np.int64)]
        for row in rows:
            here = {words[n]: int(v) for n, v in zip(around, row, strict=True)}
            first, last = fixed or _ends(text, given | here)
            values = np.arange(first, max(first, last), dtype=np.int64)
            made.append(np.column_stack([np.repeat(row[None], len(values), 0), values]))
        rows = np.concatenate(made)
        around.append(loop.index)
    return rows


def _ends(text: str, given: Mapping[str, int]) -> tuple[int, int]:
    """The first value of a loop and the one past its last."""
    return eval(text, {"__builtins__": {}, "min": min, "max": max}, dict(given))  # our own text
