"""Every refusal of the catalogue: its text, what it leaves behind, its evidence run again, and its legal twin."""

from __future__ import annotations

import ast
import json
import pickle
import re
import time
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.bits import same_bits
from tilewright.compiler.inputs import default_scalars, random_inputs
from tilewright.compiler.ir.interpret import OutsideError, interpret
from tilewright.compiler.ir.quasiaffine import holds
from tilewright.compiler.ir.span import Span
from tilewright.passes.gate import SPREAD
from tilewright.passes.refusal import Place, Refusal, Witness

from .entries import ENTRIES, FOLDER, RULES, Entry, kernel_of, take
from .points import Point, element_of, named, run_points, unchecked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tilewright.compiler.ir.program import Program, Tensor
    from tilewright.passes.state import State

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Met:
    """A refusal as it was met, the schedule that it left behind, and what that was before."""

    error: tw.IllegalTransformError
    schedule: tw.Schedule
    before: tuple[str, object]
    seconds: float


@cache
def met(entry: Entry) -> Met:
    """Take an entry's steps; the last one must be refused."""
    schedule = tw.Schedule(kernel_of(entry.text, entry.kernel))
    take(schedule, entry.steps[:-1])
    before = (str(schedule), schedule.trace)
    start = time.process_time()
    with pytest.raises(tw.IllegalTransformError) as caught:
        take(schedule, entry.steps[-1:])
    return Met(caught.value, schedule, before, time.process_time() - start)


def each(*rules: str) -> pytest.MarkDecorator:
    """One test for each entry of these rules."""
    return pytest.mark.parametrize("entry", [e for e in ENTRIES if e.rule in (rules or RULES)], ids=str)


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


# The evidence, run again.


def case_of(refusal: Refusal) -> tuple[dict[str, int], int | None]:
    """The sizes of the smallest case, and the greatest tile size there."""
    assert refusal.case is not None
    sizes, _, tiles = refusal.case.partition(", tiles of at most ")
    return sizes_in(sizes), int(tiles) if tiles else None


def sizes_in(text: str) -> dict[str, int]:
    """The sizes in `M=1 N=2`."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split())}


@cache
def asked(entry: Entry) -> tuple[Program, State, dict[str, int]]:
    """The program, the state that was asked for, built unchecked, and the sizes of the smallest case."""
    sizes, limit = case_of(met(entry).error.refusal)
    program = kernel_of(entry.text, entry.kernel).program
    return program, unchecked(program, entry.steps, limit), sizes


@each("dependence", "rounding", "race")
def test_the_instances_of_the_smallest_case_clash(entry: Entry) -> None:
    refusal = met(entry).error.refusal
    assert refusal.instances is not None
    program, state, sizes = asked(entry)
    points = run_points(program, state, sizes)
    defined = [p.instance for p in run_points(program, tw.Schedule(kernel_of(entry.text, entry.kernel)).state, sizes)]
    if "run at once" in refusal.instances:
        first, second = re.fullmatch(r"(.*)  and  (.*)  run at once", refusal.instances).groups()  # pyright: ignore
        a, b = points[named(points, first)], points[named(points, second)]
        assert at_once(a, b)
    else:
        second, first = refusal.instances.split("  comes before  ")
        early, late = named(points, second), named(points, first)
        a, b = points[late], points[early]
        assert early < late
    assert a.meets(b)
    assert defined.index(a.instance) < defined.index(b.instance)


def at_once(a: Point, b: Point) -> bool:
    """Whether two points part at a loop whose iterations run at once."""
    for loop, other, i, j in zip(a.item.loops, b.item.loops, a.indices, b.indices, strict=False):
        if loop.index != other.index:
            return False
        if i != j:
            return loop.kind in SPREAD
    return False


@each("dependence", "rounding", "race")
def test_nothing_clashes_at_smaller_sizes(entry: Entry) -> None:
    refusal = met(entry).error.refusal
    assert refusal.instances is not None
    program, state, sizes = asked(entry)
    points = run_points(program, state, sizes)
    race = "run at once" in refusal.instances
    first, second = re.split("  and  |  comes before  |  run at once", refusal.instances)[:2]
    statements = {points[named(points, text)].instance[0] for text in (first, second)}
    for smaller in product(*(range(1, size + 1) for size in sizes.values())):
        fewer = dict(zip(sizes, smaller, strict=True))
        if fewer == sizes or not holds(program.context, fewer):
            continue
        defined = run_points(program, tw.Schedule(kernel_of(entry.text, entry.kernel)).state, fewer)
        rank = {p.instance: n for n, p in enumerate(defined)}
        few = [p for p in run_points(program, state, fewer) if p.instance[0] in statements]
        for a, b in combinations(few, 2):
            if {a.instance[0], b.instance[0]} == statements and a.meets(b):
                assert not at_once(a, b) if race else rank[a.instance] <= rank[b.instance], fewer


@each("coverage")
def test_the_reader_of_the_smallest_case_finds_nothing(entry: Entry) -> None:
    refusal = met(entry).error.refusal
    program, state, sizes = asked(entry) if refusal.case else elsewhere(entry)
    points = run_points(program, state, sizes)
    if refusal.instances is None:
        defined = run_points(program, tw.Schedule(kernel_of(entry.text, entry.kernel)).state, sizes)
        outputs = [{p.written for p in run if p.written[0] in program.outputs} for run in (defined, points)]
        assert outputs[1] < outputs[0]
        return
    reader, _, rest = refusal.instances.partition("  reads ")
    element = element_of(rest)
    at = named(points, reader)
    assert element in points[at].read
    place = points[at].buffer(element[0])
    assert all(p.written != element or p.buffer(element[0]) != place for p in points[:at])


def elsewhere(entry: Entry) -> tuple[Program, State, dict[str, int]]:
    """As `asked`, at the twin's sizes, for a refusal that names no case."""
    program = kernel_of(entry.text, entry.kernel).program
    return program, unchecked(program, entry.steps, None), dict(entry.sizes)


WITNESSED = [e for e in ENTRIES if e.rule in ("dependence", "rounding", "coverage")]


@pytest.mark.parametrize("entry", WITNESSED, ids=str)
def test_the_answers_on_the_witness_differ_as_printed(entry: Entry) -> None:
    witness = met(entry).error.refusal.witness
    if witness is None:
        return  # how many have none is counted below
    program, state, smallest = asked(entry)
    sizes = dict(smallest)
    arrays = {name: array_of(program.tensors[name], text) for name, text in witness.inputs}
    sizes |= sizes_in(witness.sizes)
    assert fixed_by(program, arrays).items() <= sizes.items()
    scalars = {name: True if d.is_bool else 1 if d.is_int else 1.0 for name, d in program.scalars.items()}
    name, at = element_of(witness.element)
    wanted = interpret(program, arrays, sizes, scalars)[name]
    assert np.array_equal(wanted[at], value_of(program.tensors[name], witness.defined))
    if witness.asked.startswith("nothing: "):
        with pytest.raises(OutsideError) as caught:
            interpret(program, arrays, sizes, scalars, state.tree)
        assert witness.asked == f"nothing: {caught.value}"
        return
    got = interpret(program, arrays, sizes, scalars, state.tree)[name]
    assert not same_bits(got[at], wanted[at])
    assert np.array_equal(got[at], value_of(program.tensors[name], witness.asked), equal_nan=True)


def value_of(tensor: Tensor, text: str) -> Array:
    """A printed number, or nested lists of them, in the tensor's type."""
    plain = np.asarray(ast.literal_eval(text.replace("nan", "1e999 - 1e999").replace("inf", "1e999")))
    return plain.astype(tensor.dtype.numpy)


def array_of(tensor: Tensor, text: str) -> Array:
    """A printed input."""
    array = value_of(tensor, text)
    return array.reshape(array.shape if array.ndim == tensor.rank else (0,) * tensor.rank)


def fixed_by(program: Program, arrays: Mapping[str, Array]) -> dict[str, int]:
    """The sizes that stand alone as a dimension of an input."""
    return {
        extent.size.bare: length
        for name, array in arrays.items()
        for extent, length in zip(program.tensors[name].extents, array.shape, strict=True)
        if extent.size is not None and extent.size.bare is not None
    }


def test_nearly_every_refusal_of_an_order_has_a_witness() -> None:
    lacking = [str(e) for e in WITNESSED if met(e).error.refusal.searched and met(e).error.refusal.witness is None]
    assert len(lacking) <= len(WITNESSED) // 8, lacking


# The twins.


@each()
def test_the_twin_is_accepted_and_keeps_the_bits(entry: Entry) -> None:
    if entry.twin is None:
        assert entry.kernel.endswith("_mma"), "only what no target runs yet has no twin"
        return
    kernel = kernel_of(entry.twin_text, entry.twin_kernel)
    schedule = tw.Schedule(kernel)
    take(schedule, entry.twin)
    scalars = default_scalars(kernel.program, {})
    inputs = random_inputs(kernel.program, entry.sizes, 1)
    if entry.whole:
        inputs = {n: np.round(a.astype(np.float64) * 3).astype(a.dtype) for n, a in inputs.items()}
    given = {**inputs, **scalars, **entry.sizes}
    wanted, got = kernel(**given), tw.compile(kernel, schedule)(**given)
    ran = interpret(kernel.program, inputs, entry.sizes, scalars, schedule.state.tree)
    results = [found if isinstance(found, tuple) else (found,) for found in (wanted, got)]
    for name, want, have in zip(kernel.program.outputs, *results, strict=True):
        assert same_bits(np.asarray(want), np.asarray(have)), name
        assert same_bits(np.asarray(want), ran[name]), name


def test_the_files_of_the_catalogue_are_used() -> None:
    assert {p.stem for p in FOLDER.glob("*.toml")} == set(RULES)
    recorded = {f"{p.parent.name}/{p.stem}" for p in FOLDER.glob("*/*.txt")}
    assert recorded == {str(e) for e in ENTRIES}
