"""Two steps of a five-point stencil in one pass: a schedule that keeps three rows of the first, and the same in C."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import tilewright as tw

STENCIL = """kernel stencil(X: f32[H, W]) -> (Z: f32[H - 4, W - 4]) where H >= 5, W >= 5 {
    Y[i in 0..H - 2, j in 0..W - 2] =
        (X[i + 1, j + 1] + X[i, j + 1] + X[i + 2, j + 1] + X[i + 1, j] + X[i + 1, j + 2]) * 0.2
    Z[i, j] = (Y[i + 1, j + 1] + Y[i, j + 1] + Y[i + 2, j + 1] + Y[i + 1, j] + Y[i + 1, j + 2]) * 0.2
}"""
# Three rows of the first step go round.
BY_HAND = """
static void row(const float *restrict a, const float *restrict b, const float *restrict c, float *restrict to, long n) {
    for (long j = 0; j < n; j++) to[j] = ((((b[j + 1] + a[j + 1]) + c[j + 1]) + b[j]) + b[j + 2]) * 0.2f;
}
void stencil(const float *x, float *z, float *rows, long h, long w) {
    long wide = w + 4, own = w + 2;
    for (long i = 0; i < h + 2; i++) {
        row(x + i * wide, x + (i + 1) * wide, x + (i + 2) * wide, rows + i % 3 * own, own);
        if (i >= 2) row(rows + (i - 2) % 3 * own, rows + (i - 1) % 3 * own, rows + i % 3 * own, z + (i - 2) * w, w);
    }
}
"""


def fused(kernel: tw.Kernel) -> tw.Schedule:
    """Both steps in one loop over rows, of which three of the first step are kept."""
    import tilewright as tw

    s = tw.Schedule(kernel)
    s.merge("Y.i", "Z.i", 2)
    s.store("Y", fold={0: 3})
    s.vectorize("Y.j")
    s.vectorize("Z.j")
    return s


def by_hand(X: Any) -> Callable[[Any], None] | None:
    """The same in C; None where there is no compiler."""
    import numpy as np

    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    folder = Path(tempfile.mkdtemp())
    (folder / "stencil.c").write_text(BY_HAND)
    made = folder / "stencil.so"
    words = [gcc, "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-o", made, folder / "stencil.c"]
    subprocess.run(words, check=True)
    function = ctypes.CDLL(str(made)).stencil
    function.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
    height, width = (n - 4 for n in X.shape)
    rows = np.empty((3, width + 2), np.float32)
    return lambda out: function(X.ctypes.data, out.ctypes.data, rows.ctypes.data, height, width)
