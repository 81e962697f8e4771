"""compile: a kernel and a schedule as something to call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..backends.numpy.load import load_function
from ..backends.numpy.nest import emit_nest
from ..backends.numpy.tiles import emit_tiles
from ..passes.dependence import OPERATIONS
from ..passes.refusal import IllegalTransformError, Refusal
from ..passes.verify import Certificate, verify
from .ir.affine import UndecidedError, budget
from .kernel import Kernel, call_with

if TYPE_CHECKING:
    from collections.abc import Callable

    from .arguments import Array
    from .schedule import Schedule
    from .step import Step


TARGETS = ("numpy", "tiles")


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel compiled for a target.

    *source*: the emitted text; *trace*: the steps of its schedule; *certificate*: what the final check proved of them
    (None for the definition itself).
    """

    kernel: Kernel
    target: str
    source: str = field(repr=False)
    trace: tuple[Step, ...] = ()
    certificate: Certificate | None = None

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return load_function(self.source, self.kernel.name)

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Array | tuple[Array, ...]:
        """Compute the outputs; arguments and errors are those of the kernel itself."""
        return call_with(self.kernel.program, self._function, args, keywords, out)


def compile(kernel: Kernel, schedule: Schedule | None = None, target: str = "numpy") -> CompiledKernel:
    """Compile a kernel, in the order of a schedule (None: the definition, vectorised).

    *target*: numpy, loop by loop; or tiles, NumPy too, with each statement under block loops as one operation on a
    small array: what a GPU is given, to be read and run anywhere.

    Raises:
        IllegalTransformError: the target cannot say this kernel (rule target), or the final check failed: a schedule
            that was built step by step does not come to that.
        ValueError: the schedule is of another kernel, or there is no such target.
    """
    if target not in TARGETS:
        raise ValueError(f"there is no target {target!r}; there are {', '.join(map(repr, TARGETS))}")
    if schedule is None and target == "numpy":
        return CompiledKernel(kernel, target, kernel.numpy_source)
    if schedule is None:
        raise ValueError("tiles are what the block loops of a schedule make: give one")
    if schedule.kernel is not kernel:
        raise ValueError(f"the schedule is of {schedule.kernel.name}, not of this {kernel.name}")
    for statement in kernel.program.statements:
        if statement.reduction is not None and statement.reduction.order.kind == "mma":
            message = "the fold of matrix units is not available on this target"
            raise IllegalTransformError(Refusal("target", f"compile {target}", message, statement.span))
    program = schedule.state.program
    certificate = verify(program, schedule.state.tree, kernel.program)
    heading = "\n".join(["The schedule:", *(f"    {step}" for step in schedule.trace)]) if schedule.trace else ""
    try:
        with budget(OPERATIONS):
            emit = emit_tiles if target == "tiles" else emit_nest
            source = emit(program, schedule.state.tree, heading)
    except UndecidedError:
        text = "isl did not work out the bounds of the loops within its budget"
        raise IllegalTransformError(Refusal("unknown", f"compile {target}", text, kernel=kernel.name)) from None
    return CompiledKernel(kernel, target, source, schedule.trace, certificate)
