"""The loop tree of the definition: each equation in a nest of its own, recurrences under common loops."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .affine import make_set
from .program import Extent, Nested, Program, Stage, Statement, stages_of
from .quasiaffine import Affine, Comparison, Formula, Range, conjunction, substituted
from .tree import Leaf, Loop, Node, fresh

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Binding:
    """How the common loops of a recurrence fix a stage's indices.

    *bound*: indices as expressions of loop variables. *conditions*: what must hold besides, for an instance
    of the stage to run at this point of the loops.
    """

    bound: Mapping[str, Affine]
    conditions: tuple[Comparison, ...]


def bind_indices(stage: Stage, loops: Mapping[int, str]) -> Binding:
    """Bind a stage's indices to the loops over positions of its tensor (position -> loop variable)."""
    bound: dict[str, Affine] = {}
    conditions: list[Comparison] = []
    own = {r.index for r in stage.ranges}
    for position, variable in loops.items():
        left = stage.lefts[position]
        free = [n for n in left.names() if n in own and n not in bound]
        if len(free) == 1 and dict(left.terms).get(free[0]) == 1:
            rest = left - Affine.name(free[0])
            bound[free[0]] = Affine.name(variable) - rest.substituted(bound)
        else:
            conditions.append(Comparison("==", left, Affine.name(variable)))
    for found in stage.ranges:
        if found.index in bound:
            index = Affine.name(found.index)
            conditions += [Comparison(">=", index, end) for end in found.lower]
            conditions += [Comparison("<", index, end) for end in found.upper]
    fixed = tuple(Comparison(c.op, c.left.substituted(bound), c.right.substituted(bound)) for c in conditions)
    return Binding(bound, fixed)


def loop_variable(stages: Sequence[Stage], position: int, used: Sequence[str]) -> str:
    """A name for a common loop: an index that stands at this position, and elsewhere in none of the stages."""
    bare = [s.lefts[position].bare for s in stages]
    for name in bare:
        if name is None or name in used or not any(name in {r.index for r in s.ranges} for s in stages):
            continue
        if all(name not in {r.index for r in s.ranges} or b == name for s, b in zip(stages, bare, strict=True)):
            return name
    indices = {r.index for s in stages for r in s.ranges}
    number = len(used)
    while (name := f"step{number}") in indices:
        number += 1
    return name


@dataclass
class _Around:
    """The loops around a place: their names in the order of nesting, what they ensure, and every name taken so far."""

    indices: tuple[str, ...]
    known: tuple[Formula, ...]
    taken: set[str]

    def inside(self, index: str, *bounds: Formula) -> _Around:
        return _Around((*self.indices, index), (*self.known, *bounds), self.taken)


@lru_cache(maxsize=64)
def definition_tree(program: Program) -> tuple[Node, ...]:
    """The order of the definition as a tree. Loops are named for their stage and index: `C.k`."""
    around = _Around((), (program.context,), set())
    return tuple(node for item in program.order for node in _placed(program, item, {}, around))


def _placed(program: Program, item: Nested, loops: Mapping[int, str], around: _Around) -> tuple[Node, ...]:
    """A stage, or the common loop of a recurrence; *loops*: position -> the common loop around that runs over it."""
    if isinstance(item, str):
        return _stage_nest(program, program.stage(item), loops, around)
    stages = [program.stage(name) for name in stages_of((item,))]
    wanted = loop_variable(stages, item.position, [name.split(".")[-1] for name in loops.values()])
    name = _new(f"{stages[0].name}.{wanted}", around)
    index, extent = Affine.name(name), item.extent or Extent.of(Affine())
    # A hull of several ends says less than a range: only a single end may be relied on.
    bounds: list[Formula] = [Comparison("<=", a, index) for a in extent.lower[: len(extent.lower) == 1]]
    bounds += [Comparison("<", index, b) for b in extent.upper[: len(extent.upper) == 1]]
    inner, inside = {**loops, item.position: name}, around.inside(name, *bounds)
    body = tuple(node for member in item.members for node in _placed(program, member, inner, inside))
    return (Loop(name, body, descending=item.descending),)


def _new(wanted: str, around: _Around) -> str:
    name = fresh(wanted, around.taken)
    around.taken.add(name)
    return name


def _stage_nest(program: Program, stage: Stage, loops: Mapping[int, str], around: _Around) -> tuple[Node, ...]:
    binding = bind_indices(stage, loops)
    names = dict(binding.bound)
    free = [r for r in stage.ranges if r.index not in names]
    made: list[str] = []
    for found in free:
        name = _new(f"{stage.name}.{found.index}", around)
        names[found.index] = Affine.name(name)
        around = around.inside(name, *_bounds(name, found, names))
        made.append(name)
    conditions = tuple(_named(c, names) for c in binding.conditions)
    around = _Around(around.indices, (*around.known, *conditions), around.taken)
    body = _statements(program, program.statements_of(stage.name), len(stage.ranges), names, around)
    for name in reversed(made):
        body = (Loop(name, body),)
    return body


def _named(condition: Comparison, names: Mapping[str, Affine]) -> Comparison:
    return Comparison(condition.op, condition.left.substituted(names), condition.right.substituted(names))


def _bounds(name: str, found: Range, names: Mapping[str, Affine]) -> list[Formula]:
    index = Affine.name(name)
    low: list[Formula] = [Comparison("<=", a.substituted(names), index) for a in found.lower]
    return low + [Comparison("<", index, b.substituted(names)) for b in found.upper]


def _statements(
    program: Program, statements: Sequence[Statement], depth: int, names: Mapping[str, Affine], around: _Around
) -> tuple[Node, ...]:
    """Statements in order; neighbours that run over the same further index share its loop."""
    nodes: list[Node] = []
    i = 0
    while i < len(statements):
        statement = statements[i]
        if len(statement.ranges) == depth:
            condition = conjunction(*around.known, substituted(statement.guard, names))
            domain = make_set(program.sizes, around.indices, condition)
            instance = tuple(names[n] for n in statement.iterators)
            nodes.append(Leaf(statement.name, around.indices, domain, instance))
            i += 1
            continue
        found = statement.ranges[depth]
        j = i
        while j < len(statements) and len(statements[j].ranges) > depth and statements[j].ranges[depth] == found:
            j += 1
        name = _new(f"{statement.stage}.{found.index}", around)
        inner = {**names, found.index: Affine.name(name)}
        inside = around.inside(name, *_bounds(name, found, inner))
        nodes.append(Loop(name, _statements(program, statements[i:j], depth + 1, inner, inside)))
        i = j
    return tuple(nodes)
