"""Running and refusing programs that stand in a test as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]
GUARD = 64
SENTINEL = 0xA5


def kernel_of(text: str) -> Any:
    """The one kernel of *text*."""
    (kernel,) = tw.parse(text).values()
    return kernel


def run(text: str, **arguments: Any) -> Any:
    """Call the one kernel of *text*; see call."""
    return call(kernel_of(text), **arguments)


def call(kernel: Any, **arguments: Any) -> Any:
    """Call *kernel* twice, the second time into buffers with guard bytes on both sides.

    Returns what the first call returned. The second must give the same bits, leave the guards alone,
    and both must leave the arguments as they were.
    """
    before = {name: np.array(value) for name, value in arguments.items()}
    got = kernel(**arguments)
    several = isinstance(got, tuple)
    results: tuple[Array, ...] = got if several else (got,)
    buffers = [np.full(result.nbytes + 2 * GUARD, SENTINEL, np.uint8) for result in results]
    views = tuple(
        buffer[GUARD : GUARD + result.nbytes].view(result.dtype).reshape(result.shape)
        for buffer, result in zip(buffers, results, strict=True)
    )
    kernel(**arguments, out=views if several else views[0])
    for result, view, buffer in zip(results, views, buffers, strict=True):
        assert hex_bits(result) == hex_bits(view)
        assert (buffer[:GUARD] == SENTINEL).all()
        assert (buffer[GUARD + result.nbytes :] == SENTINEL).all()
    for name, value in arguments.items():
        assert hex_bits(np.asarray(value)) == hex_bits(before[name]), f"{name} was changed"
    return got


def f32(values: ArrayLike) -> Array:
    """An f32 array of these values."""
    return np.array(values, np.float32)


def hex_bits(array: Array) -> list[str]:
    """The bit patterns of the elements in row-major order, as hexadecimal digits."""
    width = array.dtype.itemsize
    return [f"{pattern:0{2 * width}x}" for pattern in np.array(array).reshape(-1).view(f"u{width}").tolist()]


def from_bits(digits: str, dtype: Any) -> Array:
    """The array whose elements have these bit patterns (separated by blanks)."""
    width = np.dtype(dtype).itemsize
    return np.array([int(word, 16) for word in digits.split()], f"u{width}").view(dtype)


def ulps(got: Array, want: Any) -> Array:
    """How far f32 results lie from *want* (float64), in units of the last place of want in f32."""
    return abs(got.astype(np.float64) - want) / np.spacing(abs(np.asarray(want)).astype(np.float32))


def refused(marked: str, words: str, hint: str = "") -> None:
    """Parse *marked* without its ^ and require the first error to stand where the ^ stood.

    The message must contain *words*, and the hint must contain *hint*.
    """
    before, after = marked.split("^")
    line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(before + after, name="case.tx")
    first = caught.value.diagnostics[0]
    assert words in first.message
    assert (first.line, first.column) == (line, column)
    assert hint in (first.hint or "")
    assert f"case.tx:{line}:{column}: error: {first.message}" in str(caught.value)
