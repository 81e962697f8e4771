"""The command line, `txc`: a file a command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ... import __version__
from ..ir.errors import TilewrightError
from .bench import bench
from .cache import cache
from .check import check
from .cost import explain, rank_
from .emit import emit
from .machine import machine
from .run import run
from .show import show

if TYPE_CHECKING:
    from collections.abc import Sequence

MANY = ("--size", "--input", "--save", "--scalar")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="txc")
def cli() -> None:
    """Check, show, emit and run Tilewright kernels (.tx files).

    Exit status: 0 done, 1 refused or failed check, 2 wrong usage.
    """


for command in (check, show, emit, run, bench, explain, rank_, machine, cache):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run txc; ends the process with its exit status."""
    try:
        words = expanded(sys.argv[1:] if arguments is None else arguments)
        cli.main(words, prog_name="txc")
    except click.UsageError as error:
        error.show()
        sys.exit(error.exit_code)
    except TilewrightError as error:
        click.echo(str(error), err=True)
        sys.exit(1)


def expanded(words: Sequence[str]) -> list[str]:
    """`--size M=64 K=96` as `--size M=64 --size K=96`: an option that takes NAME=VALUE takes several.

    Raises:
        click.UsageError: one of these options stands without a value.
    """
    result: list[str] = []
    option, filled = "", True
    for word in words:
        if option and "=" in word and not word.startswith("-"):
            result += [option, word]
            filled = True
            continue
        if not filled:
            raise click.UsageError(f"{option} takes NAME=VALUE, one or more")
        option, filled = (word, False) if word in MANY else ("", True)
        if not option:
            result.append(word)
    if not filled:
        raise click.UsageError(f"{option} takes NAME=VALUE, one or more")
    return result
