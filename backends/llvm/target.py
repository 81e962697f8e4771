"""The processor that code is made for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

OVERRIDE = "TILEWRIGHT_CPU"


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


@cache
def host() -> Processor:
    """This machine's processor, or the one that the environment variable TILEWRIGHT_CPU names."""
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    name = os.environ.get(OVERRIDE)
    if name:
        return Processor(name, "", triple, _bits(name, {}))
    found = llvm.get_host_cpu_features()
    return Processor(llvm.get_host_cpu_name(), found.flatten(), triple, _bits("", found))


# By name, where no features are at hand: of the levels of x86-64 and of common cores.
WIDTHS = {
    "x86-64": 128, "x86-64-v2": 128, "x86-64-v3": 256, "x86-64-v4": 512, "haswell": 256, "znver3": 256,
    "znver4": 512, "sapphirerapids": 512, "skylake-avx512": 512, "neoverse-n1": 128, "apple-m1": 128,
}  # fmt: skip


def _bits(name: str, features: dict[str, bool]) -> int:
    if name:
        return WIDTHS.get(name, 128)
    return 512 if features.get("avx512f") and features.get("avx512vl") else 256 if features.get("avx2") else 128
