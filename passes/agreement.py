"""Whether two equations say the same: the kernel's own, and what steps have made of it.

Part of the final check: the two are walked side by side, reads of copies stand for what is copied, reads of a tensor
that the rewritten program lacks for its equation, and each difference that a permission covers is noted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from ..compiler.ir.affine import make_set
from ..compiler.ir.expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Index,
    Read,
    Reduce,
    Unary,
    children,
    same_fill,
    same_number,
)
from ..compiler.ir.quasiaffine import TRUE, Affine, Comparison, Formula, conjunction, substituted
from ..compiler.ir.trampoline import Deep, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.dtype import DType
    from ..compiler.ir.program import Program, Stage


@dataclass(frozen=True)
class Difference:
    """What a rewritten program computes otherwise, and the permission that this leans on ("" where no bit changes)."""

    text: str
    permission: str


@dataclass(frozen=True, eq=False)
class _Place:
    """Where a walk is in the kernel's own program: what its names mean there, what holds, what is permitted."""

    names: Mapping[str, Affine]
    guard: Formula
    allowed: frozenset[str]


@dataclass(frozen=True, eq=False)
class Agreement:
    """A walk over two programs.

    *source*: a copied tensor of the rewritten program -> what it is a copy of. *standing*: a tensor of the kernel ->
    the tensor that holds its values in the rewritten program; *lost*: the kernel's equations that this has not;
    *fills*: what copies have beyond the edges of what they are copies of.
    """

    original: Program
    program: Program
    source: Mapping[str, str]
    standing: Mapping[str, str]
    lost: Mapping[str, Stage]
    fills: Mapping[str, Expr | None]
    found: list[Difference] = field(default_factory=list[Difference])

    def same(self, stage: Stage, own: Stage) -> bool:
        """Whether an equation's value is the kernel's."""
        place = _Place({}, TRUE, frozenset(self.original.permissions))
        wide = self.program.tensors[stage.tensor].dtype
        if wide == self.original.tensors[own.tensor].dtype:
            return run(self._same(stage.value, own.value, place, stage.name))
        return run(self._wide(stage.value, own.value, place, stage.name, wide))

    def canonical(self, tensor: str) -> str:
        """What a chain of copies starts from."""
        seen: set[str] = set()
        while tensor in self.source and tensor not in seen:
            seen.add(tensor)
            tensor = self.source[tensor]
        return tensor

    def _granted(self, place: _Place, permission: str, text: str) -> bool:
        if permission not in place.allowed:
            return False
        self.found.append(Difference(text, permission))
        return True

    def _same(self, a: Expr, b: Expr, place: _Place, stage: str) -> Deep[bool]:
        """Whether *a* of the rewritten program is *b* of the kernel, at its place."""
        if isinstance(b, Allow):
            if isinstance(a, Allow) and a.permissions != b.permissions:
                return False
            inner = _Place(place.names, place.guard, place.allowed | set(b.permissions))
            result = yield self._same(a.operand if isinstance(a, Allow) else a, b.operand, inner, stage)
            return result
        read = b.operand if isinstance(b, Cast) else b
        if isinstance(read, Read) and read.tensor in self.lost:
            result = yield self._written_in(a, b, read, place, stage)
            return result
        if isinstance(a, Read) and isinstance(b, Read):
            result = yield self._read(a, b, place, stage)
            return result
        if isinstance(a, Call) and a.function == "fma" and isinstance(b, Binary):
            result = yield self._contracted(a, b, place, stage)
            return result
        narrow = self._narrowed(a, b)
        if narrow is not None:
            result = yield self._same(narrow[0], narrow[1], place, stage)
            return result
        if isinstance(a, Index) and isinstance(b, Index):
            return a.affine == b.affine.substituted(place.names)
        if type(a) is not type(b) or len(children(a)) != len(children(b)):
            return False
        if isinstance(a, Reduce) and isinstance(b, Reduce):
            place = _Place(place.names, place.guard, place.allowed | set(b.permissions))
            if not self._reduced(a, b, place, stage):
                return False
        elif not _alike(a, b):
            return False
        for x, y in zip(children(a), children(b), strict=True):
            if not (yield self._same(x, y, place, stage)):
                return False
        return True

    def _written_in(self, a: Expr, b: Expr, read: Read, place: _Place, stage: str) -> Deep[bool]:
        """A read of a tensor whose equation was written in, or a cast of it; it may be kept wider there."""
        own, inner = self.lost[read.tensor], self._inside(read, place)
        if inner is None:
            return False
        kept = a.operand if isinstance(a, Cast) else a
        if isinstance(a, Cast) and isinstance(b, Cast) and a.saturating != b.saturating:
            return False
        found = len(self.found)
        if b is read and (yield self._same(a, own.value, inner, stage)):
            return True
        if isinstance(a, Cast) and isinstance(b, Cast) and kept.dtype == read.dtype:
            result = yield self._same(kept, own.value, inner, stage)
            return result and a.dtype == b.dtype
        del self.found[found:]
        if kept.dtype != read.dtype and _exact(kept.dtype, read.dtype) and a.dtype == b.dtype:
            return (yield self._wide(kept, own.value, inner, stage, kept.dtype))
        return False

    def _read(self, a: Read, b: Read, place: _Place, stage: str) -> Deep[bool]:
        """Two reads of one element, the first of which matters wherever the second does."""
        if self.canonical(a.tensor) != self.standing.get(b.tensor, b.tensor) or a.dtype != b.dtype:
            return False
        if len(a.subscripts) != len(b.subscripts) or not self._filled_alike(a, b):
            return False
        guard = conjunction(place.guard, substituted(b.guard, place.names))
        if not self._implied(guard, a.guard):
            return False
        fills = ((a.fill, b.fill),) if a.fill is not None and b.fill is not None else ()
        for x, y in (*zip(a.subscripts, b.subscripts, strict=True), *fills):
            if not (yield self._same(x, y, place, stage)):
                return False
        return True

    def _filled_alike(self, a: Read, b: Read) -> bool:
        """Whether a read finds beyond the edges what the kernel's finds, itself or in what it is a copy of; where the
        kernel's is none of a position beyond an edge, it does not matter what is there."""
        fills: list[Expr] = []
        tensor = a.tensor
        while tensor in self.source and len(fills) < len(self.source):
            fill = self.fills.get(tensor)
            fills += [fill] if fill is not None else []
            tensor = self.source[tensor]
        if b.fill is None:
            return a.fill is None
        return (a.fill is not None or bool(fills)) and all(same_fill(f, b.fill) for f in fills)

    def _implied(self, guard: Formula, wanted: Formula) -> bool:
        """Whether one condition holds wherever the other does."""
        if wanted in (TRUE, guard):
            return True
        names = tuple(dict.fromkeys(n for f in (guard, wanted) for n in _names(f) if n not in self.program.sizes))
        whole = make_set(self.program.sizes, names, conjunction(self.program.context, guard))
        return bool(whole.is_subset(make_set(self.program.sizes, names, wanted)))

    def _reduced(self, a: Reduce, b: Reduce, place: _Place, stage: str) -> bool:
        """Two reductions: of one operator over one range, their orders and roundings as far as permitted."""
        alike = (a.op, a.ranges, a.dtype, a.permissions) == (b.op, b.ranges, b.dtype, b.permissions)
        if not alike or place.names or a.guard != b.guard:
            return False
        if a.order != b.order:
            exact = b.op in ("min", "max", "any", "all") or b.dtype.is_int
            text = f"{stage}: {a.op} with {a.order}"
            if b.order.kind != "ascending" or a.order.kind != "blocks":
                return False
            if exact:
                self.found.append(Difference(text, ""))
            elif not self._granted(place, "reassociate", text):
                return False
        if a.fused != b.fused:
            return a.fused and self._granted(place, "contract", f"{stage}: each product is added by fma")
        return True

    def _contracted(self, a: Call, b: Binary, place: _Place, stage: str) -> Deep[bool]:
        """fma(x, y, z) for x * y + z, z + x * y, x * y - z or z - x * y; the product may be one that was written in."""
        if b.op not in ("+", "-") or "contract" not in place.allowed:
            return False
        x, y, z = a.arguments
        for side, other, first in ((b.left, b.right, True), (b.right, b.left, False)):
            product, inside = self._seen_through(side, place)
            if not isinstance(product, Binary) or product.op != "*":
                continue
            left, rest = x, z
            if b.op == "-":
                signed = z if first else x
                if not isinstance(signed, Unary) or signed.op != "-":
                    continue
                left, rest = (x, signed.operand) if first else (signed.operand, z)
            agreed = True
            for one, own, where in ((left, product.left, inside), (y, product.right, inside), (rest, other, place)):
                agreed = agreed and (yield self._same(one, own, where, stage))
            if agreed:
                return self._granted(place, "contract", f"{stage}: {b.op} of a product by fma")
        return False

    def _seen_through(self, node: Expr, place: _Place) -> tuple[Expr, _Place]:
        """What stands behind permissions, and behind a read of an equation that was written in."""
        while True:
            if isinstance(node, Allow):
                place = _Place(place.names, place.guard, place.allowed | set(node.permissions))
                node = node.operand
                continue
            read = node.operand if isinstance(node, Cast) else node
            inner = self._inside(read, place) if isinstance(read, Read) and read.tensor in self.lost else None
            if inner is None or not isinstance(read, Read):
                return node, place
            value = self.lost[read.tensor].value
            if read is not node:
                # Cast on from what its own equation rounds: the value itself, where that may be kept wider.
                while isinstance(value, Allow):
                    inner = _Place(inner.names, inner.guard, inner.allowed | set(value.permissions))
                    value = value.operand
                kept = isinstance(value, Cast) and value.operand.dtype == node.dtype and _exact(node.dtype, read.dtype)
                text = f"{read.tensor}: not rounded to {read.dtype}, but kept as {node.dtype}"
                if not kept or not isinstance(value, Cast) or not self._granted(inner, "elide", text):
                    return node, place
                value = value.operand
            node, place = value, inner

    def _inside(self, read: Read, place: _Place) -> _Place | None:
        """The place of an equation that was written in for a read; None where it could not have been."""
        own = self.lost[read.tensor]
        if read.fill is not None or read.gathers:
            return None
        at = [s.affine.substituted(place.names) for s in read.subscripts if isinstance(s, Index)]
        names = {left.bare: position for left, position in zip(own.lefts, at, strict=True) if left.bare}
        if {r.index for r in own.ranges} - set(names):
            return None
        guard = conjunction(place.guard, substituted(read.guard, place.names))
        return _Place(names, guard, frozenset(self.original.permissions))

    def _narrowed(self, a: Expr, b: Expr) -> tuple[Expr, Expr] | None:
        """A read of a tensor that is kept wider: what to compare in place of it and its casts."""
        inner = a.operand if isinstance(a, Cast) else a
        read = b.operand if isinstance(b, Cast) else b
        if not isinstance(inner, Read) or not isinstance(read, Read) or inner.dtype == read.dtype:
            return None
        if self.canonical(inner.tensor) != self.standing.get(read.tensor, read.tensor) or a.dtype != b.dtype:
            return None
        if isinstance(b, Cast) and isinstance(a, Cast) and a.saturating != b.saturating:
            return None
        fill = inner.fill.operand if isinstance(inner.fill, Cast) else inner.fill
        return Read(inner.tensor, inner.subscripts, read.dtype, inner.span, inner.guard, fill), read

    def _wide(self, a: Expr, b: Expr, place: _Place, stage: str, wide: DType) -> Deep[bool]:
        """Whether *a* is *b* in a wider type: without its last rounding where that is permitted, or of its value."""
        if isinstance(b, Allow):
            inner = _Place(place.names, place.guard, place.allowed | set(b.permissions))
            result = yield self._wide(a.operand if isinstance(a, Allow) else a, b.operand, inner, stage, wide)
            return result
        if a.dtype != wide:
            return False
        if isinstance(a, Cast) and a.operand.dtype == b.dtype and not a.saturating and _exact(wide, b.dtype):
            found = len(self.found)
            if (yield self._same(a.operand, b, place, stage)):
                return True
            del self.found[found:]
        if not isinstance(b, Cast) or b.saturating:
            return False
        rounds = not _exact(b.dtype, b.operand.dtype)
        # A type that holds less than the kernel's is none that `elide` speaks of.
        if not _exact(wide, b.dtype) and (rounds or not _exact(wide, b.operand.dtype)):
            return False
        if rounds and not self._granted(place, "elide", f"{stage}: not rounded to {b.dtype}, but kept as {wide}"):
            return False
        # What it is cast from may be kept wider itself.
        read = b.operand
        inner = a.operand if isinstance(a, Cast) and isinstance(a.operand, Read) else a
        if isinstance(read, Read) and isinstance(inner, Read) and inner.dtype != read.dtype:
            fill = inner.fill.operand if isinstance(inner.fill, Cast) else inner.fill
            narrow = Read(inner.tensor, inner.subscripts, read.dtype, inner.span, inner.guard, fill)
            return (yield self._same(narrow, read, place, stage))
        if a.dtype == b.operand.dtype and (yield self._same(a, b.operand, place, stage)):
            return True
        return isinstance(a, Cast) and not a.saturating and (yield self._same(a.operand, b.operand, place, stage))


def _exact(wide: DType, narrow: DType) -> bool:
    """Whether a cast from the narrow type to the wide one rounds nothing."""
    floats = wide.is_float and narrow.is_float
    room = wide.precision >= narrow.precision and wide.emin <= narrow.emin and wide.largest >= narrow.largest
    return wide == narrow or (floats and room and (wide.overflow == "inf" or narrow.overflow == "nan"))


def _alike(a: Expr, b: Expr) -> bool:
    """Whether two nodes of one kind do the same with their operands."""
    if isinstance(a, Const) and isinstance(b, Const):
        return same_number(a, b)
    skipped = {"span", "subscripts", "fill", "operand", "left", "right", "operands", "condition", "then", "other"}
    skipped |= {"arguments", "body", "prefix"}
    return all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name not in skipped)


def _equal(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right


def _names(formula: Formula) -> list[str]:
    if isinstance(formula, Comparison):
        return [*formula.left.names(), *formula.right.names()]
    return [n for part in formula.parts for n in _names(part)]
