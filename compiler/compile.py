"""compile: a kernel and a schedule as something to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import islpy as isl

from ..backends.llvm.emit import emit_llvm
from ..backends.llvm.target import host
from ..backends.numpy.nest import emit_nest
from ..backends.numpy.tiles import emit_tiles
from ..passes.refusal import IllegalTransformError, Refusal
from ..passes.verify import verify
from . import kept
from .automatic_cpu import cpu_schedule
from .compiled import CompiledKernel
from .ir.affine import UndecidedError, budget
from .schedule import Schedule
from .tile_check import check_tiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..backends.llvm.call import Code
    from ..backends.llvm.target import Processor
    from ..passes.verify import Certificate
    from .kernel import Kernel
    from .step import Step


T = TypeVar("T")
# isl's operations for a whole back end, which asks about every copy of every loop.
OPERATIONS = 12_000_000
TARGETS = ("llvm", "numpy", "tiles", "triton")


def compile(
    kernel: Kernel,
    schedule: Schedule | None = None,
    target: str = "llvm",
    *,
    at: Mapping[str, int] | None = None,
    warps: int | None = None,
) -> CompiledKernel:
    """Compile a kernel, in the order of a schedule (None: that of `cpu_schedule` or `gpu_schedule`; for numpy the
    definition, vectorised).

    *target*: llvm, machine code for this processor; numpy, loop by loop; tiles, NumPy too, with each statement under
    block loops as one operation on a small array: what a GPU is given, to be read and run anywhere; or triton, that for
    a GPU, as a function of torch tensors.
    *at*: sizes that a schedule nobody gave is chosen for; what comes out runs at any.
    *warps*: how many a program of a Triton kernel has, a power of two up to 32 (None: by its largest tile).

    Raises:
        IllegalTransformError: the target cannot say this kernel (rule target), or the final check or that of the tiles
            failed: a schedule that was built step by step does not come to that.
        ValueError: the schedule is of another kernel, sizes are given beside it or are none of the kernel's, or there
            is no such target or number of warps.
        KeyError: a size that a schedule is chosen by is not in *at*.
    """
    if target not in TARGETS:
        raise ValueError(f"there is no target {target!r}; there are {', '.join(map(repr, TARGETS))}")
    if warps is not None and (target != "triton" or warps not in (1, 2, 4, 8, 16, 32)):
        raise ValueError("warps is a power of two from 1 to 32, and for the target 'triton' only")
    if at is not None:
        _require_sizes(kernel, at)
    if at is not None and (schedule is not None or target in ("numpy", "tiles")):
        raise ValueError("at chooses a schedule for the targets 'llvm' and 'triton': give one of both")
    if schedule is None and target == "numpy":
        return CompiledKernel(kernel, target, kernel.numpy_source)
    if schedule is not None and schedule.kernel is not kernel:
        raise ValueError(f"the schedule is of {schedule.kernel.name}, not of this {kernel.name}")
    if schedule is None and target == "triton":
        # What it takes to choose tiles by costs is loaded for a GPU alone.
        from .automatic import gpu_schedule

        schedule = gpu_schedule(kernel, at=at)
    if target == "llvm":
        return _machine_code(kernel, schedule, at)
    if schedule is None:
        raise ValueError("tiles are what the block loops of a schedule make: give one")
    if target == "numpy":
        _require_loops(kernel, target)
    certificate, trace = _proved(schedule), schedule.trace
    if target == "numpy":
        return CompiledKernel(kernel, target, _emitted(schedule, target, emit_nest), trace, certificate)
    tiles = _emitted(schedule, target, emit_tiles)
    in_tiles = CompiledKernel(kernel, "tiles", tiles.source, trace, certificate, tiles.leans)
    if target == "tiles":
        check_tiles(in_tiles, schedule, tiles.operations)
        return in_tiles
    from ..backends.triton.emit import emit_triton

    module = _emitted(schedule, target, emit_triton, warps)
    # What a GPU is given are the same tiles, so that their check is its check.
    check_tiles(in_tiles, schedule, tiles.operations)
    return CompiledKernel(kernel, target, module.source, trace, certificate, module.leans, module.launches)


def _machine_code(kernel: Kernel, schedule: Schedule | None, at: Mapping[str, int] | None) -> CompiledKernel:
    """The kernel as machine code of this processor, from the cache if it was compiled before."""
    processor = host()
    file = kept.file_of(kernel, schedule.trace if schedule is not None else None, at, processor)
    known = kept.found(file, kernel, processor)
    if known is None:
        _require_loops(kernel, "llvm")
        if schedule is None:
            try:
                known = _fresh(cpu_schedule(kernel, at=at), processor)
            except IllegalTransformError as error:
                if error.refusal.rule != "unknown":
                    raise
                # What is too much for isl in tiles it may well work out in the order of the definition.
                schedule = Schedule(kernel)
        if known is None:
            assert schedule is not None
            known = _fresh(schedule, processor)
        kept.keep(file, kernel, *known)
    trace, certificate, code = known
    return CompiledKernel(kernel, "llvm", code.source, trace, certificate, code=code)


def _fresh(schedule: Schedule, processor: Processor) -> tuple[tuple[Step, ...], Certificate, Code]:
    """The steps of a schedule, what is proved of it, and its code."""
    certificate = _proved(schedule)
    return tuple(schedule.trace), certificate, _emitted(schedule, "llvm", emit_llvm, processor)


def _proved(schedule: Schedule) -> Certificate:
    """What the final check proves of a schedule."""
    return verify(schedule.state.program, schedule.state.tree, schedule.kernel.program)


def _emitted(schedule: Schedule, target: str, emit: Callable[..., T], *more: Any) -> T:
    """What a back end makes of a schedule.

    Raises:
        IllegalTransformError: it is too much for isl (rule unknown), or the target cannot say it.
    """
    trace = schedule.trace
    heading = "\n".join(["The schedule:", *(f"    {step}" for step in trace)]) if trace else ""
    try:
        with budget(OPERATIONS):
            return emit(schedule.state.program, schedule.state.tree, heading, *more)
    except (UndecidedError, isl.Error):
        text = "isl did not work out the bounds of the loops within its budget"
        refusal = Refusal("unknown", f"compile {target}", text, kernel=schedule.kernel.name)
        raise IllegalTransformError(refusal) from None


def _require_sizes(kernel: Kernel, at: Any) -> None:
    """Refuse what does not map sizes of the kernel to whole numbers."""
    known = kernel.program.sizes
    if not (isinstance(at, Mapping) and all(name in known and isinstance(at[name], int) for name in at)):
        raise ValueError(f"at maps sizes to whole numbers; the sizes are {', '.join(known) or 'none'}")


def _require_loops(kernel: Kernel, target: str) -> None:
    """Refuse a kernel that loops cannot say: the sum of a matrix unit."""
    for statement in kernel.program.statements:
        if statement.folds:
            message = f"{statement.name} is the sum of a matrix unit, and loops add one element at a time"
            hint = "compile it for the target 'numpy' without a schedule, or for 'tiles' with one"
            raise IllegalTransformError(Refusal("target", f"compile {target}", message, statement.span, hint))
