"""Signatures of emitted functions in Python: inputs in order, then, by keyword, the sizes that no input fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..compiler.ir.program import Program
    from .naming import Names


def size_source(program: Program, size: str) -> tuple[str, int] | None:
    """The first input dimension that is just this size."""
    for name in program.parameters:
        tensor = program.tensors.get(name)
        if tensor is None:
            continue
        for position, extent in enumerate(tensor.extents):
            if extent.size is not None and extent.size.bare == size:
                return name, position
    return None


def free_sizes(program: Program) -> list[str]:
    """The sizes that no input fixes; a call gives them by keyword."""
    return [n for n in program.sizes if size_source(program, n) is None]


def signature_text(program: Program, names: Names, *keywords: str) -> str:
    """The parameters of an emitted function, *keywords* last."""
    inputs = [names[p] for p in program.parameters if p not in program.sizes]
    free = [*(names[n] for n in free_sizes(program)), *keywords]
    return ", ".join([*inputs, *(["*", *free] if free else [])])


def size_lines(program: Program, names: Names) -> Iterator[str]:
    """The lines that name the sizes, by the shapes of the inputs."""
    sources = {n: size_source(program, n) for n in program.sizes}
    for parameter in program.parameters:
        tensor = program.tensors.get(parameter)
        if tensor is None or not tensor.rank:
            continue
        found = [(n, s[1]) for n, s in sources.items() if s is not None and s[0] == parameter]
        if found and len(found) == tensor.rank:
            targets = [names[n] for n, _ in sorted(found, key=lambda f: f[1])]
            shown = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
            yield f"{shown} = {names[parameter]}.shape"
        else:
            for n, position in found:
                yield f"{names[n]} = {names[parameter]}.shape[{position}]"
