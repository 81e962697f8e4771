"""Counting points in closed form, against listing them."""

from __future__ import annotations

import islpy as isl
import pytest
import sympy
from tilewright.cost.count import count, listed, most, number

SHAPES = {
    "[M, N] -> { [i, j] : 0 <= i < M and 0 <= j < N }": "M*N",
    "[M, K, N] -> { [io, jo, ko, i, k] : 0 <= i < M and 0 <= k < K and 0 <= 256jo < N "
    "and 128io <= i < 128io + 128 and 64ko <= k < 64ko + 64 }": "K*M*ceiling(N/256)",
    "[M] -> { [io, ii] : 0 <= ii < 64 and 0 <= 64io + ii < M }": "M",
    "[M, N] -> { [go, w, j] : 0 <= w < 16 and 0 <= 16 * (16go + w) < M and 0 <= j < N }": "N*ceiling(M/16)",
    "[N] -> { [i, j] : 0 <= j <= i < N }": "N*(N + 1)/2",
    "[N] -> { [i, j, k] : 0 <= k <= j <= i < N }": "N*(N + 1)*(N + 2)/6",
    "[N] -> { [i, e] : e = 2i and 0 <= i < N }": "N",
    "{ [i] : 3 <= i < 10 }": "7",
    "[N] -> { [i] : 0 <= i < N and i < 0 }": "0",
}


@pytest.mark.parametrize("text", SHAPES)
def test_points_are_counted_by_a_formula(text: str) -> None:
    points = isl.Set(text)
    found = count(points)
    assert found is not None
    assert str(found) == SHAPES[text]
    names = [str(points.get_dim_name(isl.dim_type.param, n)) for n in range(points.dim(isl.dim_type.param))]
    for size in (1, 2, 17, 130):
        sizes = {name: size + place for place, name in enumerate(names)}
        if number(found, sizes) < 5000:
            assert number(found, sizes) == listed(points, sizes, names)


def test_what_has_no_formula_is_listed() -> None:
    band = isl.Set("[N] -> { [i, j] : 0 <= i < N and 0 <= j < N and i - 3 <= j <= i + 3 }")
    assert count(band) is None
    assert listed(band, {"N": 5}, ["N"]) == 5 * 5 - 2
    with pytest.raises(KeyError, match="N has no value"):
        number(2 * sympy.Symbol("N"), {})


def test_the_most_values_of_a_dimension() -> None:
    tiles = isl.Set("[N] -> { [t, i] : 0 <= i < N and 8t <= i < 8t + 8 }")
    assert most(tiles, 1) == 8
    assert most(tiles, 0) is None


@pytest.mark.parametrize(
    "text", [*SHAPES, "[N] -> { [i, j, k] : 0 <= i <= j < N and 0 <= k < 3 and (i + k) mod 2 = 0 }"]
)
def test_listing_leaves_out_what_hangs_on_nothing(text: str) -> None:
    points = isl.Set(text)
    names = [str(points.get_dim_name(isl.dim_type.param, n)) for n in range(points.dim(isl.dim_type.param))]
    fixed = points
    for position, _ in enumerate(names):
        fixed = fixed.fix_val(isl.dim_type.param, position, isl.Val(17))
    assert listed(points, dict.fromkeys(names, 17), names) == int(fixed.count_val().to_python())
