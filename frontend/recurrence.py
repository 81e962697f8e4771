"""The order in which the definition computes its equations; recurrences get common loops.

A recurrence is accepted if an order *index by index* exists: a position, the same in every tensor of the
circle, along which (up or down) every element comes after what it reads; dependences that stay at an equal
position are ordered by the next position or by the order of the equations.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, make_map
from ..compiler.ir.expr import Index, Read
from ..compiler.ir.program import Nested, Shared, Stage
from .bounds import domain_formula, image, names_of, reads_of
from .circles import Edge, no_order
from .diagnostic import Fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .scope import Scope
    from .syntax import Equation


def computation_order(stages: Sequence[tuple[Equation, Stage]], scope: Scope) -> tuple[Nested, ...]:
    """The stages in an order that computes each after what it reads.

    Raises:
        Fault: a tensor is used above its definition, or a recurrence has no order.
    """
    by_name = {stage.name: stage for _, stage in stages}
    of_tensor: dict[str, list[str]] = {}
    for _, stage in stages:
        of_tensor.setdefault(stage.tensor, []).append(stage.name)
    needs = {name: _needs(stage, of_tensor) for name, stage in by_name.items()}
    components = _components(list(by_name), needs)
    _check_use_before(stages, components, scope)
    order: list[Nested] = []
    for component in components:
        if len(component) == 1 and component[0] not in needs[component[0]]:
            order.append(component[0])
            continue
        _check_gathers(component, by_name, of_tensor, scope)
        equations = {stage.name: equation for equation, stage in stages if stage.name in component}
        try:
            with budget():
                edges = _edges(component, by_name, of_tensor, scope)
                order += _solve(component, edges, by_name, equations, scope)
        except UndecidedError:
            at = next(iter(equations.values())).at
            raise Fault(at, "the order of this recurrence could not be decided", "write simpler subscripts") from None
    return tuple(order)


def _needs(stage: Stage, of_tensor: Mapping[str, list[str]]) -> list[str]:
    found: dict[str, None] = {}
    for read, _ in reads_of(stage):
        found.update(dict.fromkeys(of_tensor.get(read.tensor, ())))
    return list(found)


def _components(nodes: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Strongly connected components, producers first, ties in the order of *nodes* (Tarjan 1972, iterative)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    result: list[list[str]] = []
    position = {n: i for i, n in enumerate(nodes)}
    for root in nodes:
        if root in number:
            continue
        work: list[tuple[str, Iterator[str]]] = [(root, iter(needs[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    start = path.index(node)
                    members = path[start:]
                    del path[start:]
                    on_path.difference_update(members)
                    result.append(sorted(members, key=position.__getitem__))
            elif following not in position:
                continue
            elif following not in number:
                number[following] = low[following] = len(number)
                path.append(following)
                on_path.add(following)
                work.append((following, iter(needs[following])))
            elif following in on_path:
                low[node] = min(low[node], number[following])
    return result


def _check_use_before(stages: Sequence[tuple[Equation, Stage]], components: list[list[str]], scope: Scope) -> None:
    """Refuse a read of a tensor whose first equation stands further down, outside recurrences."""
    home = {name: i for i, members in enumerate(components) for name in members}
    first: dict[str, int] = {}
    names: dict[str, list[str]] = {}
    for number, (_, stage) in enumerate(stages):
        first.setdefault(stage.tensor, number)
        names.setdefault(stage.tensor, []).append(stage.name)
    for number, (_, stage) in enumerate(stages):
        for read, _ in reads_of(stage):
            if first.get(read.tensor, -1) <= number:
                continue
            if any(home[producer] == home[stage.name] for producer in names[read.tensor]):
                continue
            raise Fault(_place(read, scope), f"'{read.tensor}' is used before it is defined", "move its equation up")


def _check_gathers(
    component: list[str], by_name: Mapping[str, Stage], of_tensor: Mapping[str, list[str]], scope: Scope
) -> None:
    for name in component:
        for read, _ in reads_of(by_name[name]):
            inside = any(producer in component for producer in of_tensor.get(read.tensor, ()))
            if inside and not all(isinstance(sub, Index) for sub in read.subscripts):
                message = f"a recurrence cannot read '{read.tensor}' through a gather"
                raise Fault(_place(read, scope), message, "read it at an affine position")


def _place(read: Read, scope: Scope) -> tuple[int, int]:
    """Where a read stands in the text."""
    assert read.span is not None
    start = scope.source.position(read.span)
    return start, start + read.span.width


def _edges(
    component: list[str], by_name: Mapping[str, Stage], of_tensor: Mapping[str, list[str]], scope: Scope
) -> list[Edge]:
    images = {name: image(by_name[name], scope) for name in component}
    edges: list[Edge] = []
    for name in component:
        stage = by_name[name]
        for read, ranges in reads_of(stage):
            producers = [p for p in of_tensor.get(read.tensor, ()) if p in component]
            if not producers:
                continue
            condition = domain_formula(scope, ranges, read.guard)
            writes = make_map(scope.sizes, names_of(ranges), stage.lefts, condition)
            positions = [sub.affine for sub in read.subscripts if isinstance(sub, Index)]
            reads = make_map(scope.sizes, names_of(ranges), positions, condition)
            relation = writes.reverse().apply_range(reads)
            for producer in producers:
                part = relation.intersect_range(images[producer])
                if not part.is_empty():
                    edges.append(Edge(name, producer, part, _place(read, scope)))
    return edges


def _solve(
    component: list[str],
    edges: list[Edge],
    by_name: Mapping[str, Stage],
    equations: Mapping[str, Equation],
    scope: Scope,
) -> list[Nested]:
    found = _nest(component, edges, by_name, frozenset())
    if found is None:
        raise no_order(edges, by_name, equations)
    return found


def _nest(
    nodes: list[str], edges: list[Edge], by_name: Mapping[str, Stage], used: frozenset[int]
) -> list[Nested] | None:
    """An order of these stages under loops over positions not yet used, or None."""
    needs = {n: [e.producer for e in edges if e.reader == n] for n in nodes}
    order: list[Nested] = []
    for members in _components(nodes, needs):
        inner = [e for e in edges if e.reader in members and e.producer in members]
        if not inner:
            order += members
            continue
        best = _shared(members, inner, by_name, used)
        if best is None:
            return None
        order.append(best)
    return order


def _shared(members: list[str], edges: list[Edge], by_name: Mapping[str, Stage], used: frozenset[int]) -> Shared | None:
    """The first loop that carries the circle, among those that leave the fewest loops inside."""
    best: tuple[int, Shared] | None = None
    rank = min(len(by_name[m].lefts) for m in members)
    for position in range(rank):
        for descending in (False, True):
            if position in used:
                continue
            if any(not _ordered(e.relation, position, descending).is_empty() for e in edges):
                continue
            rest = [
                replace(e, relation=e.relation.equate(isl.dim_type.in_, position, isl.dim_type.out, position))
                for e in edges
            ]
            rest = [e for e in rest if not e.relation.is_empty()]
            inner = _nest(members, rest, by_name, used | {position})
            if inner is not None:
                depth = _depth(inner)
                if best is None or depth < best[0]:
                    best = depth, Shared(position, descending, tuple(inner))
    return best[1] if best else None


def _depth(order: Sequence[Nested]) -> int:
    return max((1 + _depth(item.members) for item in order if isinstance(item, Shared)), default=0)


def _ordered(relation: isl.Map, position: int, descending: bool) -> isl.Map:
    """The pairs that the loop would compute in the wrong order: the producer comes later."""
    arguments = (isl.dim_type.in_, position, isl.dim_type.out, position)
    return relation.order_gt(*arguments) if descending else relation.order_lt(*arguments)
