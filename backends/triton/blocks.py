"""Loads of whole blocks by tensor descriptors: which loads can be, and what they are called.

A load is one if its tile is a box of the tensor, every lane beyond the tensor's edge reads 0 or may hold anything, and
it is multiplied: matrix units take such blocks from shared memory, where the copy engine (TMA) puts them by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, Comparison
from ..lower.lifetimes import lets
from ..lower.masks import normal, parts_of
from ..lower.tile import Dot, Load, Ref, values_of
from .types import negative_zero, signature_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from ..lower.tile import Axis, Stmt
    from ..naming import Names

# What the copy engine takes: dimensions, elements of a block along one of them, bytes of a row of it at least.
RANK, EXTENT, BYTES = 5, 256, 16


@dataclass(frozen=True)
class Descriptor:
    """A parameter of a kernel: blocks of *shape* of a tensor."""

    name: str
    tensor: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def signature(self) -> str:
        """The type as the signature of a kernel has it."""
        return f"tensordesc<{signature_type(self.dtype)}[{', '.join(map(str, self.shape))}]>"


@dataclass(frozen=True)
class Block:
    """A load as a block: where it begins in each dimension."""

    descriptor: Descriptor
    starts: tuple[Affine, ...]


def blocks(
    program: Program, names: Names, axes: Mapping[str, Axis], stmt: Stmt, stores: Sequence[str]
) -> tuple[dict[int, Block], tuple[Descriptor, ...]]:
    """The loads of a launch that are blocks, by identity, and the descriptors that they need.

    *stores*: what the launch writes itself: the copy engine does not wait for that.
    """
    copies = {let.name: let.value for let in lets((stmt,)) if isinstance(let.value, Load)}
    found: dict[int, Block] = {}
    descriptors: dict[tuple[str, tuple[int, ...]], Descriptor] = {}
    for dot in values_of((stmt,)):
        for side in (dot.a, dot.b) if isinstance(dot, Dot) else ():
            load = copies.get(side.name) if isinstance(side, Ref) else side
            if not isinstance(load, Load) or id(load) in found or load.tensor in stores:
                continue
            starts = _starts(program, axes, load)
            if starts is None:
                continue
            shape = tuple(axes[n].extent if n else 1 for n in _axis_of(load))
            key = load.tensor, shape
            if key not in descriptors:
                name = names.fresh(f"{names[load.tensor]}_block")
                descriptors[key] = Descriptor(name, load.tensor, shape, load.dtype)
            found[id(load)] = Block(descriptors[key], starts)
    return found, tuple(descriptors.values())


def _axis_of(load: Load) -> list[str | None]:
    """The axis of each dimension, None where it has none."""
    return [next((n for n in load.axes if isinstance(i, Affine) and n in i.names()), None) for i in load.index]


def _starts(program: Program, axes: Mapping[str, Axis], load: Load) -> tuple[Affine, ...] | None:
    """Where a load's box begins; None where it is none."""
    dims = _axis_of(load)
    extents = program.tensors[load.tensor].extents
    if (
        (load.fill is not None and (load.fill != 0 or negative_zero(load.fill)))
        or not 2 <= len(dims) <= RANK
        or [n for n in dims if n] != list(load.axes)
    ):
        return None
    if dims[-1] is None or load.dtype.is_bool or load.dtype.bits > 32:
        return None
    counts = [axes[n].extent if n else 1 for n in dims]
    if max(counts) > EXTENT or counts[-1] * load.dtype.bits // 8 < BYTES:
        return None
    starts: list[Affine] = []
    edges: set[object] = set()
    for place, axis, extent in zip(load.index, dims, extents, strict=True):
        if not isinstance(place, Affine) or extent.size is None:
            return None
        start = place - Affine.name(axis) if axis else place
        if any(n in load.axes for n in start.names()):
            return None
        starts.append(start)
        edges |= {normal(Comparison("<", place, extent.size)), normal(Comparison(">=", place, Affine()))}
    # Another condition would be one that the copy engine does not know.
    return tuple(starts) if all(normal(c) in edges for c in parts_of(load.mask)) else None
