"""Tilewright: a compiler for small tensor programs that keeps the bits of their definition.

import tilewright as tw

kernel = tw.load("matmul_silu.tx")["matmul_silu"]
Y = kernel(A, W)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.llvm.pool import set_threads
    from .compiler.arguments import ArgumentError
    from .compiler.automatic import gpu_schedule
    from .compiler.automatic_cpu import cpu_schedule
    from .compiler.compile import compile
    from .compiler.compiled import CompiledKernel
    from .compiler.ir.errors import TilewrightError
    from .compiler.kernel import Kernel, load, parse
    from .compiler.measuring import measured
    from .compiler.ranking import rank
    from .compiler.schedule import Schedule
    from .frontend.diagnostic import Diagnostic, SourceError
    from .passes.cpu_products import CpuSizes
    from .passes.recipe import Sizes
    from .passes.refusal import IllegalTransformError, Refusal

__version__ = "0.1.0"

# Loaded when first asked for: importing the package alone costs next to nothing.
_HOME = {
    "load": "compiler.kernel",
    "parse": "compiler.kernel",
    "Schedule": "compiler.schedule",
    "Kernel": "compiler.kernel",
    "cpu_schedule": "compiler.automatic_cpu",
    "gpu_schedule": "compiler.automatic",
    "rank": "compiler.ranking",
    "measured": "compiler.measuring",
    "set_threads": "backends.llvm.pool",
    "CpuSizes": "passes.cpu_products",
    "Sizes": "passes.recipe",
    "compile": "compiler.compile",
    "CompiledKernel": "compiler.compiled",
    "ArgumentError": "compiler.arguments",
    "TilewrightError": "compiler.ir.errors",
    "SourceError": "frontend.diagnostic",
    "Diagnostic": "frontend.diagnostic",
    "IllegalTransformError": "passes.refusal",
    "Refusal": "passes.refusal",
}
_MODULES = {"testing": "compiler.testing"}
__all__ = [
    "ArgumentError",
    "CompiledKernel",
    "CpuSizes",
    "Diagnostic",
    "IllegalTransformError",
    "Kernel",
    "Refusal",
    "Schedule",
    "Sizes",
    "SourceError",
    "TilewrightError",
    "compile",
    "cpu_schedule",
    "gpu_schedule",
    "load",
    "measured",
    "parse",
    "rank",
    "set_threads",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOME))
