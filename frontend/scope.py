"""What the names of a kernel mean while it is checked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import DTYPES, DType
from ..compiler.ir.quasiaffine import TRUE, Affine, Formula, Range
from .diagnostic import Diagnostic, Fault, diagnostic
from .explain import REDUCTIONS
from .syntax import At, Function, Name, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..compiler.ir.span import Source, Span
    from .drafts import Draft
    from .literals import Literal

ELEMENTARY = ("exp", "exp2", "log", "log2", "tanh", "erf", "sin", "cos", "rsqrt")
ROUNDING = ("sqrt", "floor", "ceil", "round", "abs")
FUNCTIONS = (*ELEMENTARY, *ROUNDING, "min", "max", "fma")
PERMISSIONS = ("reassociate", "contract", "elide", "approx", "tf32", "rescale", "finite")
BUILT_IN = frozenset((*DTYPES, *FUNCTIONS, *REDUCTIONS, "inf", "nan", "true", "false", "size"))
INDICES = 12
RANK = 8
# Nodes of one kernel after `def`s are expanded: chains of definitions can double at each step.
EXPANDED = 100_000

Ends = tuple[tuple[Affine, ...], tuple[Affine, ...]]


@dataclass
class TensorInfo:
    """A tensor as far as it is known: no type before an equation gives it, no extents where sizes do not fix them."""

    name: str
    role: str
    rank: int
    dtype: DType | None
    at: At
    extents: list[Ends | None]
    # The index of its first equation, for "used before it is defined".
    first: int | None = None
    used: bool = False


@dataclass
class Scope:
    """Names of the file and of one kernel, and what was found while checking it."""

    source: Source
    constants: Mapping[str, Literal]
    functions: Mapping[str, Function]
    prelude: Mapping[str, Function]
    missing: frozenset[str]
    sizes: list[str] = field(default_factory=list[str])
    scalars: dict[str, DType] = field(default_factory=dict[str, DType])
    tensors: dict[str, TensorInfo] = field(default_factory=dict[str, TensorInfo])
    context: Formula = TRUE
    warnings: list[Diagnostic] = field(default_factory=list[Diagnostic])
    used: set[str] = field(default_factory=set[str])
    # dtypes that reads took from their surroundings before their tensor had one
    assumed: list[tuple[str, DType, At]] = field(default_factory=list[tuple[str, DType, At]])
    nodes: int = 0

    def span(self, at: At) -> Span:
        return self.source.span(*at)

    def warn(self, at: At, message: str, hint: str | None = None) -> None:
        found = diagnostic(self.source, *at, message, hint, warning=True)
        if found not in self.warnings:
            self.warnings.append(found)

    def function(self, name: str) -> Function | None:
        return self.functions.get(name) or self.prelude.get(name)

    def count(self, at: At) -> None:
        """Count an elaborated node against the limit."""
        self.nodes += 1
        if self.nodes > EXPANDED:
            raise Fault(at, f"the kernel has more than {EXPANDED:,} operations after its functions are expanded")


@dataclass(frozen=True)
class Env:
    """Where an expression stands: indices in scope, arguments of the `def` being expanded, what is known to hold."""

    indices: Mapping[str, Range]
    arguments: Mapping[str, Draft] | None = None
    guard: Formula = TRUE
    permissions: tuple[str, ...] = ()
    # The outermost call of a `def` that is being expanded: what its body contains is shown there.
    call: At | None = None

    def at(self, node: Node) -> At:
        """Where a node is reported."""
        return self.call or node.at

    def under(self, guard: Formula) -> Env:
        return replace(self, guard=guard)


class Unwell(Exception):
    """A name whose own definition had an error: this equation is dropped without a further message."""


def unknown(kind: str, name: Name, known: Iterable[str], scope: Scope) -> Exception:
    """The error for a name that nothing defines; silent if its definition was dropped with an error."""
    if name.text in scope.missing:
        return Unwell()
    near = get_close_matches(name.text, sorted(known), 1, 0.6)
    return Fault(name.at, f"unknown {kind} '{name.text}'", f"did you mean {near[0]}?" if near else None)


def new_name(name: Name, what: str) -> None:
    """Refuse a definition that would hide a name of the language."""
    if name.text in BUILT_IN:
        kind = (
            "type"
            if name.text in DTYPES
            else "word"
            if name.text in ("inf", "nan", "true", "false", "size")
            else "function"
        )
        raise Fault(name.at, f"'{name.text}' is a built-in {kind}", f"give the {what} another name")
