"""The loop tree: a schedule as nested loops with placed statements. Immutable; isl objects inside.

A `Leaf` is one placed copy of a statement: the loops around it, its domain over them, and the instance of the
statement that each of its points runs. Where work is computed again that map is not injective, and nothing else
is special about it. Bounds of loops are not stored: they follow from the domains of the leaves below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from .affine import make_map
from .quasiaffine import Affine, All
from .storage import PLAIN, Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    import islpy as isl

    from .program import Program

Kind = Literal["serial", "parallel", "vector", "unroll", "bind", "block"]


@dataclass(frozen=True, eq=False)
class Leaf:
    """A placed statement. *indices*: the loops around it, outermost first; *instance*: its iterators over them."""

    statement: str
    indices: tuple[str, ...]
    domain: isl.Set
    instance: tuple[Affine, ...]


@dataclass(frozen=True)
class Roles:
    """Who runs the body around a pipelined loop, all at once: one part loads what the pipeline loads ahead, *consumers*
    share the rest of the tile, and one more, where there are statements for it, runs those of the *epilogue*."""

    consumers: int
    epilogue: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop; its index is unique in the tree. *fused*: printed as one loop with the only loop inside it."""

    index: str
    body: tuple[Node, ...]
    kind: Kind = "serial"
    descending: bool = False
    fused: bool = False
    # What the mark is bound to, for kind bind ("grid.x").
    target: str = ""
    # A pipeline of this many iterations in flight: the statements *ahead* run *stages* - 1 of them before the others.
    stages: int = 1
    ahead: frozenset[str] = frozenset()
    roles: Roles | None = None


@dataclass(frozen=True, eq=False)
class Alloc:
    """Inside, the tensor is private: one buffer for each iteration of the loops around (outside every loop: one)."""

    tensor: str
    body: tuple[Node, ...]
    storage: Storage = PLAIN


Node = Loop | Leaf | Alloc


@dataclass(frozen=True)
class Placed:
    """A leaf with its surroundings: the loops around it, its place among its neighbours at each level, private tensors.

    *places* has one entry more than *loops*. *scopes*: tensor with a buffer of its own -> the number of loops around
    that. *storages*: how those buffers are laid out.
    """

    leaf: Leaf
    loops: tuple[Loop, ...]
    places: tuple[int, ...]
    scopes: tuple[tuple[str, int], ...]
    storages: tuple[tuple[str, Storage], ...] = ()

    def scope(self, tensor: str) -> tuple[str, ...]:
        """The loops whose iterations have a buffer each for this tensor (none: it is shared)."""
        found = dict(self.scopes).get(tensor, 0)
        return tuple(loop.index for loop in self.loops[:found])

    def storage(self, tensor: str) -> Storage:
        """How the buffer of this tensor is laid out."""
        return dict(self.storages).get(tensor, PLAIN)

    def versions(self, tensor: str) -> tuple[int, ...]:
        """For each loop of the scope, how many of its iterations have buffers at one time (0: all may have)."""
        return tuple(loop.stages if loop.stages > 1 else 0 for loop in self.loops[: len(self.scope(tensor))])

    def lag(self, level: int) -> int:
        """How many iterations of the loop at this level run ahead of the leaf."""
        loop = self.loops[level]
        return 0 if self.leaf.statement in loop.ahead else loop.stages - 1


def leaves(nodes: Sequence[Node]) -> Iterator[Leaf]:
    """The leaves in the order of the text."""
    for node in nodes:
        if isinstance(node, Leaf):
            yield node
        else:
            yield from leaves(node.body)


def loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    """The loops, outer ones first."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
        if not isinstance(node, Leaf):
            yield from loops(node.body)


def allocs(nodes: Sequence[Node]) -> list[Alloc]:
    """The scopes of private tensors, outer ones first."""
    found: list[Alloc] = []
    for node in nodes:
        if isinstance(node, Alloc):
            found.append(node)
        if not isinstance(node, Leaf):
            found += allocs(node.body)
    return found


def at_root(tree: Sequence[Node]) -> list[str]:
    """The tensors with a buffer outside every loop."""
    found: dict[str, None] = {}
    stack = list(tree)
    while stack:
        node = stack.pop(0)
        if isinstance(node, Alloc):
            found[node.tensor] = None
            stack = [*node.body, *stack]
    return list(found)


def opened(nodes: Sequence[Node]) -> Iterator[Leaf | Loop]:
    """The outermost loops and leaves, those inside a buffer too."""
    for node in nodes:
        if isinstance(node, Alloc):
            yield from opened(node.body)
        else:
            yield node


def placed(nodes: Sequence[Node]) -> tuple[Placed, ...]:
    """Every leaf with its surroundings, in the order of the text."""
    return tuple(_placed(nodes, (), (), (), (), 0))


def _placed(
    nodes: Sequence[Node],
    around: tuple[Loop, ...],
    places: tuple[int, ...],
    scopes: tuple[tuple[str, int], ...],
    storages: tuple[tuple[str, Storage], ...],
    first: int,
) -> Iterator[Placed]:
    # An Alloc opens no level: its members take their places among its neighbours.
    place = first
    for node in nodes:
        match node:
            case Leaf():
                yield Placed(node, around, (*places, place), scopes, storages)
                place += 1
            case Loop():
                yield from _placed(node.body, (*around, node), (*places, place), scopes, storages, 0)
                place += 1
            case Alloc():
                inside = (*scopes, (node.tensor, len(around)))
                layouts = (*storages, (node.tensor, node.storage))
                yield from _placed(node.body, around, places, inside, layouts, place)
                place += width(node.body)


def width(nodes: Sequence[Node]) -> int:
    """How many places a body takes among its neighbours."""
    return sum(width(n.body) if isinstance(n, Alloc) else 1 for n in nodes)


def instance_map(program: Program, leaf: Leaf) -> isl.Map:
    """{ [indices] -> statement[iterators] }."""
    whole = make_map(program.sizes, leaf.indices, leaf.instance, All(), target=leaf.statement)
    return whole.intersect_domain(leaf.domain)


def fresh(wanted: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number that makes it new."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{number}"
    return name


def distributed(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The tree with block loops round each leaf for itself: it runs for all lanes before the next one does."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf):
            result.append(node)
            continue
        body = distributed(node.body)
        if isinstance(node, Loop) and node.kind == "block":
            result += [replace(node, body=(member,)) for member in body]
        else:
            result.append(replace(node, body=body))
    return tuple(result)


def map_leaves(nodes: Sequence[Node], change: Callable[[Leaf], Node]) -> tuple[Node, ...]:
    """The tree with every leaf replaced by change(leaf)."""
    return tuple(change(n) if isinstance(n, Leaf) else replace(n, body=map_leaves(n.body, change)) for n in nodes)
