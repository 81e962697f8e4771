"""txc show: the program behind a kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ...passes.dependence import dependences
from ...passes.footprint import footprints
from ...passes.show import tree_text
from ...passes.state import initial
from ..ir.affine import UndecidedError, make_set
from ..ir.show import accesses_text, domains_text, relation_text, tensors_text
from .common import read_kernels
from .schedules import scheduled

if TYPE_CHECKING:
    from ...passes.state import State
    from ..kernel import Kernel


@click.command(epilog="Example: txc show --domains --accesses --dependences examples/matmul_silu.tx")
@click.argument("file")
@click.option("--kernel", "name", help="Only the kernel of this name.")
@click.option("--domains", is_flag=True, help="Statements and the instances they have.")
@click.option("--accesses", is_flag=True, help="What each statement writes and reads.")
@click.option("--dependences", "wants_dependences", is_flag=True, help="What must run before what.")
@click.option("--loops", is_flag=True, help="The loop nest of the definition.")
@click.option("--schedule", "script", help="A Python file that defines schedule(s): show the loops it makes.")
@click.option("--footprints", "wants_footprints", is_flag=True, help="What an iteration of each loop touches.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON.")
def show(
    file: str,
    name: str | None,
    domains: bool,
    accesses: bool,
    wants_dependences: bool,
    loops: bool,
    script: str | None,
    wants_footprints: bool,
    as_json: bool,
) -> None:
    """Show the tensors and the loop nest of a kernel in FILE, or what the options ask for."""
    kernels = read_kernels(file)
    if name is not None and name not in kernels:
        raise click.UsageError(f"{file} has no kernel '{name}'; it holds {', '.join(kernels)}")
    chosen = [k for n, k in kernels.items() if name in (None, n)]
    if script is not None:
        for kernel in chosen:
            schedule = scheduled(kernel, script)
            click.echo(f"kernel {kernel.signature}\n\n{schedule}")
            if wants_footprints:
                click.echo(f"\nfootprints\n{footprints_text(schedule.state)}")
        return
    if as_json:
        click.echo(json.dumps([_record(k) for k in chosen], indent=2))
        return
    everything = not (domains or accesses or wants_dependences or loops or wants_footprints)
    wanted = {
        "tensors": everything,
        "domains": domains,
        "accesses": accesses,
        "dependences": wants_dependences,
        "loops": everything or loops,
        "footprints": wants_footprints,
    }
    for kernel in chosen:
        click.echo(f"kernel {kernel.signature}")
        for title in (t for t, asked in wanted.items() if asked):
            click.echo(f"\n{title}")
            click.echo("\n".join(f"  {line}" for line in _section(title, kernel).splitlines()))


def _section(title: str, kernel: Kernel) -> str:
    program = kernel.program
    match title:
        case "tensors":
            return tensors_text(program)
        case "domains":
            return domains_text(program)
        case "accesses":
            return accesses_text(program)
        case "dependences":
            return dependences_text(kernel)
        case "footprints":
            return footprints_text(initial(program))
        case _:
            return tree_text(initial(program))


def _rows(kernel: Kernel) -> list[tuple[str, str, bool, str]]:
    program = kernel.program
    iterators = {s.name: s.iterators for s in program.statements}
    context = make_set(program.sizes, (), program.context).params()
    try:
        found = dependences(program)
    except UndecidedError:
        raise click.ClickException("isl did not compute the dependences within its budget") from None
    return [
        (d.kind, d.tensor, d.reduction, relation_text(d.relation, iterators[d.source], iterators[d.target], context))
        for d in found
    ]


def footprints_text(state: State) -> str:
    """A line for each loop: the extents of what one iteration touches of each tensor."""
    lines: dict[str, list[str]] = {}
    for loop, tensor, counts in footprints(state.program, state.tree):
        lines.setdefault(loop, []).append(f"{tensor}{' ' + ' x '.join(counts) if counts else ''}")
    return "\n".join(f"  {loop:12} {', '.join(parts)}" for loop, parts in lines.items())


def dependences_text(kernel: Kernel) -> str:
    """A line for each dependence; those that only order the updates of an accumulator are marked."""
    lines = [
        f"{'reduction' if reduction else 'strict':9} {kind:6} {tensor:8} {relation}"
        for kind, tensor, reduction, relation in _rows(kernel)
    ]
    return "\n".join(lines) or "none"


def _record(kernel: Kernel) -> dict[str, object]:
    program = kernel.program
    return {
        "kernel": kernel.name,
        "signature": kernel.signature,
        "tensors": tensors_text(program).splitlines(),
        "domains": domains_text(program).splitlines(),
        "accesses": accesses_text(program).splitlines(),
        "dependences": [
            {"kind": kind, "tensor": tensor, "reduction": reduction, "relation": relation}
            for kind, tensor, reduction, relation in _rows(kernel)
        ],
        "loops": tree_text(initial(program)).splitlines(),
    }
