"""Whether a placed tree keeps every dependence, and what each of its loops carries.

For each dependence and each pair of leaves that run its two ends, the pairs of points are followed level by level,
as the tree orders them: a pair whose ends part in the wrong order is a violation; the level at which it parts in the
right order is the loop that carries it. Private tensors tie only points of one buffer; every reader of one must find
its producers there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import islpy as isl

from ..compiler.ir.affine import budget
from ..compiler.ir.tree import Alloc, Loop, Placed, instance_map, placed
from .dependence import OPERATIONS, Dependence, dependences, moved, same_buffer
from .pairs import in_steps
from .slots import clashes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node
    from .state import State

LoopClass = Literal["par", "red", "seq"]
Why = Literal["order", "missing"]


@dataclass(frozen=True, eq=False)
class Violation:
    """Points that a tree runs in the wrong order.

    *pairs*: { point of the source leaf -> point of the target leaf }. *why*: order: the target's point comes first;
    missing: the source's point is not computed where the target looks for it (then *pairs* maps instances of the
    source to points of the target, which stands in both fields). Pairs that a loop carries have the same form.
    """

    dependence: Dependence
    source: Placed
    target: Placed
    pairs: isl.Map
    why: Why


@dataclass(frozen=True, eq=False)
class Report:
    """The violations of a tree, and for each loop the dependences that it carries.

    *unwritten*: the instances that no leaf runs of a statement whose tensor is shared; *repeated*: statements
    with instances that run more than once on a shared tensor.
    """

    violations: tuple[Violation, ...]
    carried: dict[str, tuple[Violation, ...]]
    unwritten: Mapping[str, isl.Set] = field(default_factory=dict[str, isl.Set])
    repeated: tuple[str, ...] = ()

    def loop_class(self, loop: str) -> LoopClass:
        """par: iterations are independent; red: only updates of reductions meet (in whatever order); seq: all else."""
        found = self.carried.get(loop, ())
        if any(not c.dependence.reduction for c in found):
            return "seq"
        return "red" if found else "par"


def relaxable(program: Program, dependence: Dependence) -> bool:
    """Whether the updates that a reduction's dependence orders may run in any order."""
    if not dependence.reduction:
        return False
    statement = program.statement(dependence.source)
    return program.free_order(statement)


def folded(program: Program, dependence: Dependence) -> bool:
    """Whether it orders the updates of a matrix unit's sum, which takes the lanes of a tile in their order."""
    return dependence.reduction and program.statement(dependence.source).folds


# How iterations of a loop run, where that is no order of its own: lanes of a block loop are followed otherwise.
MARKS = ("serial", "parallel", "vector", "unroll", "bind")


def alike(before: Sequence[Node], after: Sequence[Node]) -> bool:
    """Whether two trees differ in the marks of their loops at most, so that what is found of one holds for both."""
    return len(before) == len(after) and all(map(_alike, before, after))


def _alike(one: Node, other: Node) -> bool:
    if one is other:
        return True
    if isinstance(one, Loop) and isinstance(other, Loop):
        fields = [(x.index, x.descending, x.stages, x.ahead, x.roles) for x in (one, other)]
        kinds = one.kind == other.kind or (one.kind in MARKS and other.kind in MARKS)
        return kinds and fields[0] == fields[1] and alike(one.body, other.body)
    if isinstance(one, Alloc) and isinstance(other, Alloc):
        return (one.tensor, one.storage) == (other.tensor, other.storage) and alike(one.body, other.body)
    return False


def examine(state: State, first_only: bool = False) -> Report:
    """Check a tree against the dependences of its program.

    Raises:
        UndecidedError: isl gave up.
    """
    with budget(OPERATIONS):
        return _examine(state, first_only)


def _examine(state: State, first_only: bool) -> Report:
    program = state.program
    items = placed(state.tree)
    maps = [instance_map(program, item.leaf) for item in items]
    by_statement: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        by_statement.setdefault(item.leaf.statement, []).append(number)
    violations: list[Violation] = []
    carried: dict[str, list[Violation]] = {}
    for dependence in dependences(program):
        relaxed, lanes = relaxable(program, dependence), folded(program, dependence)
        if dependence.paired:
            relaxed = in_steps(program, dependence, items, maps)
        for b in by_statement.get(dependence.target, ()):
            needed = dependence.relation.apply_range(maps[b].reverse())
            found = isl.Map.empty(needed.get_space())
            sources = by_statement.get(dependence.source, ())
            private = any(items[x].scope(dependence.tensor) for x in (b, *sources))
            looked_for = dependence.kind == "flow" and (private or not sources)
            for a in sources:
                pairs = maps[a].apply_range(dependence.relation).apply_range(maps[b].reverse())
                pairs = same_buffer(pairs, items[a], items[b], dependence.tensor)
                if looked_for:
                    found = found.union(_sources(pairs, maps[a]))
                for lags in _lags(items[a], items[b]):
                    for violation in _follow(pairs, items[a], items[b], dependence, relaxed, carried, lags, lanes):
                        violations.append(violation)
                        if first_only:
                            return Report(tuple(violations), {})
            if looked_for:
                missing = needed.subtract(found)
                if not missing.is_empty():
                    violations.append(Violation(dependence, items[b], items[b], missing, "missing"))
    for clash in clashes(program, items, maps):
        if clash.early is not None:
            violations.append(Violation(clash.dependence, clash.first, clash.second, clash.early, "order"))
        for lags in _lags(clash.first, clash.second):
            # What shares a place is an order of iterations too.
            list(_follow(clash.dependence.relation, clash.first, clash.second, clash.dependence, False, carried, lags))
    unwritten, repeated = _counted(state, items, maps, by_statement)
    return Report(tuple(violations), {name: tuple(v) for name, v in carried.items()}, unwritten, repeated)


def _counted(
    state: State, items: tuple[Placed, ...], maps: list[isl.Map], by_statement: dict[str, list[int]]
) -> tuple[dict[str, isl.Set], tuple[str, ...]]:
    """Statements on shared tensors that miss instances, with those, and those that run some more than once."""
    unwritten: dict[str, isl.Set] = {}
    repeated: list[str] = []
    for statement in state.program.statements:
        numbers = by_statement.get(statement.name, [])
        if any(items[n].scope(statement.tensor) for n in numbers):
            continue
        run = isl.Set.empty(state.program.domain(statement).get_space())
        again = False
        for n in numbers:
            instances = maps[n].range()
            again = again or not maps[n].is_injective() or not run.intersect(instances).is_empty()
            run = run.union(instances)
        missing = state.program.domain(statement).subtract(run)
        if not missing.is_empty():
            unwritten[statement.name] = missing
        if again:
            repeated.append(statement.name)
    return unwritten, tuple(repeated)


def _sources(pairs: isl.Map, source: isl.Map) -> isl.Map:
    """{ instance of the source -> point of the target } of the pairs."""
    return source.reverse().apply_range(pairs)


def _lags(a: Placed, b: Placed) -> list[dict[int, int]]:
    """By level, by how much earlier iterations of a pipelined loop the first leaf runs: none, and those of the marks.

    A pipeline is a promise to run ahead, not an order of its own: both have to be right.
    """
    own = {
        level: a.lag(level) - b.lag(level)
        for level, (one, other) in enumerate(zip(a.loops, b.loops, strict=False))
        if one is other and a.lag(level) != b.lag(level)
    }
    return [{}, own] if own else [{}]


def _follow(
    pairs: isl.Map,
    a: Placed,
    b: Placed,
    dependence: Dependence,
    relaxed: bool,
    carried: dict[str, list[Violation]],
    lags: Mapping[int, int],
    lanes: bool = False,
) -> Iterator[Violation]:
    """Follow pairs down the tree; what parts in the wrong order is a violation.

    The lanes of a block loop are no order, but for *lanes*: a leaf runs for all of them before the next one does.
    """
    blocks: list[int] = []
    for level in range(max(len(a.places), len(b.places))):
        if pairs.is_empty():
            return
        first, second = a.places[level], b.places[level]
        if first != second:
            if first > second and not relaxed:
                yield Violation(dependence, a, b, pairs, "order")
            return
        if level >= len(a.loops) or level >= len(b.loops):
            break
        loop, lag = a.loops[level], lags.get(level, 0)
        if loop.kind == "block":
            blocks.append(level)
            continue
        arguments = (isl.dim_type.in_, level, isl.dim_type.out, level)
        timed = moved(pairs, level, -lag if loop.descending else lag)
        up, down = timed.order_lt(*arguments), timed.order_gt(*arguments)
        ahead, behind = (down, up) if loop.descending else (up, down)
        back = lag if loop.descending else -lag
        moving = up.union(down) if relaxed else ahead
        if not moving.is_empty():
            carried.setdefault(loop.index, []).append(Violation(dependence, a, b, moved(moving, level, back), "order"))
        if not relaxed and not behind.is_empty():
            yield Violation(dependence, a, b, moved(behind, level, back), "order")
        pairs = moved(timed.equate(*arguments), level, back)
    # One leaf: lanes that meet do so at once; at one point, the same instance twice would be no dependence at all.
    for level in blocks:
        arguments = (isl.dim_type.in_, level, isl.dim_type.out, level)
        behind = pairs.order_gt(*arguments)
        if lanes and not behind.is_empty():
            yield Violation(dependence, a, b, behind, "order")
        apart = pairs.order_lt(*arguments).union(behind)
        if not apart.is_empty():
            carried.setdefault(a.loops[level].index, []).append(Violation(dependence, a, b, apart, "order"))
        pairs = pairs.equate(*arguments)
    if not relaxed and not pairs.is_empty():
        yield Violation(dependence, a, b, pairs, "order")
