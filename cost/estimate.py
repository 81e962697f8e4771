"""How long a schedule takes on a GPU, by the resource that each launch waits for longest.

Every launch runs its programs in waves. What a wave computes takes the same time however few programs are in the last
one; what it moves takes what the bytes take at the bandwidth that the requests under way keep up. Matrix and vector
units wait for one another inside a program, unless several programs are resident or its parts run at once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.tree import loops
from ..passes.recipe import default_warps
from .capacity import reached, residency
from .count import number
from .held import held
from .launches import launches, waves
from .memory import given, key, stretched
from .processor import on_processor
from .resources import Resource, addresses, banked, beyond, computed, of_products, waited_for
from .spills import unfinished
from .times import Estimate, LaunchTime, Pipeline
from .traffic import moved
from .work import work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node
    from .held import Held
    from .launches import Launch
    from .machine import Machine
    from .spills import Panel
    from .traffic import Moved
    from .work import Work

# What a thread holds beside the sums: addresses, counters, operands.
REGISTERS = 48
MOST_REGISTERS = 255


def estimate(
    program: Program, tree: Sequence[Node], machine: Machine, sizes: Mapping[str, int], warps: int | None = None
) -> Estimate:
    """The time of a schedule's launches on a GPU, or of its nests on a processor. *warps*: of each program of a GPU
    (None: by the size of its tiles).

    Raises:
        MachineError: the machine's file lacks a figure that is needed.
        KeyError: a size is missing.
    """
    if machine.kind == "CPU":
        return on_processor(program, tree, machine, sizes)
    transfers, works, panels = moved(program, tree), work(program, tree), unfinished(program, tree)
    found: list[LaunchTime] = []
    for launch in launches(program, tree):
        mine = tuple(m for m in transfers if m.launch == launch.number)
        own = tuple(w for w in works if w.launch == launch.number)
        if launch.count(program, sizes):
            left = tuple(p for p in panels if p.launch == launch.number)
            found.append(_launch_time(program, launch, machine, sizes, mine, own, left, warps))
    return Estimate(program, machine, sizes, tuple(found))


def _launch_time(
    program: Program,
    launch: Launch,
    machine: Machine,
    sizes: Mapping[str, int],
    mine: tuple[Moved, ...],
    own: tuple[Work, ...],
    left: tuple[Panel, ...],
    warps: int | None,
) -> LaunchTime:
    tile = held(program, launch)
    matrix = any(w.matrix for w in own)
    product = max((w.tile[0] * w.tile[1] for w in own if w.tile), default=0)
    count = warps or default_warps(product or tile.lanes, matrix, tile.reduces)
    threads = 32 * count
    # What is kept beside a product is made of its sums when they are done.
    registers = REGISTERS + (max(tile.sums, product) if matrix else tile.sums + tile.kept) // threads
    room = residency(machine, threads, tile.shared, min(MOST_REGISTERS, registers))
    if launch.persistent:
        room = replace(room, blocks=min(1, room.blocks))  # no more programs are started than there are multiprocessors
    units = int(machine.figure("multiprocessors").value)
    programs = launch.count(program, sizes)
    filled = waves(programs, units * max(1, room.blocks))
    # However many programs a multiprocessor holds, what it computes is shared by those that it gets.
    shared = waves(programs, units)
    parts = list(computed(machine, own, sizes, units, shared.busy))
    parts.append(addresses(machine, launch, programs, count, units, shared.busy))
    waiting = waited_for(program, launch, machine, sizes, mine) * filled.waves
    # Two programs do two things at once, and so do the parts of one from tile to tile; the first or last is alone.
    roles = any(loop.roles is not None for loop in loops((launch.node,)))
    together = room.blocks > 1 or roles
    if tile.loaded:
        # A program waits for the first of what its pipeline loads; parts that run at once do so for the first tile.
        waiting += (1 if roles else filled.waves) * machine.figure("round_trip").value
    longest = max(r.seconds for r in parts)
    computing = longest + (sum(r.seconds for r in parts) - longest) / (shared.waves if together else 1)
    alone = computing / max(1, min(room.blocks, shared.waves)) + waiting
    memory = given(program, launch, sizes, mine, filled.slots, machine)
    granule = machine.figure("memory_granule").value
    bytes_given = sum(memory[key(m)] * stretched(program, launch, m, granule) for m in mine)
    under_way = min(programs, filled.slots) * tile.under_way(threads)
    far, near = (machine.figure(n).value for n in ("memory_latency", "cache_latency"))
    if tile.loaded:
        # A slot of a pipeline is taken from the asking until its blocks have been used.
        far = near = machine.figure("round_trip").value + _turn(tile, parts, sizes, units * shared.busy)
    bandwidth = reached(machine.figure("memory_bandwidth").value, far, under_way)
    spilled = 8 * max(0, registers - MOST_REGISTERS) * threads * programs
    kept = 4 * machine.figure("registers").value + machine.figure("shared_memory").value - tile.shared
    written_out = {panel.tensor: panel.spilled(sizes, kept) for panel in left}
    again = 2 * sum(written_out.values())
    if sum(panel.size(sizes) for panel in left) * min(programs, filled.slots) > machine.figure("cache").value:
        bytes_given += again
    asked = sum(m.asked.at(sizes) for m in mine) + spilled + again
    # What memory gives passes through the cache twice: into it, and out of it.
    filling = sum(memory[key(m)] for m in mine if m.kind == "read")
    share = min(1, programs / units)
    full = machine.figure("cache_bandwidth").value
    cache = reached(share * full, near, under_way)
    text = f"{asked / 2**20:,.1f} MiB at {cache / 1e9:,.0f} GB/s, {filling / 2**20:,.1f} MiB of them from memory"
    edges = beyond(tile, mine, sizes)
    moving = [
        Resource("memory", bytes_given / bandwidth, f"{bytes_given / 2**20:,.1f} MiB at {bandwidth / 1e9:,.0f} GB/s"),
        Resource("cache", max(asked / cache, (asked + filling) / full), text),
        *of_products(machine, edges, banked(own, sizes, count), share, units * shared.busy),
    ]
    waited = Resource("waiting", waiting, "programs and iterations that wait for what they read")
    slowest = max(moving, key=lambda r: r.seconds)
    busy = max(computing, alone)
    binds = slowest if slowest.seconds > busy else max((*parts, waited), key=lambda r: r.seconds)
    seconds = max(busy, slowest.seconds) + machine.figure("launch").value
    resources = (*parts, *moving, waited)
    flops = sum(w.flops * w.times.at(sizes) for w in own)
    product_seconds = sum(r.seconds for r in parts if r.name == "matrix units")
    loops_ = tuple(_pipelines(tile, sizes, programs, shared.waves, cache / units, near, product_seconds))
    asked += edges - spilled
    return LaunchTime(
        launch.number, filled, room, resources, seconds, binds.name, memory, asked, written_out, flops, loops_, mine
    )


def _pipelines(
    tile: Held, sizes: Mapping[str, int], programs: int, turns: int, rate: float, latency: float, product: float
) -> Iterator[Pipeline]:
    """The pipelined loops of a program. *turns*: programs that a multiprocessor runs; *rate*: bytes a second that it is
    given; *latency*: from the asking to the use; *product*: seconds of all products."""
    for one in tile.loaded:
        if one.times is None:
            continue
        runs = number(one.times, sizes) / programs * turns
        if not runs:
            continue
        transfer = one.size / rate
        yield Pipeline(
            transfer, max(0.0, latency - transfer), product / runs, one.stages, runs * max(transfer, product / runs)
        )


def _turn(tile: Held, parts: Sequence[Resource], sizes: Mapping[str, int], busy: float) -> float:
    """Seconds that a multiprocessor takes for a program's products of one iteration of its pipelines. *busy*: how many
    of them compute all the time."""
    runs = sum(number(one.times, sizes) for one in tile.loaded if one.times is not None)
    return sum(r.seconds for r in parts if r.name == "matrix units") * busy / max(1, runs)
