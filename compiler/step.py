"""The steps of a schedule by name: what each does to a state, their text, and the steps near a refused one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from ..passes import compute_at as placement
from ..passes import mark as marks
from ..passes import merge as fusion
from ..passes import reindex
from ..passes import rfactor as factoring
from ..passes.gate import nest_of
from ..passes.legality import examine
from ..passes.reorder import reorder as reorder_loops
from ..passes.split import split as split_loop
from ..passes.state import State, path_to, shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Argument = str | int | tuple["Argument", ...] | list["Argument"] | None


@dataclass(frozen=True)
class Step:
    """One step of a schedule: its name and arguments."""

    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(_shown(a) for a in self.arguments)})"


def _shown(argument: Argument) -> str:
    if isinstance(argument, (tuple, list)):
        return f"({', '.join(_shown(a) for a in argument)})"
    return str(argument)


def alternatives(state: State, step: Step) -> list[list[Step]]:
    """Steps near a refused one, the nearest first."""
    names = [a for a in step.arguments if isinstance(a, str)]
    if step.name == "compute_at":
        around = [loop.index for loop in path_to(state.tree, names[1])][:-1]
        return [[Step("compute_at", (names[0], loop))] for loop in reversed(around)]
    if step.name == "merge":
        return [[Step("merge", (*names, by))] for by in (1, -1, 2, -2, 3, -3, 4, -4)]
    if step.name == "reorder" and len(names) == 2:
        inner, outer = names
        return [[Step("skew", (inner, outer, by)), step] for by in (1, 2)]
    if step.name == "reverse":
        report = examine(state)
        nest = nest_of(state, names[0])
        return [[Step("reverse", (name,))] for name in nest if report.loop_class(name) == "par"]
    return []


def steps_of(text: str) -> list[Step]:
    """The steps that a trace's JSON lists.

    Raises:
        ValueError: the text is no trace.
    """
    try:
        steps = json.loads(text)
        if isinstance(steps, list):
            return [Step(str(name), tuple(arguments)) for name, arguments in steps]
        raise TypeError
    except (ValueError, TypeError):
        raise ValueError("this is no trace: a trace is a JSON list of [step, [arguments]]") from None


def limited(step: Step, limit: int) -> Step:
    """The step with a tile size of at most *limit*."""
    if step.name != "split" or not isinstance(step.arguments[1], int):
        return step
    return Step(step.name, (step.arguments[0], min(step.arguments[1], limit), *step.arguments[2:]))


def apply(state: State, step: Step) -> tuple[State, Any]:
    """The state after a step, unchecked, and what the step returns.

    Raises:
        IllegalTransformError: the request is ill-formed (rule shape).
    """
    action = STEPS.get(step.name)
    if action is None:
        raise shape(str(step), f"there is no step {step.name}", f"the steps are {', '.join(STEPS)}")
    expected = signature(action)
    try:
        expected.bind(state, *step.arguments)
    except TypeError:
        takes = ", ".join(str(p).split(":")[0] for p in list(expected.parameters.values())[1:])
        raise shape(str(step), f"{step.name} takes ({takes})") from None
    result = action(state, *step.arguments)
    return result if isinstance(result, tuple) else (result, None)


def _split(state: State, loop: str, factor: int, names: Sequence[str] | None = None) -> tuple[State, tuple[str, str]]:
    if names is not None and (isinstance(names, str) or len(names) != 2):
        raise shape(f"split({loop}, {factor})", "names= takes two names")
    return split_loop(state, loop, factor, None if names is None else (str(names[0]), str(names[1])))


STEPS: dict[str, Callable[..., Any]] = {
    "split": _split,
    "reorder": reorder_loops,
    "fuse": marks.fuse,
    "compute_at": placement.compute_at,
    "compute_root": placement.compute_root,
    "merge": fusion.merge,
    "distribute": fusion.distribute,
    "skew": reindex.skew,
    "shift": reindex.shift,
    "reverse": reindex.reverse,
    "rfactor": factoring.rfactor,
    "parallel": lambda state, loop: marks.mark(state, loop, "parallel"),
    "vectorize": lambda state, loop: marks.mark(state, loop, "vector"),
    "unroll": lambda state, loop: marks.mark(state, loop, "unroll"),
    "bind": lambda state, loop, target: marks.mark(state, loop, "bind", target),
}
