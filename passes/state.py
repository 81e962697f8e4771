"""What a step works on: a program and the loop tree that runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..compiler.ir.affine import make_map
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.quasiaffine import Affine, Formula
from ..compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves, loops, map_leaves
from .refusal import IllegalTransformError, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.span import Span


@dataclass(frozen=True)
class Need:
    """A permission that the last step needs and does not have: for which equation, where, and what it would do."""

    permission: str
    stage: str
    span: Span | None
    text: str


@dataclass(frozen=True, eq=False)
class State:
    """A program and its placed tree. Steps are functions from a state to a state."""

    program: Program
    tree: tuple[Node, ...]
    needs: tuple[Need, ...] = ()

    @property
    def loop_names(self) -> list[str]:
        return [loop.index for loop in loops(self.tree)]


def initial(program: Program) -> State:
    """The state of the definition."""
    return State(program, definition_tree(program))


def shape(step: str, message: str, remedy: str | None = None) -> IllegalTransformError:
    """The refusal of an ill-formed request."""
    return IllegalTransformError(Refusal("shape", step, message, remedy=remedy))


def find_loop(state: State, name: str, step: str) -> Loop:
    """The loop of that name.

    Raises:
        IllegalTransformError: there is none (rule shape); near names are suggested.
    """
    for loop in loops(state.tree):
        if loop.index == name:
            return loop
    names = state.loop_names
    near = get_close_matches(name, names, 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the loops are {', '.join(names)}"
    raise shape(step, f"there is no loop {name}", hint)


def path_to(tree: Sequence[Node], name: str) -> list[Loop]:
    """The loops from the root down to the loop of that name, both included."""
    for node in tree:
        if isinstance(node, Leaf):
            continue
        found = path_to(node.body, name)
        if isinstance(node, Loop):
            if node.index == name:
                return [node]
            if found:
                return [node, *found]
        elif found:
            return found
    return []


def replace_loop(tree: Sequence[Node], name: str, change: Callable[[Loop], Iterable[Node]]) -> tuple[Node, ...]:
    """The tree with the loop of that name replaced by what change makes of it."""
    result: list[Node] = []
    for node in tree:
        if isinstance(node, Leaf):
            result.append(node)
        elif isinstance(node, Loop) and node.index == name:
            result += change(node)
        else:
            result.append(replace(node, body=replace_loop(node.body, name, change)))
    return tuple(result)


def reindexed(
    program: Program,
    nodes: Sequence[Node],
    old: str,
    new: tuple[str, ...],
    value: Affine,
    condition: Formula,
) -> tuple[Node, ...]:
    """The nodes with loop index *old* expressed by the indices *new*: old = value, where condition holds."""

    def change(leaf: Leaf) -> Leaf:
        at = leaf.indices.index(old)
        indices = (*leaf.indices[:at], *new, *leaf.indices[at + 1 :])
        images = [value if n == old else Affine.name(n) for n in leaf.indices]
        relation = make_map(program.sizes, indices, images, condition)
        instance = tuple(a.substituted({old: value}) for a in leaf.instance)
        return Leaf(leaf.statement, indices, relation.intersect_range(leaf.domain).domain(), instance)

    return map_leaves(nodes, change)


def renamed(nodes: Sequence[Node], names: dict[str, str]) -> tuple[Node, ...]:
    """The nodes with loop indices renamed (dimensions of leaf domains are addressed by position: only names change)."""
    result: list[Node] = []
    for node in nodes:
        match node:
            case Leaf():
                indices = tuple(names.get(n, n) for n in node.indices)
                instance = tuple(a.renamed(names) for a in node.instance)
                result.append(Leaf(node.statement, indices, node.domain, instance))
            case Loop():
                index = names.get(node.index, node.index)
                result.append(replace(node, index=index, body=renamed(node.body, names)))
            case Alloc():
                result.append(replace(node, body=renamed(node.body, names)))
    return tuple(result)


def stages_below(program: Program, nodes: Sequence[Node]) -> set[str]:
    """The stages that have a leaf among the nodes."""
    stage_of = {s.name: s.stage for s in program.statements}
    return {stage_of[leaf.statement] for leaf in leaves(nodes)}
