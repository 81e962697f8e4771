"""Schedules as values: their record, handles, undoing, differences, and what they say of wrong requests."""

from __future__ import annotations

import io
import json
import pickle
import re
import sys

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.step import Step
from tilewright.passes import legality

from .running import kernel, recurrence, refused

PRODUCT = kernel(
    "kernel f(A: f32[M, K], B: f32[K, N]) -> (Y: f32[M, N]) {"
    " C[i, j] = sum(k) A[i, k] * B[k, j]\nY[i, j] = C[i, j] * 2 }"
)


def scheduled() -> tw.Schedule:
    """A schedule with a step of most kinds."""
    schedule = tw.Schedule(PRODUCT)
    schedule.tile("Y.i", "Y.j", 4, 4, names=("a", "b", "c", "d"))
    schedule.compute_at("C", "Y.b")
    schedule.split("C.k", 2)
    schedule.reorder("C.ko", "C.i", "C.j", "C.ki")
    schedule.shift("Y.c", 1)
    schedule.skew("Y.d", "Y.c", 2)
    schedule.reverse("C.i")
    schedule.parallel("Y.a")
    schedule.bind("Y.b", "grid.x")
    schedule.unroll("C.ki")
    schedule.vectorize("Y.d")
    return schedule


def test_the_trace_prints_as_calls() -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.split("C.k", 32)
    schedule.merge("C.i", "Y.i")
    schedule.bind("C.i", "grid.x")
    schedule.split("C.j", 4, names=("b", "c"))
    shown = [str(step) for step in schedule.trace]
    assert shown[1:3] == ["merge(C.i, Y.i)", "bind(C.i, grid.x)"]
    assert shown[0].startswith("split(C.k, 32")
    assert shown[3] == "split(C.j, 4, names=(b, c))"


def test_json_replays_to_the_same_schedule() -> None:
    schedule = scheduled()
    again = tw.Schedule.replay(PRODUCT, schedule.to_json())
    assert str(again) == str(schedule)
    assert again.to_json() == schedule.to_json()
    assert [name for name, _ in json.loads(schedule.to_json())] == [step.name for step in schedule.trace]


def test_steps_replay_and_can_be_pickled() -> None:
    schedule = scheduled()
    steps = pickle.loads(pickle.dumps(schedule.trace))
    assert steps == schedule.trace
    assert str(tw.Schedule.replay(PRODUCT, steps)) == str(schedule)


def test_a_compiled_schedule_keeps_the_bits_and_its_trace() -> None:
    schedule = scheduled()
    compiled = tw.compile(PRODUCT, schedule)
    A, B = np.ones((9, 5), np.float32) / 3, np.arange(45, dtype=np.float32).reshape(5, 9) / 7
    assert np.array_equal(compiled(A, B), PRODUCT(A, B))
    assert compiled.trace == schedule.trace


def test_replay_checks_every_step_again() -> None:
    free = kernel("kernel f(X: f32[N]) -> (y: f32) { y = allow reassociate in sum(i) X[i] }")
    strict = kernel("kernel f(X: f32[N]) -> (y: f32) { y = sum(i) X[i] }")
    schedule = tw.Schedule(free)
    schedule.reverse("y.i")
    with pytest.raises(tw.IllegalTransformError) as caught:
        tw.Schedule.replay(strict, schedule.to_json())
    assert caught.value.refusal.rule == "rounding"


@pytest.mark.parametrize("step", [Step("splice", ("C.i",)), Step("split", ("C.i",)), Step("reverse", ("C.i", 1, 2))])
def test_replay_refuses_what_is_no_step(step: Step) -> None:
    with pytest.raises(tw.IllegalTransformError) as caught:
        tw.Schedule.replay(PRODUCT, [step])
    assert caught.value.refusal.rule == "shape"
    assert caught.value.refusal.step == str(step)


@pytest.mark.parametrize("text", ["", "{}", "1", "[1]", '["split"]', '[["split"]]', "[[1, 2]]", "[[", '"split"'])
def test_replay_refuses_text_that_is_no_trace(text: str) -> None:
    with pytest.raises(ValueError, match="trace"):
        tw.Schedule.replay(PRODUCT, text)


def test_undo_takes_steps_back_one_by_one() -> None:
    schedule, texts = tw.Schedule(PRODUCT), [str(tw.Schedule(PRODUCT))]
    for step in (
        lambda: schedule.split("C.i", 4),
        lambda: schedule.reorder("C.j", "C.io"),
        lambda: schedule.parallel("C.j"),
    ):
        step()
        texts.append(str(schedule))
    for text in reversed(texts[:-1]):
        schedule.undo()
        assert str(schedule) == text
    schedule.undo()
    assert schedule.trace == ()


def test_diff_shows_the_lines_that_changed() -> None:
    schedule, other = tw.Schedule(PRODUCT), tw.Schedule(PRODUCT)
    assert schedule.diff(other) == ""
    other.parallel("Y.i")
    changed = [
        line for line in schedule.diff(other).splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line[0] for line in changed] == ["-", "+"]
    assert "parallel" in changed[1]


def test_loops_and_classes() -> None:
    schedule = tw.Schedule(PRODUCT)
    assert schedule.loops == ("C.i", "C.j", "C.k", "Y.i", "Y.j")
    classes = {name: schedule.classes().loop_class(name) for name in schedule.loops}
    assert classes == {"C.i": "par", "C.j": "par", "C.k": "red", "Y.i": "par", "Y.j": "par"}
    assert tw.Schedule(recurrence(1, 0)).classes().loop_class("A.i") == "seq"


def test_handles_name_loops() -> None:
    C = tw.Schedule(PRODUCT)["C"]
    assert (str(C), C.loops) == ("C", ("C.i", "C.j", "C.k"))
    assert C["k"] == C["C.k"] == "C.k"


@pytest.mark.parametrize("name", ["x", "Y.i", ""])
def test_handles_refuse_other_loops(name: str) -> None:
    with pytest.raises(tw.IllegalTransformError) as caught:
        tw.Schedule(PRODUCT)["C"][name]
    assert caught.value.refusal.rule == "shape"


def test_a_stage_that_is_none() -> None:
    refusal = refused(lambda s: s["CC"], tw.Schedule(PRODUCT))
    assert (refusal.rule, refusal.message) == ("shape", "there is no stage CC")
    assert "C" in (refusal.remedy or "")


def test_compile_takes_the_schedule_of_its_kernel_only() -> None:
    with pytest.raises(ValueError, match="schedule is of"):
        tw.compile(recurrence(1, 0), tw.Schedule(PRODUCT))


def test_a_query_that_gives_up_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = tw.Schedule(recurrence(1, -1))
    schedule.split("A.i", 3)
    monkeypatch.setattr(legality, "OPERATIONS", 50)
    with pytest.raises(tw.IllegalTransformError) as caught:
        schedule.split("A.j", 3)
    monkeypatch.undo()
    assert caught.value.refusal.rule == "unknown"
    assert schedule.loops == ("A.io", "A.ii", "A.j")


def test_schedules_of_one_kernel_are_independent() -> None:
    first, second = tw.Schedule(PRODUCT), tw.Schedule(PRODUCT)
    first.split("C.i", 4)
    assert second.loops == ("C.i", "C.j", "C.k", "Y.i", "Y.j")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_schedule_prints_in_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = tw.Schedule(PRODUCT)
    schedule.compute_at("C", "Y.i")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain = str(schedule)
    assert "\x1b[" not in plain
    monkeypatch.setattr(sys, "stdout", Terminal())
    shown = str(schedule)
    assert "\x1b[32mpar\x1b[0m" in shown
    assert "\x1b[33mred\x1b[0m" in shown
    assert "\x1b[36m" in shown.split("buffer")[0]
    assert re.sub(r"\x1b\[\d*m", "", shown) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert str(schedule) == plain
