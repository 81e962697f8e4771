"""What a loop tree computes, as symbols: which instance read which values, by plain enumeration at small sizes.

The value of an element is named by the instance that wrote it and the values that it read, all the way down. Two
trees with the same names for all outputs compute the same, operation by operation, in the same order of every
reduction. Neither the bounds of loops nor dependences are used: the points of a leaf are listed one by one, and
sorted by where the tree puts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import islpy as isl
from tilewright.compiler.ir.nest import definition_tree
from tilewright.compiler.ir.tree import placed

from ..passes.enumeration import Element, touched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewright.compiler.ir.program import Program, Statement
    from tilewright.compiler.ir.tree import Leaf, Node, Placed

Point = tuple[int, ...]
SPREAD = ("parallel", "vector", "bind", "block")
LIMIT = 600
# The orders in which iterations that run at once are tried.
ORDERS = ("text", "backwards", "in step", "ahead")


class TooLargeError(Exception):
    """More points than are worth listing."""


def points(program: Program, leaf: Leaf, sizes: Mapping[str, int]) -> list[Point]:
    """The points of a leaf at these sizes, in no order.

    Raises:
        TooLargeError: there are more than LIMIT.
    """
    domain = leaf.domain
    for name in program.sizes:
        position = domain.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0:
            domain = domain.fix_val(isl.dim_type.param, position, isl.Val(sizes[name]))
    if domain.is_empty():
        return []
    found: list[Point] = []
    rank = len(leaf.indices)

    def add(point: isl.Point) -> None:
        at = (point.get_coordinate_val(isl.dim_type.set, i) for i in range(rank))
        found.append(tuple(int(v.to_python()) for v in at))

    count = domain.count_val().to_python()
    if count > LIMIT:
        raise TooLargeError(count)
    domain.foreach_point(add)
    return found


def relaxed(program: Program, statement: Statement) -> bool:
    """Whether the updates of a statement may run in any order: it is granted, or the operator does not care."""
    reduction = statement.reduction
    if reduction is None or statement.kind not in ("update", "merge") or reduction.order.kind == "mma":
        return False
    dtype = program.tensors[statement.tensor].dtype
    exact = reduction.op not in ("sum", "prod") or dtype.is_int
    return exact or "reassociate" in program.permissions or "reassociate" in reduction.permissions


@dataclass
class Symbols:
    """The trees of one program at one tuple of sizes. Names are numbers: equal ones stand for equal values."""

    program: Program
    sizes: Mapping[str, int]
    names: dict[object, int] = field(default_factory=dict)  # pyright: ignore
    known: dict[tuple[str, Point], tuple[Element, list[Element]]] = field(default_factory=dict)  # pyright: ignore
    definition: dict[bool, dict[Element, int]] = field(default_factory=dict)  # pyright: ignore

    def name(self, key: object) -> int:
        return self.names.setdefault(key, len(self.names))

    def touches(self, statement: Statement, instance: Point) -> tuple[Element, list[Element]]:
        """What an instance writes, and what it reads."""
        key = statement.name, instance
        if key not in self.known:
            values = {**self.sizes, **dict(zip(statement.iterators, instance, strict=True))}
            written, read = touched(self.program, statement, values)
            self.known[key] = written, sorted(read)
        return self.known[key]

    def defined(self, strict: bool = False) -> dict[Element, int]:
        """What the definition's own tree gives.

        Raises:
            TooLargeError: it has too many points.
        """
        if strict not in self.definition:
            self.definition[strict] = self.run(definition_tree(self.program), strict=strict)
        return self.definition[strict]

    def run(self, tree: Sequence[Node], order: str = "text", strict: bool = False) -> dict[Element, int]:
        """The name of every element of every output.

        *order*: how the iterations of loops that run at once take turns. *strict*: every reduction has an order.

        Raises:
            TooLargeError: there are too many points.
        """
        statements = {s.name: s for s in self.program.statements}
        todo: list[tuple[tuple[int, ...], Placed, Point]] = []
        for item in placed(tree):
            todo += [(moment(item, at, order), item, at) for at in points(self.program, item.leaf, self.sizes)]
            if len(todo) > LIMIT:
                raise TooLargeError(len(todo))
        todo.sort(key=lambda entry: entry[0])
        store: dict[tuple[Point, Element], int] = {}
        # What a total started from, its terms, and the instances that added them.
        sums: dict[int, tuple[int, tuple[int, ...], tuple[Point, ...]]] = {}
        free = {s.name: not strict and relaxed(self.program, s) for s in self.program.statements}
        for _, item, at in todo:
            where = {**self.sizes, **dict(zip(item.leaf.indices, at, strict=True))}
            instance = tuple(a.evaluate(where) for a in item.leaf.instance)
            statement = statements[item.leaf.statement]
            written, read = self.touches(statement, instance)
            found = {e: self.seen(store, place(item, at, e), e) for e in read}
            target = place(item, at, written)
            if free[statement.name] and written in found:
                before = found.pop(written)
                start, terms, added = sums.get(before, (before, (), ()))
                best = statement.reduction.best if statement.reduction else ""
                for element in [e for e in found if e[0] == best]:
                    # An index goes by the best of the elements that it has seen, whatever their order.
                    origin, _, held = sums.get(found[element], (found[element], (), ()))
                    found[element] = origin if held == added else found[element]
                term = self.name((statement.name, instance, tuple(found.values())))
                total = tuple(sorted((*terms, term)))
                store[target] = self.name(("in any order", start, total))
                sums[store[target]] = start, total, tuple(sorted((*added, instance)))
            else:
                store[target] = self.name((statement.name, instance, tuple(found.values())))
        return {e: value for (scope, e), value in store.items() if not scope and e[0] in self.program.outputs}

    @cached_property
    def written(self) -> set[Element]:
        """What the definition writes. Of anything else a read does not matter: it stands in a branch not taken.

        Raises:
            TooLargeError: it has too many points.
        """
        found: set[Element] = set()
        for item in placed(definition_tree(self.program)):
            statement = self.program.statement(item.leaf.statement)
            for at in points(self.program, item.leaf, self.sizes):
                where = {**self.sizes, **dict(zip(item.leaf.indices, at, strict=True))}
                found.add(self.touches(statement, tuple(a.evaluate(where) for a in item.leaf.instance))[0])
        return found

    def seen(self, store: Mapping[tuple[Point, Element], int], where: tuple[Point, Element], element: Element) -> int:
        """The name of what a read finds."""
        found = store.get(where) if element in self.written else None
        return self.name(("as given", element)) if found is None else found


def place(item: Placed, at: Point, element: Element) -> tuple[Point, Element]:
    """Where a leaf finds an element: the iterations that its buffer is for, and its place there."""
    depth = dict(item.scopes).get(element[0], 0)
    scope = tuple(i % loop.stages if loop.stages > 1 else i for i, loop in zip(at[:depth], item.loops, strict=False))
    fold = dict(item.storage(element[0]).fold)
    return scope, (element[0], tuple(p % fold[d] if d in fold else p for d, p in enumerate(element[1])))


def moment(item: Placed, at: Point, order: str) -> tuple[int, ...]:
    """When a point of a leaf runs: comparable between all points of a tree."""
    time: list[int] = []
    turn: list[int] = []
    for place, loop, value in zip(item.places, item.loops, at, strict=False):
        signed = -value if loop.descending else value
        if loop.kind in SPREAD and order == "backwards":
            signed = -signed
        if order == "ahead" and loop.stages > 1 and item.leaf.statement not in loop.ahead:
            signed += loop.stages - 1
        if loop.kind == "block" or (loop.kind in SPREAD and order == "in step"):
            turn.append(signed)
            signed = 0
        time += [place, signed]
    return (*time, item.places[-1], *turn)
