"""Comparing results bit for bit."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def canonical(array: Array) -> bytes:
    """The bits of an array in row-major order, every NaN made the same one: which NaN it is, is not defined."""
    kept = np.array(array, order="C", copy=True)
    if kept.dtype.kind not in "iub":
        kept[np.isnan(kept)] = np.nan
    return kept.tobytes()


def digest(array: Array) -> str:
    """The first 16 hex digits of the SHA-256 of an array's type, shape and bits."""
    head = f"{array.dtype.name}{list(array.shape)}".encode()
    return hashlib.sha256(head + canonical(array)).hexdigest()[:16]


def same_bits(a: Array, b: Array) -> bool:
    """Whether two arrays have one type, one shape and the same bits, a NaN equalling any NaN."""
    return a.dtype == b.dtype and a.shape == b.shape and canonical(a) == canonical(b)
