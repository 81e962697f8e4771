"""txc emit: the code of a kernel."""

from __future__ import annotations

import click

from ..automatic import gpu_schedule
from ..compile import TARGETS, compile
from .common import numbers, read_kernel, write_text
from .schedules import scheduled

EXAMPLE = "txc emit --target tiles --schedule examples/schedules/matmul_silu.py examples/matmul_silu.tx"


@click.command(epilog=f"Example: {EXAMPLE}")
@click.argument("file")
@click.option("--target", type=click.Choice([*TARGETS, "asm"]), default="numpy", show_default=True)
@click.option("--schedule", "path", help="A Python file that defines schedule(s).")
@click.option("--kernel", "name", help="The kernel, where the file holds several.")
@click.option("--size", "sizes", multiple=True, metavar="NAME=N ...", help="Sizes to choose the default's tiles for.")
@click.option("--machine", default="h200", show_default=True, help="The machine that they are chosen for.")
@click.option("-o", "--output", help="Write here instead of to the terminal.")
def emit(
    file: str,
    target: str,
    path: str | None,
    name: str | None,
    sizes: tuple[str, ...],
    machine: str,
    output: str | None,
) -> None:
    """Print the code of a kernel in FILE.

    llvm: LLVM's text for this processor, or the one that TILEWRIGHT_CPU names; asm: its instructions. The others are
    modules that run by themselves.

    numpy: the definition, or loop by loop with a schedule. tiles: NumPy too, each statement under the block loops of a
    schedule as one operation on a small array. triton: that for a GPU, as a function of torch tensors; without a
    schedule, by one that a fixed heuristic makes, with the tiles that are reckoned best for sizes, if some are given.
    """
    kernel = read_kernel(file, name)
    if target == "tiles" and path is None:
        raise click.UsageError("--target tiles needs a --schedule: its block loops are the axes of the tiles")
    if sizes and (target != "triton" or path is not None):
        raise click.UsageError(
            "--size chooses the tiles of the default schedule: for --target triton, without --schedule"
        )
    schedule = scheduled(kernel, path) if path is not None else None
    if sizes:
        schedule = gpu_schedule(kernel, at=numbers(kernel, sizes), machine=machine)
    made = compile(kernel, schedule, "llvm" if target == "asm" else target)
    text = made.assembly if target == "asm" else made.source
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
