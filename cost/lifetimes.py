"""What lies in memory at once: tensors from the launch that makes them to the last that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from .traffic import moved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node
    from .traffic import Moved


@dataclass(frozen=True)
class Live:
    """The bytes of each tensor that lies in memory while a launch runs."""

    launch: int
    tensors: Mapping[str, int]

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(self.tensors.values())


def live(program: Program, tree: Sequence[Node], sizes: Mapping[str, int]) -> tuple[Live, ...]:
    """What lies in memory during each launch. An input is there from the beginning until its last reader has run, a
    launch's outputs before it frees anything, and outputs of the kernel to the end.

    Raises:
        KeyError: a size is missing.
    """
    return during(program, moved(program, tree), sizes)


def during(program: Program, found: Sequence[Moved], sizes: Mapping[str, int]) -> tuple[Live, ...]:
    """The same, of what launches are known to move."""
    launches = sorted({m.launch for m in found})
    begins: dict[str, int] = {}
    ends: dict[str, int] = {}
    for m in found:
        begins[m.tensor] = min(m.launch, begins.get(m.tensor, m.launch))
        ends[m.tensor] = max(m.launch, ends.get(m.tensor, m.launch))
    for name in begins:
        if program.tensors[name].role == "input":
            begins[name] = launches[0]
        if program.tensors[name].role == "output":
            ends[name] = launches[-1]
    bytes_of = {n: prod(program.tensors[n].shape(sizes)) * program.tensors[n].dtype.bits // 8 for n in begins}
    return tuple(Live(at, {n: bytes_of[n] for n in begins if begins[n] <= at <= ends[n]}) for at in launches)


def peak(found: Sequence[Live]) -> Live:
    """The launch during which most is there, the first of equal ones."""
    return max(found, key=lambda one: one.size)
