"""Kernels as users hold them: loaded from text, called on arrays."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.load import call, load_function
from ..backends.numpy.emit import emit
from ..backends.signature import free_sizes
from ..frontend.check import check_source
from ..frontend.diagnostic import Diagnostic, SourceError, diagnostic
from ..frontend.scan import BYTES
from .arguments import ArgumentError, bind
from .ir.interpret import OutsideError, interpret
from .ir.span import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .arguments import Array
    from .ir.program import Program


@dataclass(frozen=True, eq=False)
class Kernel:
    """A checked kernel. Calling it runs its definition, through the NumPy reference.

    *warnings* are about its source; *origin* is a hash of that, which a changed copy has not.
    """

    program: Program = field(repr=False)
    warnings: tuple[Diagnostic, ...] = field(default=(), repr=False)
    origin: str = field(default="", init=False, repr=False)

    @property
    def name(self) -> str:
        return self.program.name

    def __repr__(self) -> str:
        return f"<kernel {self.signature}>"

    @property
    def signature(self) -> str:
        """The header: `matmul(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N])`."""
        inputs = ", ".join(self._declaration(n) for n in self.program.parameters)
        outputs = ", ".join(self._declaration(n) for n in self.program.outputs)
        return f"{self.name}({inputs}) -> ({outputs})"

    def _declaration(self, name: str) -> str:
        if name in self.program.scalars:
            return f"{name}: {self.program.scalars[name]}"
        if name in self.program.sizes:
            return f"{name}: size"
        tensor = self.program.tensors[name]
        shape = ", ".join(str(e.upper[0]) for e in tensor.extents)
        return f"{name}: {tensor.dtype}[{shape}]" if tensor.rank else f"{name}: {tensor.dtype}"

    @cached_property
    def numpy_source(self) -> str:
        """The definition as a NumPy module.

        Raises:
            IllegalTransformError: a reduction has an order that NumPy cannot carry out (rule target).
        """
        return emit(self.program)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return load_function(self.numpy_source, self.name)

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Array | tuple[Array, ...]:
        """Compute the outputs.

        Args:
            args, keywords: the inputs in the order of the declaration, or by name: arrays of any strides, of the
                declared types; numbers for scalars and sizes.
            out: an array to write to (several outputs: a tuple, or a mapping by name).

        Returns:
            The output, or a tuple of the outputs in the order of the declaration; `out` where it was given.

        Raises:
            ArgumentError: the arguments do not fit. Nothing was written.
        """
        return call_with(self.program, self._function, args, keywords, out)

    def interpreted(self, /, *args: Any, **keywords: Any) -> dict[str, Array]:
        """The outputs by name, computed one scalar operation at a time: slow, and independent of NumPy's arithmetic.

        Raises:
            ArgumentError: the arguments do not fit.
        """
        bound = bind(self.program, args, keywords)
        try:
            return interpret(self.program, bound.arrays, bound.sizes, bound.scalars)
        except OutsideError as error:
            raise ArgumentError(str(error)) from None


def call_with(
    program: Program, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], out: Any
) -> Array | tuple[Array, ...]:
    """Bind the arguments of a call, run an emitted function on them, and hand over or write its results.

    Raises:
        ArgumentError: the arguments do not fit. Nothing was written.
    """
    bound = bind(program, args, keywords, out)
    names = [n for n in program.parameters if n not in program.sizes]
    inputs = [bound.arrays[n] if n in bound.arrays else bound.scalars[n] for n in names]
    try:
        values = call(function, inputs, [bound.sizes[n] for n in free_sizes(program)])
    except LookupError as error:
        if type(error) is not LookupError:
            raise  # NumPy's own IndexError would be a fault of the emitted code
        raise ArgumentError(str(error)) from None
    results = dict(zip(program.outputs, values, strict=True))
    if bound.out is not None:
        for name, array in bound.out.items():
            array[...] = results[name]
        results = dict(bound.out)
    found = tuple(results[n] for n in program.outputs)
    return found[0] if len(found) == 1 else found


def parse(text: str, name: str = "inline.tx") -> dict[str, Kernel]:
    """The kernels of a source text by name, in the order of the text. *name* stands in messages.

    Raises:
        SourceError: the text is no program.
    """
    origin = hashlib.sha256(repr((name, text)).encode(errors="surrogatepass")).hexdigest()
    found = {n: Kernel(c.program, c.warnings) for n, c in check_source(Source(name, text)).items()}
    for kernel in found.values():
        object.__setattr__(kernel, "origin", origin)
    return found


def load(path: str | os.PathLike[str]) -> dict[str, Kernel]:
    """The kernels of a `.tx` file by name.

    Raises:
        SourceError: the file is no program.
        OSError: it cannot be read.
    """
    shown = os.fspath(path)
    with Path(path).open("rb") as file:
        data = file.read(BYTES + 1)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        if len(data) > BYTES and error.start > BYTES - 4:
            text = data[: error.start].decode() + " "
        else:
            before = data[: error.start].decode()
            source = Source(shown, before + "\ufffd")
            message = f"byte 0x{data[error.start]:02x} is not UTF-8: this is not a text file"
            raise SourceError([diagnostic(source, len(before), len(before) + 1, message)]) from None
    return parse(text, shown)
