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


def prepared(program: Program, tree: Sequence[Node]) -> list[LeafPoints]:
    statements = {s.name: s for s in program.statements}
    items = placed(tree)
    depth = max((len(item.loops) for item in items), default=0)
    found: list[LeafPoints] = []
    for number, item in enumerate(items):
        name = f"leaf{number}"
        if item.leaf.statement not in statements:
            raise failed("coverage", program, f"{item.leaf.statement} is no statement of the program")
        instances = instance_map(program, item.leaf).set_tuple_name(isl.dim_type.in_, name)
        time = _time(program, item, depth).intersect_domain(item.leaf.domain).set_tuple_name(isl.dim_type.in_, name)
        found.append(LeafPoints(name, item, statements[item.leaf.statement], instances, time))
    return found


def _time(program: Program, item: Placed, depth: int) -> isl.Map:
    entries: list[Affine] = []
    for place, loop in zip(item.places, item.loops, strict=False):
        entries += [Affine.number(place), Affine.name(loop.index).scaled(-1 if loop.descending else 1)]
    entries.append(Affine.number(item.places[-1]))
    entries += [Affine()] * (2 * depth + 1 - len(entries))
    return make_map(program.sizes, item.leaf.indices, entries, All())


def element_map(program: Program, leaf: LeafPoints, access: Access) -> isl.Map:
    """{ leaf[indices] -> buffer[iterations that have one each, position] }."""
    scope = leaf.item.scope(access.tensor)
    relation = plain_map(program, leaf, access)
    whole = scope_map(program, leaf, scope).flat_range_product(relation) if scope else relation
    return whole.set_tuple_name(isl.dim_type.out, buffer_name(access.tensor, scope))


def plain_map(program: Program, leaf: LeafPoints, access: Access) -> isl.Map:
    """{ leaf[indices] -> tensor[position] }."""
    return leaf.instances.apply_range(program.relation(leaf.statement, access))


def scope_map(program: Program, leaf: LeafPoints, scope: Sequence[str]) -> isl.Map:
    """{ leaf[indices] -> the iterations that have a buffer each }."""
    images = [Affine.name(n) for n in scope]
    return make_map(program.sizes, leaf.item.leaf.indices, images, All(), source=leaf.name, target="scope")


def buffer_name(tensor: str, scope: Sequence[str]) -> str:
    return f"{tensor} in {len(scope)}"
