"""The processor that code is made for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from ...compiler.ir.errors import TilewrightError

OVERRIDE = "TILEWRIGHT_CPU"
# The bits of a vector register, of levels of x86-64 and of common cores.
WIDTHS = {
    "x86-64": 128, "x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512, "haswell": 256, "skylake": 256, "znver2": 256,
    "znver3": 256, "znver4": 512, "znver5": 512, "skylake-avx512": 512, "icelake-server": 512, "sapphirerapids": 512,
    "neoverse-n1": 128, "apple-m1": 128,
}  # fmt: skip


class UnknownProcessorError(TilewrightError):
    """The environment names a processor that is not known."""


@dataclass(frozen=True)
class Processor:
    """*name*, *features*: as LLVM says them; *triple*: the system; *bits*: of a vector register."""

    name: str
    features: str
    triple: str
    bits: int

    @property
    def halves(self) -> bool:
        """Whether it has instructions that convert f16: x86-64 with AVX2, and the others."""
        return self.bits > 128 or not self.triple.startswith("x86_64")

    @property
    def lanes(self) -> int:
        """How many f32 a vector register has."""
        return self.bits // 32

    @property
    def registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.bits == 512 or not self.triple.startswith("x86_64") else 16


@cache
def host() -> Processor:
    """This machine's processor, or the one that the environment variable TILEWRIGHT_CPU names.

    Raises:
        UnknownProcessorError: the variable names none of WIDTHS.
    """
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    name = os.environ.get(OVERRIDE)
    if name:
        if name not in WIDTHS:
            raise UnknownProcessorError(f"{OVERRIDE} is {name!r}; there are {', '.join(WIDTHS)}")
        return Processor(name, "", triple, WIDTHS[name])
    found = llvm.get_host_cpu_features()
    wide = 512 if found.get("avx512f") and found.get("avx512vl") else 256 if found.get("avx2") else 128
    return Processor(llvm.get_host_cpu_name(), found.flatten(), triple, wide)
