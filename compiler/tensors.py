"""Calls with torch tensors: what a Triton module is run with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..backends.signature import free_sizes, size_source
from ..backends.triton.types import torch_type
from .arguments import ArgumentError, named, scalar_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .ir.dtype import DType
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


def caller(program: Program, function: Callable[..., Any]) -> Callable[[Sequence[Any], Mapping[str, Any], Any], Any]:
    """`call_with_tensors` of one program: where nothing has to be bound, little stands before the function itself."""
    count = len(program.parameters) if not program.scalars and not free_sizes(program) else -1
    # A set that grows: to look a type up costs a call less than to look at its name.
    tensors: set[type] = set()

    def call(args: Sequence[Any], keywords: Mapping[str, Any], out: Any) -> Any:
        if len(args) != count or keywords or not tensors.issuperset(map(type, args)):
            tensors.update(type(a) for a in args if type(a).__name__ in ("Tensor", "Parameter"))
            return call_with_tensors(program, function, args, keywords, out)
        # The function's own checks are all that is needed.
        try:
            return function(*args, out=out)
        except ValueError as error:
            raise ArgumentError(str(error)) from None

    return call


def as_torch_op(program: Program, function: Callable[..., Any], name: str) -> Any:
    """An emitted function as an operation of torch, by a name such as `mine::softmax`: torch.compile traces it without
    looking inside.

    Raises:
        ValueError: the name has not the form namespace::name.
        ImportError: there is no torch.
    """
    if name.count("::") != 1 or not all(part.isidentifier() for part in name.split("::")):
        raise ValueError(f"an operation's name has the form namespace::name; {name!r} has not")
    import torch

    parameters = [p for p in program.parameters if p not in program.sizes]
    free = free_sizes(program)
    declared = [f"{_schema(program.scalars[p]) if p in program.scalars else 'Tensor'} {p}" for p in parameters]
    declared += ["*", *(f"int {n}" for n in free)] if free else []
    result = "Tensor" if len(program.outputs) == 1 else f"({', '.join('Tensor' for _ in program.outputs)})"

    def real(*args: Any, **keywords: Any) -> Any:
        return call_with_tensors(program, function, args, keywords, None)

    def fake(*args: Any, **keywords: Any) -> Any:
        given = dict(zip(parameters, args, strict=False)) | keywords
        sizes = {n: given[n] for n in free}
        for size in program.sizes:
            source = size_source(program, size)
            if source is not None:
                sizes[size] = given[source[0]].shape[source[1]]
        first = next((given[p] for p in parameters if p in program.tensors), None)
        made = [
            torch.empty(
                [e.interval(sizes)[1] for e in program.tensors[o].extents],
                dtype=getattr(torch, torch_type(program.tensors[o].dtype).removeprefix("torch.")),
                device=first.device if first is not None else "cuda",
            )
            for o in program.outputs
        ]
        return made[0] if len(made) == 1 else tuple(made)

    schema = f"({', '.join(declared)}) -> {result}"
    operation: Any = torch.library.custom_op(name, real, mutates_args=(), schema=schema)
    operation.register_fake(fake)
    return operation


def _schema(dtype: DType) -> str:
    """The type of a scalar in the schema of an operation."""
    return "bool" if dtype.is_bool else "int" if dtype.is_int else "float"
