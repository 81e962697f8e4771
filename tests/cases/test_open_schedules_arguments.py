"""Arguments of scheduled kernels: overlap, and arrays that are not plain row-major ones (OPEN-20, 21)."""

from __future__ import annotations

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, call
from .scheduling import Wanted, compiled, kept

PLUS = "kernel plus(x: f32[N], y: f32[N]) -> (o: f32[N]) {\n    t[i] = 2 * x[i]\n    o[i] = t[i] + y[i]\n}\n"
PLUS_STEPS: tuple[Wanted, ...] = (("split", "o.i", 3), ("compute_at", "t", "o.io"), ("parallel", "o.io"))


def test_open_20_overlap_is_checked_on_every_call() -> None:
    plus = compiled(PLUS, *PLUS_STEPS)
    assert plus(x=np.ones(4, np.float32), y=np.ones(4, np.float32)).tolist() == [3] * 4
    base = np.arange(8, dtype=np.float32)
    assert call(plus, x=base[0:4], y=base[2:6]).tolist() == [2, 5, 8, 11]
    for out in (base[0:4], base[2:6], base[3:7]):
        for _ in range(2):
            with pytest.raises(tw.ArgumentError, match=r"\bo\b"):
                plus(x=base[0:4], y=base[2:6], out=out)
            assert base.tolist() == list(range(8))
    woven = np.ones(8, np.float32)
    plus(x=woven[0::2], y=np.ones(4, np.float32), out=woven[1::2])
    assert woven.tolist() == [1, 3] * 4


STRIDED = """
kernel strided(x: f32[M, N]) -> (y: f32[M, N], s: f32[M]) {
    y[i, j] = x[i, j] - 0.25
    s[i] = sum(j) x[i, j]
}
"""
STRIDED_STEPS: tuple[Wanted, ...] = (("tile", "y.i", "y.j", 2, 3), ("merge", "y.io", "s.i"), ("vectorize", "y.ji"))
BASE = np.arange(70, dtype=np.float32).reshape(5, 7, 2)
ROW = BASE[0:1, :, 0]
VIEWS: dict[str, Array] = {
    "rows reversed": BASE[::-1, :, 0],
    "transposed": BASE[:, :, 1].T,
    "columns reversed by two": BASE[:, ::-2, 0],
    "one row broadcast": np.broadcast_to(ROW, (5, 7)),
    "one row, stride 10^9": np.lib.stride_tricks.as_strided(ROW, (1, 7), (10**9, 8)),
    "Fortran order": np.asfortranarray(BASE[:, :, 0]),
}


@pytest.mark.parametrize("view", VIEWS)
def test_open_21_strides_are_followed(view: str) -> None:
    x = VIEWS[view]
    y, s = kept(STRIDED, *STRIDED_STEPS, x=x)
    assert y.tolist() == (np.array(x) - 0.25).tolist()
    assert s.tolist() == np.array(x).sum(axis=1).tolist()


def test_open_21_an_output_with_strides() -> None:
    text = "kernel plain(x: f32[M, N]) -> (y: f32[M, N]) {\n    y[i, j] = x[i, j] - 0.25\n}\n"
    plain = compiled(text, ("tile", "y.i", "y.j", 2, 3))
    Z = np.zeros((5, 14), np.float32)
    plain(x=BASE[:, :, 0], out=Z[::-1, ::2])
    assert Z[::-1, ::2].tolist() == (BASE[:, :, 0] - 0.25).tolist()
    assert not Z[:, 1::2].any()
    with pytest.raises(tw.ArgumentError, match="overlap"):
        plain(x=BASE[:, :, 0], out=np.lib.stride_tricks.as_strided(np.zeros(7, np.float32), (5, 7), (0, 4)))
