"""Inputs for a kernel from a seed: the same on every machine and with every NumPy, for its bit streams are fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import islpy as isl
import numpy as np

from .ir.affine import make_set
from .ir.expr import Expr, Index, Read, Reduce, children
from .ir.quasiaffine import Affine, Comparison, conjunction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .arguments import Array, Number
    from .ir.program import Program, Tensor


def random_inputs(program: Program, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    """Arrays for the tensors that a kernel takes.

    Floats are uniform in [-2, 2) on a grid of 2^-23 (f64: 2^-52), then rounded to their type; integers are small;
    those that a gather uses as positions lie inside what it reads.
    """
    limits = _position_limits(program, sizes)
    stream = np.random.PCG64(seed)
    return {
        name: _random_array(program.tensors[name], sizes, limits.get(name), stream)
        for name in program.parameters
        if name in program.tensors
    }


def _random_array(tensor: Tensor, sizes: Mapping[str, int], limit: int | None, stream: np.random.PCG64) -> Array:
    shape = tensor.shape(sizes)
    raw = np.asarray(stream.random_raw(int(np.prod(shape, dtype=np.int64))), np.uint64).reshape(shape)
    dtype = tensor.dtype
    if dtype.is_bool:
        return (raw >> np.uint64(63)).astype(np.bool_)
    if dtype.is_int:
        low, high = (0, limit) if limit is not None else (max(dtype.least, -8), 8)
        return (low + (raw >> np.uint64(33)).astype(np.int64) % max(1, high - low)).astype(dtype.numpy)
    if dtype.bits == 64:
        return (raw >> np.uint64(10)).astype(np.float64) * 2.0**-52 - 2
    return ((raw >> np.uint64(39)).astype(np.float64) * 2.0**-23 - 2).astype(np.float32).astype(dtype.numpy)


def _position_limits(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    """For integer inputs that a gather uses as positions: the least extent that they index."""
    limits: dict[str, int] = {}
    for stage in program.stages:
        stack: list[tuple[Expr, int | None]] = [(stage.value, None)]
        seen: set[int] = set()
        while stack:
            node, limit = stack.pop()
            if id(node) in seen and limit is None:
                continue
            seen.add(id(node))
            if isinstance(node, Read):
                tensor = program.tensors[node.tensor]
                if limit is not None and tensor.role == "input" and tensor.dtype.is_int:
                    limits[node.tensor] = min(limit, limits.get(node.tensor, limit))
                for sub, extent in zip(node.subscripts, tensor.extents, strict=True):
                    if not isinstance(sub, Index):
                        stack.append((sub, extent.interval(sizes)[1]))
                continue
            stack.extend((child, limit) for child in children(node))
            if isinstance(node, Reduce):
                continue
    return limits


def default_scalars(program: Program, given: Mapping[str, Number]) -> dict[str, Number]:
    """A value for every scalar: as given, else 1 (integers), 0.5 (floats), true."""
    return {
        name: given.get(name, True if dtype.is_bool else 1 if dtype.is_int else 0.5)
        for name, dtype in program.scalars.items()
    }


def default_sizes(
    program: Program, given: Mapping[str, int], wanted: int, at_most: Mapping[str, int] | None = None
) -> dict[str, int] | None:
    """Sizes that keep the kernel's affine promises: as given, the others *wanted* or a little less or more.

    None where there are none.
    """
    for least in sorted({wanted, wanted // 2, wanted // 4, 2, 1, 0}, reverse=True):
        bounds = [Comparison("==", Affine.name(n), Affine.number(v)) for n, v in given.items()]
        bounds += [Comparison(">=", Affine.name(n), Affine.number(least)) for n in program.sizes if n not in given]
        bounds += [Comparison("<=", Affine.name(n), Affine.number(v)) for n, v in (at_most or {}).items()]
        points = make_set((), program.sizes, conjunction(program.context, *bounds))
        if points.is_empty():
            continue
        point: Any = points.lexmin().sample_point()
        values = [point.get_coordinate_val(isl.dim_type.set, i).to_python() for i in range(len(program.sizes))]
        return dict(zip(program.sizes, map(int, values), strict=True))
    return None
