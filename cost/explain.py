"""An estimate in words: what binds, how much is moved and why, how far that is from what nothing can beat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .bounds import bound
from .count import number
from .energy import energy
from .lifetimes import peak
from .memory import key
from .roofline import roofline
from .table import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .estimate import Estimate, LaunchTime
    from .traffic import Amount, Moved


def explanation(found: Estimate) -> Iterator[str]:
    """The lines of an estimate."""
    sizes = " ".join(f"{n}={v}" for n, v in found.sizes.items())
    if not found.launches:
        yield f"{sizes} on {found.machine.name}: nothing runs at these sizes"
        return
    yield f"{sizes} on {found.machine.name}: reckoned {_time(found.seconds)}"
    least = floor(found)
    yield f"  reading and writing every tensor once takes {_time(least)}: {found.seconds / least:.3g} times that"
    yield from _roof(found)
    yield from _least(found)
    yield from _energy(found)
    most = peak(found.live)
    names = ", ".join(most.tensors)
    yield f"  in memory at once: {bytes_text(most.size)}, in launch {most.launch + 1} ({names})"
    for launch in found.launches:
        yield ""
        yield from _launch(launch, found)


def _roof(found: Estimate) -> Iterator[str]:
    """Where the whole stands under the roofline, if a matrix unit has a part in it."""
    if not any(launch.at("matrix units") for launch in found.launches):
        return
    roof = roofline(found.machine, found.flops, found.memory)
    figures = found.machine.figures
    if {"clock", "sustained_clock"} <= set(figures):
        slow, fast = figures["sustained_clock"], figures["clock"]
        share = slow.value / fast.value
        kept = roofline(found.machine, found.flops, found.memory, share=share)
        sustained = f"; {_time(kept.seconds)} at {slow.text}, which it keeps up under load"
    else:
        sustained = ""
    yield (
        f"  roofline: {found.flops / 1e9:,.4g} GFLOP, {roof.intensity:,.3g} a byte of memory; "
        f"{roof.binds} bind, {'above' if roof.intensity > roof.balance else 'below'} {roof.balance:.3g}: "
        f"{_time(roof.seconds)} at best{sustained}"
    )


def _least(found: Estimate) -> Iterator[str]:
    """How far what is asked for is from what nothing can beat, with as much room as multiprocessors have."""
    figures = found.machine.figures
    if not {"shared_memory", "registers", "multiprocessors"} <= set(figures):
        return
    room = figures["shared_memory"].value + 4 * figures["registers"].value
    least = bound(found.program, found.sizes, room, int(figures["multiprocessors"].value))
    if least.statement:
        yield (
            f"  multiprocessors with {bytes_text(room)} each have to be given {bytes_text(least.least)} in any order; "
            f"these ask for {bytes_text(found.asked)}: {found.asked / least.least:.3g} times that"
        )


def _energy(found: Estimate) -> Iterator[str]:
    """What moving and computing take, by a table of other processes, beside the card's cap."""
    cap = found.machine.figures.get("power")
    joules = energy({"memory": found.memory}, found.flops)
    if cap is not None and joules.total:
        shares = ", ".join(f"{name} {100 * joules.share(name):.0f} %" for name in joules.parts)
        power = joules.power(found.seconds)
        yield f"  energy by table: {1e3 * joules.total:.3g} mJ ({shares}), {power:,.0f} W of {cap.value:,.0f}"


def floor(found: Estimate) -> float:
    """Seconds that moving every input and output once takes: what no tiles and no fusion bring it below.

    What one launch writes and a later one reads is left out.
    """
    made: set[str] = set()
    total = 0
    for launch in found.launches:
        for m in launch.moved:
            if m.kind == "read" and m.tensor not in made:
                total += m.there.at(found.sizes)
        made |= {m.tensor for m in launch.moved if m.kind == "write"}
    read = {m.tensor for launch in found.launches for m in launch.moved if m.kind == "read"}
    for launch in found.launches:
        total += sum(m.there.at(found.sizes) for m in launch.moved if m.kind == "write" and m.tensor not in read)
    return total / found.machine.figure("memory_bandwidth").value


def _launch(launch: LaunchTime, found: Estimate) -> Iterator[str]:
    yield f"launch {launch.number + 1}: {_time(launch.seconds)}, bound by {launch.binds}"
    if launch.residency is not None:
        yield f"  {launch.waves}"
        yield f"  a multiprocessor holds {launch.residency}"
    elif launch.waves.slots > 1:
        shared = launch.waves
        yield f"  {shared.slots} threads share {shared.programs} iterations: {100 * shared.busy:.3g} % busy"
    width = max(len(r.name) for r in launch.resources)
    for resource in launch.resources:
        if resource.seconds:
            yield f"  {resource.name:{width}}  {_time(resource.seconds):>9}  {resource.text}"
    rows = [("", "asked for", "", "there", "", "from memory", "innermost")]
    rows += [
        (_what(m), *_amount(m.asked, found), *_amount(m.there, found), _given(m, launch), _stepped(m, found))
        for m in launch.moved
    ]
    for line in aligned(rows):
        yield f"  {line}"
    for tensor, count in launch.unfinished.items():
        if count:
            yield f"  sums of {tensor} are left unfinished: {bytes_text(count)} written out, and as much read again"
    for note in dict.fromkeys(n for m in launch.moved for n in m.assumptions):
        yield f"  supposed: {note}"
    for hint in hints(launch, found):
        yield f"  to gain: {hint}"


# What would help a nest on a processor, by what binds it.
ON_PROCESSORS = {
    "chains of sums": "more sums at once, in a larger tile, hide the time until each can be used",
    "loads": "larger tiles in registers use oftener what they read; copies in the order of reading, whole vectors",
    "loops": "unrolled loops turn less often",
    "cache 2": "smaller blocks, or copies of them, stay in the first cache",
    "cache 3": "blocks that fit into the second cache are read from there",
}


def hints(launch: LaunchTime, found: Estimate) -> Iterator[str]:
    """What would help a launch, by what binds it."""
    if launch.residency is None and launch.binds in ON_PROCESSORS:
        yield ON_PROCESSORS[launch.binds]
    if any(launch.unfinished.values()):
        yield "the loop over terms inside of those over sums finishes each sum before the next is begun"
    there = sum(m.there.at(found.sizes) for m in launch.moved)
    given = sum(launch.memory.values())
    if launch.binds == "memory" and given > 1.2 * there:
        shared = "" if launch.residency is None else ", or programs in groups that share"
        yield f"memory gives {given / there:.2g} times what is there: larger tiles{shared}"
    if launch.binds == "cache":
        asked = sum(m.asked.at(found.sizes) for m in launch.moved)
        yield f"{asked / there:.3g} times what is there is asked for: larger tiles read each element less often"
    if launch.residency is not None and launch.binds.endswith("units") and launch.waves.busy < 0.9:
        yield f"{100 * (1 - launch.waves.busy):.0f} % of the slots are idle at the end: other tiles fill them better"
    matrix, vector = launch.at("matrix units"), launch.at("vector units")
    if 0 < 0.05 * matrix < vector and launch.seconds > matrix + vector:
        apart = "roles of warps, or two programs on a multiprocessor, do both at once"
        yield f"matrix units wait for the {_time(vector)} of the vector units: {apart}"
    if launch.at("waiting") > 0.2 * launch.seconds:
        yield "iterations wait for what they read: pipeline the loop, or longer rows at a time"
    if launch.at("addresses") > 0.3 * launch.seconds:
        yield "programs do little but find their place: larger tiles, or fewer warps"


def record(found: Estimate) -> dict[str, Any]:
    """An estimate for tools: seconds and bytes as numbers, formulas as text."""
    return {
        "machine": found.machine.id,
        "sizes": dict(found.sizes),
        "seconds": found.seconds,
        "floor_seconds": floor(found),
        "live_bytes": [one.size for one in found.live],
        "launches": [
            {
                "seconds": launch.seconds,
                "binds": launch.binds,
                "programs": launch.waves.programs,
                "waves": launch.waves.waves,
                "busy": launch.waves.busy,
                "resident": launch.residency.blocks if launch.residency is not None else None,
                "resources": {r.name: r.seconds for r in launch.resources},
                "moved": [
                    {
                        "tensor": m.tensor,
                        "kind": m.kind,
                        "asked": m.asked.at(found.sizes),
                        "asked_formula": str(m.asked),
                        "there": m.there.at(found.sizes),
                        "there_formula": str(m.there),
                        "innermost": {"loop": m.step[0], "bytes": str(m.step[1])} if m.step is not None else None,
                    }
                    for m in launch.moved
                ],
                "hints": list(hints(launch, found)),
            }
            for launch in found.launches
        ],
    }


def _what(found: Moved) -> str:
    return f"{found.tensor} {'read' if found.kind == 'read' else 'written'}"


def _amount(amount: Amount, found: Estimate) -> tuple[str, str]:
    return str(amount), bytes_text(amount.at(found.sizes))


def _stepped(found: Moved, whole: Estimate) -> str:
    """`2 B a step of ji`: what lies between two iterations of the innermost loop."""
    if found.step is None:
        return "where data say" if found.assumptions else ""
    return f"{bytes_text(number(found.step[1], whole.sizes))} a step of {found.step[0]}"


def _given(found: Moved, launch: LaunchTime) -> str:
    return bytes_text(launch.memory[key(found)])


def bytes_text(count: float) -> str:
    """`24 MiB`: a number of bytes to three digits."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:,.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count:.0f} B"


def _time(seconds: float) -> str:
    """`12.3 us`: a time to three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
