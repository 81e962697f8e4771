"""txc emit: the code of a kernel."""

from __future__ import annotations

import click

from .common import read_kernel, write_text


@click.command(epilog="Example: txc emit --target numpy examples/matmul_silu.tx -o matmul_silu.py")
@click.argument("file")
@click.option("--target", type=click.Choice(["numpy"]), default="numpy", show_default=True)
@click.option("--kernel", "name", help="The kernel, where the file holds several.")
@click.option("-o", "--output", help="Write here instead of to the terminal.")
def emit(file: str, target: str, name: str | None, output: str | None) -> None:
    """Print the code of a kernel in FILE: a module that runs by itself."""
    text = read_kernel(file, name).numpy_source
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
