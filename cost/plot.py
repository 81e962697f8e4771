"""An estimate in pictures: on the roofline, its time by resource, and what local storage buys. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .roofline import BF16
from .timeline import through_slots

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .estimate import Estimate, LaunchTime
    from .machine import Machine
    from .timeline import Timeline

INK, LIGHT, MARK = "#1f3b4d", "#9bb7c4", "#d1495b"


def save(found: Estimate, path: Path, others: Sequence[tuple[str, Estimate]] = ()) -> None:
    """Write a picture of an estimate: the roofline with its launches, the time of each by resource, and the blocks of
    its longest pipelined loop on their way. *others*: by name, more candidates for the roofline.

    Raises:
        ImportError: there is no matplotlib.
        ValueError: the path's ending names no format of pictures.
    """
    figure, (first, second, third) = _pyplot().subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    roof(first, found, others)
    resources(second, found.launches)
    slots(third, found.launches)
    sizes = " ".join(f"{n}={v}" for n, v in found.sizes.items())
    figure.suptitle(f"{sizes} on {found.machine.name}: reckoned {found.seconds * 1e6:,.1f} us")
    _write(figure, path)


def scatter(points: Sequence[tuple[str, float, float]], bounds: Sequence[tuple[float, float]], path: Path) -> None:
    """Write a picture of tiles: bytes of local storage across, bytes that they ask for upwards; *bounds*: the least
    that any order asks for, with as much storage.

    Raises:
        ImportError, ValueError: as `save`.
    """
    figure, axes = _pyplot().subplots(figsize=(6.4, 4.6), layout="constrained")
    axes.set(xscale="log", yscale="log", xlabel="local storage of a tile, KiB", ylabel="asked for, MiB")
    axes.margins(0.18)
    if bounds:
        across, least = zip(*((s / 2**10, b / 2**20) for s, b in bounds), strict=True)
        axes.plot(across, least, color=LIGHT, label="no order asks for less")
        axes.legend(frameon=False)
    axes.scatter([s / 2**10 for _, s, _ in points], [a / 2**20 for _, _, a in points], color=MARK, zorder=3)
    for name, storage, asked in points:
        axes.annotate(name, (storage / 2**10, asked / 2**20), xytext=(5, 4), textcoords="offset points", fontsize=8)
    _write(figure, path)


def roof(axes: Any, found: Estimate, others: Sequence[tuple[str, Estimate]]) -> None:
    """The roofline of the machine, and on it the launches: operations a second against operations a byte of memory."""
    machine = found.machine
    rate, bandwidth = _peak(machine), machine.figure("memory_bandwidth").value
    span = np.logspace(-1, 4, 200)
    axes.loglog(span, np.minimum(rate, bandwidth * span) / 1e12, color=INK)
    for name, one in (("", found), *others):
        for launch in one.launches:
            if launch.flops:
                moved = sum(launch.memory.values())
                x, y = launch.flops / moved, launch.flops / launch.seconds / 1e12
                axes.scatter([x], [y], color=LIGHT if name else MARK, zorder=2 if name else 3)
                label = name or f"launch {launch.number + 1}"
                axes.annotate(label, (x, y), xytext=(6, -10), textcoords="offset points", fontsize=8)
    axes.set(xlabel="operations a byte of memory", ylabel="TFLOP/s", title="roofline")


def resources(axes: Any, launches: Sequence[LaunchTime]) -> None:
    """What each launch asks of each resource, alone."""
    names = list(dict.fromkeys(r.name for launch in launches for r in launch.resources if r.seconds))
    height = 0.8 / max(1, len(launches))
    for number, launch in enumerate(launches):
        where = [place + number * height for place in range(len(names))]
        widths = [launch.at(name) * 1e6 for name in names]
        colours = [MARK if name == launch.binds else LIGHT for name in names]
        axes.barh(where, widths, height=height * 0.9, color=colours)
    axes.set_yticks([k + 0.4 - height / 2 for k in range(len(names))], names)
    axes.invert_yaxis()
    axes.set(xlabel="us", title="time by resource, each alone")


def slots(axes: Any, launches: Sequence[LaunchTime], count: int = 12) -> None:
    """The first blocks of the pipelined loop that takes longest: when they are loaded, and when they are used."""
    found = max((one for launch in launches for one in launch.pipelines), key=lambda p: p.seconds, default=None)
    axes.set(title="a pipelined loop: loaded, used")
    if found is None:
        axes.text(0.5, 0.5, "no loop is pipelined", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    line = through_slots(count, found.transfer, found.compute, found.slots, found.settle)
    bars(axes, line)
    axes.set(xlabel="us", ylabel=f"block, {found.slots} slots")


def bars(axes: Any, line: Timeline) -> None:
    """Blocks from top to bottom: on their way, and in use."""
    for number, block in enumerate(line.blocks):
        axes.barh(number, (block.ready - block.issued) * 1e6, left=block.issued * 1e6, color=LIGHT)
        axes.barh(number, (block.done - block.begun) * 1e6, left=block.begun * 1e6, color=INK)
    axes.invert_yaxis()


def _peak(machine: Machine) -> float:
    return machine.rates[BF16].value if BF16 in machine.rates else max(r.value for r in machine.rates.values())


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise ImportError("pictures are drawn by matplotlib: pip install 'tilewright[plot]'") from None
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def _write(figure: Any, path: Path) -> None:
    figure.savefig(path, dpi=110)
    _pyplot().close(figure)
