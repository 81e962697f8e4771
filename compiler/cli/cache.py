"""txc cache: what was compiled before."""

from __future__ import annotations

import click

from ...backends.llvm import cache as objects


@click.command(epilog="Example: txc cache --clear")
@click.option("--clear", is_flag=True, help="Delete them all.")
def cache(clear: bool) -> None:
    """Show where compiled kernels are kept and how much room they take, or delete them."""
    place = objects.folder()
    if place is None:
        click.echo(f"no cache: {objects.FOLDER} is off")
        return
    if clear:
        click.echo(f"deleted {objects.shrink(0)} files from {place}")
        return
    found = [stat.st_size for _, stat in objects.objects()]
    click.echo(f"{place}: {len(found)} files, {sum(found) / 2**20:.1f} MiB of {objects.LIMIT >> 20}")
