"""The loop tree: in which order the instances of a program's statements run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .affine import UndecidedError, decide, make_set
from .program import Extent, Nested, Program, Stage, Statement, stages_of
from .quasiaffine import NEGATED, TRUE, Affine, Comparison, Formula, Range, conjunction, end_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over integers. Its range is the intersection of all ends, or their hull where *hull* is set."""

    index: str
    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    body: tuple[Node, ...]
    descending: bool = False
    hull: bool = False

    def interval(self, values: Mapping[str, int]) -> range:
        """The values of the index, in the order in which they run."""
        low = (min if self.hull else max)(a.evaluate(values) for a in self.lower)
        high = (max if self.hull else min)(b.evaluate(values) for b in self.upper)
        return range(high - 1, low - 1, -1) if self.descending else range(low, high)

    def head(self) -> str:
        """`for i in 0..N`."""
        low = end_text("min" if self.hull else "max", self.lower)
        high = end_text("max" if self.hull else "min", self.upper)
        return f"for {self.index} in {low}..{high}{', descending' if self.descending else ''}"


@dataclass(frozen=True, slots=True)
class Guard:
    """The body runs where the condition holds."""

    condition: Formula
    body: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A statement; *instance* gives its iterators in terms of the loops around it."""

    statement: str
    instance: tuple[Affine, ...]


Node = Loop | Guard | Leaf


@dataclass(frozen=True, slots=True)
class Binding:
    """How the common loops of a recurrence fix a stage's indices.

    *bound*: indices as expressions of loop variables. *conditions*: what must hold besides, for an instance
    of the stage to run at this point of the loops.
    """

    bound: Mapping[str, Affine]
    conditions: tuple[Comparison, ...]


def bind(stage: Stage, loops: Mapping[int, str]) -> Binding:
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


def definition_tree(program: Program) -> tuple[Node, ...]:
    """The order of the definition: each equation in a nest of its own, recurrences under common loops."""
    return tuple(node for item in program.order for node in _placed(program, item, {}, ()))


def _placed(program: Program, item: Nested, loops: Mapping[int, str], around: tuple[Range, ...]) -> Iterator[Node]:
    if isinstance(item, str):
        yield from _stage_nest(program, program.stage(item), loops, around)
        return
    stages = [program.stage(name) for name in stages_of((item,))]
    variable = loop_variable(stages, item.position, tuple(loops.values()))
    inner = {**loops, item.position: variable}
    extent = item.extent or Extent.of(Affine())
    # A hull of several ends says less than a range; only a single end may be relied on.
    lower = extent.lower if len(extent.lower) == 1 else ()
    upper = extent.upper if len(extent.upper) == 1 else ()
    inside = (*around, Range(variable, lower, upper))
    body = tuple(node for member in item.members for node in _placed(program, member, inner, inside))
    yield Loop(variable, extent.lower, extent.upper, body, item.descending, hull=True)


def _stage_nest(program: Program, stage: Stage, loops: Mapping[int, str], around: tuple[Range, ...]) -> Iterator[Node]:
    binding = bind(stage, loops)
    free = tuple(r for r in stage.ranges if r.index not in binding.bound)
    inside = {r.index for r in free}
    conditions = [c for c in binding.conditions if not _implied(program, c, around)]
    early = [c for c in conditions if not inside & {*c.left.names(), *c.right.names()}]
    late = [c for c in conditions if c not in early]
    body = _statements_nest(program.statements_of(stage.name), len(stage.ranges), binding.bound)
    if late:
        body = (Guard(conjunction(*late), body),)
    for found in reversed(free):
        body = (_loop(found, body, binding.bound),)
    yield from (Guard(conjunction(*early), body),) if early else body


def _implied(program: Program, condition: Comparison, around: tuple[Range, ...]) -> bool:
    """Whether the loops around it ensure a condition on their indices."""
    names = tuple(r.index for r in around)
    if any(n not in (*names, *program.sizes) for n in (*condition.left.names(), *condition.right.names())):
        return False
    against = Comparison(NEGATED[condition.op], condition.left, condition.right)
    parts = (program.context, against, *(r.formula() for r in around))
    try:
        return decide(make_set(program.sizes, names, conjunction(*parts)).is_empty)
    except UndecidedError:
        return False


def _substituted(formula: Formula, values: Mapping[str, Affine]) -> Formula:
    if isinstance(formula, Comparison):
        return Comparison(formula.op, formula.left.substituted(values), formula.right.substituted(values))
    return type(formula)(tuple(_substituted(part, values) for part in formula.parts))


def _loop(found: Range, body: tuple[Node, ...], bound: Mapping[str, Affine]) -> Loop:
    lower = tuple(a.substituted(bound) for a in found.lower)
    upper = tuple(b.substituted(bound) for b in found.upper)
    return Loop(found.index, lower, upper, body)


def _statements_nest(statements: Sequence[Statement], depth: int, bound: Mapping[str, Affine]) -> tuple[Node, ...]:
    """Statements in order; neighbours that run over the same further index share its loop."""
    nodes: list[Node] = []
    i = 0
    while i < len(statements):
        statement = statements[i]
        if len(statement.ranges) == depth:
            instance = tuple(bound.get(n, Affine.name(n)) for n in statement.iterators)
            leaf = Leaf(statement.name, instance)
            guard = _substituted(statement.guard, bound)
            nodes.append(leaf if guard == TRUE else Guard(guard, (leaf,)))
            i += 1
            continue
        found = statement.ranges[depth]
        j = i
        while j < len(statements) and len(statements[j].ranges) > depth and statements[j].ranges[depth] == found:
            j += 1
        nodes.append(_loop(found, _statements_nest(statements[i:j], depth + 1, bound), bound))
        i = j
    return tuple(nodes)
