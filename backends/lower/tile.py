"""The tile IR: a scheduled program as loops around operations on small arrays.

A value has *axes*, by name, in order; operands of one operation may have different ones, and each target aligns them.
Integers are `Affine` expressions of sizes, loop indices and axes: an axis in one stands for its lane numbers, 0, 1, ..
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...compiler.ir.quasiaffine import TRUE, Affine, Formula

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.expr import Expr
    from ...compiler.ir.fold import Unit

Number = float | int | bool


@dataclass(frozen=True)
class Axis:
    """An axis of tiles. *extent*: its lanes, a power of two; *used*: how many of them a loop runs over at most."""

    name: str
    extent: int
    used: int


@dataclass(frozen=True, eq=False)
class Ref:
    """The tile that a name stands for."""

    name: str
    axes: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True, eq=False)
class Load:
    """Elements of an array, one for each lane of the axes.

    *mask*: where they may be read; other lanes are *fill*, or anything at all (None: nobody may care). *padded*: the
    fill is what the kernel reads beyond the array's edge.
    """

    tensor: str
    index: tuple[Affine | Value, ...]
    axes: tuple[str, ...]
    dtype: DType
    mask: Formula = TRUE
    fill: Number | None = None
    padded: bool = False


@dataclass(frozen=True, eq=False)
class Elem:
    """An operation of the language, lane by lane: that of *node*, on these operands.

    *ulps*: how many units in the last place an elementary function may be off, by the permission `approx`.
    """

    node: Expr
    operands: tuple[Value, ...]
    axes: tuple[str, ...]
    dtype: DType
    ulps: int = 0


@dataclass(frozen=True, eq=False)
class Full:
    """One number in every lane."""

    value: Number
    axes: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True, eq=False)
class Integer:
    """An index expression as an i64 value."""

    affine: Affine
    axes: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True, eq=False)
class Where:
    """The value where a condition holds, another elsewhere."""

    mask: Formula
    value: Value
    other: Value
    axes: tuple[str, ...]
    dtype: DType


@dataclass(frozen=True, eq=False)
class Reduce:
    """The lanes of some axes combined; *combine*: the operator of a reduction.

    *pairs*: by adjacent pairs until one is left, as the program says. Otherwise any order will do, be it that it makes
    no difference or that it is permitted.
    """

    combine: str
    value: Value
    over: tuple[str, ...]
    axes: tuple[str, ...]
    dtype: DType
    pairs: bool = False


@dataclass(frozen=True, eq=False)
class Folded:
    """That a product is added to *start* in the very order of a matrix unit; *promote*: by parts of so many elements,
    each of which is added in f32 (0: as one part)."""

    start: Value
    unit: Unit
    promote: int = 0


@dataclass(frozen=True, eq=False)
class Dot:
    """The sum of products over an axis that both operands have, in f32 and in an order of the target's choosing.

    *batch*: axes that both have and that stay. *precision*: exact (operands of 16 bits or fewer), tf32, or ieee.
    *leans*: the permissions without which it could not stand for the sum. *fold*: the order is the definition's.
    """

    a: Value
    b: Value
    over: tuple[str, ...]
    batch: tuple[str, ...]
    axes: tuple[str, ...]
    dtype: DType
    precision: Literal["exact", "tf32", "ieee"] = "exact"
    leans: tuple[str, ...] = ()
    fold: Folded | None = None


Value = Ref | Load | Elem | Full | Integer | Where | Reduce | Dot


@dataclass(frozen=True, eq=False)
class Let:
    """Name a tile; where *keep* is set, only the lanes of *mask* change. *comment*: the statement that it is."""

    name: str
    value: Value
    axes: tuple[str, ...]
    mask: Formula = TRUE
    keep: bool = False
    comment: str = ""


@dataclass(frozen=True, eq=False)
class Store:
    """Write the lanes of *mask* to an array."""

    tensor: str
    index: tuple[Affine, ...]
    mask: Formula
    value: Value
    axes: tuple[str, ...]
    comment: str = ""


@dataclass(frozen=True)
class Grouped:
    """How often a loop of the grid runs, which is not equally often: in each iteration of the loop *outer* but the last
    *size* times, whatever the other loops do. *high*: how often, in Python's words."""

    outer: str
    size: int
    high: str


@dataclass(frozen=True)
class Roles:
    """Parts that run at once: what a pipelined loop loads, so many *consumers* of that, and what writes the tensors of
    the *epilogue*, which stands behind the loop."""

    consumers: int
    epilogue: frozenset[str]


@dataclass(frozen=True, eq=False)
class For:
    """A loop; its ends are text over renamed names. *carried*: the tiles that live on from iteration to iteration.

    *fused*: it and the loop that is all its body run over a rectangle, and may be one loop. *span*: of a parallel or
    bound loop the ends that hold for all values of the loops around it, in Python's words; *rectangular*: whether those
    are the loop's own ends; *grouped*: what is known where they are not. *shared*: the iterations are shared out among
    as many programs as the device has processors. *roles*: of a pipelined loop, who runs it and what is beside it.
    """

    index: str
    low: str
    high: str
    body: tuple[Stmt, ...]
    kind: str = "serial"
    descending: bool = False
    condition: str | None = None
    stages: int = 1
    carried: tuple[str, ...] = ()
    span: tuple[str, str] | None = None
    rectangular: bool = True
    grouped: Grouped | None = None
    shared: bool = False
    fused: bool = False
    roles: Roles | None = None


@dataclass(frozen=True, eq=False)
class If:
    """Statements under a condition that has no axes."""

    condition: Formula
    body: tuple[Stmt, ...]


Stmt = Let | Store | For | If


@dataclass(frozen=True, eq=False)
class Tiles:
    """A program in tiles. *arrays*: the intermediate tensors that lie in memory; *tiles*: those that are tiles.

    *orders*: the dimensions of arrays that lie in memory in another order than their own, outermost first.
    """

    axes: dict[str, Axis]
    body: tuple[Stmt, ...]
    arrays: tuple[str, ...]
    tiles: tuple[str, ...]
    orders: Mapping[str, tuple[int, ...]]


def statements_of(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """Every statement, each before what is inside it."""
    for stmt in body:
        yield stmt
        if isinstance(stmt, (For, If)):
            yield from statements_of(stmt.body)


def values_of(body: Sequence[Stmt]) -> Iterator[Value]:
    """Every value in some statements, outer ones first."""
    for stmt in statements_of(body):
        if isinstance(stmt, (For, If)):
            continue
        stack: list[Value] = [stmt.value]
        while stack:
            value = stack.pop()
            yield value
            stack += operands(value)


def operands(value: Value) -> tuple[Value, ...]:
    """The values directly below one."""
    match value:
        case Ref() | Full() | Integer():
            return ()
        case Load():
            return tuple(i for i in value.index if not isinstance(i, Affine))
        case Elem():
            return value.operands
        case Where():
            return (value.value, value.other)
        case Reduce():
            return (value.value,)
        case Dot():
            return (value.a, value.b) if value.fold is None else (value.a, value.b, value.fold.start)
