"""The points of a placed tree as the final check sees them: each leaf with its instances, its times and its buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map
from ..compiler.ir.quasiaffine import Affine, All
from ..compiler.ir.tree import Node, Placed, instance_map, placed
from .refusal import IllegalTransformError, Refusal, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Access, Program, Statement


@dataclass(frozen=True, eq=False)
class LeafPoints:
    """A leaf prepared for the flow computation; its space is named for its number."""

    name: str
    item: Placed
    statement: Statement
    instances: isl.Map  # { name[indices] -> statement[iterators] }
    time: isl.Map  # { name[indices] -> [place, index, ..] }


def failed(rule: Rule, program: Program, message: str) -> IllegalTransformError:
    return IllegalTransformError(Refusal(rule, "final check", message, program.span, kernel=program.name))


def prepared(program: Program, tree: Sequence[Node], ahead: bool = False) -> list[LeafPoints]:
    """The leaves of a tree. *ahead*: what a pipeline runs ahead does so, as far as its marks allow."""
    statements = {s.name: s for s in program.statements}
    items = placed(tree)
    depth = max((len(item.loops) for item in items), default=0)
    found: list[LeafPoints] = []
    for number, item in enumerate(items):
        name = f"leaf{number}"
        if item.leaf.statement not in statements:
            raise failed("coverage", program, f"{item.leaf.statement} is no statement of the program")
        instances = instance_map(program, item.leaf).set_tuple_name(isl.dim_type.in_, name)
        time = _time(program, item, depth, ahead).intersect_domain(item.leaf.domain)
        time = time.set_tuple_name(isl.dim_type.in_, name)
        found.append(LeafPoints(name, item, statements[item.leaf.statement], instances, time))
    return found


def _time(program: Program, item: Placed, depth: int, ahead: bool) -> isl.Map:
    """Places and indices in turn; the lanes of blocks last: a leaf runs for all of them before the next one does."""
    entries: list[Affine] = []
    lanes: list[Affine] = []
    for place, loop in zip(item.places, item.loops, strict=False):
        value = Affine.name(loop.index).scaled(-1 if loop.descending else 1)
        if loop.kind == "block":
            lanes.append(value)
            value = Affine()
        if ahead and loop.stages > 1 and item.leaf.statement not in loop.ahead:
            value += loop.stages - 1
        entries += [Affine.number(place), value]
    entries.append(Affine.number(item.places[-1]))
    entries += [Affine()] * (2 * depth + 1 - len(entries))
    entries += lanes + [Affine()] * (depth - len(lanes))
    return make_map(program.sizes, item.leaf.indices, entries, All())


def element_map(program: Program, leaf: LeafPoints, access: Access) -> isl.Map:
    """{ leaf[indices] -> buffer[iterations that have one each, position], folded as the buffer is }."""
    scope = leaf.item.scope(access.tensor)
    relation = plain_map(program, leaf, access)
    whole = scope_map(program, leaf, scope).flat_range_product(relation) if scope else relation
    return in_places(program, leaf, access.tensor, whole)


def in_places(program: Program, leaf: LeafPoints, tensor: str, elements: isl.Map) -> isl.Map:
    """The elements of a buffer by the places that they have in it."""
    scope = leaf.item.scope(tensor)
    stages = [loop.stages for loop in leaf.item.loops[: len(scope)]]
    fold = dict(leaf.item.storage(tensor).fold)
    elements = elements.reset_tuple_id(isl.dim_type.out)
    if fold or any(count > 1 for count in stages):
        count = program.tensors[tensor].rank
        names = [*(f"version{n}" for n in range(len(scope))), *(f"position{n}" for n in range(count))]
        moduli = [*(n if n > 1 else 0 for n in stages), *(fold.get(d, 0) for d in range(count))]
        images = [Affine.name(n).divided("%", m) if m else Affine.name(n) for n, m in zip(names, moduli, strict=True)]
        elements = elements.apply_range(make_map(program.sizes, names, images, All()))
    return elements.set_tuple_name(isl.dim_type.out, buffer_name(tensor, scope))


def plain_map(program: Program, leaf: LeafPoints, access: Access) -> isl.Map:
    """{ leaf[indices] -> tensor[position] }."""
    return leaf.instances.apply_range(program.relation(leaf.statement, access))


def scope_map(program: Program, leaf: LeafPoints, scope: Sequence[str]) -> isl.Map:
    """{ leaf[indices] -> the iterations that have a buffer each }."""
    images = [Affine.name(n) for n in scope]
    return make_map(program.sizes, leaf.item.leaf.indices, images, All(), source=leaf.name, target="scope")


def buffer_name(tensor: str, scope: Sequence[str]) -> str:
    return f"{tensor} in {len(scope)}"
