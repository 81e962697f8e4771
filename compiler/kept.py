"""Compilations that were done before, on disk: their steps, what was proved of them, and the text that they came to.

They go by a hash of all that they depend on: the kernel's text and name, the steps (or that nobody gave any), the
processor, the number of threads, LLVM, and every file of this package, so that another version proves anew. What is
not found, or is damaged, is compiled. The file lies beside the object that the text was compiled to (`cache`).
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.llvm import cache as files
from ..backends.llvm.call import Code
from ..backends.llvm.jit import object_name
from ..backends.llvm.pool import threads
from ..passes.agreement import Difference
from ..passes.verify import Certificate
from .step import steps_of, trace_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..backends.llvm.target import Processor
    from .kernel import Kernel
    from .step import Step

PACKAGE = Path(__file__).parent.parent
ROOMS = ("frontend", "compiler", "passes", "backends")


def file_of(
    kernel: Kernel, trace: Sequence[Step] | None, at: Mapping[str, int] | None, processor: Processor
) -> str | None:
    """The name of a compilation's file; None for a kernel that no text was read for. *trace*: None where nobody chose a
    schedule; *at*: the sizes that one is chosen for."""
    if not kernel.origin:
        return None
    steps = None if trace is None else trace_json(trace)
    sizes = sorted(at.items()) if at is not None else None
    facts = (kernel.origin, kernel.name, steps, sizes, object_name("", processor), threads(), package())
    return f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.kernel"


@cache
def package() -> str:
    """A hash of the names, lengths and times of all files that a compilation runs through."""
    found: list[tuple[str, int, int]] = []
    folders = [str(PACKAGE / room) for room in ROOMS]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    stat = entry.stat()
                    found.append((entry.path, stat.st_size, stat.st_mtime_ns))
                elif entry.is_dir():
                    folders.append(entry.path)
    return hashlib.sha256(repr(sorted(found)).encode()).hexdigest()


def keep(file: str | None, kernel: Kernel, trace: Sequence[Step], certificate: Certificate, code: Code) -> None:
    """Put a compilation into the cache, if all tensors that a call passes are the kernel's own."""
    tensors = kernel.program.tensors
    if file is None or any(tensors.get(n) != code.program.tensors[n] for n in code.tensors):
        return
    record = {
        "trace": trace_json(trace),
        "proved": certificate.proved,
        "sizes": certificate.sizes,
        "permissions": certificate.permissions,
        "differences": [(d.text, d.permission) for d in certificate.differences],
        "reordered": certificate.reordered,
        "tensors": code.tensors,
        "fails": code.fails,
        "object": object_name(code.source, code.processor),
    }
    files.write(file, json.dumps(record).encode() + b"\n" + zlib.compress(code.source.encode(), 1))


def found(file: str | None, kernel: Kernel, processor: Processor) -> tuple[tuple[Step, ...], Certificate, Code] | None:
    """The steps, the certificate and the code of a compilation that was kept."""
    data = files.read(file) if file is not None else None
    if data is None:
        return None
    head, _, text = data.partition(b"\n")
    try:
        return _read(json.loads(head), zlib.decompress(text).decode(), kernel, processor)
    except (ValueError, LookupError, TypeError, zlib.error):
        warnings.warn(f"{file} in the cache is no compilation; it is compiled again", stacklevel=4)
        return None


def _read(
    record: dict[str, Any], source: str, kernel: Kernel, processor: Processor
) -> tuple[tuple[Step, ...], Certificate, Code]:
    certificate = Certificate(
        tuple(record["proved"]),
        record["sizes"],
        tuple(record["permissions"]),
        tuple(Difference(*one) for one in record["differences"]),
        record["reordered"],
    )
    code = Code(kernel.program, source, tuple(record["tensors"]), processor, record["fails"], record["object"])
    return tuple(steps_of(record["trace"])), certificate, code
