"""Arrays of other libraries as numpy arrays of the same memory, by DLPack or numpy's own protocol."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from .ir.dtype import DTYPES

Array = np.ndarray[Any, Any]
# Types that numpy takes no DLPack of: by their code and bits in the protocol (dlpack.h, DLDataTypeCode).
NARROW = {(4, 16): "bf16", (10, 8): "f8e4m3", (12, 8): "f8e5m2"}
CPU = 1


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned; the first bit of *flags*: nobody may write."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def as_array(value: Any) -> Array | None:
    """The array that something is, or shares its memory with; None for what is no array.

    Raises:
        ValueError: it is one that cannot be shared: on another device, say, or part of a graph of derivatives.
    """
    if isinstance(value, np.ndarray):
        return np.asarray(value)
    try:
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
            if int(value.__dlpack_device__()[0]) != CPU:
                raise ValueError("it lies on another device; copy it to the CPU first")
            if getattr(value, "is_neg", bool)():
                raise ValueError("its numbers are the negatives of those in its memory; resolve_neg() makes them plain")
            return _from_dlpack(value)
        if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
            return np.asarray(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise ValueError(f"it does not share its memory: {error}") from None
    return None


def _from_dlpack(value: Any) -> Array:
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError):
        found = _narrow(value)
        if found is None:
            raise
        return found


def _narrow(value: Any) -> Array | None:
    """An array of a type that numpy does not know, by what its capsule says; None for other types."""
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = value.__dlpack__()
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    label = name(capsule)
    versioned = label == b"dltensor_versioned"
    whole = pointer(capsule, label)
    tensor = _Versioned.from_address(whole).tensor if versioned else _Tensor.from_address(whole)
    # An old capsule does not say whether one may write: numpy takes it that one may not.
    fixed = not versioned or bool(_Versioned.from_address(whole).flags & 1)
    kind = NARROW.get((tensor.code, tensor.bits))
    if kind is None or tensor.lanes != 1:
        return None
    dtype = DTYPES[kind].numpy
    shape = tuple(tensor.shape[n] for n in range(tensor.rank))
    if 0 in shape:
        return np.empty(shape, dtype)
    # Where there are none, the elements lie row by row.
    strides = [tensor.strides[n] for n in range(tensor.rank)] if tensor.strides else None
    last = prod(shape) - 1 if strides is None else sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    size = (last + 1) * dtype.itemsize
    memory = (ctypes.c_char * size).from_address(tensor.data + tensor.offset)
    # The capsule, which nobody has used up, gives the memory back when it goes.
    memory.owner = capsule  # pyright: ignore[reportAttributeAccessIssue]
    found = np.ndarray(shape, dtype, memoryview(memory), 0, strides and [s * dtype.itemsize for s in strides])
    found.flags.writeable = not fixed
    return found
