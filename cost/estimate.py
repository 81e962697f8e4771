"""How long a schedule takes on a GPU, by the resource that each launch waits for longest.

Every launch runs its programs in waves. What a wave computes takes the same time however few programs are in the last
one; what it moves takes what the bytes take at the bandwidth that the requests under way keep up. Matrix and vector
units wait for one another inside a program, unless several programs are resident or its parts run at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import islpy as isl

from ..compiler.ir.codegen import Bounds
from ..compiler.ir.tree import Alloc, Loop, leaves, loops
from ..passes.footprint import extents
from .capacity import Residency, reached, residency
from .count import count as counted
from .count import most, number
from .launches import Waves, launches, order, waves
from .reuse import Reads, from_memory, panels
from .traffic import moved
from .work import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node
    from .launches import Launch
    from .machine import Machine
    from .traffic import Moved
    from .work import Work

# What a thread holds beside the sums: addresses, counters, operands.
REGISTERS = 48
# What a warp computes of addresses and masks for a program, in instructions: read off transpositions in small tiles.
ADDRESSES = 110


@dataclass(frozen=True)
class Resource:
    """What a launch asks of a resource. *seconds*: how long that takes alone; *text*: the amount, in words."""

    name: str
    seconds: float
    text: str


@dataclass(frozen=True, eq=False)
class LaunchTime:
    """A launch: its waves, how many of its programs a multiprocessor holds, what it asks of each resource, how long it
    takes, and the resource that this is by; *memory*: the bytes that memory gives or takes of each tensor."""

    number: int
    waves: Waves
    residency: Residency
    resources: tuple[Resource, ...]
    seconds: float
    binds: str
    memory: Mapping[str, float]
    moved: tuple[Moved, ...]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A schedule on a machine at some sizes."""

    machine: Machine
    sizes: Mapping[str, int]
    launches: tuple[LaunchTime, ...]

    @property
    def seconds(self) -> float:
        """All launches, one after the other."""
        return sum(launch.seconds for launch in self.launches)


def estimate(
    program: Program, tree: Sequence[Node], machine: Machine, sizes: Mapping[str, int], warps: int | None = None
) -> Estimate:
    """The time of a schedule's launches. *warps*: of each program (None: by the size of its tiles).

    Raises:
        MachineError: the machine's file lacks a figure that is needed.
        KeyError: a size is missing.
    """
    transfers, works = moved(program, tree), work(program, tree)
    found: list[LaunchTime] = []
    for launch in launches(program, tree):
        mine = tuple(m for m in transfers if m.launch == launch.number)
        own = tuple(w for w in works if w.launch == launch.number)
        if launch.count(program, sizes):
            found.append(_launch_time(program, launch, machine, sizes, mine, own, warps))
    return Estimate(machine, sizes, tuple(found))


def _launch_time(
    program: Program,
    launch: Launch,
    machine: Machine,
    sizes: Mapping[str, int],
    mine: tuple[Moved, ...],
    own: tuple[Work, ...],
    warps: int | None,
) -> LaunchTime:
    tile = _tile(program, launch)
    matrix = any(w.matrix for w in own)
    count = warps or (8 if matrix else min(16, max(1, tile.lanes // 256)))
    # One pipelined loop after the other has the room.
    shared = max((size * stages for size, stages in tile.loaded), default=0)
    held = residency(machine, 32 * count, shared, min(255, REGISTERS + tile.sums // (32 * count)))
    units = int(machine.figure("multiprocessors").value)
    programs = launch.count(program, sizes)
    filled = waves(programs, units * max(1, held.blocks))
    # However many programs a multiprocessor holds, what it computes is shared by those that it gets.
    busy = waves(programs, units).busy
    parts = list(_computing(machine, own, sizes, units, busy))
    parts.append(_addresses(machine, launch, programs, count, units, busy))
    waiting = _waiting(program, launch, machine, sizes, programs) * filled.waves
    together = held.blocks > 1 or any(loop.roles is not None for loop in loops((launch.node,)))
    computing = (max if together else sum)(r.seconds for r in parts)
    memory = _memory(program, launch, sizes, mine, filled.slots, machine)
    granule = machine.figure("memory_granule").value
    given = sum(memory[_key(m)] * _stretched(program, launch, m, granule) for m in mine)
    active = min(programs, filled.slots)
    under_way = active * _under_way(tile, 32 * count)
    latency = machine.figure("round_trip" if tile.loaded else "memory_latency").value
    bandwidth = reached(machine.figure("memory_bandwidth").value, latency, under_way)
    asked = sum(m.asked.at(sizes) for m in mine)
    parts.append(Resource("memory", given / bandwidth, f"{given / 2**20:,.1f} MiB at {bandwidth / 1e9:,.0f} GB/s"))
    share = machine.figure("cache_bandwidth").value * min(1, programs / units)
    cache = reached(share, machine.figure("cache_latency").value, under_way)
    parts.append(Resource("cache", asked / cache, f"{asked / 2**20:,.1f} MiB at {cache / 1e9:,.0f} GB/s"))
    parts.append(Resource("waiting", waiting, "iterations that each wait for what they read"))
    moving = max(parts[-3:-1], key=lambda r: r.seconds)
    longest = max((*parts[:-3], parts[-1]), key=lambda r: r.seconds)
    binds = moving if moving.seconds > computing + waiting else longest
    seconds = max(computing + waiting, moving.seconds) + machine.figure("launch").value
    return LaunchTime(launch.number, filled, held, tuple(parts), seconds, binds.name, memory, mine)


def _computing(
    machine: Machine, own: Sequence[Work], sizes: Mapping[str, int], units: int, busy: float
) -> Iterator[Resource]:
    """What matrix and vector units do, the idle ones waited for."""
    products = [w for w in own if w.matrix]
    if products:
        flops = 2 * sum(number(w.lanes, sizes) if w.lanes is not None else w.times.at(sizes) for w in products)
        kinds = {w.matrix for w in products if w.matrix}
        rate = min(machine.rate(a, b).value for a, b in kinds)
        yield Resource("matrix units", flops / rate / busy, f"{flops / 1e9:,.1f} GFLOP")
    instructions = sum(w.times.at(sizes) * w.instructions for w in own if not w.matrix)
    yield _vector("vector units", machine, instructions, units, busy)


def _addresses(machine: Machine, launch: Launch, programs: int, warps: int, units: int, busy: float) -> Resource:
    """What every warp spends on where its lanes are, whatever it computes there."""
    return _vector("addresses", machine, programs * warps * 32 * ADDRESSES, units, busy)


def _vector(name: str, machine: Machine, instructions: float, units: int, busy: float) -> Resource:
    rate = units * machine.figure("lanes").value * machine.figure("clock").value
    return Resource(name, instructions / rate / busy, f"{instructions / 1e9:,.2f} G instructions of a lane")


def _waiting(program: Program, launch: Launch, machine: Machine, sizes: Mapping[str, int], programs: int) -> float:
    """Seconds that a program waits in loops whose loads no pipeline runs ahead: one latency an iteration."""
    trips = 0.0
    grid = {loop.index for loop in launch.grid}
    for loop in loops((launch.node,)):
        if loop.index in grid or loop.kind != "serial" or loop.stages > 1:
            continue
        points: isl.Set | None = None
        for leaf in leaves(loop.body):
            place = leaf.indices.index(loop.index)
            own = leaf.domain.project_out(isl.dim_type.set, place + 1, len(leaf.indices) - place - 1)
            own = own.reset_tuple_id()
            points = own if points is None else points.union(own).coalesce()
        formula = counted(points) if points is not None else None
        trips += number(formula, sizes) / programs if formula is not None else 0
    return trips * machine.figure("memory_latency").value


@dataclass(frozen=True)
class _Tile:
    """The tiles of a program. *lanes*: of the largest; *sums*: of all accumulators; *loaded*: for each pipelined loop
    the bytes that an iteration loads, and how many versions of them there are."""

    lanes: int
    sums: int
    loaded: tuple[tuple[int, int], ...]


def _tile(program: Program, launch: Launch) -> _Tile:
    lanes, sums = 1, 0
    loaded: dict[tuple[tuple[str, ...], int], int] = {}
    bounds = Bounds(program)
    for leaf in leaves((launch.node,)):
        blocks = [
            leaf.indices.index(loop.index)
            for loop in loops((launch.node,))
            if loop.kind == "block" and loop.index in leaf.indices
        ]
        sides = [most(leaf.domain, place) for place in blocks]
        lanes = max(lanes, prod(n for n in sides if n))
    for alloc, around, stages in _buffers((launch.node,), (), 1):
        known = bounds.start()
        counts = extents(program, alloc.body, alloc.tensor, around, known) or []
        if not all(c.isdigit() for c in counts):
            continue
        size = prod(int(c) for c in counts)
        tensor = program.tensors[alloc.tensor]
        if stages > 1:
            loaded[around, stages] = loaded.get((around, stages), 0) + size * tensor.dtype.bits // 8
        elif tensor.role == "accumulator":
            sums += size * tensor.dtype.bits // 32
    return _Tile(lanes, sums, tuple((size, stages) for (_, stages), size in loaded.items()))


def _buffers(
    nodes: Sequence[Node], around: tuple[str, ...], stages: int
) -> Iterator[tuple[Alloc, tuple[str, ...], int]]:
    for node in nodes:
        match node:
            case Alloc():
                yield node, around, stages
                yield from _buffers(node.body, around, stages)
            case Loop():
                yield from _buffers(node.body, (*around, node.index), node.stages)
            case _:
                pass


def _under_way(tile: _Tile, threads: int) -> float:
    """The bytes that a program has under way: the tiles that are loaded ahead, or 16 bytes for each thread."""
    ahead = max((size * (stages - 1) for size, stages in tile.loaded), default=0)
    return max(ahead, 16 * threads * 2)


def _memory(
    program: Program, launch: Launch, sizes: Mapping[str, int], mine: Sequence[Moved], slots: int, machine: Machine
) -> dict[str, float]:
    """The bytes of each tensor that memory gives or takes."""
    found = {_key(m): float(m.there.at(sizes)) for m in mine if m.kind == "write"}
    written = sum(found.values())
    reads = [m for m in mine if m.kind == "read"]
    if not launch.grid:
        return found | {m.tensor: float(m.there.at(sizes)) for m in reads}
    rows = order(program, launch, sizes)
    own = [_reads(program, m, launch, rows, sizes) for m in reads]
    cache = machine.figure("cache").value
    given = from_memory(own, slots, cache, written / max(1, len(rows)))
    there = {m.tensor: float(m.there.at(sizes)) for m in reads}
    return found | {name: max(value, there[name]) for name, value in given.items()}


def _key(found: Moved) -> str:
    return found.tensor if found.kind == "read" else f"{found.tensor} written"


def _stretched(program: Program, launch: Launch, found: Moved, granule: float) -> float:
    """By how much more memory moves than is asked for, in pieces of a *granule*, where a program's rows are short."""
    tensor = program.tensors[found.tensor]
    width, grid = tensor.dtype.bits // 8, len(launch.grid)
    runs: list[int | None] = []
    for points in found.asked.points:
        # What a program reads in one iteration after the other comes from the cache.
        own = points.project_out(isl.dim_type.set, grid, points.dim(isl.dim_type.set) - tensor.rank - grid)
        runs.append(most(own, own.dim(isl.dim_type.set) - 1) if tensor.rank else None)
    run = granule if None in runs else max((n * width for n in runs if n), default=granule)
    return -(-run // granule) * granule / run


def _reads(
    program: Program, found: Moved, launch: Launch, rows: np.ndarray[Any, Any], sizes: Mapping[str, int]
) -> Reads:
    """What programs read of a tensor: the same where the loops of the grid that it hangs on are at the same place."""
    depends = [
        n for n in range(len(launch.grid)) if any(_hangs_on(points, n, found.places) for points in found.asked.points)
    ]
    numbered = panels(rows, depends)
    count = int(numbered.max()) + 1 if len(numbered) else 1
    return Reads(found.tensor, numbered, found.there.at(sizes) / count)


def _hangs_on(points: isl.Set, loop: int, places: int) -> bool:
    """Whether the elements (the last *places* dimensions) differ with a loop of the grid."""
    kind = isl.dim_type.set
    loops_ = points.dim(kind) - places
    kept = points.project_out(kind, loop + 1, loops_ - loop - 1).project_out(kind, 0, loop)
    relation = isl.Map.from_range(kept).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, 1)
    first = relation.intersect_domain(relation.domain().lexmin()).range()
    return not relation.range().is_subset(first)
