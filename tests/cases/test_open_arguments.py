"""Arguments that overlap, and arrays that are not plain row-major ones (OPEN-20, 21)."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, call, f32, kernel_of

TWICE = """
kernel twice(x: f32[N], y: f32[N]) -> (z: f32[N], o: f32[N]) {
    z[i] = 2 * x[i]
    o[i] = z[i] + y[i]
}
"""
PLUS = "kernel plus(x: f32[N], y: f32[N]) -> (o: f32[N]) {\n    o[i] = 2 * x[i] + y[i]\n}\n"


def ones(*shape: int) -> Array:
    """1.0 in f32."""
    return np.ones(shape, np.float32)


def names(error: Exception) -> set[str]:
    """The words of a message."""
    return set(re.findall(r"\w+", str(error)))


def test_open_20_inputs_may_overlap_on_every_call() -> None:
    kernel = kernel_of(TWICE)
    assert kernel(x=ones(4), y=ones(4))[1].tolist() == [3] * 4
    base = np.arange(8, dtype=np.float32)
    z, o = call(kernel, x=base[0:4], y=base[2:6])
    assert (z.tolist(), o.tolist()) == ([0, 2, 4, 6], [2, 5, 8, 11])
    assert base.tolist() == list(range(8))
    same = ones(4)
    assert call(kernel, x=same, y=same)[1].tolist() == [3] * 4


@pytest.mark.parametrize(
    ("x", "y", "out", "named"),
    [
        (slice(0, 4), slice(8, 12), slice(0, 4), "x"),
        (slice(0, 4), slice(8, 12), slice(2, 6), "x"),
        (slice(8, 12), slice(0, 4), slice(0, 4), "y"),
        (slice(8, 12), slice(0, 4), slice(3, 7), "y"),
        (slice(0, 8, 2), slice(8, 12), slice(2, 6), "x"),
        (slice(3, None, -1), slice(8, 12), slice(0, 4), "x"),
    ],
)
def test_open_20_an_output_over_an_input_is_refused(x: slice, y: slice, out: slice, named: str) -> None:
    kernel = kernel_of(PLUS)
    base = np.arange(16, dtype=np.float32)
    kernel(x=ones(4), y=ones(4), out=ones(4))
    before = base.copy()
    for _ in range(2):
        with pytest.raises(tw.ArgumentError) as caught:
            kernel(x=base[x][:4], y=base[y], out=base[out])
        assert names(caught.value) >= {"o", named}
        assert base.tolist() == before.tolist()


def test_open_20_two_outputs_over_one_another_are_refused() -> None:
    kernel, base = kernel_of(TWICE), np.full(8, 5, np.float32)
    with pytest.raises(tw.ArgumentError) as caught:
        kernel(x=ones(4), y=ones(4), out=(base[0:4], base[3:7]))
    assert names(caught.value) >= {"z", "o"}
    assert base.tolist() == [5] * 8


def test_open_20_views_that_interleave_without_touching_are_accepted() -> None:
    kernel, base = kernel_of(PLUS), ones(8)
    kernel(x=base[0::2], y=ones(4), out=base[1::2])
    assert base.tolist() == [1, 3] * 4
    plane = ones(4, 4)
    kernel(x=plane[:, 0], y=plane[:, 1], out=plane[:, 2])
    assert plane.tolist() == [[1, 1, 3, 1]] * 4
    both = np.zeros((4, 2), np.float32)
    kernel_of(TWICE)(x=ones(4), y=ones(4), out=(both[:, 0], both[:, 1]))
    assert both.tolist() == [[2, 3]] * 4


def test_open_20_outputs_by_name() -> None:
    z, o = np.zeros(4, np.float32), np.zeros(4, np.float32)
    kernel_of(TWICE)(x=ones(4), y=ones(4), out={"o": o, "z": z})
    assert (z.tolist(), o.tolist()) == ([2] * 4, [3] * 4)


STRIDED = """
kernel strided(x: f32[M, N]) -> (y: f32[M, N], s: f32[M]) {
    y[i, j] = x[i, j] - 0.25
    s[i] = sum(j) x[i, j]
}
"""
BASE = np.arange(70, dtype=np.float32).reshape(5, 7, 2)
ROW = BASE[0:1, :, 0]


def read_only(array: Array) -> Array:
    """A copy that cannot be written."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


VIEWS: dict[str, tuple[Array, list[int] | None]] = {
    "rows reversed": (BASE[::-1, :, 0], [434, 336, 238, 140, 42]),
    "transposed": (BASE[:, :, 1].T, [145, 155, 165, 175, 185, 195, 205]),
    "columns reversed by two": (BASE[:, ::-2, 0], None),
    "one row broadcast": (np.broadcast_to(ROW, (5, 7)), [42] * 5),
    "one row, stride 4": (np.lib.stride_tricks.as_strided(ROW, (1, 7), (4, 8)), [42]),
    "one row, stride 10^9": (np.lib.stride_tricks.as_strided(ROW, (1, 7), (10**9, 8)), [42]),
    "Fortran order": (np.asfortranarray(BASE[:, :, 0]), [42, 140, 238, 336, 434]),
    "read-only": (read_only(BASE[:, :, 0]), [42, 140, 238, 336, 434]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_open_21_strides_are_followed(view: str) -> None:
    x, sums = VIEWS[view]
    kernel = kernel_of(STRIDED)
    call(kernel, x=x)
    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(lambda _: kernel(x=x), range(20)))
    for y, s in results:
        assert y.tolist() == (np.array(x) - 0.25).tolist()
        assert s.tolist() == (x.sum(axis=1).tolist() if sums is None else sums)


def test_open_21_places_in_a_view() -> None:
    y, _ = kernel_of(STRIDED)(x=BASE[::-1, :, 0])
    assert y[0, :3].tolist() == [55.75, 57.75, 59.75]
    y, _ = kernel_of(STRIDED)(x=BASE[:, ::-2, 0])
    assert y[0].tolist() == [11.75, 7.75, 3.75, -0.25]


def misaligned() -> Array:
    """BASE[:, :, 0] at an address that is no multiple of 4."""
    buffer = np.zeros(5 * 7 * 4 + 1, np.uint8)
    array = buffer[1:].view(np.float32).reshape(5, 7)
    array[...] = BASE[:, :, 0]
    return array


@pytest.mark.parametrize("x", [BASE[:, :, 0].astype(">f4"), misaligned()], ids=["big-endian", "misaligned"])
def test_open_21_foreign_layouts_are_converted_or_refused(x: Array) -> None:
    try:
        y, s = kernel_of(STRIDED)(x=x)
    except tw.ArgumentError as error:
        refusal = error
    else:
        assert s.tolist() == [42, 140, 238, 336, 434]
        assert y[0].tolist() == [-0.25, 1.75, 3.75, 5.75, 7.75, 9.75, 11.75]
        return
    assert "x" in names(refusal)


PLAIN = "kernel plain(x: f32[M, N]) -> (y: f32[M, N]) {\n    y[i, j] = x[i, j] - 0.25\n}\n"


def test_open_21_an_output_with_strides() -> None:
    Z = np.zeros((5, 14), np.float32)
    kernel_of(PLAIN)(x=BASE[:, :, 0], out=Z[::-1, ::2])
    assert Z[::-1, ::2].tolist() == (BASE[:, :, 0] - 0.25).tolist()
    assert not Z[:, 1::2].any()


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (np.lib.stride_tricks.as_strided(np.zeros(7, np.float32), (5, 7), (0, 4)), "overlap"),
        (read_only(np.zeros((5, 7), np.float32)), "read-only"),
        (np.zeros((5, 7), np.float64), "f32"),
        (np.zeros((7, 5), np.float32), r"\by\b"),
        (np.zeros(35, np.float32), r"\by\b"),
        (np.zeros((5, 7), ">f4"), r"\by\b"),
    ],
    ids=["stride 0", "read-only", "wrong type", "wrong shape", "wrong rank", "big-endian"],
)
def test_open_21_outputs_that_cannot_hold_the_result_are_refused(out: Array, words: str) -> None:
    before = out.tolist()
    with pytest.raises(tw.ArgumentError, match=words):
        kernel_of(PLAIN)(x=BASE[:, :, 0], out=out)
    assert out.tolist() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"x": f32([1, 2])}, "x"),
        ({"x": np.zeros((2, 2))}, "f32"),
        ({}, "x"),
        ({"x": ones(2, 2), "z": ones(2)}, "z"),
        ({"x": ones(2, 2), "M": 3}, "M"),
    ],
    ids=["rank", "type", "missing", "unknown", "size"],
)
def test_open_21_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises((tw.ArgumentError, TypeError), match=words):
        kernel_of(PLAIN)(**arguments)


def test_open_21_subclasses_of_arrays() -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(BASE[:, :, 0])
    y, s = kernel_of(STRIDED)(x=matrix)
    assert type(y) is np.ndarray
    assert s.tolist() == [42, 140, 238, 336, 434]
    # A mask would be lost without a word.
    with pytest.raises(tw.ArgumentError, match="mask"):
        kernel_of(STRIDED)(x=np.ma.masked_less(BASE[:, :, 0], 10))


@pytest.mark.parametrize("size", [-1, 2.0, 2**63, "3", None, True])
def test_open_21_a_size_is_a_whole_number(size: Any) -> None:
    kernel = kernel_of("kernel ramp(N: size) -> (y: i64[N]) {\n    y[i] = i\n}\n")
    with pytest.raises(tw.ArgumentError, match=r"\bN\b"):
        kernel(N=size)
    assert kernel(N=3).tolist() == [0, 1, 2]
