"""Numbers that an expression cannot be, seen from its form: above its own maximum, or outside of 0..1.

NaN is always possible, and not spoken of. Rounding keeps the order of numbers, so what holds of a difference before it
is rounded holds afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..compiler.ir.affine import make_set
from ..compiler.ir.expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Read,
    Reduce,
    Scalar,
    Select,
    Unary,
    children,
    label,
    postorder,
)
from ..compiler.ir.quasiaffine import Affine, conjunction, substituted

if TYPE_CHECKING:
    from ..compiler.ir.program import Program, Stage, Statement

# Functions that are increasing and positive, and 1 at 0.
EXPONENTIALS = ("exp", "exp2")
# What has the same bits wherever it is computed, whatever is permitted there: of operations, `approx` is used for calls
# only, and a contracted product is a call.
EXACT = (Const, Index, Scalar, Read, Unary, Binary, Compare, Logic, Select, Cast)


@dataclass(frozen=True, eq=False)
class Ranges:
    """What is known of the expressions of a program's statements."""

    program: Program

    @cached_property
    def _holders(self) -> dict[int, list[Statement]]:
        """The statements that compute an expression, by its identity."""
        found: dict[int, list[Statement]] = {}
        for statement in self.program.statements:
            for node in postorder(statement.value):
                found.setdefault(id(node), []).append(statement)
        return found

    def nonpositive(self, node: Expr) -> bool:
        """Whether an expression is at most 0 wherever a statement computes it: an element less the greatest of some
        that it is one of."""
        node = _bare(node)
        holders = self._holders.get(id(node), [])
        return (
            isinstance(node, Binary)
            and node.op == "-"
            and node.dtype.is_float
            and bool(holders)
            and all(self._below(statement, node.left, node.right) for statement in holders)
        )

    def within_one(self, node: Expr, around: frozenset[str] = frozenset()) -> bool:
        """Whether an expression is +0, 1, or between. *around*: the tensors whose elements are being looked at."""
        node = _bare(node)
        match node:
            case Call():
                return node.function in EXPONENTIALS and self.nonpositive(node.arguments[0])
            case Const():
                return 0 <= node.value <= 1 and str(node.value) != "-0.0"
            case Cast():
                return node.dtype.is_float and node.operand.dtype.is_float and self.within_one(node.operand, around)
            case Select():
                return self.within_one(node.then, around) and self.within_one(node.other, around)
            case Binary(op="*" | "min" | "max"):
                return self.within_one(node.left, around) and self.within_one(node.right, around)
            case Read():
                stage = self._stage(node.tensor)
                return (
                    stage is not None
                    and node.tensor not in around
                    and not any(isinstance(n, Reduce) for n in postorder(stage.value))
                    and (node.fill is None or self.within_one(node.fill, around))
                    and all(
                        self.within_one(s.value, around | {node.tensor}) for s in self.program.statements_of(stage.name)
                    )
                )
            case _:
                return False

    def _stage(self, tensor: str) -> Stage | None:
        """The equation that defines all of a tensor."""
        found = [s for s in self.program.stages if s.tensor == tensor]
        return found[0] if len(found) == 1 else None

    def _below(self, statement: Statement, element: Expr, greatest: Expr) -> bool:
        """Whether a statement's *greatest* is the maximum of expressions of which *element* is one."""
        greatest = self._origin(_bare(greatest))
        stage = self._stage(greatest.tensor) if isinstance(greatest, Read) and greatest.fill is None else None
        if stage is None or not isinstance(greatest, Read) or not isinstance(_bare(stage.value), Reduce):
            return False
        # What is compared is what is computed: steps may have changed it.
        updates = [s for s in self.program.statements_of(stage.name) if s.kind == "update"]
        values = _places(stage, greatest)
        if len(updates) != 1 or values is None:
            return False
        (update,) = updates
        step = update.value
        if not isinstance(step, Binary) or step.op != "max" or not isinstance(step.left, Read):
            return False
        if step.left.tensor != update.tensor or not self._same(step.right, element, values, set(update.iterators)):
            return False
        if not all(name in values for name in update.iterators):
            return False
        inside = substituted(update.condition, values)
        points = make_set(
            self.program.sizes, statement.iterators, conjunction(self.program.context, statement.condition)
        )
        return points.is_subset(make_set(self.program.sizes, statement.iterators, inside))

    def _origin(self, node: Expr) -> Expr:
        """What a copy made by a step is a copy of."""
        while isinstance(node, Read) and node.fill is None:
            stage = self._stage(node.tensor)
            value = stage.value if stage is not None and stage.copies else None
            values = _places(stage, node) if stage is not None and value is not None else None
            if values is None or not isinstance(value, Read) or value.fill is not None:
                break
            if value.gathers:
                break
            places = [s.affine.substituted(values) for s in value.subscripts if isinstance(s, Index)]
            node = Read(value.tensor, tuple(Index(p) for p in places), value.dtype)
        return node

    def _same(self, one: Expr, other: Expr, values: dict[str, Affine], free: set[str]) -> bool:
        """Whether two expressions are the same operations on the same elements, once the indices of the first have
        *values*. Those that are *free* get theirs where they are a position first."""
        one, other = self._origin(_bare(one)), self._origin(_bare(other))
        if label(one) != label(other) or not isinstance(one, EXACT):
            return False
        if isinstance(one, Index) and isinstance(other, Index):
            (name, *more) = one.affine.names() or [""]
            if name in free and name not in values and not more and one.affine == Affine.name(name):
                values[name] = other.affine
            known = all(n in values or n not in free for n in one.affine.names())
            return known and one.affine.substituted(values) == other.affine
        ours, theirs = children(one), children(other)
        return len(ours) == len(theirs) and all(
            self._same(a, b, values, free) for a, b in zip(ours, theirs, strict=True)
        )


def _places(stage: Stage, read: Read) -> dict[str, Affine] | None:
    """The values of a stage's indices at the element that is read, where each of them is a position."""
    names = [n for left in stage.lefts for n in left.names() if left == Affine.name(n)]
    places = [s.affine for s in read.subscripts if isinstance(s, Index)]
    if set(names) != {r.index for r in stage.ranges} or not len(names) == len(stage.lefts) == len(places):
        return None
    return dict(zip(names, places, strict=True))


def _bare(node: Expr) -> Expr:
    while isinstance(node, Allow) or (isinstance(node, Cast) and node.dtype == node.operand.dtype):
        node = node.operand
    return node
