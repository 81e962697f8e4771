"""What the statements of every reduction are made of: accumulators, what they start from, and one step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from .expr import Binary, Call, Const, Expr, Index, Logic, Read, Reduce
from .program import Extent, Reduction, Stage, Statement, Tensor
from .quasiaffine import Affine, Range

if TYPE_CHECKING:
    from .dtype import DType

Hull = Callable[[tuple[Range, ...], tuple[Affine, ...]], tuple[Extent, ...]]


@dataclass
class Lowering:
    """The statements found so far, and names for what they introduce."""

    stage: Stage
    hull: Hull
    count: int
    statements: list[Statement] = field(default_factory=list[Statement])
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    made: int = 0

    def label(self) -> str:
        """`C` for the only reduction of stage C, `C.1`, `C.2` where there are several."""
        self.made += 1
        return self.stage.name if self.count == 1 else f"{self.stage.name}.{self.made}"


def identity(op: str, dtype: DType) -> float | int | bool:
    """What a reduction of nothing gives, and what its accumulator starts from."""
    if op in ("any", "all"):
        return op == "all"
    if op in ("sum", "prod"):
        return (0 if op == "sum" else 1) if dtype.is_int else (0.0 if op == "sum" else 1.0)
    greatest = op in ("max", "argmax")
    if dtype.is_int:
        return dtype.least if greatest else dtype.greatest
    extreme = dtype.largest if dtype.overflow == "nan" else float("inf")
    return -extreme if greatest else extreme


def combined(op: str, accumulator: Expr, element: Expr, fused: bool = False) -> Expr:
    """One step of a reduction; *fused*: a product is added with one rounding."""
    dtype = accumulator.dtype
    if fused and isinstance(element, Binary) and element.op == "*":
        return Call("fma", (element.left, element.right, accumulator), dtype, element.span)
    if op in ("any", "all"):
        # The element first: every element is evaluated, whatever the others gave.
        return Logic("or" if op == "any" else "and", (element, accumulator))
    symbol = {"sum": "+", "prod": "*", "min": "min", "max": "max", "argmax": "max", "argmin": "min"}[op]
    return Binary(symbol, accumulator, element, dtype)


def names(ranges: Sequence[Range]) -> tuple[Affine, ...]:
    """The indices of ranges, as a position."""
    return tuple(Affine.name(r.index) for r in ranges)


def accumulator(
    name: str, dtype: DType, ranges: tuple[Range, ...], position: tuple[Affine, ...], work: Lowering
) -> Read:
    """A new tensor that holds one value for each of these positions, and the read of it."""
    work.tensors.append(Tensor(name, dtype, work.hull(ranges, position), "accumulator", work.stage.span))
    return Read(name, tuple(Index(p) for p in position), dtype, work.stage.span)


def position(read: Read) -> tuple[Affine, ...]:
    """Where a read takes its element; what data say is left out."""
    return tuple(s.affine for s in read.subscripts if isinstance(s, Index))


def blocks_of(inner: Range, size: int) -> Range:
    """The blocks of so many indices that a range touches."""
    low = tuple(a.divided("//", size) for a in inner.lower)
    high = tuple((b - 1).divided("//", size) + 1 for b in inner.upper)
    return Range("block", low, high)


def add_init(
    label: str,
    ranges: tuple[Range, ...],
    target: Read,
    reduce: Reduce,
    shared: Reduction,
    work: Lowering,
    value: Expr | None = None,
) -> None:
    """The start of an accumulator: from a value, or from what a reduction of nothing gives."""
    value = value or Const(identity(reduce.op, target.dtype), target.dtype)
    name, at = f"S_{label}_init", position(target)
    work.statements.append(
        Statement(name, work.stage.name, "init", ranges, target.tensor, at, value, shared, reduce.span)
    )


def add_step(
    name: str,
    kind: Literal["update", "merge"],
    ranges: tuple[Range, ...],
    target: Read,
    element: Expr,
    reduce: Reduce,
    shared: Reduction,
    work: Lowering,
) -> None:
    """One step: an element is added to an accumulator."""
    value = combined(reduce.op, target, element, reduce.fused)
    work.statements.append(
        Statement(name, work.stage.name, kind, ranges, target.tensor, position(target), value, shared, reduce.span)
    )
