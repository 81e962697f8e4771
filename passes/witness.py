"""Witnesses: an input on which the asked-for program gives another answer than the definition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..compiler.ir.interpret import OutsideError, interpret
from ..compiler.ir.quasiaffine import holds
from .refusal import Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..compiler.ir.program import Program, Statement, Tensor
    from .state import State

Array = np.ndarray[Any, Any]
# Beyond this many statement instances a witness would take too long to run twice.
WORK = 3000
# And at larger sizes than the smallest, together.
TOTAL = 6000


def larger_witness(asked: State, sizes: Mapping[str, int], source: Statement) -> Witness | None:
    """A witness at these sizes; for a sum, also where its range is longer: two terms have one order only."""
    found = witness(asked, sizes)
    if found is not None or source.reduction is None:
        return found
    stage = asked.program.stage(source.stage)
    own = {n for r in source.ranges[len(stage.ranges) :] for n in r.names()} & set(asked.program.sizes)
    step = source.reduction.order.size or 1
    spent = 0
    for more in dict.fromkeys((1, 2, step, 2 * step, 3 * step)):
        # A range that names no size itself hangs on indices that do.
        for name in sorted(own or sizes):
            larger = {**sizes, name: sizes[name] + more}
            spent += _work(asked.program, larger)
            found = witness(asked, larger) if spent <= TOTAL else None
            if found is not None:
                return replace(found, sizes=sizes_text(larger))
    return None


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M=2 K=1`."""
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def _work(program: Program, sizes: Mapping[str, int]) -> int:
    """About how many statement instances run at these sizes."""
    work = len(program.statements)
    for size in sizes.values():
        work *= max(size, 1)
    return work


def witness(asked: State, sizes: Mapping[str, int], definition: Program | None = None) -> Witness | None:
    """The first of the crafted inputs on which the asked-for tree gives another answer than the definition.

    *definition*: where a step has rewritten the program, the one that it started from.
    """
    program = asked.program
    if not holds(program.context, sizes):
        return None
    if _work(program, sizes) > WORK:
        return None
    scalars = {n: True if d.is_bool else 1 if d.is_int else 1.0 for n, d in program.scalars.items()}
    for arrays in _candidates(program, sizes):
        try:
            defined = interpret(definition or program, arrays, sizes, scalars)
        except OutsideError:
            continue
        try:
            got = interpret(program, arrays, sizes, scalars, asked.tree)
        except OutsideError as error:
            name = error.output or program.outputs[0]
            inputs = _printed(arrays, scalars)
            return Witness(inputs, name, array_text(defined[name]), f"nothing: {error}")
        for name in program.outputs:
            differing = np.argwhere(~_equal(defined[name], got[name]))
            if len(differing):
                at = tuple(int(i) for i in differing[0])
                element = f"{name}[{', '.join(map(str, at))}]" if at else name
                inputs = _printed(arrays, scalars)
                return Witness(inputs, element, number(defined[name][at]), number(got[name][at]))
    return None


def _printed(arrays: Mapping[str, Array], scalars: Mapping[str, float | int | bool]) -> tuple[tuple[str, str], ...]:
    """The inputs as text, scalars last."""
    texts = [(name, array_text(array)) for name, array in arrays.items()]
    return (*texts, *((name, str(value)) for name, value in scalars.items()))


def _equal(a: Array, b: Array) -> Array:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same_zero = (wide_a != 0) | (np.signbit(wide_a) == np.signbit(wide_b))
    return ((wide_a == wide_b) & same_zero) | (np.isnan(wide_a) & np.isnan(wide_b))


def _candidates(program: Program, sizes: Mapping[str, int]) -> Iterator[dict[str, Array]]:
    """Inputs worth trying: signs in turn, halves of an ulp, small distinct numbers, large and small, scattered ones."""
    inputs = [program.tensors[n] for n in program.parameters if n in program.tensors]
    tiny = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
    patterns: list[Callable[[int, int, Tensor], float]] = [
        lambda i, t, x: (1.0 if i % 2 == 0 else -1.0) if t == 0 else 1.0,
        lambda i, t, x: (1.0 if i == 0 else tiny.get(_narrow(program), 2.0**-24)) if t == 0 else 1.0,
        # A quarter of an ulp of the narrowest type: lost where a sum is rounded to it.
        lambda i, t, x: (1.0 if i == 0 else 2.0 ** -(_narrowest(program) + 1)) if t == 0 else 1.0,
        lambda i, t, x: 1.0 + 2.0 ** (1 - x.dtype.precision) * (i + 1 + t) if x.dtype.is_float else float(i + 1),
        lambda i, t, x: float(i + 1 + t),
        lambda i, t, x: (1e8, 1.0, -1e8, 1.0)[i % 4] if t == 0 else 1.0,
        lambda i, t, x: float((7 * i + 3 * t) % 11 - 5),
        lambda i, t, x: 0.1 * (i + 1) + 0.01 * t,
        lambda i, t, x: 1.0,
        lambda i, t, x: (7919 * i + 6007 * t + 13) % 997 / 1000 + 0.25,
    ]
    for pattern in patterns:
        yield {x.name: _filled(x, t, sizes, pattern) for t, x in enumerate(inputs)}


def _narrow(program: Program) -> str:
    """The type in which the program's reductions accumulate."""
    found = [t.dtype.name for t in program.tensors.values() if t.role == "accumulator"]
    return found[0] if found else "f32"


def _narrowest(program: Program) -> int:
    """The least precision of the program's floats, in bits."""
    return min((t.dtype.precision for t in program.tensors.values() if t.dtype.is_float), default=24)


def _filled(
    tensor: Tensor, number_: int, sizes: Mapping[str, int], pattern: Callable[[int, int, Tensor], float]
) -> Array:
    shape = tensor.shape(sizes)
    count = int(np.prod(shape, dtype=np.int64))
    values = np.array([pattern(i, number_, tensor) for i in range(count)], np.float64)
    if tensor.dtype.is_int:
        values = np.clip(np.abs(values), 0, 2) if tensor.dtype.bits < 32 else np.clip(values, -100, 100)
    if tensor.dtype.is_bool:
        values = values > 0
    if tensor.dtype.is_float:
        values = np.clip(values, -tensor.dtype.largest, tensor.dtype.largest)
    return (
        values.reshape(shape)
        .astype(np.float32 if tensor.dtype.is_float and tensor.dtype.bits < 64 else np.float64)
        .astype(tensor.dtype.numpy)
    )


def array_text(array: Array) -> str:
    """A small array as nested lists."""
    if array.ndim == 0:
        return number(array[()])
    if array.size > 24:
        return f"an array {list(array.shape)}"
    return "[" + ", ".join(array_text(part) for part in array) + "]"


def number(value: Any) -> str:
    """A number with the digits that tell it from its neighbours."""
    if isinstance(value, (np.bool_, bool)):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    digits = {8: 17, 4: 9}.get(value.dtype.itemsize, 6)
    return f"{float(value):.{digits}g}"
