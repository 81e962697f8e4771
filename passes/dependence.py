"""Memory-based dependences of a program, those of reductions kept apart.

Two instances depend on each other if they touch the same element, one of them writing, and the definition runs
one before the other. Between the updates of one accumulator the dependence is that of a *reduction*: it alone
may be relaxed, and only with permission. Value-based flow would not do here: it names only the last writer, so
that dropping the reduction's own dependences would lose the order between its start and its end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import islpy as isl

from ..compiler.ir.affine import budget, make_map
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.quasiaffine import Affine, All
from ..compiler.ir.tree import Node, Placed, instance_map, placed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Access, Program, Statement

# For all the dependences of a program together: about a second.
OPERATIONS = 4_000_000

Kind = Literal["flow", "anti", "output"]


@dataclass(frozen=True)
class Dependence:
    """`relation`: { instance of *source* -> instance of *target* that must run after it }.

    flow: the target reads what the source wrote; anti: it overwrites what the source read; output: it
    overwrites what the source wrote. *reduction*: both are updates of one accumulator. *paired*: both are updates of
    two accumulators that are updated together (argmax: the best value and its index), for two different elements.
    """

    source: str
    target: str
    kind: Kind
    tensor: str
    relation: isl.Map
    reduction: bool
    paired: bool = False

    @property
    def ends(self) -> tuple[str, str, str, str, bool]:
        """What tells it from the other dependences of a program."""
        return self.source, self.target, self.kind, self.tensor, self.paired


@lru_cache(maxsize=64)
def dependences(program: Program) -> tuple[Dependence, ...]:
    """Every dependence of the definition, in the order of the statements.

    Raises:
        UndecidedError: isl gave up.
    """
    with budget(OPERATIONS):
        return tuple(_dependences(program))


def _dependences(program: Program) -> Iterator[Dependence]:
    tree = definition_tree(program)
    # In the definition a statement has one leaf.
    items = {item.leaf.statement: item for item in placed(tree)}
    times: dict[str, isl.Map] = {}
    statements = program.statements
    touching: dict[str, list[tuple[Statement, Access, isl.Map]]] = {}
    for statement in statements:
        for access in statement.accesses:
            touched = program.relation(statement, access)
            touching.setdefault(access.tensor, []).append((statement, access, touched))
    order = {s.name: i for i, s in enumerate(statements)}
    found: list[Dependence] = []
    for tensor, accesses in touching.items():
        for source, first, one in accesses:
            for target, second, other in accesses:
                kind = _kind(first, second)
                a, b = items[source.name], items[target.name]
                if kind is None or a.places[0] > b.places[0]:
                    continue
                pairs = one.apply_range(other.reverse())
                if _runs_as_numbered(a) and _runs_as_numbered(b):
                    pairs = earlier(pairs, a, b)
                elif a.places[0] == b.places[0]:
                    times = times or time_maps(program, tree)
                    pairs = pairs.intersect(times[source.name].lex_lt_map(times[target.name]))
                reduction = (
                    source.name == target.name and source.kind in ("update", "merge") and _accumulates(source, tensor)
                )
                paired = _beside(source, target) or _beside(target, source)
                step = one_step(pairs) if paired else pairs
                for part, together in ((step, False), (pairs.subtract(step), True)):
                    if not part.is_empty():
                        d = Dependence(source.name, target.name, kind, tensor, part.coalesce(), reduction, together)
                        found.append(d)
    yield from _merged(found, order)


def _runs_as_numbered(item: Placed) -> bool:
    """Whether the iterators of a statement are the indices of the loops around its leaf."""
    return all(value.bare == name for value, name in zip(item.leaf.instance, item.leaf.indices, strict=False)) and len(
        item.leaf.instance
    ) == len(item.leaf.indices)


def earlier(pairs: isl.Map, a: Placed, b: Placed, lagged: bool = False) -> isl.Map:
    """The pairs of points of two leaves of which the first runs earlier, level by level.

    Block loops come last: a leaf runs for all lanes before the next one does. *lagged*: what a pipeline runs ahead is
    that much earlier.
    """
    found = isl.Map.empty(pairs.get_space())
    blocks: list[int] = []
    for level, (first, second) in enumerate(zip(a.places, b.places, strict=False)):
        if first != second:
            return found.union(pairs) if first < second else found
        if level >= min(len(a.loops), len(b.loops)):
            break
        if a.loops[level].kind == "block":
            blocks.append(level)
            continue
        down = a.loops[level].descending
        lag = a.lag(level) - b.lag(level) if lagged else 0
        shift = -lag if down else lag
        arguments = (isl.dim_type.in_, level, isl.dim_type.out, level)
        timed = moved(pairs, level, shift)
        found = found.union(moved(timed.order_gt(*arguments) if down else timed.order_lt(*arguments), level, -shift))
        pairs = moved(timed.equate(*arguments), level, -shift)
    for level in blocks:
        arguments = (isl.dim_type.in_, level, isl.dim_type.out, level)
        found = found.union(pairs.order_lt(*arguments))
        pairs = pairs.equate(*arguments)
    return found


def moved(pairs: isl.Map, level: int, by: int) -> isl.Map:
    """The pairs with an index of their first point moved."""
    if not by:
        return pairs
    same = isl.MultiAff.identity(pairs.get_space().domain().map_from_set())
    moved = same.set_aff(level, same.get_aff(level).add_constant_val(isl.Val(by)))
    return pairs.apply_domain(isl.Map.from_multi_aff(moved))


def same_buffer(pairs: isl.Map, a: Placed, b: Placed, tensor: str) -> isl.Map:
    """The pairs of points of two leaves that touch one buffer of a tensor."""
    first, second = a.scope(tensor), b.scope(tensor)
    if first != second:
        return isl.Map.empty(pairs.get_space())
    for position in range(len(first)):
        pairs = pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return pairs


def _kind(first: Access, second: Access) -> Kind | None:
    if first.kind == "write":
        return "output" if second.kind == "write" else "flow"
    return "anti" if second.kind == "write" else None


def _accumulates(statement: Statement, tensor: str) -> bool:
    return statement.reduction is not None and statement.tensor == tensor


def _beside(index: Statement, best: Statement) -> bool:
    """Whether the two update an index and the best value that it belongs to."""
    reduction = index.reduction
    together = index.kind == best.kind and index.kind in ("update", "merge")
    return together and reduction is not None and reduction.best == best.tensor


def one_step(pairs: isl.Map) -> isl.Map:
    """The pairs whose ends have the same iterators."""
    for position in range(pairs.dim(isl.dim_type.in_)):
        pairs = pairs.equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return pairs


def _merged(found: Sequence[Dependence], order: dict[str, int]) -> Iterator[Dependence]:
    """One dependence for each pair, kind and tensor, sorted."""
    groups: dict[tuple[int, int, str, str, bool], Dependence] = {}
    for d in found:
        key = (order[d.source], order[d.target], d.kind, d.tensor, d.paired)
        other = groups.get(key)
        relation = d.relation if other is None else other.relation.union(d.relation).coalesce()
        groups[key] = replace(d, relation=relation)
    for key in sorted(groups):
        yield groups[key]


def time_maps(program: Program, tree: Sequence[Node]) -> dict[str, isl.Map]:
    """When each instance runs: { statement[iterators] -> [place, index, place, index, ..] }.

    Places alternate with loop indices, outermost first; instances are compared in lexicographic order.
    """
    items = placed(tree)
    depth = max((len(item.loops) for item in items), default=0)
    found: dict[str, isl.Map] = {}
    for item in items:
        name = item.leaf.statement
        times = instance_map(program, item.leaf).reverse().apply_range(_times(program, item, depth))
        found[name] = found[name].union(times) if name in found else times
    return found


def _times(program: Program, item: Placed, depth: int) -> isl.Map:
    """{ [indices of the leaf] -> [place, index, place, index, ..] }, padded to *depth* loops."""
    time: list[Affine] = []
    for place, loop in zip(item.places, item.loops, strict=False):
        index = Affine.name(loop.index)
        time += [Affine.number(place), index.scaled(-1) if loop.descending else index]
    time.append(Affine.number(item.places[-1]))
    time += [Affine()] * (2 * depth + 1 - len(time))
    return make_map(program.sizes, item.leaf.indices, time, All())
