"""Running a loop tree: its loops as a Python function that visits every leaf instance in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .codegen import Bounds
from .tree import Leaf, Loop, Node, width

if TYPE_CHECKING:
    import islpy as isl

    from .program import Program

Visit = Callable[..., None]


@lru_cache(maxsize=16)
def walker(program: Program, tree: tuple[Node, ...]) -> Callable[[Mapping[str, int], Visit], None]:
    """A function of (sizes, visit) that calls visit(number of the leaf, *its loop indices) in the tree's order.

    Leaves are numbered in the order of the text.
    """
    names: dict[str, str] = {}

    def rename(name: str) -> str:
        return names.setdefault(name, f"v{len(names)}")

    lines = ["def run(sizes, visit):"]
    lines += [f"    {rename(size)} = sizes[{size!r}]" for size in program.sizes]
    bounds = Bounds(program, rename)
    _write(tree, bounds, (), bounds.start(), 1, lines, [0])
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    return namespace["run"]


def _write(
    nodes: Sequence[Node],
    bounds: Bounds,
    outer: tuple[str, ...],
    known: isl.Set,
    depth: int,
    lines: list[str],
    count: list[int],
) -> None:
    pad = "    " * depth
    if width(nodes) == 0:
        lines.append(f"{pad}pass")
    for node in nodes:
        match node:
            case Leaf():
                guard = bounds.guard(node, known)
                call = f"visit({', '.join([str(count[0]), *(bounds.rename(n) for n in node.indices)])})"
                lines.append(f"{pad}if {guard}: {call}" if guard else f"{pad}{call}")
                count[0] += 1
            case Loop():
                condition, low, high, inside = bounds.loop(node, outer, known)
                if condition:
                    lines.append(f"{pad}if {condition}:")
                    pad += "    "
                span = f"range({low}, {high})"
                span = f"reversed({span})" if node.descending else span
                lines.append(f"{pad}for {bounds.rename(node.index)} in {span}:")
                _write(node.body, bounds, (*outer, node.index), inside, len(pad) // 4 + 1, lines, count)
                pad = "    " * depth
            case _:
                _write(node.body, bounds, outer, known, depth, lines, count)
