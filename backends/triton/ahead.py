"""Kernels compiled ahead of time, without a GPU: what they take of a multiprocessor, and their instructions."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..load import load_module
from .gluon_launch import swizzle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .gluon_launch import RoleLaunch
    from .launch import Launch

# Instructions by what they are for: matrix units (of sm_80, of sm_90), copies past the registers, spilled registers.
INSTRUCTIONS = {
    "mma": r"\b[HI]MMA",
    "wgmma": r"\b[HQI]GMMA",
    "async_copy": r"\bLDGSTS",
    "tma_load": r"\bUTMALDG",
    "tma_store": r"\bUTMASTG",
    "spill": r"\b(?:STL|LDL)\b",
}
SHARED_LIMIT = {80: 166_912, 86: 101_376, 89: 101_376, 90: 232_448, 100: 232_448}


@dataclass(frozen=True)
class Capacity:
    """What one program of a kernel takes. *registers*: of a thread; *shared*: bytes; *spilled*: bytes of a thread's
    registers that are kept in memory; *instructions*: how often each kind of INSTRUCTIONS stands in the code."""

    kernel: str
    arch: int
    warps: int
    stages: int
    registers: int
    shared: int
    spilled: int
    instructions: Mapping[str, int]

    @property
    def fits(self) -> bool:
        """Whether the program can be started at all: its shared memory is within the limit of the architecture."""
        return self.shared <= SHARED_LIMIT[self.arch]

    def __str__(self) -> str:
        """`softmax_y_kernel on sm_90: 16 warps, 40 registers a thread, 64 bytes shared, nothing spilled`."""
        spilled = f"{self.spilled:,} bytes of a thread spilled" if self.spilled else "nothing spilled"
        fits = "" if self.fits else f", which are more than the {SHARED_LIMIT[self.arch]:,} that there are"
        taken = f"{self.warps} warps, {self.registers} registers a thread, {self.shared:,} bytes shared{fits}"
        return f"{self.kernel} on sm_{self.arch}: {taken}, {spilled}"


def capacities(source: str, name: str, launches: Sequence[Launch], arch: int, aligned: bool) -> tuple[Capacity, ...]:
    """The capacity of each kernel of a module, compiled by Triton for an architecture (80, 90, ..).

    *aligned*: the addresses of tensors, and the sizes, are divisible by 16, as Triton finds out at a call.

    Raises:
        ImportError: there is no Triton.
        RuntimeError: Triton, or the assembler behind it, did not compile a kernel.
    """
    module = load_module(source, name)
    found = [_capacity(module[launch.name], launch, arch, aligned) for launch in launches]
    for launch in launches:
        if launch.roles is not None and aligned and arch // 10 == 9:
            counts = {count.name for count in launch.grid.counts}
            found.append(_capacity_of_roles(module[launch.roles.name], launch.roles, counts, arch))
    return tuple(found)


def _capacity(function: Any, launch: Launch, arch: int, aligned: bool) -> Capacity:
    from triton.compiler import ASTSource

    tma = aligned and arch >= 90
    blocks = {d.name for d in launch.descriptors}
    constants: dict[str, Any] = {"WIDE": False}
    signature = {**dict(launch.arguments), "WIDE": "constexpr"}
    if blocks:
        constants["TMA"] = tma
        signature["TMA"] = "constexpr"
    if launch.grid.tall:
        constants["TALL"] = False
        signature["TALL"] = "constexpr"
    if not tma:
        constants |= dict.fromkeys(blocks)
        signature |= dict.fromkeys(blocks, "constexpr")
    counts = {count.name for count in launch.grid.counts}
    divisible = [n for n, t in launch.arguments if aligned and (t.startswith("*") or (t == "i32" and n not in counts))]
    attributes = {(function.arg_names.index(n),): [["tt.divisibility", 16]] for n in divisible}
    options = {"num_warps": launch.warps, "num_stages": launch.stages, "enable_fp_fusion": False}
    text = ASTSource(function, signature, constants, attributes)
    return _compiled(launch.name, text, arch, options, launch.warps, launch.stages)


def _capacity_of_roles(function: Any, roles: RoleLaunch, counts: set[str], arch: int) -> Capacity:
    import triton

    if not triton.__version__.startswith("3.6."):
        raise RuntimeError(f"{roles.name} is text for Triton 3.6, and this is {triton.__version__}")
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    layouts = {b.name: gl.NVMMASharedLayout(swizzle(b.shape[-1], b.dtype.bits), b.dtype.bits) for b in roles.boxes}
    signature = {b.name: f"{b.signature[:-1]},{layouts[b.name]!r}>" for b in roles.boxes} | dict(roles.arguments)
    names = [n for n, t in roles.arguments if t.startswith("*") or (t == "i32" and n not in counts)]
    attributes = {(function.arg_names.index(n),): [["tt.divisibility", 16]] for n in names}
    options = {"num_warps": 4, "maxnreg": roles.registers, "enable_fp_fusion": False}
    return _compiled(roles.name, GluonASTSource(function, signature, {}, attributes), arch, options, None, 1)


def _compiled(name: str, text: Any, arch: int, options: Mapping[str, Any], warps: int | None, stages: int) -> Capacity:
    """What a kernel takes once it is compiled; *warps*: None where its parts have their own."""
    import triton
    from triton.backends.compiler import GPUTarget

    try:
        made: Any = triton.compile(text, target=GPUTarget("cuda", arch, 32), options=options)
    except triton.TritonError as error:
        # The last line says what; those before it show where.
        what = str(error).strip().splitlines()[-1]
        raise RuntimeError(f"Triton does not compile {name} for sm_{arch}: {what}") from None
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        cubin.write_bytes(made.asm["cubin"])
        usage, code = (_dumped(cubin, option) for option in ("-res-usage", "-sass"))
    found = {word: int(value) for word, value in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    return Capacity(
        name,
        arch,
        warps or int(made.metadata.num_warps),
        stages,
        found.get("REG", 0),
        int(made.metadata.shared),
        found.get("LOCAL", 0) + found.get("STACK", 0),
        {kind: len(re.findall(pattern, code)) for kind, pattern in INSTRUCTIONS.items()},
    )


def _dumped(cubin: Path, option: str) -> str:
    """What NVIDIA's tool, which comes with Triton, says of a compiled kernel."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return subprocess.run([tool, option, cubin], capture_output=True, text=True, check=True).stdout
