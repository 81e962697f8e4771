"""The evidence of the catalogue's refusals, run again: instances that clash, the least sizes, inputs that show it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.interpret import OutsideError, interpret
from tilewright.compiler.ir.quasiaffine import holds
from tilewright.compiler.ir.tree import loops
from tilewright.passes.gate import SPREAD
from tilewright.passes.state import initial

from .entries import ENTRIES, Entry, each, kernel_of, met
from .points import Point, element_of, named, run_points, unchecked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.compiler.ir.program import Program, Tensor
    from tilewright.passes.state import State

Array = np.ndarray[Any, Any]

# rfactor changes the order itself, widen and contract the operations: there are no two instances that change places.
REWRITING = ("rfactor", "widen", "contract")
FOLDED = [e for e in ENTRIES if e.rule == "dependence" and any(n == "store" and len(a) > 6 for n, a in e.steps)]
CLASHING = [
    e
    for e in ENTRIES
    if e.rule in ("dependence", "rounding", "race") and e.steps[-1][0] not in REWRITING and e not in FOLDED
]
WITNESSED = [e for e in ENTRIES if e.rule in ("dependence", "rounding", "coverage")]


@dataclass(frozen=True)
class Asked:
    """What was asked for, built unchecked: the kernel's program, the state, and the sizes of the smallest case."""

    program: Program
    state: State
    sizes: Mapping[str, int]

    def points(self, sizes: Mapping[str, int]) -> list[Point]:
        """What is run, in the order that was asked for."""
        return run_points(self.state.program, self.state, sizes)

    def rank(self, sizes: Mapping[str, int]) -> dict[object, int]:
        """Each instance's place in the order of the definition."""
        program = self.state.program
        return {p.instance: n for n, p in enumerate(run_points(program, initial(program), sizes))}


@cache
def asked(entry: Entry) -> Asked:
    """What an entry asks for; at the twin's sizes where the refusal names no case."""
    program = kernel_of(entry.text, entry.kernel).program
    case = met(entry).error.refusal.case
    if case is None:
        return Asked(program, unchecked(program, entry.steps, None), entry.sizes)
    sizes, _, tiles = case.partition(", tiles of at most ")
    return Asked(program, unchecked(program, entry.steps, int(tiles) if tiles else None), sizes_in(sizes))


def sizes_in(text: str) -> dict[str, int]:
    """The sizes in `M=1 N=2`."""
    return {name: int(value) for name, value in (part.split("=") for part in text.split())}


def clashing(entry: Entry, points: list[Point]) -> tuple[int, int, bool]:
    """The two points of a refusal, in the order of the definition, and whether they are to run at once."""
    text = met(entry).error.refusal.instances
    assert text is not None
    if text.endswith("  run at once"):
        first, second = text.removesuffix("  run at once").split("  and  ")
        return named(points, first), named(points, second), True
    second, first = text.split("  comes before  ")
    return named(points, first), named(points, second), False


@pytest.mark.parametrize("entry", CLASHING, ids=str)
def test_the_instances_of_the_smallest_case_clash(entry: Entry) -> None:
    found = asked(entry)
    points, rank = found.points(found.sizes), found.rank(found.sizes)
    first, second, together = clashing(entry, points)
    a, b = points[first], points[second]
    folded = any(name == "store" and len(arguments) > 6 for name, arguments in entry.steps)
    # Elements that share a place are ordered by the schedule alone.
    assert folded or rank[a.instance] < rank[b.instance]
    assert a.meets(b)
    assert at_once(found.state, a, b) if together else second < first


@pytest.mark.parametrize("entry", FOLDED, ids=str)
def test_a_place_is_overwritten_before_its_last_read(entry: Entry) -> None:
    found, text = asked(entry), met(entry).error.refusal.instances
    points = found.points(found.sizes)
    assert text is not None
    second, _, first = text.partition("  comes before  ")
    over, reader = named(points, second), named(points, first)
    assert over < reader
    place = points[over].place(points[over].written)
    lost = [e for e in points[reader].read if points[reader].place(e) == place and e != points[over].written]
    assert any(points[n].written in lost for n in range(over)), "what is read was written before it was overwritten"


def at_once(state: State, a: Point, b: Point) -> bool:
    """Whether two points part at a loop whose iterations run at once, or are of parts that do."""
    ends = [loop.roles.epilogue for loop in loops(state.tree) if loop.roles is not None]
    if any((a.instance[0] in names) != (b.instance[0] in names) for names in ends):
        return True
    for loop, other, i, j in zip(a.item.loops, b.item.loops, a.indices, b.indices, strict=False):
        if loop.index != other.index:
            return False
        if i != j:
            return loop.kind in SPREAD
    return False


@pytest.mark.parametrize("entry", CLASHING, ids=str)
def test_nothing_clashes_at_smaller_sizes(entry: Entry) -> None:
    found = asked(entry)
    points = found.points(found.sizes)
    first, second, together = clashing(entry, points)
    statements = {points[first].instance[0], points[second].instance[0]}
    for smaller in product(*(range(1, size + 1) for size in found.sizes.values())):
        fewer = dict(zip(found.sizes, smaller, strict=True))
        if fewer == found.sizes or not holds(found.program.context, fewer):
            continue
        rank = found.rank(fewer)
        few = [p for p in found.points(fewer) if p.instance[0] in statements]
        for a, b in combinations(few, 2):
            if {a.instance[0], b.instance[0]} == statements and a.meets(b):
                assert not at_once(found.state, a, b) if together else rank[a.instance] <= rank[b.instance], fewer


@each("coverage")
def test_the_reader_of_the_smallest_case_finds_nothing(entry: Entry) -> None:
    found, text = asked(entry), met(entry).error.refusal.instances
    points = found.points(found.sizes)
    assert text is not None
    nowhere = text.removesuffix(" is computed nowhere")
    if nowhere != text:
        defined = run_points(found.program, initial(found.program), found.sizes)
        element = element_of(nowhere)
        assert element in {p.written for p in defined}
        assert element not in {p.written for p in points}
        return
    reader, _, rest = text.partition("  reads ")
    element, at = element_of(rest), named(points, reader)
    assert element in points[at].read
    place = points[at].buffer(element[0])
    assert all(p.written != element or p.buffer(element[0]) != place for p in points[:at])


@pytest.mark.parametrize("entry", WITNESSED, ids=str)
def test_the_answers_on_the_witness_differ_as_printed(entry: Entry) -> None:
    witness = met(entry).error.refusal.witness
    if witness is None:
        return  # which ones have none is said below
    program, state = asked(entry).program, asked(entry).state
    printed = dict(witness.inputs)
    arrays = {name: array_of(program.tensors[name], text) for name, text in printed.items() if name in program.tensors}
    sizes = {**asked(entry).sizes, **sizes_in(witness.sizes)}
    assert fixed_by(program, arrays).items() <= sizes.items()
    scalars = {name: ast.literal_eval(printed[name]) for name in program.scalars}
    name, at = element_of(witness.element)
    wanted = interpret(program, arrays, sizes, scalars)[name]
    assert np.array_equal(wanted[at], value_of(program.tensors[name], witness.defined), equal_nan=True)
    if witness.asked.startswith("nothing: "):
        with pytest.raises(OutsideError) as caught:
            interpret(state.program, arrays, sizes, scalars, state.tree)
        assert witness.asked == f"nothing: {caught.value}"
        return
    got = interpret(state.program, arrays, sizes, scalars, state.tree)[name]
    assert not same_bits(got[at], wanted[at])
    assert np.array_equal(got[at], value_of(program.tensors[name], witness.asked), equal_nan=True)


def value_of(tensor: Tensor, text: str) -> Array:
    """A printed number, or nested lists of them, in the tensor's type."""
    plain = np.asarray(eval(text, {"nan": np.nan, "inf": np.inf, "__builtins__": {}}))
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


# Where no input is found: sums of ones, which are exact; the fold of matrix units, which is not interpreted; and those
# that need larger sizes than are tried.
WITHOUT = {
    "rounding/counts_in_f32",
    "rounding/reverse_the_fold_of_matrix_units",
    "rounding/reverse_the_sum_of_blocks",
    "rounding/taps_column_by_column",
    "rounding/taps_in_tiles",
    "rounding/taps_skewed_and_turned",
}


def test_every_other_refusal_of_an_order_has_a_witness() -> None:
    searched = {str(e): met(e).error.refusal for e in WITNESSED if met(e).error.refusal.searched}
    assert {name for name, refusal in searched.items() if refusal.witness is None} <= WITHOUT
    assert len(searched) > len(WITNESSED) // 2
