"""txc bench: how long a kernel takes on this processor."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ...backends.llvm.pool import threads
from ...cost.reports import paired
from ...cost.work import work
from ..compile import compile
from ..inputs import default_scalars, random_inputs
from ..ir.nest import definition_tree
from ..measuring import by_turns
from ..tile_check import each
from .common import numbers, read_kernel
from .schedules import scheduled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ..kernel import Kernel

# What the definition, which is for reading, may take for a call.
PATIENCE = 5.0


@click.command(epilog="Example: txc bench examples/matmul_silu.tx --size M=512 K=512 N=512")
@click.argument("file")
@click.option("--kernel", "name", help="The kernel, where the file holds several.")
@click.option("--schedule", "path", help="A Python file that defines schedule(s).")
@click.option("--size", "sizes", multiple=True, metavar="NAME=N ...", required=True, help="Every size.")
def bench(file: str, name: str | None, path: str | None, sizes: tuple[str, ...]) -> None:
    """Time a kernel in FILE as machine code, and its definition in NumPy beside it.

    Medians of calls by turns; operations count once each, whatever they cost; bytes are those of inputs and outputs.
    """
    kernel = read_kernel(file, name)
    at = numbers(kernel, sizes)
    made = compile(kernel, scheduled(kernel, path) if path is not None else None, "llvm")
    start = time.perf_counter()
    made.prepare()
    ready = time.perf_counter() - start
    arguments = {**random_inputs(kernel.program, at, 0), **default_scalars(kernel.program, {}), **at}
    out = each(made(**arguments))
    contestants: dict[str, Callable[[], Any]] = {"llvm": lambda: made(**arguments, out=out)}
    start = time.perf_counter()
    kernel(**arguments)
    if time.perf_counter() - start < PATIENCE:
        contestants["numpy"] = lambda: kernel(**arguments)
    times = by_turns(contestants)
    moved = sum(a.nbytes for a in (*arguments.values(), *out) if isinstance(a, np.ndarray))
    counted = _operations(kernel, at)
    click.echo(f"{kernel.signature}\n  {' '.join(f'{n}={v}' for n, v in at.items())}, {threads()} threads")
    click.echo(f"  machine code made in {ready * 1e3:.0f} ms")
    for one, seconds in times.items():
        middle = median(seconds)
        text = f"  {one:6} {middle * 1e3:10.3f} ms  {moved / middle / 1e9:8.2f} GB/s"
        click.echo(text + (f"  {counted / middle / 1e9:8.2f} GFLOP/s" if counted else ""))
    if "numpy" in times:
        ratio = paired(times["numpy"], times["llvm"]).ratio
        click.echo(f"  {ratio:.2f} times as fast as the definition in NumPy")


def _operations(kernel: Kernel, at: Mapping[str, int]) -> float:
    """How many additions and multiplications the definition does."""
    done = work(kernel.program, definition_tree(kernel.program))
    return float(sum(one.flops * one.times.at(at) for one in done))
