"""txc machine: the machines that costs are reckoned for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...cost.machine import machine as machine_of
from ...cost.machine import machines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...cost.machine import Machine


@click.group(epilog="Example: txc machine show h100-sxm")
def machine() -> None:
    """Show the machines that costs are reckoned for."""


@machine.command("list")
def list_() -> None:
    """Print the machines that there are, a line each."""
    found = [machine_of(name) for name in machines()]
    width = max(len(m.id) for m in found)
    for one in found:
        click.echo(f"{one.id:{width}}  {one.name}, {one.vendor}")


@machine.command(epilog="Example: txc machine show h100-sxm")
@click.argument("name")
def show(name: str) -> None:
    """Print what is known of the machine NAME, or of that of a file NAME.toml: every figure, with its source."""
    for line in _lines(machine_of(name)):
        click.echo(line)


@machine.command(epilog="Example: txc machine measure --gpu > mine.toml")
@click.option("--gpu", "of_gpu", is_flag=True, help="The first GPU instead of the processor; needs torch and triton.")
def measure(of_gpu: bool) -> None:
    """Measure the machine that this runs on, and print a file for it; takes some seconds."""
    from ...backends.llvm import measured
    from ...backends.llvm.target import host
    from ...cost import measure as measuring

    if of_gpu:
        click.echo(measuring.gpu(), nl=False)
        return
    rate, latency = measured.fused_rate(), measured.fused_latency()
    core = measuring.Core(host().bits // 8, host().registers, rate, latency, measured.read_rate)
    click.echo(measuring.processor(core), nl=False)


def _lines(one: Machine) -> Iterator[str]:
    yield f"{one.name} ({', '.join(part for part in (one.vendor, one.architecture, one.kind) if part)})"
    rows = [(n, figure.text, figure.source) for n, figure in one.figures.items()]
    rows += [(f"{a} into {b} ({unit})", figure.text, figure.source) for (a, b, unit), figure in one.rates.items()]
    rows += [(n, _shown(value), "") for n, value in one.facts.items()]
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    for what, text, source in rows:
        yield f"  {what:{widths[0]}}  {text:{widths[1]}}  {source}".rstrip()
    if one.notes:
        yield f"  {one.notes}"


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
