"""A call from Python that costs as little as one of the interpreter's own functions.

One function in LLVM text, made once for a process, stands behind every kernel: it reads the arguments where CPython and
numpy have them, and compares what it finds with calls that went well before. Is one of them like this, in types, shapes
and the order of elements in memory, and does no output share memory with anything, then it runs the kernel on the
addresses. Whatever else is given goes to the slow call, which converts, or says what is wrong, and from which this
one learns.

Where the objects do not lie as expected (another interpreter, another numpy), all calls are slow ones.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compiler.ir.expr import Scalar, postorder
from .call import empty
from .jit import Linked, object_of
from .pool import cell
from .quick_text import TEXT, Kind
from .target import host

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...compiler.ir.program import Program
    from .call import Code

Array = np.ndarray[Any, Any]
# How many calls are remembered; and from how many bytes on other Python threads may run beside a kernel without sums.
MOST, LONG = 256, 4096
LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


class _Header(np.ndarray[Any, Any]):
    """The words that a function reads, and what has to live as long as they do."""

    kept: list[Any]


class Quick:
    """The quick call of a kernel: *function* takes what *slow* takes, and gives what it gives."""

    def __init__(self, code: Code, slow: Callable[..., Any]) -> None:
        self.code = code
        # The arguments of the calls that are remembered, as their words have them.
        self._known: set[tuple[int, ...]] = set()
        self._header: _Header | None = None
        self.function = slow
        if not usable() or not _plain(code.program):
            return
        words = [
            id(np.ndarray),
            id(_OUT),
            id(slow),
            code.address,
            len(code.program.parameters),
            0,
            id(float),
            id(int),
            cell.ctypes.data,
            id(None),
        ]
        header = np.array(words, np.int64).view(_Header)
        header.kept = [slow, code]
        self._header = header
        self.function = _function(header)

    def learn(self, args: Sequence[Any], sizes: Mapping[str, int]) -> None:
        """Remember a call that went well. *args*: in the order of the parameters."""
        header = self._header
        if header is None or len(self._known) == MOST or len(args) != len(self.code.program.parameters):
            return
        memo = _memo(self.code, args, sizes, int(header[5]))
        if memo is None:
            return
        given, words, others = memo
        if given in self._known:
            return
        header.kept += [words, *others]
        header[5] = words.ctypes.data
        self._known.add(given)


_OUT = sys.intern("out")


def _plain(program: Program) -> bool:
    """Whether every scalar is of a type that is read from an object without more ado."""
    return all(d.is_int or (d.is_float and d.bits >= 32) for d in program.scalars.values())


def _memo(
    code: Code, args: Sequence[Any], sizes: Mapping[str, int], following: int
) -> tuple[tuple[int, ...], Array, list[Any]] | None:
    """The words of a call's arguments, all of its words, and what they point to; None for one that is not to be
    remembered."""
    program = code.program
    places = {n: k for k, n in enumerate(code.tensors)}
    start = len(places)
    frame = np.zeros(start + len(program.sizes) + len(program.scalars) + 1, np.int64)
    frame[start : start + len(program.sizes)] = [sizes[n] for n in program.sizes]
    scalars = {n: start + len(program.sizes) + k for k, n in enumerate(program.scalars)}
    promised = any(isinstance(n, Scalar) for p in program.promises for n in postorder(p.value))
    kept: list[Any] = [frame]
    given: list[int] = []
    total = 0
    for name, value in zip(program.parameters, args, strict=True):
        if name in scalars:
            found = _scalar(program, name, value, scalars[name], promised)
            if found is None:
                return None
            given += found
            continue
        if type(value) is not np.ndarray or not (value.flags.c_contiguous and value.flags.aligned):
            return None
        if value.dtype is not program.tensors[name].dtype.numpy:
            return None  # the same type by another object
        kept.append(value.dtype)
        given += [Kind.ARRAY, places.get(name, -1), id(value.dtype), value.ndim, value.nbytes, *value.shape]
        total += value.nbytes
    made: list[int] = []
    outputs = [n for n in code.tensors if n in program.outputs]
    if tuple(outputs) != tuple(program.outputs):
        return None
    private = [n for n in code.tensors if n not in program.outputs and n not in program.parameters]
    for name in (*outputs, *private):
        shape, dtype = program.tensors[name].shape(sizes), program.tensors[name].dtype.numpy
        size = prod(shape) * dtype.itemsize
        maker = partial(np.empty, shape, dtype) if size < LONG else partial(empty, program, name, dict(sizes))
        kept += [maker, dtype]
        made += [places[name], id(dtype), len(shape), size, id(maker), *shape]
        total += size
    # A sum of few elements may have many terms.
    long = total >= LONG or any(s.kind == "update" for s in program.statements)
    head = [following, len(outputs), len(private), int(long), frame.ctypes.data, len(frame), int(code.fails)]
    return tuple(given), np.array([*head, *given, *made], np.int64), kept


def _scalar(program: Program, name: str, value: Any, place: int, promised: bool) -> list[int] | None:
    dtype = program.scalars[name]
    if dtype.is_int and type(value) is int and not promised:
        least, greatest = max(LEAST, dtype.least), min(GREATEST, dtype.greatest)
        return [Kind.INT, place, int(least), int(greatest), 0]
    if dtype.is_float and type(value) is float and not promised:
        return [Kind.F64 if dtype.bits == 64 else Kind.F32, place, 0, 0, 0]
    return None


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


@cache
def _method() -> tuple[_MethodDef, Linked]:
    linked = Linked(object_of(TEXT, host()), "call")
    fast, keywords = 0x80, 0x02
    method = _MethodDef(b"kernel", linked.addresses["call"], fast | keywords, None)
    for one in (method, linked, cell):
        # A function may be called, or go, after all modules are gone.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    return method, linked


def _function(header: _Header) -> Callable[..., Any]:
    """A function of the interpreter whose self is the header."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method()[0]), header, None)


@cache
def usable() -> bool:
    """Whether arrays, numbers and tuples lie in this interpreter's memory as the function reads them."""
    if sys.implementation.name != "cpython" or sys.maxsize < 1 << 60 or getattr(sys, "abiflags", "").count("t"):
        return False

    def word(thing: Any, at: int, kind: Any = ctypes.c_int64) -> Any:
        return kind.from_address(id(thing) + at).value

    for example in (np.zeros((3, 5), np.float32), np.zeros(7, np.int8)[::2], np.broadcast_to(np.float64(1), (2, 3, 4))):
        shape = (ctypes.c_int64 * example.ndim).from_address(word(example, 32))
        found = word(example, 8), word(example, 16), word(example, 24, ctypes.c_int32), tuple(shape), word(example, 56)
        wanted = id(np.ndarray), example.ctypes.data, example.ndim, example.shape, id(example.dtype)
        if found != wanted or word(example, 64, ctypes.c_int32) & 0x501 != example.flags.num & 0x501:
            return False
    pair = (_OUT, 2.5)
    number = word(pair, 16) == 2 and word(pair, 24) == id(_OUT) and word(2.5, 16, ctypes.c_double) == 2.5
    return number and word(2.5, 8) == id(float) and word(1 << 40, 8) == id(int)
