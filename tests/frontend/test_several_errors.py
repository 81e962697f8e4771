"""A file's independent mistakes are reported in one go, in the order of the text, without echoes."""

from __future__ import annotations

import pytest
import tilewright as tw


def places(text: str) -> list[tuple[int, int, str]]:
    """Line, column and message of every diagnostic that *text* is refused with."""
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(text, name="bad.tx")
    return [(d.line, d.column, d.message) for d in caught.value.diagnostics]


def test_three_independent_semantic_errors() -> None:
    found = places("""\
kernel f(X: f32[N], L: i32[N]) -> (Y: f32[N], Z: f32[N], W: f32[N]) {
    Y[i] = X[i] + L[i]
    Z[i] = X[i + 1]
    W[i] = silo(X[i])
}
""")
    assert [(line, column) for line, column, _ in found] == [(2, 12), (3, 12), (4, 12)]
    assert "'+' joins f32 and i32" in found[0][2]
    assert "reads X outside its range at N=1, i=0" in found[1][2]
    assert "unknown function 'silo'" in found[2][2]


def test_two_syntax_errors_and_one_semantic_error() -> None:
    found = places("""\
kernel f(X: f32[N]) -> (Y: f32[N], Z: f32[N], W: f32[N]) {
    Y[i] = X[i] +
    Z[i] = 0 < X[i] < 1
    W[i] = silo(X[i])
}
""")
    assert [(line, column) for line, column, _ in found] == [(2, 17), (3, 12), (4, 12)]
    assert "'+' needs something on its right" in found[0][2]
    assert "comparisons do not chain" in found[1][2]
    assert "unknown function 'silo'" in found[2][2]


def test_errors_in_two_kernels_of_one_file() -> None:
    found = places("""\
kernel f(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = epz + X[i]
}
kernel g(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = X[i] ** 2
}
""")
    assert [(line, column) for line, column, _ in found] == [(2, 12), (5, 18)]


def test_a_tensor_whose_equation_is_broken_counts_as_defined() -> None:
    found = places("""\
kernel f(X: f32[N]) -> (Y: f32[N]) {
    T[i] = X[i] +
    Y[i] = T[i] * 2
}
""")
    assert [(line, column) for line, column, _ in found] == [(2, 17)]


def test_a_mistyped_intermediate_is_reported_once() -> None:
    found = places("""\
kernel f(X: f32[N], L: i32[N]) -> (Y: f32[N], Z: f32[N]) {
    T[i] = X[i] + L[i]
    Y[i] = T[i] * 2
    Z[i] = T[i] + X[i]
}
""")
    assert [(line, column) for line, column, _ in found] == [(2, 12)]


def test_an_error_in_a_header_ends_the_parse_of_that_kernel_only_once() -> None:
    found = places("""\
kernel f(X f32[N]) -> (Y: f32[N]) {
    Y[i] = X[i]
    Z[i] = 2 * Q[i]
}
""")
    assert [(line, column) for line, column, _ in found] == [(1, 12)]


def test_a_refused_form_in_a_header_is_one_error() -> None:
    found = places("""\
kernel f(X: f32[N]) -> (Y: f32[N]) where 1 <= N <= 4 {
    Y[i] = X[i]
}
""")
    assert [(line, column) for line, column, _ in found] == [(1, 42)]
    assert "comparisons do not chain" in found[0][2]


def test_at_most_twenty_errors_are_reported() -> None:
    lines = "".join(f"    T{i}[j] = X[j] ** {i}\n" for i in range(50))
    found = places(f"kernel f(X: f32[N]) -> (Y: f32[N]) {{\n{lines}    Y[i] = X[i]\n}}\n")
    assert len(found) == 20
    assert [line for line, _, _ in found] == list(range(2, 22))


def test_an_error_inside_a_def_is_shown_at_the_call() -> None:
    found = places("""\
def half(x) = x // 2
kernel f(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = half(X[i])
}
""")
    assert [(line, column) for line, column, _ in found] == [(3, 12)]
    assert found[0][2].startswith("in half: ")
