"""Calls with torch tensors: what a Triton module is run with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backends.signature import free_sizes
from .arguments import ArgumentError, named, scalar_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .ir.program import Program


def call_with_tensors(
    program: Program, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], out: Any
) -> Any:
    """Run an emitted function on torch tensors.

    Raises:
        ArgumentError: an argument is missing or unknown, or a tensor does not fit. Nothing was written.
    """
    given = named(program, args, keywords)
    for name, dtype in program.scalars.items():
        given[name] = scalar_value(name, dtype, given[name])
    for name in program.parameters:
        if name in program.tensors and not hasattr(given[name], "data_ptr"):
            raise ArgumentError(f"{name} is a torch tensor; {type(given[name]).__name__} was given")
    sizes = {n: given[n] for n in free_sizes(program) if n in given}
    inputs = [given[n] for n in program.parameters if n not in program.sizes]
    missing = [n for n in free_sizes(program) if n not in given]
    if missing:
        raise ArgumentError(f"no input fixes the size {missing[0]}: pass {missing[0]}= by keyword")
    try:
        return function(*inputs, **sizes, out=out)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
