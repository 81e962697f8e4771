"""What the commands share: reading files, choosing a kernel, NAME=VALUE options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..kernel import Kernel, load

if TYPE_CHECKING:
    from collections.abc import Sequence


def read_kernels(path: str) -> dict[str, Kernel]:
    """The kernels of a file; an unreadable file is wrong usage."""
    try:
        return load(path)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from None


def read_kernel(path: str, name: str | None) -> Kernel:
    """The one kernel of a file, or the one with that name."""
    kernels = read_kernels(path)
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values()))
    if name is None:
        raise click.UsageError(f"{path} holds {', '.join(kernels)}: choose one with --kernel")
    if name not in kernels:
        raise click.UsageError(f"{path} has no kernel '{name}'; it holds {', '.join(kernels)}")
    return kernels[name]


def pairs(option: str, words: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a mapping; each name must be known."""
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not value:
            raise click.UsageError(f"{option} takes NAME=VALUE, not '{word}'")
        if name not in known:
            among = f"; there are {', '.join(known)}" if known else "; there are none"
            raise click.UsageError(f"{option}: nothing is called '{name}'{among}")
        found[name] = value
    return found


def write_text(path: str, text: str) -> None:
    """Write a file, or say as wrong usage why not."""
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from None


def numbers(kernel: Kernel, words: tuple[str, ...]) -> dict[str, int]:
    """All sizes of a kernel as numbers, from words such as M=1024 that follow --size."""
    known = kernel.program.sizes
    found: dict[str, int] = {}
    for name, text in pairs("--size", words, known).items():
        if not text.isdigit() or int(text) < 1:
            raise click.UsageError(f"--size {name} takes a whole number of at least 1, not '{text}'")
        found[name] = int(text)
    missing = [n for n in known if n not in found]
    if missing:
        raise click.UsageError(f"all sizes are needed, also {', '.join(missing)}: --size {missing[0]}=..")
    return found
