"""Loads and stores of whole blocks by tensor descriptors: which can be, and what the descriptors are called.

A load is one if its tile is a box of the tensor, every lane beyond the tensor's edge reads 0 or may hold anything, and
it is multiplied: matrix units take such blocks from shared memory, where the copy engine (TMA) puts them by itself. It
does not matter what lanes hold that no store writes.
A store is one if its tile is a box too, from which nothing is missing but what lies beyond an edge, and the launch has
such loads: they leave the registers for addresses to the sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, Comparison
from ..lower.lifetimes import lets
from ..lower.masks import names_in, normal, parts_of
from ..lower.tile import Dot, Load, Reduce, Ref, Store, statements_of, values_of
from .types import negative_zero, signature_type

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from ..lower.tile import Axis, Stmt
    from ..naming import Names

# What the copy engine takes: dimensions, elements of a block along one of them, bytes of a row of it at least.
RANK, EXTENT, BYTES = 5, 256, 16
# Columns from which on a tile is stored in halves.
HALVED = 256


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
    """A load or store as a block: where it begins in each dimension."""

    descriptor: Descriptor
    starts: tuple[Affine, ...]


def blocks(
    program: Program,
    names: Names,
    axes: Mapping[str, Axis],
    stmt: Stmt,
    stores: Sequence[str],
    moved: Collection[str] = (),
) -> tuple[dict[int, Block], tuple[Descriptor, ...]]:
    """The loads and stores of a launch that are blocks, by identity, and the descriptors that they need.

    *stores*: what the launch writes itself: the copy engine does not wait for that. *moved*: what lies in memory in
    another order than that of its dimensions.
    """
    copies = {let.name: let.value for let in lets((stmt,)) if isinstance(let.value, Load)}
    found: dict[int, Block] = {}
    descriptors: dict[tuple[str, tuple[int, ...]], Descriptor] = {}

    everywhere = _everywhere(stmt)

    def add(access: Load | Store, dtype: DType, lanes: Mapping[str, Axis]) -> None:
        if access.tensor in moved:
            return
        starts = _starts(program, lanes, access, dtype, everywhere if isinstance(access, Load) else set())
        if starts is None:
            return
        shape = tuple(lanes[n].extent if n else 1 for n in axis_of(access))
        key = access.tensor, shape
        if key not in descriptors:
            name = names.fresh(f"{names[access.tensor]}_block")
            descriptors[key] = Descriptor(name, access.tensor, shape, dtype)
        found[id(access)] = Block(descriptors[key], starts)

    for dot in values_of((stmt,)):
        for side in (dot.a, dot.b) if isinstance(dot, Dot) else ():
            load = copies.get(side.name) if isinstance(side, Ref) else side
            if not isinstance(load, Load) or id(load) in found or load.tensor in stores:
                continue
            if load.fill is not None and (load.fill != 0 or negative_zero(load.fill)):
                continue
            add(load, load.dtype, axes)
    loads = {v.tensor for v in values_of((stmt,)) if isinstance(v, Load)}
    for store in statements_of((stmt,)) if found else ():
        if isinstance(store, Store) and store.tensor not in loads:
            add(store, store.value.dtype, halved(axes, store))
    return found, tuple(descriptors.values())


def _everywhere(stmt: Stmt) -> set[object]:
    """The conditions of lanes under which alone anything is written, and that no sum or other reduction goes across."""
    reduced = {n for v in values_of((stmt,)) if isinstance(v, (Dot, Reduce)) for n in v.over}
    written = [
        {normal(c) for c in parts_of(s.mask) if not names_in(c) & reduced}
        for s in statements_of((stmt,))
        if isinstance(s, Store)
    ]
    return set[object].intersection(*written) if written else set()


def halved(axes: Mapping[str, Axis], store: Store) -> Mapping[str, Axis]:
    """The axes, with the last one of a store halved where its tile is wide: in parts it takes less shared memory."""
    last = axes[store.axes[-1]] if store.axes else None
    if last is None or len(store.axes) != 2 or last.extent < HALVED:
        return axes
    return {**axes, last.name: replace(last, extent=last.extent // 2)}


def axis_of(access: Load | Store) -> list[str | None]:
    """The axis of each dimension, None where it has none."""
    return [next((n for n in access.axes if isinstance(i, Affine) and n in i.names()), None) for i in access.index]


def _starts(
    program: Program, axes: Mapping[str, Axis], access: Load | Store, dtype: DType, beside: set[object]
) -> tuple[Affine, ...] | None:
    """Where a box begins; None where it is none. *beside*: conditions that may be left out."""
    dims = axis_of(access)
    extents = program.tensors[access.tensor].extents
    if not 2 <= len(dims) <= RANK or [n for n in dims if n] != list(access.axes):
        return None
    if dims[-1] is None or dtype.is_bool or dtype.bits > 32:
        return None
    counts = [axes[n].extent if n else 1 for n in dims]
    if max(counts) > EXTENT or counts[-1] * dtype.bits // 8 < BYTES:
        return None
    starts: list[Affine] = []
    edges = set(beside)
    for place, axis, extent in zip(access.index, dims, extents, strict=True):
        if not isinstance(place, Affine) or extent.size is None:
            return None
        start = place - Affine.name(axis) if axis else place
        if any(n in access.axes for n in start.names()):
            return None
        starts.append(start)
        edges |= {normal(Comparison("<", place, extent.size)), normal(Comparison(">=", place, Affine()))}
    # Another condition would be one that the copy engine does not know.
    return tuple(starts) if all(normal(c) in edges for c in parts_of(access.mask)) else None
