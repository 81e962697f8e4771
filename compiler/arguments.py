"""Binding a call's arguments to a kernel: sizes, types, promises, and where the outputs go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from .exchange import as_array
from .ir.errors import TilewrightError
from .ir.expr import Index, Scalar, postorder
from .ir.interpret import evaluate
from .ir.program import index_expressions, magnitude
from .ir.scalar import round_to

if TYPE_CHECKING:
    from .ir.dtype import DType
    from .ir.program import Condition, Program, Tensor

Array = np.ndarray[Any, Any]
Number = float | int | bool

# numpy's exact overlap test is exponential in the worst case; beyond this the answer is taken to be yes.
OVERLAP_WORK = 100_000

# The elements that 47 bits of address could hold.
LARGEST_SIZE = 1 << 47


class ArgumentError(TilewrightError):
    """A call whose arguments do not fit the kernel. Nothing was written."""


@dataclass(frozen=True)
class Bound:
    """The arguments of one call: arrays and scalars by name, every size, and the arrays to write to (or None)."""

    arrays: Mapping[str, Array]
    scalars: Mapping[str, Number]
    sizes: Mapping[str, int]
    out: Mapping[str, Array] | None


def bind(program: Program, args: Sequence[Any], keywords: Mapping[str, Any], out: Any = None) -> Bound:
    """Check a call.

    Raises:
        ArgumentError: an argument is missing, unknown, of another type, rank or size, or a promise of the kernel
            does not hold; an output array does not fit, cannot be written, or shares memory.
    """
    given = named(program, args, keywords)
    arrays: dict[str, Array] = {}
    scalars: dict[str, Number] = {}
    for name in program.parameters:
        if name in program.scalars:
            scalars[name] = scalar_value(name, program.scalars[name], given[name])
        elif name in program.tensors:
            arrays[name] = _array(program.tensors[name], given[name])
    sizes = _sizes(program, arrays, given)
    for promise in program.promises:
        _check_promise(promise, program, sizes, scalars)
    outputs = None if out is None else _outputs(program, out, arrays, sizes)
    return Bound(arrays, scalars, sizes, outputs)


def named(program: Program, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name.

    Raises:
        ArgumentError: one is missing, unknown, or given twice.
    """
    if len(args) > len(program.parameters):
        shown = ", ".join(program.parameters)
        raise ArgumentError(
            f"{program.name} takes {len(program.parameters)} arguments ({shown}), {len(args)} were given"
        )
    given = dict(zip(program.parameters, args, strict=False))
    known = (*program.parameters, *program.sizes)
    for name, value in keywords.items():
        if name not in known:
            raise ArgumentError(f"{program.name} has no argument '{name}'; it has {', '.join(known)} and out")
        if name in given:
            raise ArgumentError(f"argument '{name}' is given twice")
        given[name] = value
    missing = [n for n in program.parameters if n not in given]
    if missing:
        raise ArgumentError(f"{program.name} lacks the argument{'s' * (len(missing) > 1)} {', '.join(missing)}")
    return given


def scalar_value(name: str, dtype: DType, value: Any) -> Number:
    """A scalar argument as an exactly representable value; a float is rounded once."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    number: Any = value
    if isinstance(value, np.generic):
        if value.dtype.kind in "biuf":
            number = value.item()
        elif value.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            number = float(value)
        else:
            number = None
    if dtype.is_bool:
        if not isinstance(number, bool):
            raise ArgumentError(f"{name} is bool, and {value!r} is not")
        return number
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise ArgumentError(f"{name} is a number of type {dtype}; {type(value).__name__} was given")
    if dtype.is_int:
        if not isinstance(number, int):
            raise ArgumentError(f"{name} is {dtype}; {value!r} is not a whole number")
        if not dtype.least <= number <= dtype.greatest:
            raise ArgumentError(f"{name} is {dtype}; {number} does not fit")
        return number
    return round_to(dtype, number)


def _array(tensor: Tensor, value: Any) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{tensor.name} is a masked array; fill it first: {tensor.name}.filled(0)")
    value = _shared(tensor.name, f"is a {tensor.dtype} array", value, ": use np.asarray")
    wanted = tensor.dtype.numpy
    if value.dtype != wanted:
        swapped = value.dtype.newbyteorder() == wanted
        hint = f"convert it: {tensor.name}.astype('{wanted.name}')"
        order = " in the other byte order" if swapped else ""
        raise ArgumentError(f"{tensor.name} is {tensor.dtype}, the array is {value.dtype.name}{order}; {hint}")
    if value.ndim != tensor.rank:
        raise ArgumentError(
            f"{tensor.name} has {tensor.rank} dimensions, the array has {value.ndim} (shape {value.shape})"
        )
    return value


def _shared(name: str, what: str, value: Any, hint: str = "") -> Array:
    """A given array, or the memory of what is one in another library."""
    try:
        array = as_array(value)
    except ValueError as error:
        raise ArgumentError(f"{name} {what}; {type(value).__name__} was given, and {error}") from None
    if array is None:
        raise ArgumentError(f"{name} {what}; {type(value).__name__} was given{hint}")
    return array


def _sizes(program: Program, arrays: Mapping[str, Array], given: Mapping[str, Any]) -> dict[str, int]:
    """Every size: from a dimension that is just its name, or a keyword; all other dimensions are checked."""
    sizes: dict[str, int] = {}
    whence: dict[str, str] = {}
    for name, array in arrays.items():
        for extent, length in zip(program.tensors[name].extents, array.shape, strict=True):
            size = extent.size.bare if extent.size is not None else None
            if size is not None and size not in sizes:
                sizes[size] = int(length)
                whence[size] = name
    for size in program.sizes:
        if size in given:
            value = given[size]
            if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < 0:
                raise ArgumentError(f"{size} is a size, a whole number of at least 0; {value!r} was given")
            if sizes.setdefault(size, int(value)) != value:
                raise ArgumentError(f"{size} is {sizes[size]} by the shape of {whence[size]}, and {value} was given")
        elif size not in sizes:
            raise ArgumentError(f"no input fixes the size {size}: pass {size}= by keyword")
    for size, value in sizes.items():
        if value > LARGEST_SIZE:
            raise ArgumentError(f"{size} is {value}, more than any array can hold")
    excess = _beyond_i64(program, tuple(sizes.values()))
    if excess is not None:
        shown = ", ".join(f"{n} is {v}" for n, v in sizes.items())
        raise ArgumentError(f"the index {excess} leaves the range of i64 ({shown})")
    for name, array in arrays.items():
        for position, (extent, length) in enumerate(zip(program.tensors[name].extents, array.shape, strict=True)):
            wanted = extent.upper[0].evaluate(sizes)
            if wanted != length:
                raise ArgumentError(_mismatch(program, name, position, wanted, int(length), sizes, whence))
    return sizes


@lru_cache(maxsize=4096)
def _beyond_i64(program: Program, values: tuple[int, ...]) -> str | None:
    """An index expression that may leave i64 at these sizes, by an interval bound: proofs are about whole numbers."""
    reach = dict(zip(program.sizes, values, strict=True))
    for stage in program.stages:
        found = dict(reach)
        for ranges, expressions in index_expressions(stage):
            for r in ranges:
                found[r.index] = max((magnitude(e, found) for e in (*r.lower, *r.upper)), default=0)
            for expression in expressions:
                if magnitude(expression, found) >= 1 << 62:
                    return str(expression)
    return None


def _mismatch(
    program: Program,
    name: str,
    position: int,
    wanted: int,
    length: int,
    sizes: Mapping[str, int],
    whence: Mapping[str, str],
) -> str:
    text = str(program.tensors[name].extents[position].upper[0])
    message = f"dimension {position} of {name} is {text}"
    if text != str(wanted):
        message += f" = {wanted}"
    origins = [
        f"{n} is {sizes[n]}" + (f" by {whence[n]}" if n in whence else "")
        for n in dict.fromkeys(program.tensors[name].extents[position].upper[0].names())
    ]
    return f"{message}, the array has {length}" + (f" ({', '.join(origins)})" if origins else "")


def _check_promise(
    promise: Condition, program: Program, sizes: Mapping[str, int], scalars: Mapping[str, Number]
) -> None:
    if evaluate(promise.value, sizes, scalars, program):
        return
    names: dict[str, object] = {}
    for node in postorder(promise.value):
        if isinstance(node, Index):
            names.update({n: sizes[n] for n in node.affine.names()})
        elif isinstance(node, Scalar):
            names[node.name] = scalars[node.name]
    shown = ", ".join(f"{n} is {v}" for n, v in names.items())
    raise ArgumentError(f"where {promise.text}: {shown}" if shown else f"where {promise.text} never holds")


def _outputs(program: Program, out: Any, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    given = _named_outputs(program, out)
    found = {n: _shared(f"out for {n}", "is an array to write to", a) for n, a in given.items()}
    for name, array in found.items():
        tensor = program.tensors[name]
        shape = tensor.shape(sizes)
        if array.dtype != tensor.dtype.numpy:
            raise ArgumentError(f"out for {name} is {tensor.dtype}, the array is {array.dtype}")
        if array.shape != shape:
            raise ArgumentError(f"out for {name} has shape {shape}, the array has {array.shape}")
        if not array.flags.writeable:
            raise ArgumentError(f"out for {name} is read-only")
        if _overlaps_itself(array):
            raise ArgumentError(f"out for {name} overlaps itself: several elements share memory")
        for other, source in arrays.items():
            if _share(array, source):
                raise ArgumentError(f"out for {name} shares memory with the input {other}")
    for (first, a), (second, b) in combinations(found.items(), 2):
        if _share(a, b):
            raise ArgumentError(f"out for {first} shares memory with out for {second}")
    return found


def _named_outputs(program: Program, out: Any) -> dict[str, Any]:
    if isinstance(out, Mapping):
        unknown = [n for n in out if n not in program.outputs]
        missing = [n for n in program.outputs if n not in out]
        if unknown or missing:
            raise ArgumentError(f"out names {', '.join(map(str, out))}; the outputs are {', '.join(program.outputs)}")
        return {n: out[n] for n in program.outputs}
    given = tuple(out) if isinstance(out, (tuple, list)) else (out,)
    if len(given) != len(program.outputs):
        raise ArgumentError(f"out is {len(given)} arrays; the outputs are {', '.join(program.outputs)}")
    return dict(zip(program.outputs, given, strict=True))


def _share(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        # numpy's type stub knows only two special values of max_work.
        return bool(np.shares_memory(a, b, max_work=OVERLAP_WORK))  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True


def _overlaps_itself(array: Array) -> bool:
    """Whether two elements may share memory: some stride does not step over all that lies inside it."""
    reach = array.itemsize
    steps = sorted((abs(stride), count) for stride, count in zip(array.strides, array.shape, strict=True) if count > 1)
    for stride, count in steps:
        if stride < reach:
            return array.size > 0
        reach += stride * (count - 1)
    return False
