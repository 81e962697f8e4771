"""Rows that are read again are followed by the next: it is asked for ahead.

Where a loop reads an input a second time, it finds that in a cache, and memory has nothing to do. So what the loop will
read there in its next iteration is fetched meanwhile. A fetch of what is no element does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.tree import placed
from .memory import places_of, where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.program import Access, Program
    from ...compiler.ir.tree import Node, Placed
    from .memory import Buffer
    from .positions import Positions

# For each leaf, by identity, what it reads again, and the loop whose next iteration reads what follows.
Again = dict[int, list[tuple["Access", str]]]


def read_again(program: Program, tree: Sequence[Node]) -> Again:
    """The reads of inputs that another leaf of the same iteration has made before."""
    found: Again = {}
    before: dict[str, list[Placed]] = {}
    for item in placed(tree):
        for access in program.statement(item.leaf.statement).accesses:
            if access.kind != "read" or program.tensors[access.tensor].role != "input" or None in access.affine:
                continue
            loops = [_shared(program, item, access, other) for other in before.get(access.tensor, [])]
            deepest = max((n for n in loops if n is not None), default=None)
            if deepest is not None:
                found.setdefault(id(item.leaf), []).append((access, item.loops[deepest].index))
            before.setdefault(access.tensor, []).append(item)
    return found


def _shared(program: Program, item: Placed, access: Access, other: Placed) -> int | None:
    """The deepest loop round both leaves on which it hangs what is read."""
    if other.leaf is item.leaf:
        return None
    instance = dict(zip(program.statement(item.leaf.statement).iterators, item.leaf.instance, strict=True))
    names = {n for place in access.affine if place is not None for n in place.substituted(instance).names()}
    found: int | None = None
    for place, (one, two) in enumerate(zip(item.loops, other.loops, strict=False)):
        if one is not two:
            break
        if one.index in names and one.kind in ("serial", "parallel"):
            found = place
    return found


def fetch(
    p: Positions, buffers: Mapping[str, Buffer], bound: Mapping[str, Affine], again: Sequence[tuple[Access, str]]
) -> None:
    """Ask for what the next iterations will read, in the lanes of a vector loop that reads elements side by side."""
    for access, loop in again:
        buffer = buffers[access.tensor]
        position = [place.substituted(bound) for place in access.affine if place is not None]
        ahead = [place.substituted({loop: Affine.name(loop) + 1}) for place in position]
        found = where(p, buffer, places_of(p, buffer, ahead))
        if found.step is not None and found.step.text == "1":
            pointer = p.b.made(f"getelementptr {buffer.type}, ptr {buffer.pointer}, {found.first}", "ptr")
            p.b.declared["llvm.prefetch.p0"] = "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"
            p.b.line(f"call void @llvm.prefetch.p0({pointer}, i32 0, i32 3, i32 1)")
