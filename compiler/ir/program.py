"""A kernel as a polyhedral program: tensors, stages (one for each equation) and their statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from .affine import make_map, make_set
from .expr import Expr, Index, Order, Partial, Read, Reduce, postorder
from .quasiaffine import TRUE, Affine, All, Comparison, Formula, Range, conjunction

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import islpy as isl

    from .dtype import DType
    from .span import Span

Role = Literal["input", "output", "declared", "intermediate", "constant", "accumulator"]


@dataclass(frozen=True, slots=True)
class Extent:
    """One dimension of a tensor, with ends in sizes.

    A hull (the default) spans from the least of *lower* up to below the greatest of *upper*; where *meet* is set, as in
    a range, from the greatest of *lower* up to below the least of *upper*.
    """

    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]
    meet: bool = False

    @staticmethod
    def of(size: Affine) -> Extent:
        """0..size."""
        return Extent((Affine(),), (size,))

    @property
    def size(self) -> Affine | None:
        """The extent of a dimension that starts at 0 and has one upper end."""
        return self.upper[0] if self.lower == (Affine(),) and len(self.upper) == 1 else None

    def interval(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """(first position, number of positions) at these sizes."""
        low = (max if self.meet else min)(a.evaluate(sizes) for a in self.lower)
        high = (min if self.meet else max)(a.evaluate(sizes) for a in self.upper)
        return low, max(0, high - low)

    @property
    def low_word(self) -> str:
        """The function that gives the lower end where there are several: max or min."""
        return "max" if self.meet else "min"

    @property
    def high_word(self) -> str:
        return "min" if self.meet else "max"


@dataclass(frozen=True)
class Tensor:
    """A named array: an input, an output, a constant table, or what an equation defines."""

    name: str
    dtype: DType
    extents: tuple[Extent, ...]
    role: Role
    span: Span | None = None
    # Row-major values of a constant table, each exactly representable.
    values: tuple[float | int | bool, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.extents)

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """How many positions each dimension has at these sizes."""
        return tuple(count for _, count in (e.interval(sizes) for e in self.extents))

    def box(self, dims: tuple[str, ...]) -> Formula:
        """That the names *dims* are a position inside a tensor whose extents have one end each."""
        parts: list[Formula] = []
        for dim, extent in zip(dims, self.extents, strict=True):
            position = Affine.name(dim)
            parts += [Comparison("<=", a, position) for a in extent.lower]
            parts += [Comparison("<", position, b) for b in extent.upper]
        return All(tuple(parts))


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of a tensor by a statement.

    *affine* has one entry for each dimension; None where the position comes from data (a gather), so
    the access may touch any position of that dimension.
    """

    tensor: str
    kind: Literal["read", "write"]
    affine: tuple[Affine | None, ...]
    guard: Formula = TRUE
    padded: bool = False
    span: Span | None = None
    # Further integers that the positions mention: the lanes that a merge reads.
    free: tuple[Range, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a reduction's statements share: operator, order, and the tensor that accumulates.

    *best*: for the index of an argmax, the tensor that accumulates the value beside it; the two are updated together.
    """

    op: str
    order: Order
    accumulator: str
    permissions: tuple[str, ...]
    best: str = ""

    def exact(self, dtype: DType) -> bool:
        """Whether the operator gives the same bits in any order."""
        return self.op in ("min", "max", "any", "all", "argmax", "argmin") or dtype.is_int


@dataclass(frozen=True)
class Statement:
    """One scalar assignment `tensor[position] = value` for every instance of its ranges."""

    name: str
    stage: str
    kind: Literal["assign", "init", "update", "merge", "finish"]
    ranges: tuple[Range, ...]
    tensor: str
    position: tuple[Affine, ...]
    value: Expr
    reduction: Reduction | None = None
    span: Span | None = None
    # Where an instance matters: the statements of a reduction inside a branch run nowhere else.
    guard: Formula = TRUE

    @property
    def iterators(self) -> tuple[str, ...]:
        return tuple(r.index for r in self.ranges)

    @property
    def folds(self) -> bool:
        """Whether a matrix unit adds an element, in an order that is a fold of its own."""
        return self.kind == "update" and self.reduction is not None and self.reduction.order.kind == "mma"

    @property
    def condition(self) -> Formula:
        """The domain as a condition on the iterators."""
        return conjunction(self.guard, *(r.formula() for r in self.ranges))

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """The write first, then the reads in source order."""
        found = [Access(self.tensor, "write", self.position, span=self.span)]
        for node in postorder(self.value):
            if isinstance(node, Read):
                positions = tuple(s.affine if isinstance(s, Index) else None for s in node.subscripts)
                found.append(Access(node.tensor, "read", positions, node.guard, node.fill is not None, node.span))
            elif isinstance(node, Partial):
                lane = Range("lane", (Affine(),), (Affine.number(node.count),))
                positions = (*(s.affine for s in node.prefix), Affine.name("lane"))
                found.append(Access(node.tensor, "read", positions, span=node.span, free=(lane,)))
        return tuple(found)


@dataclass(frozen=True)
class Stage:
    """One equation: `tensor[lefts] = value` for every value of the ranges. *text*: as the author wrote it."""

    name: str
    tensor: str
    lefts: tuple[Affine, ...]
    ranges: tuple[Range, ...]
    value: Expr
    permissions: tuple[str, ...] = ()
    span: Span | None = None
    text: str = ""
    # Whether a step has added it, to copy a tensor.
    copies: bool = False


def index_expressions(stage: Stage) -> Iterator[tuple[tuple[Range, ...], tuple[Affine, ...]]]:
    """The ranges of a stage and of its reductions, outer ones first, and the index expressions in it."""
    yield stage.ranges, stage.lefts
    reductions = [n for n in postorder(stage.value) if isinstance(n, Reduce)]
    for reduce in reversed(reductions):
        yield reduce.ranges, ()
    yield (), tuple(n.affine for n in postorder(stage.value) if isinstance(n, Index))


def magnitude(expression: Affine, reach: Mapping[str, int]) -> int:
    """A bound on the absolute value of an expression whose names are at most *reach* in absolute value."""
    total = abs(expression.constant)
    for term, factor in expression.terms:
        size = reach.get(term, 0) if isinstance(term, str) else magnitude(term.numerator, reach)
        total += abs(factor) * size
    return total


@dataclass(frozen=True, slots=True)
class Shared:
    """Equations of one recurrence under a common loop over one position of their tensors.

    *position* is the same in each of the tensors; *descending* where the recurrence runs downwards.
    *extent* holds that position for all members (None while the order is being found).
    """

    position: int
    descending: bool
    members: tuple[Nested, ...]
    extent: Extent | None = None


Nested = Shared | str


def stages_of(order: tuple[Nested, ...]) -> Iterator[str]:
    """The stage names of an order, first to last."""
    for item in order:
        if isinstance(item, str):
            yield item
        else:
            yield from stages_of(item.members)


@dataclass(frozen=True)
class Condition:
    """A condition that the caller promises: its text for messages, and its value."""

    text: str
    value: Expr
    span: Span | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """A checked kernel.

    *sizes* are the integers that shapes and `size` parameters name; *parameters* lists the arguments in
    the order of the declaration; *order* is the order in which the definition computes the stages.
    """

    name: str
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    sizes: tuple[str, ...]
    scalars: Mapping[str, DType]
    tensors: Mapping[str, Tensor]
    promises: tuple[Condition, ...]
    context: Formula
    stages: tuple[Stage, ...]
    order: tuple[Nested, ...]
    statements: tuple[Statement, ...]
    permissions: tuple[str, ...] = ()
    documentation: str = ""
    span: Span | None = None
    source: str = field(default="", repr=False)

    def stage(self, name: str) -> Stage:
        return self._stages[name]

    @cached_property
    def _stages(self) -> dict[str, Stage]:
        return {s.name: s for s in self.stages}

    def statement(self, name: str) -> Statement:
        return self._statements[name]

    @cached_property
    def _statements(self) -> dict[str, Statement]:
        return {s.name: s for s in self.statements}

    def statements_of(self, stage: str) -> tuple[Statement, ...]:
        return tuple(s for s in self.statements if s.stage == stage)

    def free_order(self, update: Statement) -> bool:
        """Whether the updates of a reduction may run in any order.

        They may where that cannot change a bit, or where `reassociate` is granted; never in the fold of a matrix unit.
        """
        reduction = update.reduction
        if reduction is None or reduction.order.kind == "mma":
            return False
        granted = "reassociate" in (*self.permissions, *reduction.permissions)
        return granted or reduction.exact(self.tensors[update.tensor].dtype)

    def domain(self, statement: Statement) -> isl.Set:
        """`{ statement[iterators] }`."""
        condition = conjunction(self.context, statement.condition)
        return make_set(self.sizes, statement.iterators, condition, statement.name)

    def relation(self, statement: Statement, access: Access) -> isl.Map:
        """`{ statement[iterators] -> tensor[position] }`, within the tensor where the position is data or padded."""
        tensor = self.tensors[access.tensor]
        data = [f"data{p}" for p, a in enumerate(access.affine) if a is None]
        images = tuple(Affine.name(f"data{p}") if a is None else a for p, a in enumerate(access.affine))
        parts = [self.context, statement.condition, access.guard, *(r.formula() for r in access.free)]
        if data or access.padded:
            for image, extent in zip(images, tensor.extents, strict=True):
                parts += [Comparison("<=", a, image) for a in extent.lower]
                parts += [Comparison("<", image, b) for b in extent.upper]
        free = (*data, *(r.index for r in access.free))
        return make_map(
            self.sizes, statement.iterators, images, conjunction(*parts), statement.name, access.tensor, free
        )
