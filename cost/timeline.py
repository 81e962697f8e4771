"""When things happen that wait for one another: blocks through a few slots, and stages that run side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Block:
    """One block's way through a slot: when its transfer begins, when it is there to be used, and when it is used."""

    issued: float
    ready: float
    begun: float
    done: float

    @property
    def waited(self) -> float:
        """How long it lay there before it was used."""
        return self.begun - self.ready


@dataclass(frozen=True)
class Timeline:
    """Blocks that a mover brings and a worker uses, in their order."""

    blocks: tuple[Block, ...]

    @property
    def end(self) -> float:
        """When the last block is done."""
        return self.blocks[-1].done if self.blocks else 0.0

    @property
    def idle(self) -> float:
        """How long the worker waits for blocks after it has begun."""
        pairs = zip(self.blocks, self.blocks[1:], strict=False)
        return sum(after.begun - before.done for before, after in pairs)


def through_slots(count: int, transfer: float, compute: float, slots: int, settle: float = 0.0) -> Timeline:
    """*count* blocks through *slots* buffers: the mover is at one block for *transfer*, which is there *settle* later,
    and the worker at one for *compute*. A slot is held from the beginning of the transfer to the end of the use.

    Raises:
        ValueError: there is no slot, or something takes less than no time.
    """
    if slots < 1 or count < 0 or min(transfer, compute, settle) < 0:
        raise ValueError("blocks go through one slot or more, and nothing takes less than no time")
    found: list[Block] = []
    mover = worker = 0.0
    for number in range(count):
        free = found[number - slots].done if number >= slots else 0.0
        issued = max(mover, free)
        mover = issued + transfer
        ready = mover + settle
        begun = max(ready, worker)
        worker = begun + compute
        found.append(Block(issued, ready, begun, worker))
    return Timeline(tuple(found))


def least_slots(count: int, transfer: float, compute: float, settle: float = 0.0) -> int:
    """The fewest slots with which blocks end as soon as with one for each."""
    best = through_slots(count, transfer, compute, max(1, count), settle).end
    slots = 1
    while through_slots(count, transfer, compute, slots, settle).end > best:
        slots += 1
    return slots


def pipelined(count: int, first: float, second: float) -> float:
    """The time of *count* pieces of work through two stages with room between them: the slower stage all the time, and
    the other once."""
    return through_slots(count, first, second, max(1, count)).end


def finished(seconds: Mapping[str, float], after: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """When each of some stages ends that begin as soon as those before them have ended, side by side otherwise.

    *after*: for a stage those that it waits for. The last of these times is that of the longest path.

    Raises:
        ValueError: stages wait for one another in a circle, or for one that there is not.
    """
    ends: dict[str, float] = {}
    open_: set[str] = set()

    def end(name: str) -> float:
        if name not in seconds:
            raise ValueError(f"there is no stage {name}")
        if name not in ends:
            if name in open_:
                raise ValueError(f"{name} waits for itself")
            open_.add(name)
            ends[name] = seconds[name] + max((end(before) for before in after.get(name, ())), default=0.0)
        return ends[name]

    for name in seconds:
        end(name)
    return ends


def path(seconds: Mapping[str, float], after: Mapping[str, Sequence[str]]) -> list[str]:
    """The stages of the longest path, in their order: only what is on it shortens the whole."""
    ends = finished(seconds, after)
    found = [max(ends, key=lambda n: ends[n])]
    while after.get(found[-1]):
        found.append(max(after[found[-1]], key=lambda n: ends[n]))
    return found[::-1]


@dataclass(frozen=True)
class Step:
    """One step of a job: the unit that does it, and for how long."""

    unit: str
    seconds: float


def handed_on(jobs: Sequence[Sequence[Step]], slots: int) -> list[list[tuple[float, float]]]:
    """When each step of each job begins and ends. A unit does one step at a time, of the first job that is ready for
    it; jobs begin in their order, and hold one of *slots* from their first step to their last.

    Raises:
        ValueError: there is no slot.
    """
    if slots < 1:
        raise ValueError("jobs hold one slot or more")
    times: list[list[tuple[float, float]]] = [[] for _ in jobs]
    free: dict[str, float] = {}
    now = 0.0
    while any(len(done) < len(job) for done, job in zip(times, jobs, strict=True)):
        for number, (done, job) in enumerate(zip(times, jobs, strict=True)):
            if len(done) == len(job) or (done and done[-1][1] > now):
                continue
            held = sum(bool(t) and not (len(t) == len(j) and t[-1][1] <= now) for t, j in zip(times, jobs, strict=True))
            if not done and (held >= slots or any(not t for t in times[:number])):
                continue
            step = job[len(done)]
            if free.get(step.unit, 0.0) <= now:
                done.append((now, now + step.seconds))
                free[step.unit] = now + step.seconds
        now = min((end for done in times for _, end in done if end > now), default=now)
    return times
