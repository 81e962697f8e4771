"""Loop trees run point by point: what runs in which order, what it touches, and on whose buffer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewright.compiler.ir.tree import placed
from tilewright.compiler.ir.walk import walker
from tilewright.compiler.step import Step, apply
from tilewright.passes.state import initial

from ..passes.enumeration import touched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.compiler.ir.program import Program
    from tilewright.compiler.ir.tree import Placed
    from tilewright.passes.state import State

    from ..passes.enumeration import Element, Instance
    from .entries import Written


@dataclass(frozen=True)
class Point:
    """One run of a leaf: the values of the loops around it, the instance, what it writes and reads."""

    item: Placed
    indices: tuple[int, ...]
    instance: Instance
    written: Element
    read: frozenset[Element]

    @property
    def where(self) -> dict[str, int]:
        """The loops around by name."""
        return dict(zip(self.item.leaf.indices, self.indices, strict=True))

    def buffer(self, tensor: str) -> tuple[tuple[str, int], ...]:
        """The loops, with their values, that have a buffer of the tensor to themselves."""
        names = self.item.scope(tensor)
        return tuple(zip(names, self.indices, strict=False))

    def meets(self, other: Point) -> set[str]:
        """The tensors of which two points touch one element of one buffer, one of them writing."""
        mine, others = self.place(self.written), other.place(other.written)
        first = {self.place(e) for e in self.read}
        second = {other.place(e) for e in other.read}
        common = {mine} & (second | {others}) | {others} & first
        return {tensor for tensor, _ in common if self.buffer(tensor) == other.buffer(tensor)}

    def place(self, element: Element) -> Element:
        """What tells the element's place in its buffer from others."""
        fold = dict(self.item.storage(element[0]).fold)
        return element[0], tuple(p % fold[d] if d in fold else p for d, p in enumerate(element[1]))


def run_points(program: Program, state: State, sizes: Mapping[str, int]) -> list[Point]:
    """Every point of a state's tree, in the order in which the tree runs it."""
    items = placed(state.tree)
    statements = {s.name: s for s in program.statements}
    found: list[Point] = []

    def visit(number: int, *indices: int) -> None:
        item = items[number]
        statement = statements[item.leaf.statement]
        loops = {**sizes, **dict(zip(item.leaf.indices, indices, strict=True))}
        values = dict(zip(statement.iterators, (a.evaluate(loops) for a in item.leaf.instance), strict=True))
        written, read = touched(program, statement, {**sizes, **values})
        found.append(Point(item, indices, (statement.name, tuple(values.values())), written, frozenset(read)))

    walker(program, state.tree)(sizes, visit)
    return sorted(found, key=_time)


def _time(point: Point) -> list[int]:
    """Places and indices in turn; a leaf runs for all lanes of a block before the next one does."""
    time: list[int] = []
    for place, loop, index in zip(point.item.places, point.item.loops, point.indices, strict=False):
        time += [place, 0 if loop.kind == "block" else -index if loop.descending else index]
    return [*time, point.item.places[-1]]


def unchecked(program: Program, steps: Sequence[Written], limit: int | None) -> State:
    """The state that steps ask for, legal or not; *limit*: the greatest tile size."""
    state = initial(program)
    for name, arguments in steps:
        for step in _plain(name, arguments):
            plain = list(step.arguments)
            if step.name == "split" and limit is not None:
                plain[1] = min(plain[1], limit)  # pyright: ignore[reportArgumentType]
            state, _ = apply(state, Step(step.name, tuple(plain)))
    return state


def _plain(name: str, arguments: Sequence[Any]) -> list[Step]:
    """A tile is two splits and a reorder; a skew is by 1 where nothing is said."""
    if name == "skew" and len(arguments) == 2:
        return [Step(name, (*arguments, 1))]
    if name != "tile":
        return [Step(name, tuple(arguments))]
    a, b, rows, columns = arguments
    order = (f"{a}o", f"{b}o", f"{a}i", f"{b}i")
    return [Step("split", (a, rows)), Step("split", (b, columns)), Step("reorder", order)]


def element_of(text: str) -> tuple[str, tuple[int, ...]]:
    """The element at the start of a text such as `C[0, 1] += ..`."""
    found = re.match(r"([^\s\[]+)(?:\[([-\d, ]*)\])?", text)
    assert found, text
    return found[1], tuple(int(n) for n in found[2].split(",")) if found[2] else ()


def named(points: Sequence[Point], text: str) -> int:
    """The number of the only point that a refusal names as `C[0, 1] += .. at (C.i=0, C.k=1)`."""
    head, _, at = text.strip().partition(" at (")
    element, position = element_of(head)
    pairs = (part.split("=") for part in at.rstrip(")").split(", ")) if at else ()
    where = {name: int(value) for name, value in pairs}
    fitting = [n for n, p in enumerate(points) if p.written == (element, position) and p.where == where]
    assert len(fitting) == 1, f"{text} is run {len(fitting)} times"
    return fitting[0]
