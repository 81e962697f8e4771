"""Every refusal of the catalogue: its text, what it leaves behind, its data, and its legal twin."""

from __future__ import annotations

import ast
import json
import pickle
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import tilewright as tw
from tilewright.compiler.inputs import default_scalars, random_inputs
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.interpret import interpret
from tilewright.compiler.ir.quasiaffine import holds
from tilewright.compiler.ir.span import Span
from tilewright.passes.refusal import Place, Refusal, Witness

from .entries import ENTRIES, FOLDER, RULES, Entry, each, kernel_of, met, take

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEP = r"\w+\([^()]*\)"


def test_the_catalogue_is_large_and_its_names_are_distinct() -> None:
    counts = {rule: sum(e.rule == rule for e in ENTRIES) for rule in RULES}
    assert sum(counts.values()) >= 80
    assert min(counts.values()) >= 8, counts
    assert len({str(e) for e in ENTRIES}) == len(ENTRIES)


@each()
def test_is_refused_by_its_rule_with_its_text(entry: Entry, golden: Callable[[str, str], None]) -> None:
    refusal = met(entry).error.refusal
    assert refusal.rule == entry.rule
    assert refusal.step.startswith(f"{entry.steps[-1][0]}(")
    golden(f"../refusals/{entry}", f"{refusal}\n")


@each()
def test_changes_nothing_and_takes_less_than_a_second(entry: Entry) -> None:
    found = met(entry)
    assert (str(found.schedule), found.schedule.trace) == found.before
    assert found.seconds < 1


@each()
def test_survives_pickling_and_json(entry: Entry) -> None:
    error = met(entry).error
    again = pickle.loads(pickle.dumps(error))
    assert again.refusal == error.refusal
    assert str(again) == str(error) == str(error.refusal)
    assert from_json(json.loads(json.dumps(error.refusal.to_json()))) == error.refusal


def from_json(data: dict[str, Any]) -> Refusal:
    """The refusal that `to_json` wrote."""
    places = tuple(Place(Span(**p["span"]), p["line"], p["note"]) for p in data["places"])
    span, witness = data["span"] and Span(**data["span"]), data["witness"]
    if witness is not None:
        inputs: dict[str, Any] = {"inputs": tuple((name, text) for name, text in witness["inputs"])}
        witness = Witness(**(witness | inputs))
    parts: dict[str, Any] = {"span": span, "places": places, "witness": witness}
    return Refusal(**(data | parts))


@each()
def test_steps_that_are_named_as_legal_are(entry: Entry) -> None:
    remedy = met(entry).error.refusal.remedy or ""
    one_of = re.fullmatch(r"(\w+) one of (.*)", remedy)
    if one_of:
        choices = [[(one_of[1], [name], {})] for name in one_of[2].split(", ")]
    elif all(re.fullmatch(STEP, part) for part in remedy.split(", then ")):
        choices = [[written(part) for part in remedy.split(", then ")]]
    else:
        return  # words, not steps
    for steps in choices:
        schedule = tw.Schedule(kernel_of(entry.text, entry.kernel))
        take(schedule, entry.steps[:-1])
        for name, arguments, named in steps:
            getattr(schedule, name)(*arguments, **named)


def written(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """The step that prints as `skew(A.j, A.i, 1)` or `store(B, at=root, fold={0: 3})`."""
    name, _, arguments = text.rstrip(")").partition("(")
    parts = re.findall(r"(?:(\w+)=)?(\{[^}]*\}|[^,{]+)(?:, |$)", arguments)
    values = [ast.literal_eval(v) if re.fullmatch(r"-?\d+|\{.*\}", v) else v for _, v in parts]
    named = {word: v for (word, _), v in zip(parts, values, strict=True) if word}
    return name, values[: len(values) - len(named)], named


# The twins.


@each()
def test_the_twin_is_accepted_and_keeps_the_bits(entry: Entry) -> None:
    kernel = kernel_of(entry.twin_text, entry.twin_kernel)
    schedule = tw.Schedule(kernel)
    take(schedule, entry.twin)
    compiled = tw.compile(kernel, schedule)
    for sizes in (entry.sizes, dict.fromkeys(entry.sizes, 1), dict.fromkeys(entry.sizes, 0)):
        if holds(kernel.program.context, sizes):
            same_answers(schedule, compiled, sizes, entry.whole)


def same_answers(schedule: tw.Schedule, compiled: tw.CompiledKernel, sizes: Mapping[str, int], whole: bool) -> None:
    """That the definition, the compiled schedule and the schedule interpreted give one answer."""
    kernel, state = schedule.kernel, schedule.state
    scalars = default_scalars(kernel.program, {})
    inputs = random_inputs(kernel.program, sizes, 1)
    if whole:
        inputs = {n: np.round(a.astype(np.float64) * 3).astype(a.dtype) for n, a in inputs.items()}
    given = {**inputs, **scalars, **sizes}
    results = [found if isinstance(found, tuple) else (found,) for found in (kernel(**given), compiled(**given))]
    ran = interpret(state.program, inputs, sizes, scalars, state.tree)
    for name, want, have in zip(kernel.program.outputs, *results, strict=True):
        assert same_bits(np.asarray(want), np.asarray(have)), (name, sizes)
        assert same_bits(np.asarray(want), ran[name]), (name, sizes)


def test_the_files_of_the_catalogue_are_used() -> None:
    assert {p.stem for p in FOLDER.glob("*.toml")} == set(RULES)
    recorded = {f"{p.parent.name}/{p.stem}" for p in FOLDER.glob("*/*.txt")}
    assert recorded == {str(e) for e in ENTRIES}
