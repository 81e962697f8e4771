"""The steps of a schedule by name: what each does to a state, their text, and the steps near a refused one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

from ..passes import cache, reindex
from ..passes import compute_at as placement
from ..passes import contract as rounding
from ..passes import mark as marks
from ..passes import merge as fusion
from ..passes import peel as parting
from ..passes import rfactor as factoring
from ..passes import store as storing
from ..passes.gate import nest_of
from ..passes.inline import inline
from ..passes.legality import examine
from ..passes.pipeline import pipeline
from ..passes.refusal import IllegalTransformError
from ..passes.reorder import reorder as reorder_loops
from ..passes.reverse_compute_at import reverse_compute_at
from ..passes.roles import roles
from ..passes.split import split as split_loop
from ..passes.state import State, path_to, shape
from .ir.words import condition_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from inspect import Parameter

Argument = str | int | tuple["Argument", ...] | list["Argument"] | None


# Steps whose further arguments are said by name, and the arguments that need none.
WORDY = ("split", "cache_read", "cache_write", "store")
PLAIN = ("loop", "factor", "tensor", "stage")


@dataclass(frozen=True)
class Step:
    """One step of a schedule: its name and arguments."""

    name: str
    arguments: tuple[Argument, ...]

    def __str__(self) -> str:
        if self.name not in WORDY:
            return f"{self.name}({', '.join(_shown(a) for a in self.arguments)})"
        names = list(signature(STEPS[self.name]).parameters)[1:]
        shown: list[str] = []
        for name, argument in zip(names, self.arguments, strict=False):
            if name in PLAIN:
                shown.append(_shown(argument))
            elif argument not in (None, "", 0, ()):
                shown.append(f"{name}={_folded(argument) if name == 'fold' else _shown(argument)}")
        return f"{self.name}({', '.join(shown)})"


def _shown(argument: Argument) -> str:
    if isinstance(argument, (tuple, list)):
        return f"({', '.join(_shown(a) for a in argument)})"
    return str(argument)


def _folded(pairs: Any) -> str:
    """What is folded, as a caller writes it; as it is where it is ill-formed."""
    formed = isinstance(pairs, (tuple, list)) and all(isinstance(p, (tuple, list)) and len(p) == 2 for p in pairs)
    return f"{{{', '.join(f'{d}: {n}' for d, n in pairs)}}}" if formed else _shown(pairs)


def alternatives(state: State, step: Step) -> list[list[Step]]:
    """Steps near a refused one, the nearest first."""
    names = [a for a in step.arguments if isinstance(a, str)]
    if step.name == "compute_at":
        around = [loop.index for loop in path_to(state.tree, names[1])][:-1]
        return [[Step("compute_at", (names[0], loop))] for loop in reversed(around)]
    if step.name == "reverse_compute_at":
        around = [loop.index for loop in path_to(state.tree, names[1])][:-1]
        return [[Step("reverse_compute_at", (names[0], loop))] for loop in reversed(around)]
    if step.name == "store" and len(step.arguments) > 6 and isinstance(step.arguments[6], (tuple, list)):
        *rest, fold = step.arguments
        return [[Step("store", (*rest, _wider(fold, more)))] for more in (1, 2, 3, 4, 8)]
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


def _wider(fold: Any, more: int) -> tuple[tuple[int, int], ...]:
    """A circular buffer with room for more."""
    return tuple((int(dimension), int(count) + more) for dimension, count in fold)


def trace_json(trace: Sequence[Step]) -> str:
    """A trace as JSON, which `steps_of` reads."""
    return json.dumps([[s.name, list(s.arguments)] for s in trace])


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
    _require_words(step, list(expected.parameters.values())[1:])
    result = action(state, *step.arguments)
    return result if isinstance(result, tuple) else (result, None)


# Parameters that take a name or a text; the others check their numbers themselves.
WORDS = (
    *("loop", "loops", "names", "outer", "inner", "first", "second", "by", "stage", "tensor", "at", "space", "layout"),
    *("condition", "name", "target", "epilogue"),
)


def _require_words(step: Step, parameters: Sequence[Parameter]) -> None:
    """Refuse what is no text where a name or a text is wanted."""
    every = next((p for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    named = [p for p in parameters if p.kind is not p.VAR_POSITIONAL]
    for number, argument in enumerate(step.arguments):
        found = named[number] if number < len(named) else every
        if found is None or found.name not in WORDS or (argument is None and found.default is None):
            continue
        several = found.name == "names" and found is not every
        given = argument if several and isinstance(argument, (tuple, list)) else (argument,)
        if not all(isinstance(one, str) for one in given):
            raise shape(str(step), f"{found.name} is given by name; this is {argument!r}")


def _split(
    state: State, loop: str, factor: int, names: Sequence[str] | None = None, separate: bool = False
) -> tuple[State, tuple[str, ...]]:
    step = f"split({loop}, {factor})"
    if names is not None and (isinstance(names, str) or len(names) != 2):
        raise shape(step, "names= takes two names")
    made, (outer, inner) = split_loop(state, loop, factor, None if names is None else (str(names[0]), str(names[1])))
    if not separate:
        return made, (outer, inner)
    try:
        apart, _ = parting.peel(made, outer)
    except IllegalTransformError:
        return made, (outer, inner)  # every tile is full, or none
    return apart, (outer, inner)


def _cache_read(
    state: State, tensor: str, loop: str, layout: str | None = None, space: str = "", pad: bool = False
) -> tuple[State, str]:
    storage = storing.storage_of(f"cache_read({tensor}, {loop})", space, layout)
    return cache.cache_read(state, tensor, loop, storage, pad=pad)


def _cache_write(state: State, stage: str, loop: str, layout: str | None = None, space: str = "") -> tuple[State, str]:
    return cache.cache_write(state, stage, loop, storing.storage_of(f"cache_write({stage}, {loop})", space, layout))


def _store(
    state: State,
    tensor: str,
    at: str | None = None,
    space: str = "",
    layout: str | None = None,
    pad: int = 0,
    swizzle: int = 0,
    fold: Sequence[Sequence[int]] = (),
) -> State:
    found = storing.storage_of(f"store({tensor})", space, layout, pad, swizzle, fold)
    # Only moved, a buffer keeps the layout that it has.
    return storing.store(state, tensor, at, None if at is not None and found == storing.PLAIN else found)


def _specialise(state: State, condition: str) -> tuple[State, tuple[str, ...]]:
    try:
        found = condition_of_text(str(condition), state.program.sizes)
    except ValueError as error:
        raise shape(f"specialise({condition})", str(error)) from None
    return parting.specialise(state, found, str(condition))


def _block(state: State, *names: str) -> State:
    if not names:
        raise shape("block()", "block takes one loop or more")
    for name in names:
        state = marks.mark(state, name, "block")
    return state


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
    "block": _block,
    "pipeline": pipeline,
    "roles": roles,
    "flatten": marks.flatten,
    "inline": inline,
    "reverse_compute_at": reverse_compute_at,
    "cache_read": _cache_read,
    "cache_write": _cache_write,
    "store": _store,
    "peel": parting.peel,
    "specialise": _specialise,
    "contract": rounding.contract,
    "widen": rounding.widen,
}
