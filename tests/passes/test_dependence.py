"""Dependences and execution times against a plain enumeration of the instances; isl only lists the points."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import islpy as isl
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir import interpret as interpreter
from tilewright.compiler.ir.fold import added, factors_of
from tilewright.compiler.ir.nest import definition_tree
from tilewright.passes.dependence import dependences, time_maps

from .enumeration import INSTANCES, KERNELS, Element, Instance, chosen_sizes, in_domain, instances, touched

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from tilewright.compiler.ir.expr import Expr
    from tilewright.compiler.ir.program import Program

Pairs = dict[tuple[str, str, str, str], set[tuple[tuple[int, ...], tuple[int, ...]]]]


def expected(program: Program, sizes: Mapping[str, int], order: Sequence[Instance]) -> tuple[Pairs, Pairs]:
    """All pairs that share an element, one of them writing; and those that both add to one accumulator."""
    statements = {s.name: s for s in program.statements}
    events: dict[Element, list[tuple[Instance, bool, bool]]] = defaultdict(list)
    for name, point in order:
        values = {**sizes, **dict(zip(statements[name].iterators, point, strict=True))}
        written, seen = touched(program, statements[name], values)
        for element in {written, *seen}:
            events[element].append(((name, point), element == written, element in seen))
    pairs: Pairs = defaultdict(set)
    reductions: Pairs = defaultdict(set)
    for (tensor, _), found in events.items():
        accumulator = program.tensors[tensor].role == "accumulator"
        for (first, writes, was_read), (second, writes_too, reads_too) in combinations(found, 2):
            kinds = {"flow": writes and reads_too, "anti": was_read and writes_too, "output": writes and writes_too}
            for kind in (k for k, holds_here in kinds.items() if holds_here):
                key = (first[0], second[0], kind, tensor)
                pairs[key].add((first[1], second[1]))
                if accumulator and writes and was_read and writes_too and reads_too:
                    reductions[key].add((first[1], second[1]))
    return pairs, reductions


# What isl says, point by point.


def fixed(relation: isl.Map, sizes: Mapping[str, int]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of a relation at given sizes."""
    for name, value in sizes.items():
        position = relation.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0:
            relation = relation.fix_val(isl.dim_type.param, position, isl.Val(value))
    width, length = relation.dim(isl.dim_type.in_), relation.dim(isl.dim_type.out)
    found: set[tuple[tuple[int, ...], tuple[int, ...]]] = set()

    def add(point: Any) -> None:
        whole = [point.get_coordinate_val(isl.dim_type.set, i).to_python() for i in range(width + length)]
        found.add((tuple(whole[:width]), tuple(whole[width:])))

    relation.wrap().foreach_point(add)
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_dependences_are_those_of_an_enumeration(name: str) -> None:
    program = KERNELS[name]
    relations = dependences(program)
    assert len({d.ends for d in relations}) == len(relations)
    for sizes in chosen_sizes(name):
        order = instances(program, sizes)
        pairs, reductions = expected(program, sizes, order)
        got: Pairs = {}
        got_reductions: Pairs = {}
        for d in relations:
            key = (d.source, d.target, d.kind, d.tensor)
            if found := fixed(d.relation, sizes):
                # Those of two elements of an argmax are kept apart from those of one.
                assert not d.paired or all(a != b for a, b in found)
                got[key] = got.get(key, set()) | found
                if d.reduction:
                    got_reductions[key] = found
        assert set(got) == set(pairs), sizes
        for key, found in pairs.items():
            assert got[key] == found, (sizes, key)
        assert got_reductions == reductions, sizes


@pytest.mark.parametrize("name", KERNELS)
def test_the_definition_writes_everything_once_and_before_it_is_read(name: str) -> None:
    program = KERNELS[name]
    statements = {s.name: s for s in program.statements}
    held = {t.name for t in program.tensors.values() if t.role in ("input", "constant")}
    totals = {t.name for t in program.tensors.values() if t.role == "accumulator"}
    for sizes in chosen_sizes(name):
        done: set[Element] = set()
        for each, point in instances(program, sizes):
            values = {**sizes, **dict(zip(statements[each].iterators, point, strict=True))}
            written, seen = touched(program, statements[each], values, totals=False)
            assert not {e for e in seen - done if e[0] not in held}, (sizes, each, point)
            assert written not in done or written[0] in totals, (sizes, each, point)
            done.add(written)
        for output in program.outputs:
            spans = [range(*e.interval(sizes)) for e in program.tensors[output].extents]
            assert {e for e in done if e[0] == output} == {(output, at) for at in product(*spans)}, sizes


@pytest.mark.parametrize("name", KERNELS)
def test_access_relations_are_those_of_an_enumeration(name: str) -> None:
    program = KERNELS[name]
    for sizes in chosen_sizes(name):
        wanted: dict[tuple[str, str], set[tuple[str, tuple[int, ...], tuple[int, ...]]]] = defaultdict(set)
        statements = {s.name: s for s in program.statements}
        for each, point in in_domain(program, sizes, 10 * INSTANCES) or ():
            values = {**sizes, **dict(zip(statements[each].iterators, point, strict=True))}
            written, seen = touched(program, statements[each], values)
            wanted[each, "write"].add((written[0], point, written[1]))
            wanted[each, "read"] |= {(tensor, point, position) for tensor, position in seen}
        for statement in program.statements:
            for kind in ("read", "write"):
                got = {
                    (access.tensor, point, position)
                    for access in statement.accesses
                    if access.kind == kind
                    for point, position in fixed(program.relation(statement, access), sizes)
                }
                assert got == wanted[statement.name, kind], (sizes, statement.name, kind)


@pytest.mark.parametrize("name", KERNELS)
def test_times_are_distinct_and_in_the_order_of_the_interpreter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = KERNELS[name]
    maps = time_maps(program, definition_tree(program))
    assert set(maps) == {s.name for s in program.statements}
    # What is computed first of each statement: of a matrix unit's sum, one factor, and then the other.
    factors = {s.name: factors_of(added(s.value)) for s in program.statements if s.folds}
    statements = {id(factors[s.name][0] if s.folds else s.value): s for s in program.statements}
    others = {id(right) for _, right in factors.values()}
    assert len(statements) == len(program.statements)
    ran: list[Instance] = []

    def record(node: Expr, values: Mapping[str, int], _: object) -> Generator[Any, Any, int]:
        if id(node) not in others:
            statement = statements[id(node)]
            ran.append((statement.name, tuple(values[n] for n in statement.iterators)))
        return 0
        yield

    monkeypatch.setattr(interpreter, "_value", record)
    for sizes in chosen_sizes(name):
        ran.clear()
        interpreter.interpret(program, random_inputs(program, sizes, 0), sizes, {})
        order = instances(program, sizes)
        assert ran == order, sizes
        assert len(order) == len(set(order)), sizes
        assert set(order) == in_domain(program, sizes, 10 * INSTANCES), sizes
        timed = [(time, (s, point)) for s, relation in maps.items() for point, time in fixed(relation, sizes)]
        assert len(timed) == len(order), "an instance without a time, or with two"
        assert len({time for time, _ in timed}) == len(timed), sizes
        assert [instance for _, instance in sorted(timed)] == order, sizes


def test_the_sizes_tried_are_many_and_small() -> None:
    tried = {name: chosen_sizes(name) for name in KERNELS}
    assert min(map(len, tried.values())) >= 2
    assert sum(map(len, tried.values())) >= 300


# Small programs whose dependences are written out.


def shown(text: str) -> list[str]:
    program = next(iter(tw.parse(text).values())).program
    return [
        f"{'reduction' if d.reduction else 'strict'} {d.kind} {d.source} -> {d.target} on {d.tensor}"
        for d in dependences(program)
    ]


def test_a_sum_has_one_reduction_dependence_of_each_kind() -> None:
    assert shown("kernel f(X: f32[N]) -> (y: f32) { y = sum(i) X[i] }") == [
        "strict flow S_y_init -> S_y_update on y.acc",
        "strict output S_y_init -> S_y_update on y.acc",
        "strict flow S_y_init -> S_y_finish on y.acc",
        "reduction anti S_y_update -> S_y_update on y.acc",
        "reduction flow S_y_update -> S_y_update on y.acc",
        "reduction output S_y_update -> S_y_update on y.acc",
        "strict flow S_y_update -> S_y_finish on y.acc",
    ]


def test_a_recurrence_is_strict() -> None:
    assert shown("kernel f(X: f32[N]) -> (S: f32[N]) { S[i] = X[i] + (S[i - 1] if i > 0 else 0) }") == [
        "strict flow S_S -> S_S on S"
    ]


def test_elementwise_work_has_no_dependence() -> None:
    assert shown("kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] + X[N - 1 - i] }") == []


def test_a_gather_waits_for_every_element_that_it_could_read() -> None:
    text = "kernel f(X: f32[N], at: i32[M]) -> (Y: f32[M]) { T[j] = X[j] + 1\nY[i] = T[at[i]] }"
    program = tw.parse(text)["f"].program
    (found,) = dependences(program)
    assert fixed(found.relation, {"N": 3, "M": 2}) == {((j,), (i,)) for j in range(3) for i in range(2)}


def test_a_guard_keeps_pairs_out() -> None:
    text = "kernel f(X: f32[N]) -> (Y: f32[N]) { T[j] = X[j]\nY[i] = T[i] if i >= 2 else 0 }"
    program = tw.parse(text)["f"].program
    (found,) = dependences(program)
    assert fixed(found.relation, {"N": 4}) == {((2,), (2,)), ((3,), (3,))}
