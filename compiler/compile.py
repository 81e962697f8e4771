"""compile: a kernel and a schedule as something to call."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..backends.numpy.load import load_function
from ..backends.numpy.nest import emit_nest
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

    Raises:
        IllegalTransformError: the target cannot say this kernel (rule target), or the final check failed: a schedule
            that was built step by step does not come to that.
        ValueError: the schedule is of another kernel, or there is no such target.
    """
    if target != "numpy":
        raise ValueError(f"there is no target {target!r}; there is 'numpy'")
    if schedule is None:
        return CompiledKernel(kernel, target, kernel.numpy_source)
    if schedule.kernel is not kernel:
        raise ValueError(f"the schedule is of {schedule.kernel.name}, not of this {kernel.name}")
    for statement in kernel.program.statements:
        if statement.reduction is not None and statement.reduction.order.kind == "mma":
            message = "the fold of matrix units is not available on this target"
            raise IllegalTransformError(Refusal("target", "compile numpy", message, statement.span))
    program = schedule.state.program
    certificate = verify(program, schedule.state.tree, kernel.program)
    heading = "\n".join(["The schedule:", *(f"    {step}" for step in schedule.trace)]) if schedule.trace else ""
    try:
        with budget(OPERATIONS):
            source = emit_nest(program, schedule.state.tree, heading)
    except UndecidedError:
        text = "isl did not work out the bounds of the loops within its budget"
        raise IllegalTransformError(Refusal("unknown", "compile numpy", text, kernel=kernel.name)) from None
    return CompiledKernel(kernel, target, source, schedule.trace, certificate)
