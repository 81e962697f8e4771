"""Compilations that were done before, on disk: their steps, what was proved of them, and the text that they came to.

They go by a hash of all that they depend on: the kernel's text and name, the steps (or the sizes that they are chosen
for), the processor, the number of threads, LLVM, isl, and the files that a compilation runs through, so that another
version proves anew; if those changed since they were loaded, nothing is kept. What is not found, or is damaged, is
compiled. The file lies beside the object that the text was compiled to (`cache`).
"""

from __future__ import annotations

import hashlib
import json
import warnings
import zlib
from typing import TYPE_CHECKING, Any

import islpy.version as isl

from ..backends.llvm import cache as files
from ..backends.llvm.call import Code
from ..backends.llvm.jit import object_name
from ..backends.llvm.pool import threads
from ..passes.agreement import Difference
from ..passes.verify import Certificate
from .step import steps_of, trace_json
from .version import LOADED, on_disk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..backends.llvm.target import Processor
    from .kernel import Kernel
    from .step import Step


def file_of(
    kernel: Kernel, trace: Sequence[Step] | None, at: Mapping[str, int] | None, processor: Processor
) -> str | None:
    """The name of a compilation's file; None for a kernel that no text was read for. *trace*: None where nobody chose a
    schedule; *at*: the sizes that one is chosen for."""
    if not kernel.origin:
        return None
    steps = None if trace is None else trace_json(trace)
    sizes = sorted(at.items()) if at is not None else None
    facts = (kernel.origin, kernel.name, steps, sizes, object_name("", processor), threads(), isl.VERSION_TEXT, LOADED)
    return f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.kernel"


def keep(file: str | None, kernel: Kernel, trace: Sequence[Step], certificate: Certificate, code: Code) -> None:
    """Put a compilation into the cache, if all tensors that a call passes are the kernel's own, and this is the
    Tilewright that others will load."""
    tensors = kernel.program.tensors
    if file is None or on_disk() != LOADED or any(tensors.get(n) != code.program.tensors[n] for n in code.tensors):
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
    except (ValueError, LookupError, TypeError, RecursionError, zlib.error):
        warnings.warn(f"{file} in the cache is no compilation; it is compiled again", stacklevel=4)
        return None


def _read(
    record: dict[str, Any], source: str, kernel: Kernel, processor: Processor
) -> tuple[tuple[Step, ...], Certificate, Code]:
    program, texts = kernel.program, (record["sizes"], *record["proved"], *record["permissions"])
    names, called = record["tensors"], {*program.parameters, *program.outputs} & set(program.tensors)
    differences = [Difference(text, permission) for text, permission in record["differences"]]
    texts += tuple(t for d in differences for t in (d.text, d.permission))
    if not all(isinstance(text, str) for text in texts) or {type(record[n]) for n in ("fails", "reordered")} != {bool}:
        raise TypeError("a record of other types")
    if len(set(names)) != len(names) or not called <= set(names) <= set(program.tensors):
        raise ValueError("a record of another kernel")
    bytes.fromhex(record["object"])  # a name, and no other path
    certificate = Certificate(
        tuple(record["proved"]), record["sizes"], tuple(record["permissions"]), tuple(differences), record["reordered"]
    )
    code = Code(program, source, tuple(names), processor, record["fails"], record["object"])
    return tuple(steps_of(record["trace"])), certificate, code
