"""txc explain and txc rank: what schedules cost, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cost.estimate import estimate
from ...cost.explain import bytes_text, explanation, record
from ...cost.machine import machine as machine_of
from ...cost.table import aligned
from ...passes.refusal import IllegalTransformError
from ..automatic import gpu_schedule, partitions
from ..automatic_cpu import cpu_schedule
from ..candidate import candidate
from ..measuring import measured
from ..ranking import Ranked, rank
from .common import numbers, read_kernel
from .schedules import scheduled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cost.estimate import Estimate
    from ..kernel import Kernel
    from ..schedule import Schedule

SIZE = click.option("--size", "sizes", multiple=True, metavar="NAME=N ...", help="The sizes; all of them.")
MACHINE = click.option("--machine", "name", default="h200", show_default=True, help="A machine, or a file of one.")
KERNEL = click.option("--kernel", "chosen", help="The kernel, if FILE holds several.")


@click.command(epilog="Example: txc explain examples/matmul_silu.tx --size M=1024 K=4096 N=12288")
@click.argument("file")
@KERNEL
@click.option("--schedule", "script", help="A Python file that defines schedule(s); without it the default.")
@MACHINE
@SIZE
@click.option("--warps", type=click.IntRange(1, 32), help="Warps of a program; without it by its tiles.")
@click.option("--plot", help="Draw it too: a file for pictures, such as costs.png.")
@click.option("--json", "as_json", is_flag=True, help="Print it for tools.")
def explain(
    file: str,
    chosen: str | None,
    script: str | None,
    name: str,
    sizes: tuple[str, ...],
    warps: int | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Say what a schedule of a kernel in FILE costs on a machine, and why.

    Without a schedule it is the default for such a machine, with the tiles that are reckoned best for the sizes.
    """
    kernel = read_kernel(file, chosen)
    at = numbers(kernel, sizes)
    default = cpu_schedule if machine_of(name).kind == "CPU" else gpu_schedule
    schedule = scheduled(kernel, script) if script is not None else default(kernel, at=at, machine=name)
    found = estimate(schedule.state.program, schedule.state.tree, machine_of(name), at, warps)
    if plot is not None:
        _draw(found, plot)
    if as_json:
        click.echo(json.dumps(record(found), indent=2))
        return
    for line in explanation(found):
        click.echo(line)


def _draw(found: Estimate, path: str) -> None:
    from ...cost.plot import save

    try:
        save(found, Path(path))
    except (ImportError, ValueError, OSError) as error:
        raise click.UsageError(f"--plot {path}: {error}") from None


@click.command("rank", epilog="Example: txc rank examples/matmul_silu.tx --schedules examples/schedules --size M=16 ..")
@click.argument("file")
@KERNEL
@click.option("--schedules", "folder", help="A folder of Python files that define schedule(s).")
@click.option(
    "--partitions", "fusions", is_flag=True, help="Default schedules, by which equations have a launch apart."
)
@MACHINE
@SIZE
@click.option(
    "--measure",
    type=click.Choice(["llvm", "triton"]),
    help="Run the first, and those reckoned nearly as fast, on this machine.",
)
@click.option("--json", "as_json", is_flag=True, help="Print each candidate's record for tools.")
def rank_(
    file: str,
    chosen: str | None,
    folder: str | None,
    fusions: bool,
    name: str,
    sizes: tuple[str, ...],
    measure: str | None,
    as_json: bool,
) -> None:
    """Order schedules by what they are reckoned to take: those in a folder, or the ways to fuse the kernel's equations;
    those that cannot run say why."""
    kernel = read_kernel(file, chosen)
    if (folder is None) == (not fusions):
        raise click.UsageError("rank takes --schedules FOLDER or --partitions, one of them")
    at = numbers(kernel, sizes)
    if fusions and machine_of(name).kind == "CPU":
        raise click.UsageError(
            "--partitions makes schedules for GPUs, and the machine is a processor: --schedules FOLDER"
        )
    candidates, refused = (partitions(kernel), []) if folder is None else _of_folder(kernel, folder)
    found = rank(kernel, candidates, name, at)
    if measure is not None:
        try:
            found = measured(found, at, measure)
        except (ImportError, RuntimeError) as error:
            raise click.UsageError(f"--measure {measure}: {error}") from None
    if as_json:
        click.echo(json.dumps([candidate(one) for one in (*found, *refused)], indent=2))
        return
    for line in _table((*found, *refused)):
        click.echo(line)


def _of_folder(kernel: Kernel, folder: str) -> tuple[dict[str, Schedule], list[Ranked]]:
    """The schedules of a folder by the names of their files, and those that a step refuses."""
    paths = sorted(Path(folder).glob("*.py"))
    if not paths:
        raise click.UsageError(f"{folder} holds no Python file")
    made: dict[str, Schedule] = {}
    refused: list[Ranked] = []
    for path in paths:
        try:
            made[path.stem] = scheduled(kernel, str(path))
        except IllegalTransformError as error:
            refused.append(Ranked(path.stem, None, str(error).splitlines()[0]))
    return made, refused


def _table(found: Sequence[Ranked]) -> list[str]:
    timed = any(one.measurement for one in found)
    rows = [("schedule", "reckoned", *(("measured",) if timed else ()), "bound by", "from memory")]
    for one in found:
        took = f"{one.measurement.seconds * 1e6:,.1f} us" if one.measurement is not None else "-"
        own = (took,) if timed else ()
        if one.estimate is None or one.reason:
            rows.append((one.name, "-", *own, one.reason, ""))
            continue
        binds = ", ".join(dict.fromkeys(launch.binds for launch in one.estimate.launches))
        rows.append((one.name, f"{one.seconds * 1e6:,.1f} us", *own, binds, bytes_text(one.estimate.memory)))
    return list(aligned(rows))
