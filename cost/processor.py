"""How long a schedule takes on a processor: what a core computes, or what it is given meanwhile, whichever is longer.

After the execution-cache-memory model (Stengel, Treibig, Hager and Wellein 2015): a core's instructions run beside the
lines that come to it, and the levels of its memory give theirs one after the other. What each level gives is in
`levels.py`; the rates of levels are those of one core reading, with what lies between.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from ..compiler.ir.tree import placed
from .count import most
from .launches import launches, waves
from .levels import Levels, counted, lanes_of, prefix, reached
from .machine import MachineError
from .resources import Resource
from .times import Estimate, LaunchTime
from .traffic import moved, outer
from .work import work

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Node, Placed
    from .launches import Launch
    from .levels import Reached
    from .machine import Machine
    from .traffic import Moved
    from .work import Work

# Vector instructions that take as long as an operation on f32, where they are more than one (of AVX-512; Fog 2024).
INSTRUCTIONS = {"/": 20, "reciprocal": 5, "sqrt": 38, "//": 40, "%": 40, "narrow": 5}
# What a loop's counting and branching takes of the same, and an element that is put into a vector by itself.
TURN, ALONE = 2, 2
# Results from so many bytes on that nothing reads again go past the caches.
STREAMED = 8 << 20
# Partial sums of a vectorised sum, in registers.
PARTIAL = 4


@dataclass(frozen=True, eq=False)
class _Core:
    """A core: *slot*: seconds of a vector instruction; *load*: of a vector that is read from the first cache; *wait*:
    until a sum can be used; *width*: bytes of a vector; *registers*: how many of them it has; *levels*: of each cache
    its bytes; *rates*: bytes a second of what lies behind each, memory last; *alone*: of lines of that which are read
    alone, and would not be waited for otherwise; *all*: those that memory gives all cores.
    """

    slot: float
    load: float
    wait: float
    width: int
    registers: int
    levels: tuple[float, ...]
    rates: tuple[float, ...]
    alone: tuple[float, ...]
    all: float


def on_processor(
    program: Program, tree: Sequence[Node], machine: Machine, sizes: Mapping[str, int], threads: int | None = None
) -> Estimate:
    """The time of a schedule's nests. *threads*: that share a parallel loop (None: one for each core).

    Raises:
        MachineError: the machine's file lacks a figure that is needed.
        KeyError: a size is missing.
    """
    core = _core(machine)
    count = threads or int(machine.figure("cores").value)
    items, works, transfers = placed(tree), work(program, tree, INSTRUCTIONS), moved(program, tree)
    found: list[LaunchTime] = []
    for launch in launches(program, tree):
        own = [(i, w) for i, w in zip(items, works, strict=True) if w.launch == launch.number]
        if any(w.times.at(sizes) for _, w in own):
            mine = tuple(m for m in transfers if m.launch == launch.number)
            found.append(_nest(program, launch, core, sizes, own, mine, count))
    return Estimate(program, machine, sizes, tuple(found))


def _core(machine: Machine) -> _Core:
    names = [n for n in ("cache_level_1", "cache_level_2", "cache_level_3") if n in machine.figures]
    if not names:
        raise MachineError(f"the caches of {machine.name} are not known")
    width = int(machine.figure("vector_bytes").value)
    behind = ["core_memory", *reversed(names[1:])][::-1]
    rates = [machine.figure(f"{n}_bandwidth").value for n in behind]
    # Where nobody measured lines alone they count as any others.
    alone = [machine.figures.get(f"{n}_alone", machine.figure(f"{n}_bandwidth")).value for n in behind]
    return _Core(
        2 * width / 4 / machine.rate("f32", "f32", "core").value,
        width / machine.figure("cache_level_1_bandwidth").value,
        machine.figure("sum_latency").value,
        width,
        int(machine.figure("vector_registers").value),
        tuple(machine.figure(n).value for n in names),
        tuple(rates),
        tuple(alone),
        machine.figure("memory_bandwidth").value,
    )


def _nest(
    program: Program,
    launch: Launch,
    core: _Core,
    sizes: Mapping[str, int],
    own: Sequence[tuple[Placed, Work]],
    mine: tuple[Moved, ...],
    threads: int,
) -> LaunchTime:
    accesses = reached(program, [item for item, _ in own])
    levels = Levels(program, accesses, sizes)
    slots = loads = chain = turns = 0.0
    for item, one in own:
        runs = one.times.at(sizes)
        if runs:
            slots += one.instructions * _vectors(program, item, core, sizes, runs)
            turns = max(turns, _turns(program, item, sizes))
            sums = _sums(program, item, core, sizes)
            loads += sum(_loads(levels, a, core) for a in accesses if a.item is item)
            if sums is not None:
                vectors = _vectors(program, item, core, sizes, runs)
                chain += vectors / sums
                loads += 2 * vectors / sums * max(0.0, sums + _operands(program, item, accesses, core) - core.registers)
    share, iterations = _shared(program, [item for item, _ in own], sizes, threads)
    given = waves(max(1, iterations), min(threads, max(1, iterations)) if share else 1)
    cores = given.slots * given.busy
    passed = [levels.passed(capacity) for capacity in core.levels]
    totals = [_lines(p, levels) for p in passed]
    parts = [
        Resource("vector units", slots * core.slot / cores, f"{slots / 1e6:,.1f} M vector instructions"),
        Resource("chains of sums", chain * core.wait / cores, "sums that wait for the sums before them"),
        Resource("loads", loads * core.load / cores, f"{loads / 1e6:,.1f} M vectors read or written"),
        Resource("loops", TURN * turns * core.slot / cores, f"{turns / 1e6:,.2f} M iterations of innermost loops"),
    ]
    behind: list[Resource] = []
    alone = [levels.alone(capacity) for capacity in core.levels]
    for level, rate in enumerate(core.rates):
        last = level + 1 == len(totals)
        rest, apart = (a[level] if last else max(0.0, a[level] - a[level + 1]) for a in (totals, alone))
        bandwidth = min(core.all, cores * rate) if last else cores * rate
        waited = apart * (1 / core.alone[level] - 1 / rate) / cores
        name = "memory" if last else f"cache {level + 2}"
        text = f"{rest / 2**20:,.1f} MiB at {bandwidth / 1e9:,.1f} GB/s"
        text += f", {apart / 2**20:,.1f} MiB of them by lines alone" if waited > 0.05 * rest / bandwidth else ""
        behind.append(Resource(name, rest / bandwidth + waited, text))
    # What a core loads goes one way with what the levels give, and beside what it computes.
    vectors, chains, loading, turning = parts
    computing = max(vectors, chains, loading, turning, key=lambda r: r.seconds)
    moving = sum(r.seconds for r in behind)
    slowest = max(*behind, key=lambda r: r.seconds)
    seconds = max(computing.seconds, moving)
    binds = slowest if moving >= seconds else computing
    memory = {m.tensor if m.kind == "read" else f"{m.tensor} written": 0.0 for m in mine}
    for (tensor, kind), size in passed[-1].items():
        memory[tensor if kind == "read" else f"{tensor} written"] = size
    flops = sum(w.flops * w.times.at(sizes) for _, w in own)
    asked = float(sum(m.asked.at(sizes) for m in mine))
    return LaunchTime(
        launch.number, given, None, (*parts, *behind), seconds, binds.name, memory, asked, {}, flops, (), mine
    )


def _lines(passed: Mapping[tuple[str, str], float], levels: Levels) -> float:
    """Bytes in both directions: what is written without being read comes first, unless it goes past the caches."""
    total = sum(passed.values())
    for (tensor, kind), size in passed.items():
        past = levels.program.tensors[tensor].role == "output" and size >= STREAMED
        if kind == "write" and (tensor, "read") not in passed and not past:
            total += size
    return total


def _vectors(program: Program, item: Placed, core: _Core, sizes: Mapping[str, int], runs: float) -> float:
    """How many vector instructions one operation of a leaf is: the last of a loop perhaps not full."""
    lanes = lanes_of(program, item)
    if not lanes:
        return runs
    if lanes in outer(item):
        return runs / _width(program, item, core)  # LLVM's own vectors
    bodies = counted(program, prefix(program, item, len(item.loops)), sizes)
    return bodies * ceil(runs / max(1.0, bodies) / _width(program, item, core) - 1e-9)


def _width(program: Program, item: Placed, core: _Core) -> int:
    """How many elements a vector has of what a leaf computes."""
    dtype = program.tensors[program.statement(item.leaf.statement).tensor].dtype.wide
    return max(1, core.width // max(4, dtype.bits // 8))


def _body(item: Placed) -> int:
    """How many of the loops round a leaf that are no lanes are real ones: the others are written out."""
    kinds = [loop.kind for loop in item.loops if loop.kind not in ("block", "vector")]
    while kinds and kinds[-1] == "unroll":
        kinds.pop()
    return len(kinds)


def _loads(levels: Levels, one: Reached, core: _Core) -> float:
    """How many vectors a statement reads or writes by an access, what its body needs again still being in registers."""
    elements = levels.elements((one,), _body(one.item))
    lanes = lanes_of(levels.program, one.item)
    if lanes not in one.own:
        return elements
    return elements / _width(levels.program, one.item, core) if one.along == lanes else ALONE * elements


def _sums(program: Program, item: Placed, core: _Core, sizes: Mapping[str, int]) -> float | None:
    """Of how many vectors the sums are that a body goes on with in its next iteration, and that wait for one another;
    None where a leaf adds to none, or to others each time."""
    statement = program.statement(item.leaf.statement)
    if statement.kind != "update":
        return None
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    own = {n for place in statement.position for i in place.names() if i in instance for n in instance[i].names()}
    loops, body, lanes = outer(item), _body(item), lanes_of(program, item)
    if not body or loops[body - 1] in own:
        return None
    around = frozenset(loops[:body])
    free = counted(program, prefix(program, item, body, around | {n for n in loops[body:] if n in own}), sizes)
    sums = max(1.0, free / max(1.0, counted(program, prefix(program, item, body), sizes)))
    if not lanes:
        return sums
    return sums * (_wide(item, lanes, core) if lanes in own else PARTIAL)


def _operands(program: Program, item: Placed, accesses: Sequence[Reached], core: _Core) -> int:
    """How many vectors a statement needs beside its sums at once."""
    lanes = lanes_of(program, item)
    return sum(_wide(item, lanes, core) if a.along else 1 for a in accesses if a.item is item and lanes in a.own)


def _wide(item: Placed, lanes: str, core: _Core) -> int:
    """How many vectors the lanes of a leaf are in full tiles."""
    place = next(p for p, loop in enumerate(item.loops) if loop.index == lanes)
    return max(1, (most(item.leaf.domain, place) or 1) * 4 // core.width)


def _turns(program: Program, item: Placed, sizes: Mapping[str, int]) -> float:
    """How often the innermost real loop round a leaf turns."""
    return counted(program, prefix(program, item, _body(item)), sizes)


def _shared(program: Program, items: Sequence[Placed], sizes: Mapping[str, int], threads: int) -> tuple[bool, int]:
    """Whether threads share a nest, and how many iterations they share at a time."""
    for item in items:
        names = outer(item)
        kinds = {loop.index: loop.kind for loop in item.loops}
        depth = next((d for d, n in enumerate(names) if kinds[n] == "parallel"), None)
        if depth is not None and threads > 1:
            inside, around = (counted(program, prefix(program, item, d), sizes) for d in (depth + 1, depth))
            return True, max(1, round(inside / max(1, around)))
    return False, 1
