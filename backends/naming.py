"""Emitted Python: names for a program's names, and lines."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..compiler.ir.elementary import SEQUENCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..compiler.ir.program import Program

_TAKEN = frozenset(
    (
        *(*keyword.kwlist, *keyword.softkwlist, *dir(builtins)),
        *("np", "ml_dtypes", "re", "annotations", "tl", "torch", "triton"),
    )
) | frozenset(f"{f}_{t}" for f, t in SEQUENCES)


class Names:
    """Distinct Python identifiers, as close to the program's own names as can be."""

    def __init__(self, program: Program, helpers: Iterable[str]) -> None:
        self._taken = set(_TAKEN) | set(helpers)
        self._of: dict[str, str] = {}
        # The constants of the elementary functions are global names (EXP_F32_U3): a kernel's must not be one.
        self.function = self._new(f"{program.name}_" if re.search(r"_F(32|64)(_|$)", program.name) else program.name)
        for name in (*program.parameters, *program.sizes, *program.tensors):
            self[name]
        for stage in program.stages:
            for found in stage.ranges:
                self[found.index]

    def __getitem__(self, name: str) -> str:
        """The Python name of a size, scalar, tensor or index."""
        if name not in self._of:
            self._of[name] = self._new(name)
        return self._of[name]

    def mark(self) -> frozenset[str]:
        """What is taken now; `release` gives up everything named since."""
        return frozenset(self._taken)

    def release(self, mark: frozenset[str]) -> None:
        """Free the names that temporaries took since the mark."""
        self._taken = set(mark) | set(self._of.values())

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        return self._new(wanted)

    def _new(self, wanted: str) -> str:
        base = "".join(c if c.isalnum() else "_" for c in wanted)
        name, number = base, 0
        while name in self._taken:
            number += 1
            name = f"{base}_{number}" if number > 1 else f"{base}_"
        self._taken.add(name)
        return name


@dataclass
class Writer:
    """Lines of Python, at an indentation."""

    lines: list[str] = field(default_factory=list[str])
    indent: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text if text else "")
