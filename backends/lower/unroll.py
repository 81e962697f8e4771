"""Unrolled loops written out, where that makes tiles of a tensor: each iteration's part of it is a tile of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import TRUE, Affine
from ...compiler.ir.tree import Leaf, Loop, leaves
from ...passes.footprint import indices_of
from ...passes.state import reindexed
from .extents import greatest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Node

MOST = 32  # iterations that are written out


def unrolled(program: Program, tree: Sequence[Node]) -> tuple[Node, ...]:
    """The tree with the iterations of an unrolled loop after one another, if the loop says which part of a private
    tensor is used, and has a constant bound that is not large. Other unrolled loops stay as they are."""
    return tuple(made for node in tree for made in _unrolled(program, node))


def _unrolled(program: Program, node: Node) -> Iterator[Node]:
    if isinstance(node, Leaf):
        yield node
        return
    body = unrolled(program, node.body)
    last = greatest(program, node) if isinstance(node, Loop) and node.kind == "unroll" else None
    if not isinstance(node, Loop) or last is None or last >= MOST or not _picks(program, node):
        yield replace(node, body=body)
        return
    order = range(last, -1, -1) if node.descending else range(last + 1)
    for number in order:
        made = reindexed(program, body, node.index, (), Affine.number(number), TRUE)
        if any(not leaf.domain.is_empty() for leaf in leaves(made)):
            yield from made


def _picks(program: Program, loop: Loop) -> bool:
    """Whether a position in a private tensor is another one in each iteration."""
    given = {n for n, t in program.tensors.items() if t.role in ("input", "constant")}
    private = program.tensors.keys() - given - set(program.outputs)
    return any(loop.index in indices_of(program, loop.body, tensor) for tensor in private)
