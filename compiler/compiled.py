"""A compiled kernel: something to call, with what was proved of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..backends.llvm.quick import Quick
from ..backends.load import load_function
from .arguments import bind
from .ir.expr import Index, Read, Reduce, postorder
from .ir.quasiaffine import Comparison
from .kernel import Kernel, call_with
from .tensors import as_torch_op, caller

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..backends.llvm.call import Code
    from ..backends.triton.ahead import Capacity
    from ..backends.triton.launch import Launch
    from ..passes.verify import Certificate
    from .arguments import Array
    from .ir.quasiaffine import Formula
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
    # Permissions that the target's own operations lean on, beside those of the schedule.
    leans: tuple[str, ...] = ()
    # The kernels of a Triton module, in the order in which they run.
    launches: tuple[Launch, ...] = ()
    # For llvm, what runs.
    code: Code | None = field(default=None, repr=False)

    @cached_property
    def _function(self) -> Callable[..., Any]:
        return load_function(self.source, self.kernel.name)

    @cached_property
    def _caller(self) -> Callable[..., Any]:
        return caller(self.kernel.program, self._function)

    @property
    def numerics(self) -> tuple[str, ...]:
        """What is computed otherwise than the kernel says, a line for each, with the permission; none: it is strict."""
        if self.certificate is None:
            return ()
        lines = [f"{d.permission or 'no permission needed'}: {d.text}" for d in self.certificate.differences]
        texts = {"finite": "0 times a value that the definition does not use", "contract": "products are not rounded"}
        texts |= {p: "functions of the hardware" for p in self.leans if p.startswith("approx")}
        own = [f"{p}: {texts.get(p, 'a matrix product')}" for p in self.leans]
        moved = ["reassociate: the updates of a sum run in another order"] if self.certificate.reordered else []
        return (*lines, *moved, *own)

    @property
    def permissions(self) -> frozenset[str]:
        """The permissions that are used."""
        return frozenset((*(self.certificate.permissions if self.certificate else ()), *self.leans))

    @property
    def assembly(self) -> str:
        """The processor's instructions, for the target llvm.

        Raises:
            ValueError: the target is another one.
        """
        if self.code is None:
            raise ValueError(f"the target {self.target} has no instructions of a processor")
        return self.code.assembly

    def prepare(self) -> None:
        """Make the machine code now, and not at the first call; for other targets nothing."""
        if self.code is not None:
            self.code.prepare()

    def capacity(self, arch: int = 90, *, aligned: bool = True) -> tuple[Capacity, ...]:
        """What each Triton kernel takes of a multiprocessor, compiled ahead of time (no GPU is needed).

        *arch*: 80 for sm_80, 90 for sm_90. *aligned*: tensors and sizes are divisible by 16.

        Raises:
            ValueError: the target is not triton.
            ImportError: there is no Triton.
            RuntimeError: Triton does not compile a kernel for that architecture.
        """
        if self.target != "triton":
            raise ValueError(f"the target {self.target} compiles no kernels for a GPU")
        from ..backends.triton.ahead import capacities

        return capacities(self.source, self.kernel.name, self.launches, arch, aligned)

    def certified(self, arch: int = 90, *, aligned: bool = True) -> Certificate | None:
        """The certificate, with what each Triton kernel takes of a multiprocessor of an architecture.

        Raises:
            ValueError, ImportError, RuntimeError: as `capacity`.
        """
        facts = tuple(map(str, self.capacity(arch, aligned=aligned)))
        return replace(self.certificate, capacity=facts) if self.certificate is not None else None

    def as_torch_op(self, name: str) -> Any:
        """The kernel as an operation of torch, by a name such as `mine::softmax`, for use inside torch.compile.

        Raises:
            ValueError: the target is not triton, or the name has not the form namespace::name.
            ImportError: there is no torch.
        """
        if self.target != "triton":
            raise ValueError(f"the target {self.target} takes no torch tensors")
        return as_torch_op(self.kernel.program, self._function, name)

    def error_bound(self, /, *args: Any, **keywords: Any) -> Array | tuple[Array, ...]:
        """For these inputs a bound on how far each element of the outputs may lie from the defined one, as f64.

        0 everywhere for what uses no permission. The bound supposes that what is granted is used wherever it can be.

        Raises:
            ArgumentError: the arguments do not fit.
        """
        from ..passes.error_bound import error_bounds

        program = self.kernel.program
        bound = bind(program, args, keywords)
        found = error_bounds(program, bound.arrays, bound.sizes, bound.scalars, self.permissions)
        results = tuple(found[name] for name in program.outputs)
        return results[0] if len(results) == 1 else results

    def prove(self, property: str, size: str) -> bool:
        """Whether a property holds, for all arguments: `prove("batch_invariant", "M")`: no bit of a row depends on M.

        It does if M occurs in the ranges of elements, and in nothing that an element's value is computed from, and if
        no sum's order is left to the loops, which may differ from size to size. False: it may depend on it.

        Raises:
            ValueError: there is no such property or size.
        """
        program = self.kernel.program
        if property != "batch_invariant":
            raise ValueError(f"there is no property {property!r}; there is 'batch_invariant'")
        if size not in program.sizes:
            raise ValueError(f"there is no size {size!r}; the sizes are {', '.join(program.sizes)}")
        if any(size in names and len(names) > 1 for names in names_of_conditions(program.context)):
            return False  # tied to another size, which may count
        if self.leans or (self.certificate is not None and self.certificate.reordered):
            return False
        several = Counter(stage.tensor for stage in program.stages)
        for stage in program.stages:
            # Which of several equations defines an element may hang on the size.
            ends = {n for r in stage.ranges for n in r.names()} | {n for a in stage.lefts for n in a.names()}
            if several[stage.tensor] > 1 and size in ends:
                return False
            for node in postorder(stage.value):
                # What is read beyond an edge hangs on where that is.
                edges = program.tensors[node.tensor].extents if isinstance(node, Read) and node.fill is not None else ()
                names = {n for e in edges for end in (*e.lower, *e.upper) for n in end.names()}
                if size in names or (isinstance(node, Index) and size in node.affine.names()):
                    return False
                if isinstance(node, Reduce) and any(size in found.names() for found in node.ranges):
                    return False
        return True

    def __call__(self, /, *args: Any, out: Any = None, **keywords: Any) -> Array | tuple[Array, ...]:
        """Compute the outputs; arguments and errors are those of the kernel itself.

        For the target triton they are torch tensors on one GPU; *out* may be tensors to write to.
        """
        call = self.function
        if keywords:
            return call(*args, out=out, **keywords)
        return call(*args) if out is None else call(*args, out=out)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The same call without what it costs to go through this object: for loops where a tenth of a microsecond
        counts."""
        if self.code is not None:
            return self._quick.function
        program = self.kernel.program
        call = self._caller if self.target == "triton" else lambda a, k, o: call_with(program, self._function, a, k, o)
        return lambda *args, out=None, **keywords: call(args, keywords, out)

    @cached_property
    def _quick(self) -> Quick:
        assert self.code is not None
        return Quick(self.code, self._by_machine)

    def _by_machine(self, /, *args: Any, out: Any = None, **keywords: Any) -> Array | tuple[Array, ...]:
        assert self.code is not None
        bound = bind(self.kernel.program, args, keywords, out)
        found = self.code.run(bound.arrays, bound.sizes, bound.scalars, bound.out)
        if found is None:
            # The definition says which position it was.
            return self.kernel(*args, out=out, **keywords)
        if not keywords:
            self._quick.learn(args, bound.sizes)
        results = tuple(found[name] for name in self.kernel.program.outputs)
        return results[0] if len(results) == 1 else results


def names_of_conditions(formula: Formula) -> Iterator[set[str]]:
    """The names in each comparison of a condition."""
    if isinstance(formula, Comparison):
        yield {*formula.left.names(), *formula.right.names()}
        return
    for part in formula.parts:
        yield from names_of_conditions(part)
