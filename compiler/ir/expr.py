"""Scalar expressions of a program: typed, immutable, shared where the source shares them.

Nodes compare by identity. An argument of a `def` is one node however often the body names it, so
an expression is a graph; walk it with `postorder`, which visits each node once and never recurses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .dtype import BOOL, I64, DType
from .quasiaffine import TRUE, Affine, Formula, Range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .span import Span

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "min", "max")
COMPARISONS = ("<", "<=", "==", "!=", ">=", ">")


@dataclass(frozen=True, eq=False)
class Const:
    """A value of the type, exactly: a float (also for f16, bf16), an int or a bool."""

    value: float | int | bool
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Index:
    """A quasi-affine value of indices and sizes, as an i64."""

    affine: Affine
    span: Span | None = None
    dtype: DType = I64


@dataclass(frozen=True, eq=False)
class Scalar:
    """A scalar parameter of the kernel."""

    name: str
    dtype: DType
    span: Span | None = None


def same_number(a: Const, b: Const) -> bool:
    """Whether two constants are one value of one type: zeros by their signs, a NaN is itself."""
    return a.dtype == b.dtype and repr(a.value) == repr(b.value)


def same_fill(a: Expr, b: Expr) -> bool:
    """Whether what two padded reads find beyond the edges, a constant or a scalar of the kernel, is one value."""
    if isinstance(a, Const) and isinstance(b, Const):
        return same_number(a, b)
    return isinstance(a, Scalar) and isinstance(b, Scalar) and (a.name, a.dtype) == (b.name, b.dtype)


@dataclass(frozen=True, eq=False)
class Read:
    """An element of a tensor.

    *subscripts*: `Index` where quasi-affine, any other integer expression for a gather.
    *guard* holds wherever the read's value matters; outside it the read must not be relied on.
    *fill*: the value where a subscript lies outside the tensor (a padded read), or None.
    """

    tensor: str
    subscripts: tuple[Expr, ...]
    dtype: DType
    span: Span | None = None
    guard: Formula = TRUE
    fill: Expr | None = None

    @property
    def gathers(self) -> bool:
        """Whether data decide the position."""
        return not all(isinstance(s, Index) for s in self.subscripts)


@dataclass(frozen=True, eq=False)
class Unary:
    """-, abs, floor, ceil, round (half to even), sqrt; one rounding."""

    op: str
    operand: Expr
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Binary:
    """An operation of ARITHMETIC on two values of one type, rounded once to that type."""

    op: str
    left: Expr
    right: Expr
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Compare:
    """A comparison of two values of one type."""

    op: str
    left: Expr
    right: Expr
    span: Span | None = None
    dtype: DType = BOOL


@dataclass(frozen=True, eq=False)
class Logic:
    """`and`, `or` (two operands) or `not` (one)."""

    op: Literal["and", "or", "not"]
    operands: tuple[Expr, ...]
    span: Span | None = None
    dtype: DType = BOOL


@dataclass(frozen=True, eq=False)
class Select:
    """`then if condition else other`; only the chosen side counts."""

    condition: Expr
    then: Expr
    other: Expr
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Cast:
    """A conversion, which is a rounding that stays."""

    operand: Expr
    dtype: DType
    saturating: bool = False
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Call:
    """An elementary function (exp, log, ...) or `fma`."""

    function: str
    arguments: tuple[Expr, ...]
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which a reduction combines its elements; it is part of the definition.

    ascending: one accumulator. lanes: element k goes to lane k % size (k: the innermost index), then adjacent
    lanes are merged until one is left. blocks: ascending sums of blocks k // size, then of the block sums.
    mma: the fold of the matrix units of *family*, with an f32 add every *promote* elements if that is not 0.
    """

    kind: Literal["ascending", "lanes", "blocks", "mma"] = "ascending"
    size: int = 0
    family: str = ""
    promote: int = 0

    def __str__(self) -> str:
        if self.kind == "mma":
            return f"mma={self.family}" + (f", promote={self.promote}" if self.promote else "")
        return self.kind if self.kind == "ascending" else f"{self.kind}={self.size}"


@dataclass(frozen=True, eq=False)
class Reduce:
    """A reduction over *ranges* (outermost first) of *body*.

    op: sum prod min max any all argmax argmin. *permissions*: granted by an enclosing `allow .. in`. *guard* holds
    wherever the result matters: a reduction inside a branch need not run elsewhere. *fused*: a sum of products adds
    each with one rounding, by `fma`.
    """

    op: str
    ranges: tuple[Range, ...]
    body: Expr
    dtype: DType
    order: Order = Order()
    permissions: tuple[str, ...] = ()
    span: Span | None = None
    guard: Formula = TRUE
    fused: bool = False


@dataclass(frozen=True, eq=False)
class Partial:
    """Only in the statements of a reduction: the adjacent-pair merge of *count* lanes of a tensor.

    The element read for lane l is tensor[*prefix, l].
    """

    tensor: str
    prefix: tuple[Index, ...]
    count: int
    op: str
    dtype: DType
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Allow:
    """The operand, with permissions granted for the operations written in it."""

    permissions: tuple[str, ...]
    operand: Expr
    dtype: DType
    span: Span | None = None


Expr = (
    Const | Index | Scalar | Read | Unary | Binary | Compare | Logic | Select | Cast | Call | Reduce | Partial | Allow
)


def children(node: Expr) -> tuple[Expr, ...]:
    """The expressions directly below a node, in source order."""
    match node:
        case Const() | Index() | Scalar():
            return ()
        case Partial():
            return node.prefix
        case Read():
            return node.subscripts if node.fill is None else (*node.subscripts, node.fill)
        case Unary() | Cast() | Allow():
            return (node.operand,)
        case Binary() | Compare():
            return (node.left, node.right)
        case Logic():
            return node.operands
        case Select():
            return (node.then, node.condition, node.other)
        case Call():
            return node.arguments
        case Reduce():
            return (node.body,)


def label(node: Expr) -> str:
    """An operation without its operands and its place in the source: equal for the same operation. As text, in which
    0.0 is not -0.0."""
    skipped = ("span", "guard", "affine")
    own = {n: v for n, v in vars(node).items() if n not in skipped and not isinstance(v, (Expr, tuple))}
    return f"{type(node).__name__} {own}"


def with_gathers(root: Expr) -> set[int]:
    """The nodes, by identity, that are a read at a position that data decide, or contain one."""
    found: set[int] = set()
    for node in postorder(root):
        if (isinstance(node, Read) and node.gathers) or any(id(c) in found for c in children(node)):
            found.add(id(node))
    return found


def postorder(root: Expr, into_reductions: bool = True) -> Iterator[Expr]:
    """Every node below and including *root* once, operands before their users."""
    done: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if ready:
            done.add(id(node))
            yield node
            continue
        stack.append((node, True))
        if isinstance(node, Reduce) and not into_reductions:
            continue
        stack.extend((child, False) for child in reversed(children(node)))
