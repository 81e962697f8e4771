"""What a tree must look like, whatever step made it: marks that still make sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves, loops
from .mark import rectangular
from .roles import require_roles
from .state import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .state import State


def require_structure(step: str, state: State) -> None:
    """Check a tree's marks after a step.

    Raises:
        IllegalTransformError: a vector loop holds loops, fused loops have come apart, or two loops of one nest are
            bound to one axis, or roles stand where none can (rule shape).
    """
    for loop in loops(state.tree):
        if loop.kind == "vector" and not loop.fused and any(True for _ in loops(loop.body)):
            raise shape(step, f"{loop.index} runs in vector lanes and would hold loops", "vectorize last")
        if loop.kind == "block":
            _require_block(step, loop)
        if loop.fused:
            _require_fused(step, loop)
    _require_axes(step, state.tree, {}, False)
    require_roles(step, state)


def _require_block(step: str, loop: Loop) -> None:
    """A tile's axis: nothing inside runs one after the other but whole leaves."""
    if any(isinstance(node, Alloc) for node in _below(loop.body)):
        text = f"{loop.index} is an axis of a tile: its lanes have no buffers of their own"
        raise shape(step, text, "store the tensor at a loop outside the tile")
    other = next((inner for inner in loops(loop.body) if inner.kind != "block"), None)
    if other is not None:
        text = f"{loop.index} is an axis of a tile and would hold the loop {other.index}, which is none"
        raise shape(step, text, f"reorder {other.index} outwards, or block it too")


def _below(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if not isinstance(node, Leaf):
            yield from _below(node.body)


def _require_fused(step: str, loop: Loop) -> None:
    inner = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(inner, Loop):
        raise shape(step, f"{loop.index} is fused with the loop inside it, which would not be alone there", "fuse last")
    if loop.kind != inner.kind or loop.descending or inner.descending:
        raise shape(step, f"{loop.index} and {inner.index} are fused: they run in one way", "fuse last")
    if not all(rectangular(leaf, loop.index, inner.index) for leaf in leaves((inner,))):
        raise shape(
            step, f"the range of {inner.index} would depend on {loop.index}, with which it is fused", "fuse last"
        )


def _require_axes(step: str, nodes: Sequence[Node], bound: dict[str, str], within_fused: bool) -> None:
    for node in nodes:
        if isinstance(node, Leaf):
            continue
        inside = bound
        if isinstance(node, Loop) and node.kind == "bind":
            if node.target in bound and not within_fused:
                raise shape(step, f"{bound[node.target]} and {node.index} would both be bound to {node.target}")
            inside = {**bound, node.target: node.index}
        _require_axes(step, node.body, inside, isinstance(node, Loop) and node.fused)
