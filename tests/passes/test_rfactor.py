"""rfactor: partial results of their own, with the bits of the same sum written in blocks."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.ir.tree import leaves, loops
from tilewright.passes.rewritten import differences

from .running import kernel, refused

ROWS = "kernel f(X: f32[M, N]) -> (Y: f32[M]) {{ {grant}\n Y[i] = {body} }}"
LENGTHS = (0, 1, 3, 4, 5, 9, 13)


def rows(body: str, grant: str = "allow reassociate") -> tw.Kernel:
    return kernel(ROWS.format(grant=grant, body=body))


def factored(given: tw.Kernel, factor: int) -> tw.Schedule:
    schedule = tw.Schedule(given)
    outer, _ = schedule.split("Y.k", factor)
    schedule.rfactor(outer)
    schedule.parallel(outer)
    return schedule


@pytest.mark.parametrize("factor", [2, 3, 8])
@pytest.mark.parametrize("op", ["sum", "prod"])
def test_the_bits_are_those_of_the_sum_in_blocks(op: str, factor: int) -> None:
    given = rows(f"{op}(k) X[i, k]")
    compiled = tw.compile(given, factored(given, factor))
    written = rows(f"{op}(k, blocks={factor}) X[i, k]", "")
    random = np.random.default_rng(3)
    for length in LENGTHS:
        x = random.standard_normal((3, length)).astype(np.float32)
        np.testing.assert_array_equal(compiled(x), written(x))
    assert compiled.certificate is not None
    assert compiled.certificate.permissions == ("reassociate",)
    assert any(f"blocks={factor}" in line for line in compiled.certificate.proved)


def test_an_exact_reduction_needs_no_permission_and_leans_on_none() -> None:
    given = rows("max(k) X[i, k]", "")
    compiled = tw.compile(given, factored(given, 4))
    assert compiled.certificate is not None
    assert compiled.certificate.permissions == ()
    x = np.arange(26, dtype=np.float32).reshape(2, 13)
    np.testing.assert_array_equal(compiled(x), given(x))


def test_partial_results_are_made_and_merged_only_where_the_reduction_matters() -> None:
    given = kernel(
        "kernel f(X: f64[M, N]) -> (Y: f64[M]) { Y[i] = (max(k) X[i + 1, k]) if i < M - 1 else 1 }",
    )
    schedule = factored(given, 2)
    compiled = tw.compile(given, schedule)
    for height in (1, 2, 5):
        x = np.arange(height * 5, dtype=np.float64).reshape(height, 5)
        np.testing.assert_array_equal(compiled(x), given(x))


def test_without_permission_a_float_sum_is_refused() -> None:
    given = rows("sum(k) X[i, k]", "")
    schedule = tw.Schedule(given)
    outer, _ = schedule.split("Y.k", 4)
    refusal = refused(lambda s: s.rfactor(outer), schedule)
    assert refusal.rule == "rounding"
    assert refusal.witness is not None


def test_the_check_of_rewritten_programs_sees_another_equation() -> None:
    given, other = rows("sum(k) X[i, k]"), rows("sum(k) (X[i, k] + 0)")
    changed = factored(other, 4).state.program
    with pytest.raises(tw.IllegalTransformError, match="not the kernel's"):
        differences(given.program, changed)


def test_the_check_of_rewritten_programs_sees_a_lost_statement() -> None:
    from dataclasses import replace

    given = rows("sum(k) X[i, k]")
    changed = factored(given, 4).state.program
    assert [r.text for r in differences(given.program, changed)] == ["Y: sum with blocks=4"]
    short = replace(changed, statements=tuple(s for s in changed.statements if s.kind != "merge"))
    with pytest.raises(tw.IllegalTransformError, match="not those of its equation"):
        differences(given.program, short)


def test_the_loops_of_the_partial_results_have_names_of_their_own() -> None:
    schedule = factored(rows("sum(k) X[i, k]"), 4)
    names = [loop.index for loop in loops(schedule.state.tree)]
    assert len(names) == len(set(names))
    assert all(set(leaf.indices) <= set(names) for leaf in leaves(schedule.state.tree))


def test_the_merge_of_the_blocks_may_run_in_vector_lanes() -> None:
    given = rows("sum(k, blocks=2) X[i, k]")
    schedule = tw.Schedule(given)
    schedule.vectorize("Y.block2")
    compiled = tw.compile(given, schedule)
    assert compiled.certificate is not None
    assert compiled.certificate.permissions == ("reassociate",)
    strict = tw.Schedule(rows("sum(k, blocks=2) X[i, k]", ""))
    assert refused(lambda s: s.vectorize("Y.block2"), strict).rule == "rounding"


FIRST = "kernel f(X: f32[M, K]) -> (I: i64[M]) where K >= 1 { I[i] = argmax(k) X[i, k] }"


@pytest.mark.parametrize("steps", ["reverse", "rfactor", "backwards", "parallel", "peeled"])
def test_the_first_of_equals_is_found_in_any_order(steps: str) -> None:
    schedule = tw.Schedule(kernel(FIRST))
    if steps == "reverse":
        schedule.reverse("I.k")
    elif steps == "peeled":
        schedule.split("I.k", 4, separate=True)
        schedule.reverse("I.ki")
    else:
        schedule.split("I.k", 4)
        schedule.rfactor("I.ko")
    if steps == "backwards":
        for loop in ("I.ko", "I.ki", schedule.loops[-1]):
            schedule.reverse(loop)
    if steps == "parallel":
        schedule.parallel("I.ko")
    compiled = tw.compile(schedule.kernel, schedule)
    assert compiled.certificate is not None
    assert compiled.certificate.permissions == ()
    rng = np.random.default_rng(7)
    for width in (1, 3, 4, 9, 17):
        # Few values, so that there are ties; NaN is above all numbers, and equal to NaN.
        x = rng.choice(np.float32([-np.inf, -1, 0, -0.0, 2, np.nan]), (40, width))
        np.testing.assert_array_equal(compiled(x), schedule.kernel(x))
        np.testing.assert_array_equal(schedule.kernel.interpreted(x)["I"], schedule.kernel(x))


def test_the_two_values_of_an_argmax_are_kept_beside_one_another() -> None:
    schedule = tw.Schedule(kernel(FIRST))
    assert refused(lambda s: s.distribute("I.k"), schedule).rule == "dependence"
    assert refused(lambda s: s.block("I.k"), schedule).rule == "dependence"
    assert refused(lambda s: s.parallel("I.k"), schedule).rule == "race"
    schedule.split("I.k", 4)
    schedule.rfactor("I.ko")
    merge = schedule.loops[-1]
    assert refused(lambda s: s.distribute(merge), schedule).rule == "dependence"


def test_the_last_value_of_an_argmax_is_kept_where_only_the_index_is_asked_for() -> None:
    given = kernel(
        "kernel f(A: f32[M, N]) -> (Y: f32[M]) where N >= 1 { b[i] = argmax(j) A[i, j]\n Y[i] = A[i, b[i]] }"
    )
    schedule = tw.Schedule(given)
    schedule.compute_at("b", "Y.i")
    schedule.reverse("b.j")
    compiled = tw.compile(given, schedule)
    for a in (np.float32([[1, 2, 3]]), np.float32([[3, 3, 1], [0, 0, 0]])):
        np.testing.assert_array_equal(compiled(a), given(a))
