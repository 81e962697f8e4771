"""A schedule as text: the loop nest with its buffers, and what each loop carries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..compiler.ir.affine import budget
from ..compiler.ir.codegen import Bounds
from ..compiler.ir.show import statement_text
from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, Roles
from .dependence import OPERATIONS
from .footprint import extents
from .legality import Report, examine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import islpy as isl

    from .state import State


def schedule_text(state: State) -> str:
    """The loop nest; behind each loop its class (par, red, seq) and how it runs."""
    bounds = Bounds(state.program)
    report = examine(state)
    with budget(OPERATIONS):
        return "\n".join(_lines(state, state.tree, bounds, report, (), bounds.start(), 0))


def _lines(
    state: State,
    nodes: Sequence[Node],
    bounds: Bounds,
    report: Report | None,
    outer: tuple[str, ...],
    known: isl.Set,
    depth: int,
) -> Iterator[str]:
    pad = "    " * depth
    for node in nodes:
        match node:
            case Leaf():
                yield f"{pad}{_leaf(state, node, bounds, known)}"
            case Loop():
                condition, low, high, inside = bounds.loop(node, outer, known)
                head = f"{pad}for {node.index} in {low}..{high}{', descending' if node.descending else ''}:"
                notes = [report.loop_class(node.index)] if report else []
                notes += [] if node.kind == "serial" else [f"{node.kind}{' ' + node.target if node.target else ''}"]
                notes += ["fused with the next"] if node.fused else []
                notes += [f"a pipeline of {node.stages} stages"] if node.stages > 1 else []
                notes += [_roles(state, node.roles)] if node.roles else []
                notes += [f"where {condition}"] if condition else []
                yield f"{head:60}  # {', '.join(notes)}" if notes else head
                yield from _lines(state, node.body, bounds, report, (*outer, node.index), inside, depth + 1)
            case _:
                where = ", new in each iteration" if outer else ""
                layout = f", {node.storage}" if str(node.storage) else ""
                yield f"{pad}buffer {node.tensor}: {_size(state, node, outer, known)}{where}{layout}"
                yield from _lines(state, node.body, bounds, report, outer, known, depth)


def _roles(state: State, roles: Roles) -> str:
    """`roles: 1 producer, 2 consumers, an epilogue of Y`."""
    stages = sorted({state.program.statement(name).stage for name in roles.epilogue})
    consumers = f"{roles.consumers} consumer{'s' if roles.consumers > 1 else ''}"
    return ", ".join(["roles: 1 producer", consumers, *([f"an epilogue of {' and '.join(stages)}"] if stages else [])])


def _size(state: State, node: Alloc, outer: tuple[str, ...], known: isl.Set) -> str:
    """`bf16[64, 32]`, and how many bytes that is where they are known; folded dimensions by what they are folded to."""
    dtype = state.program.tensors[node.tensor].dtype
    counts = extents(state.program, node.body, node.tensor, outer, known)
    if counts is None:
        return f"{dtype}, empty"
    folded = dict(node.storage.fold)
    counts = [str(folded[d]) if d in folded else count for d, count in enumerate(counts)]
    shape = f"[{', '.join(counts)}]" if counts else ""
    if not all(c.isdigit() for c in counts):
        return f"{dtype}{shape}"
    size = math.prod(int(c) for c in counts) * dtype.bits // 8
    return f"{dtype}{shape}, {f'{size} bytes' if size % 1024 else f'{size // 1024} KiB'}"


def _leaf(state: State, leaf: Leaf, bounds: Bounds, known: isl.Set) -> str:
    statement = state.program.statement(leaf.statement)
    pairs = zip(statement.iterators, leaf.instance, strict=True)
    where = [f"{n} = {a}" for n, a in pairs if str(a) != f"{statement.stage}.{n}"]
    guard = bounds.guard(leaf, known)
    text = statement_text(statement)
    text += f"   where {', '.join(where)}" if where else ""
    return f"if {guard}: {text}" if guard else text


def tree_text(state: State) -> str:
    """The loop nest without classes."""
    bounds = Bounds(state.program)
    return "\n".join(_lines(state, state.tree, bounds, None, (), bounds.start(), 0))


_COLOURS = {"par": 32, "red": 33, "seq": 31}


def coloured(text: str) -> str:
    """A printed schedule with the terminal's colours: classes of loops, buffers."""

    def line(one: str) -> str:
        if one.lstrip().startswith("buffer "):
            return f"\x1b[36m{one}\x1b[0m"
        head, mark, notes = one.partition("  # ")
        kind, comma, rest = notes.partition(", ")
        if not mark or kind not in _COLOURS:
            return one
        return f"{head}{mark}\x1b[{_COLOURS[kind]}m{kind}\x1b[0m{comma}{rest}"

    return "\n".join(map(line, text.split("\n")))
