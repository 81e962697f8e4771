"""Programs: the statements a reduction becomes, the arrays it accumulates in, and the order of the equations."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from tilewright.compiler.ir.program import Shared, stages_of
from tilewright.compiler.ir.quasiaffine import holds
from tilewright.compiler.ir.show import statement_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.compiler.ir.program import Nested, Program

ROOT = Path(__file__).parents[3]
FILES = [*sorted((ROOT / "examples").glob("*.tx")), *sorted((ROOT / "tests/kernels").glob("*.tx"))]
KERNELS = {f"{f.parent.name}/{f.stem}:{n}": k.program for f in FILES for n, k in tw.load(f).items()}


def program_of(text: str) -> Program:
    (kernel,) = tw.parse(text).values()
    return kernel.program


def kernel_of(name: str) -> Program:
    return KERNELS[f"kernels/{name}:{name}"]


def statements(program: Program) -> list[str]:
    """`kind name[ranges]: assignment`, a line for each statement."""
    return [f"{s.kind} {s.name}[{', '.join(map(str, s.ranges))}]: {statement_text(s)}" for s in program.statements]


def arrays(program: Program) -> list[str]:
    """`name: type[extents]` of what the program holds beside its inputs, outputs and constants."""
    found: list[str] = []
    for tensor in program.tensors.values():
        if tensor.role in ("accumulator", "intermediate"):
            ends = [
                f"min({', '.join(map(str, e.lower))})..max({', '.join(map(str, e.upper))})"
                if e.size is None
                else e.size
                for e in tensor.extents
            ]
            found.append(f"{tensor.role} {tensor.name}: {tensor.dtype}[{', '.join(map(str, ends))}]")
    return found


# Reductions.


def test_ascending() -> None:
    program = program_of("kernel f(X: bf16[N, K]) -> (y: f32[N]) { y[i] = 2 * (sum(k) f32(X[i, k])) }")
    assert statements(program) == [
        "init S_y_init[i in 0..N]: y.acc[i] = 0",
        "update S_y_update[i in 0..N, k in 0..K]: y.acc[i] = y.acc[i] + f32(X[i, k])",
        "finish S_y_finish[i in 0..N]: y[i] = 2 * y.acc[i]",
    ]
    assert arrays(program) == ["accumulator y.acc: f32[N]"]
    init, update, finish = program.statements
    assert init.reduction == update.reduction
    assert finish.reduction is None
    assert update.reduction is not None
    assert (update.reduction.op, str(update.reduction.order), update.reduction.accumulator) == (
        "sum",
        "ascending",
        "y.acc",
    )
    assert {s.stage for s in program.statements} == {"y"}


def test_without_a_reduction_there_is_one_statement() -> None:
    assert statements(program_of("kernel f(X: f32[N]) -> (y: f32[N]) { y[i] = X[i] + 1 }")) == [
        "assign S_y[i in 0..N]: y[i] = X[i] + 1"
    ]


def test_lanes_are_merged_in_one_statement() -> None:
    program = program_of("kernel f(X: f32[N, K]) -> (y: f32[N]) { y[i] = sum(k, lanes=4) X[i, k] }")
    assert statements(program) == [
        "init S_y_lanes_init[i in 0..N, lane in 0..4]: y.lanes[i, lane] = 0",
        "update S_y_update[i in 0..N, k in 0..K]: y.lanes[i, k % 4] = y.lanes[i, k % 4] + X[i, k]",
        "merge S_y_merge[i in 0..N]: y.acc[i] = merge(lane in 0..4) y.lanes[i, lane]",
        "finish S_y_finish[i in 0..N]: y[i] = y.acc[i]",
    ]
    assert arrays(program) == ["accumulator y.lanes: f32[N, 4]", "accumulator y.acc: f32[N]"]
    shared = [s.reduction for s in program.statements]
    assert shared[0] == shared[1]
    assert shared[0] is not None
    assert (str(shared[0].order), shared[0].accumulator) == ("lanes=4", "y.lanes")
    assert shared[2] is not None
    assert shared[2].accumulator == "y.acc"


def test_a_merge_reads_every_lane() -> None:
    program = program_of("kernel f(X: f32[K]) -> (y: f32) { y = prod(k, lanes=2) X[k] }")
    merge = next(s for s in program.statements if s.kind == "merge")
    write, read = merge.accesses
    assert (write.kind, write.tensor, write.affine) == ("write", "y.acc", ())
    assert (read.kind, read.tensor, [str(a) for a in read.affine]) == ("read", "y.lanes", ["lane"])
    assert [str(r) for r in read.free] == ["lane in 0..2"]
    init = next(s for s in program.statements if s.kind == "init")
    assert statement_text(init) == "y.lanes[lane] = 1"


def test_blocks_of_the_innermost_index() -> None:
    program = program_of("kernel f(X: f32[N, J, K]) -> (y: f32[N]) { y[i] = sum(j, k, blocks=4) X[i, j, k] }")
    blocks = "(K - 1) // 4 + 1"
    assert statements(program) == [
        f"init S_y_blocks_init[i in 0..N, j in 0..J, block in 0..{blocks}]: y.blocks[i, j, block] = 0",
        "update S_y_update[i in 0..N, j in 0..J, k in 0..K]: "
        "y.blocks[i, j, k // 4] = y.blocks[i, j, k // 4] + X[i, j, k]",
        "init S_y_init[i in 0..N]: y.acc[i] = 0",
        f"merge S_y_merge[i in 0..N, j in 0..J, block in 0..{blocks}]: y.acc[i] = y.acc[i] + y.blocks[i, j, block]",
        "finish S_y_finish[i in 0..N]: y[i] = y.acc[i]",
    ]
    assert arrays(program) == [f"accumulator y.blocks: f32[N, J, {blocks}]", "accumulator y.acc: f32[N]"]


def test_blocks_that_do_not_start_at_zero() -> None:
    program = program_of("kernel f(X: f32[N]) -> (y: f32[N]) { y[i] = sum(k in i..N, blocks=8) X[k] }")
    names = {s.name: [str(r) for r in s.ranges] for s in program.statements}
    assert names["S_y_blocks_init"] == ["i in 0..N", "block in i // 8..(N - 1) // 8 + 1"]
    assert names["S_y_merge"] == names["S_y_blocks_init"]


@pytest.mark.parametrize("op", ["min", "max"])
def test_an_order_that_changes_no_bit_is_dropped(op: str) -> None:
    program = program_of(f"kernel f(X: f32[N]) -> (y: f32) {{ y = {op}(k, blocks=8) X[k] }}")
    assert [s.kind for s in program.statements] == ["init", "update", "finish"]


def test_nested_reductions_run_the_inner_one_first() -> None:
    text = "kernel f(X: f32[N, J, K]) -> (y: f32[N]) { y[i] = allow reassociate in sum(j) (max(k) X[i, j, k]) }"
    program = program_of(text)
    assert statements(program)[:4] == [
        "init S_y.1_init[i in 0..N, j in 0..J]: y.1.acc[i, j] = -inf",
        "update S_y.1_update[i in 0..N, j in 0..J, k in 0..K]: y.1.acc[i, j] = max(y.1.acc[i, j], X[i, j, k])",
        "init S_y.2_init[i in 0..N]: y.2.acc[i] = 0",
        "update S_y.2_update[i in 0..N, j in 0..J]: y.2.acc[i] = y.2.acc[i] + y.1.acc[i, j]",
    ]
    assert arrays(program) == ["accumulator y.1.acc: f32[N, J]", "accumulator y.2.acc: f32[N]"]
    assert {s.reduction.permissions for s in program.statements if s.reduction} == {("reassociate",)}


def test_several_reductions_of_an_equation_are_numbered_in_source_order() -> None:
    text = "kernel f(X: f32[N], Z: f32[M]) -> (y: f32) { y = (sum(j, lanes=2) X[j]) * (prod(j) Z[j]) }"
    assert [s.name for s in program_of(text).statements] == [
        "S_y.1_lanes_init",
        "S_y.1_update",
        "S_y.1_merge",
        "S_y.2_init",
        "S_y.2_update",
        "S_y_finish",
    ]


def test_argmax_moves_its_index_before_its_value() -> None:
    program = program_of("kernel f(X: i32[N, K]) -> (at: i64[N]) where K >= 3 { at[i] = argmax(k in 2..K) X[i, k] }")
    assert statements(program) == [
        "init S_at_best_init[i in 0..N]: at.best[i] = -2147483648",
        "init S_at_init[i in 0..N]: at.acc[i] = 2",
        "update S_at_update[i in 0..N, k in 2..K]: at.acc[i] = "
        "k if X[i, k] > at.best[i] or X[i, k] == at.best[i] and k < at.acc[i] else at.acc[i]",
        "update S_at_best_update[i in 0..N, k in 2..K]: at.best[i] = max(at.best[i], X[i, k])",
        "finish S_at_finish[i in 0..N]: at[i] = at.acc[i]",
    ]
    assert arrays(program) == ["accumulator at.best: i32[N]", "accumulator at.acc: i64[N]"]


STARTS = {
    "sum f32": "0",
    "prod f32": "1",
    "min f32": "inf",
    "max f16": "-inf",
    "sum i32": "0",
    "prod u8": "1",
    "min i8": "127",
    "max u8": "0",
    "any bool": "false",
    "all bool": "true",
}


@pytest.mark.parametrize("case", STARTS)
def test_what_an_accumulator_starts_from(case: str) -> None:
    op, dtype = case.split()
    program = program_of(f"kernel f(X: {dtype}[N]) -> (y: {dtype}) {{ y = {op}(k) X[k] }}")
    assert statement_text(program.statements[0]) == f"y.acc = {STARTS[case]}"


# Stages and extents.


def test_the_equations_of_a_tensor_are_numbered_in_source_order() -> None:
    program = kernel_of("stencil_time")
    assert [s.name for s in program.stages] == ["U#1", "U#2", "U#3", "U#4", "U#5", "U#6", "R"]
    assert [str(program.stage(f"U#{n}").lefts[0]) for n in (1, 2, 3)] == ["0", "t", "t"]
    assert [s.name for s in program.statements_of("U#2")] == ["S_U#2"]
    assert {s.tensor for s in program.stages} == {"U", "R"}


def test_triangular_intermediates_are_held_in_their_hull() -> None:
    window = kernel_of("attention_window")
    assert arrays(window)[0] == "intermediate S: f32[T, T]"
    assert [str(r) for r in window.stage("S").ranges] == ["t in 0..T", "s in max(0, t - 3)..t + 1"]
    assert "accumulator L#2.acc: f64[N, N - 1]" in arrays(kernel_of("cholesky"))


def test_an_intermediate_may_start_above_zero_and_end_at_the_greatest_of_several_ends() -> None:
    text = """kernel f(X: f32[M], Z: f32[N]) -> (y: f32[M]) {
        T[0, j in 2..M + 2] = X[j - 2]
        T[1, j in 3..N + 3] = Z[j - 3]
        y[i] = T[0, i + 2]
    }"""
    assert arrays(program_of(text)) == ["intermediate T: f32[2, min(2)..max(M + 2, N + 3)]"]


def points(program: Program, stage: str, sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The values of a stage's indices."""
    found: list[dict[str, int]] = [dict(sizes)]
    for each in program.stage(stage).ranges:
        found = [
            {**p, each.index: v}
            for p in found
            for v in range(max(a.evaluate(p) for a in each.lower), min(b.evaluate(p) for b in each.upper))
        ]
    yield from found


@pytest.mark.parametrize("name", KERNELS)
def test_an_intermediate_is_as_large_as_its_equations_need_and_no_larger(name: str) -> None:
    program = KERNELS[name]
    every = [dict(zip(program.sizes, t, strict=True)) for t in product((0, 1, 3, 4), repeat=len(program.sizes))]
    tried = [s for s in every if holds(program.context, s)][:: max(1, len(every) // 40)]
    tight: set[tuple[str, int]] = set()
    for sizes in tried:
        for tensor in program.tensors.values():
            if tensor.role != "intermediate":
                continue
            written = [
                [a.evaluate(p) for a in stage.lefts]
                for stage in program.stages
                if stage.tensor == tensor.name
                for p in points(program, stage.name, sizes)
            ]
            for place, extent in enumerate(tensor.extents):
                first, count = extent.interval(sizes)
                at = [position[place] for position in written]
                assert all(first <= p < first + count for p in at), (sizes, tensor.name, place)
                if at and (min(at), max(at)) == (first, first + count - 1):
                    tight.add((tensor.name, place))
    held = [t for t in program.tensors.values() if t.role == "intermediate"]
    assert tight == {(t.name, place) for t in held for place in range(t.rank)}


# The order of the equations.


def nested(order: tuple[Nested, ...]) -> list[object]:
    """An order as plain lists: (position, direction, members) for a shared loop."""
    return [
        item if isinstance(item, str) else (item.position, "down" if item.descending else "up", nested(item.members))
        for item in order
    ]


ORDERS: dict[str, list[object]] = {
    "softmax": ["m", "e", "s", "Y"],
    "backsolve": [(0, "down", ["x"])],
    "trisolve": [(0, "up", ["X"])],
    "gotoh": ["E#1", "H#1", "H#2", "F#1", (0, "up", ["F#2", (1, "up", ["E#2", "H#3"])])],
    "lstm": ["h#1", "c#1", (0, "up", ["c#2", "h#2", "g"])],
    "cholesky": ["L#3", (1, "up", ["L#1", "L#2"])],
    "lu": ["L#2", "L#3", "U#1", (0, "up", [(1, "up", ["L#1"]), "U#2"])],
    "stencil_time": ["U#1", "U#3", "U#4", "U#5", "U#6", (0, "up", ["U#2"]), "R"],
    "wavefront": [(0, "up", [(1, "up", ["D"])])],
    "concat_rows": ["Y#1", "Y#2", "ramp"],
}


@pytest.mark.parametrize("name", ORDERS)
def test_order_of_the_definition(name: str) -> None:
    assert nested(kernel_of(name).order) == ORDERS[name]


def test_equations_that_do_not_need_one_another_keep_their_order() -> None:
    text = (
        "kernel f(X: f32[N]) -> (z: f32[N], y: f32[N]) { b[i] = X[i] + 1\na[i] = X[i] * 2\ny[i] = a[i]\nz[i] = b[i] }"
    )
    program = program_of(text)
    assert program.order == ("b", "a", "y", "z")
    assert [s.name for s in program.statements] == ["S_b", "S_a", "S_y", "S_z"]
    assert program.outputs == ("z", "y")


def test_the_extent_of_a_shared_loop_holds_all_its_members() -> None:
    (shared,) = (item for item in kernel_of("lstm").order if isinstance(item, Shared))
    assert shared.extent is not None
    assert shared.extent.interval({"T": 5, "D": 1, "N": 1}) == (0, 6)


@pytest.mark.parametrize("name", KERNELS)
def test_every_stage_and_statement_stands_in_the_program_once(name: str) -> None:
    program = KERNELS[name]
    order = list(stages_of(program.order))
    assert sorted(order) == sorted(s.name for s in program.stages)
    assert [s.name for stage in order for s in program.statements_of(stage)] == [s.name for s in program.statements]
    assert len({s.name for s in program.statements}) == len(program.statements)
