"""Running kernels that stand in a test as text under schedules that stand beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, call, hex_bits, kernel_of

Wanted = tuple[Any, ...]


def i32(values: object) -> Array:
    """An i32 array of these values."""
    return np.array(values, np.int32)


def schedule_of(text: str, *steps: Wanted) -> tw.Schedule:
    """The schedule of the one kernel of *text* after steps such as ("split", "C.k", 4)."""
    schedule = tw.Schedule(kernel_of(text))
    for name, *arguments in steps:
        getattr(schedule, name)(*arguments)
    return schedule


def compiled(text: str, *steps: Wanted) -> Any:
    """The kernel compiled with these steps."""
    schedule = schedule_of(text, *steps)
    return tw.compile(schedule.kernel, schedule)


def kept(text: str, *steps: Wanted, **arguments: Any) -> Any:
    """What the scheduled kernel gives: the bits of the definition, and nothing but its outputs written."""
    schedule = schedule_of(text, *steps)
    compiled = tw.compile(schedule.kernel, schedule)
    got, want = call(compiled, **arguments), schedule.kernel(**arguments)
    several = isinstance(want, tuple)
    for g, w in zip(got if several else (got,), want if several else (want,), strict=True):
        assert hex_bits(np.asarray(g)) == hex_bits(np.asarray(w))
    return got


def denied(rule: str, text: str, *steps: Wanted) -> tw.IllegalTransformError:
    """The refusal of the last step, of that rule; the steps before are accepted, and the schedule stays as it was."""
    schedule = schedule_of(text, *steps[:-1])
    before, trace = schedule.state, schedule.trace
    name, *arguments = steps[-1]
    with pytest.raises(tw.IllegalTransformError) as caught:
        getattr(schedule, name)(*arguments)
    assert caught.value.refusal.rule == rule
    assert caught.value.refusal.step.startswith(f"{name}(")
    assert schedule.state is before
    assert schedule.trace == trace
    return caught.value
