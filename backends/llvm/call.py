"""Calling compiled code on arrays: a frame of addresses, sizes and numbers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .jit import Linked, assembly, object_of
from .pool import runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from .target import Processor

Array = np.ndarray[Any, Any]
LINE, LARGE = 64, 1 << 16


@dataclass(frozen=True, eq=False)
class Code:
    """A scheduled program as LLVM text, and as a function once it is called.

    *tensors*: those whose addresses a call passes, in order; then come the sizes, the scalars, and what shares loops.
    """

    program: Program
    source: str
    tensors: tuple[str, ...]
    processor: Processor
    # Whether data may give a position outside a tensor.
    fails: bool = False
    # The name of its object file in the cache, if it is known.
    name: str = ""

    @cached_property
    def _linked(self) -> Linked:
        return Linked(object_of(self.source, self.processor, self.name))

    @property
    def address(self) -> int:
        """Where the function is that takes a frame."""
        return self._linked.addresses["kernel"]

    def prepare(self) -> None:
        """Compile and link it."""
        _ = self._linked

    @cached_property
    def assembly(self) -> str:
        """The processor's instructions."""
        return assembly(self.source, self.processor)

    def run(
        self,
        arrays: Mapping[str, Array],
        sizes: Mapping[str, int],
        scalars: Mapping[str, float],
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array] | None:
        """The outputs by name; None where data gave a position outside a tensor.

        *out*: arrays for them, apart from the inputs and from each other (None: new ones).

        Raises:
            MemoryError: there is none for a private tensor.
        """
        held = {n: row_by_row(a) for n, a in arrays.items()}
        for name in self.tensors:
            if name not in held:
                given = out.get(name) if out else None
                # Where data may give a position outside, nothing is written until it is known that none did.
                direct = not self.fails and given is not None and given.flags.c_contiguous and given.flags.aligned
                held[name] = given if given is not None and direct else empty(self.program, name, sizes)
        frame = np.empty(len(self.tensors) + len(self.program.sizes) + len(self.program.scalars) + 1, np.int64)
        words = [held[n].ctypes.data for n in self.tensors]
        words += [sizes[n] for n in self.program.sizes]
        words += [_word(scalars[n], dtype) for n, dtype in self.program.scalars.items()]
        frame[:] = [*words, runner()]
        code = self._linked.function(frame.ctypes.data)
        if code == 2:
            raise MemoryError(f"{self.program.name} found no memory for a buffer of its own")
        if code:
            return None
        for name, array in (out or {}).items():
            if held[name] is not array:
                array[...] = held[name]
                held[name] = array
        return {n: held[n] for n in self.program.outputs}


def _word(value: float, dtype: DType) -> int:
    """A scalar as the eight bytes that a frame has for it."""
    if dtype.is_float:
        data = struct.pack("<d", value) if dtype.bits == 64 else struct.pack("<f4x", value)
    else:
        data = struct.pack("<q", int(value))
    return struct.unpack("<q", data)[0]


def empty(program: Program, name: str, sizes: Mapping[str, int]) -> Array:
    """An array for a tensor of the program, its elements anything."""
    shape, kind = program.tensors[name].shape(sizes), program.tensors[name].dtype.numpy
    if prod(shape) * kind.itemsize < LARGE:
        return np.empty(shape, kind)
    # From a multiple of a line of the cache on, so that whole registers can be written past the caches.
    room = np.empty(prod(shape) * kind.itemsize + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + room.size - LINE].view(kind).reshape(shape)


def row_by_row(array: Array) -> Array:
    """The array, or a copy of it, whose elements lie row by row, each where its type wants it."""
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C", copy=True)
