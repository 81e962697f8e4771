"""What the walk down a loop tree has at hand: loops as blocks, how long they are, and the way back."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import islpy as isl

from ...compiler.ir.affine import affine_of_isl, make_set
from ...compiler.ir.codegen import without
from ...compiler.ir.quasiaffine import Affine, Range
from ...compiler.ir.tree import leaves
from ...passes.ranges import Ranges
from .builder import Value, number

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Loop, Node
    from .ahead import Again
    from .builder import Builder
    from .memory import Buffer
    from .positions import LoopBounds, Positions

Around = tuple[str, ...]
# Iterations that are written out.
MOST = 64


@dataclass(frozen=True)
class Mark:
    """Where an attempt begins that may be given up: what is written, in which block, and where tensors lie. *held*: the
    registers of those that are in some."""

    lines: int
    starts: int
    block: str
    masks: bool
    buffers: dict[str, Buffer]
    held: dict[str, tuple[dict[Any, Any], dict[Any, Any]]]


@dataclass
class Blocks:
    """A walk down a tree. *buffers*: where tensors lie at the moment; *failed*: the slot that says that data gave a
    position outside a tensor."""

    program: Program
    p: Positions
    bounds: LoopBounds
    buffers: dict[str, Buffer]
    scalars: Mapping[str, Value]
    failed: str
    # What leaves read again in an iteration.
    again: Again
    # Whether vector loops that are not as long as they ever are leave lanes out, and so are written out all the same.
    masks: bool = False
    # Whether this is inside a loop that threads share.
    shared: bool = False

    @property
    def b(self) -> Builder:
        return self.p.b

    @cached_property
    def ranges(self) -> Ranges:
        """What is known of the expressions of statements."""
        return Ranges(self.program)

    def walk(self, nodes: Sequence[Node], around: Around, known: isl.Set) -> None:
        """The instructions of some nodes, one after the other."""
        raise NotImplementedError

    def ends(self, loop: Loop, around: Around, known: isl.Set) -> tuple[str | None, Value, Value, isl.Set]:
        """(condition, first value, one past the last, what is known inside) of a loop."""
        guard, low, high, inside = self.bounds.loop(loop, around, known)
        return guard, Value(low, "i64"), Value(high, "i64"), inside

    @contextmanager
    def guarded(self, loop: Loop, around: Around, known: isl.Set) -> Generator[tuple[Value, Value, isl.Set]]:
        """The ends of a loop, under the condition that it has any values."""
        guard, low, high, inside = self.ends(loop, around, known)
        after = self.b.label("after")
        if guard is not None:
            some = self.b.label("some")
            self.b.branch(Value(guard, "i1"), some, after)
            self.b.start(some)
        yield low, high, inside
        if guard is not None:
            self.b.jump(after)
            self.b.start(after)

    @contextmanager
    def only(self, low: Value, high: Value) -> Generator[None]:
        """What runs only where a range is not empty."""
        some, after = self.b.label("some"), self.b.label("after")
        self.b.branch(self.b.compared("icmp slt", low, high), some, after)
        self.b.start(some)
        yield
        self.b.jump(after)
        self.b.start(after)

    def counted(self, loop: Loop, low: Value, high: Value, step: int | Value, body: Callable[[], None]) -> None:
        """A loop from *low* up to below *high*, or down, with its index as a name."""
        b = self.b
        inside, after = b.label("loop"), b.label("after")
        first = self.p.plus(high, number(-1, "i64")) if loop.descending else low
        b.branch(b.compared("icmp slt", low, high), inside, after)
        before = b.block
        index, further = Value(b.fresh(_word(loop.index)), "i64"), Value(b.fresh("next"), "i64")
        b.types[index.text] = "i64"
        b.start(inside)
        mark = len(b.lines)
        self.p.names[loop.index] = index
        body()
        by = step if isinstance(step, Value) else number(-1 if loop.descending else step, "i64")
        b.named(further, f"add nsw {index}, {by.text}")
        more = b.compared("icmp sge" if loop.descending else "icmp slt", further, low if loop.descending else high)
        b.lines.insert(mark, f"  {index.text} = phi i64 [ {first.text}, %{before} ], [ {further.text}, %{b.block} ]")
        b.branch(more, inside, after)
        b.start(after)

    @contextmanager
    def fixed(self, index: str, value: Affine) -> Generator[None]:
        """An index is a number."""
        self.p.fixed[index] = value
        try:
            yield
        finally:
            del self.p.fixed[index]

    @contextmanager
    def repeating(self, index: str, value: int) -> Generator[None]:
        """An index is a number where a register is meant."""
        self.p.repeated[index] = Affine.number(value)
        try:
            yield
        finally:
            del self.p.repeated[index]

    @contextmanager
    def spread(self, index: str, lanes: int, first: Affine | None) -> Generator[None]:
        """An index runs over lanes."""
        self.p.vector, self.p.lanes, self.p.first = index, lanes, first
        try:
            yield
        finally:
            self.p.vector, self.p.lanes, self.p.first, self.p.mask = "", 1, None, None

    def only_value(self, loop: Loop, around: Around, known: isl.Set) -> Affine | None:
        """The value of a loop's index that has one wherever it runs, as an expression of those around it."""
        values = self.bounds.values(loop, around).intersect(known)
        position = values.find_dim_by_name(isl.dim_type.param, loop.index)
        if position < 0 or not known.is_subset(without(values, [loop.index])):
            return None
        alone = values.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        if not alone.is_singleton() and not isl.Map.from_range(alone).is_single_valued():
            return None
        pieces = alone.dim_min(0).gist(known).coalesce().get_pieces()
        if len(pieces) != 1 or pieces[0][1].dim(isl.dim_type.div):
            return None
        return self.p.resolved(affine_of_isl(pieces[0][1]))

    def count_of(self, loop: Loop, around: Around, known: isl.Set) -> int | None:
        """How many values a loop has, if they start at 0 and are as many wherever it runs."""
        count = self.most_of(loop, around, known)
        if count is None:
            return None
        values = self.bounds.values(loop, around)
        return count if known.intersect(from_0(loop.index, count)).is_subset(values) else None

    def most_of(self, loop: Loop, around: Around, known: isl.Set) -> int | None:
        """How many values a loop has at most, if they are never below 0."""
        values = self.bounds.values(loop, around).intersect(known)
        position = values.find_dim_by_name(isl.dim_type.param, loop.index)
        if values.is_empty() or position < 0:
            return None
        alone = values.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        least, most = alone.dim_min_val(0), alone.dim_max_val(0)
        return int(most.to_python()) + 1 if most.is_int() and least.is_int() and least.to_python() >= 0 else None

    def full(
        self, found: Iterable[tuple[Loop, Around]], around: Around, known: isl.Set, kinds: tuple[str, ...]
    ) -> isl.Set:
        """Where loops, each with those around it, are as long as they ever are, those of some kinds; nowhere if one may
        be of any length, or one in lanes ends within a register."""
        full = known
        for loop, outer in found:
            if loop.kind not in kinds:
                continue
            values = self.bounds.values(loop, outer)
            if values.intersect(known).is_empty():
                continue
            most = self.most_of(loop, outer, known)
            if most is None or (loop.kind == "vector" and most % self.lanes_of(loop)):
                return known.subtract(known)
            some = without(values, [loop.index])
            missing = some.intersect(from_0(loop.index, most)).subtract(values)
            full = full.subtract(without(missing, [n for n in (*outer, loop.index) if n not in around]))
        return full.coalesce()

    def holds(self, points: isl.Set, known: isl.Set) -> Value:
        """Whether sizes and indices are as in a set, of which something is known."""
        build = isl.AstBuild.from_context(known)
        return Value(self.bounds.written(build.expr_from_set(points.gist(known).coalesce())), "i1")

    def either(self, points: isl.Set, known: isl.Set, there: Callable[[], None], elsewhere: Callable[[], None]) -> None:
        """One thing where sizes and indices are as in a set, of which something is known, and another elsewhere."""
        then, other, after = (self.b.label(word) for word in ("full", "part", "after"))
        self.b.branch(self.holds(points, known), then, other)
        self.b.start(then)
        there()
        self.b.jump(after)
        self.b.start(other)
        elsewhere()
        self.b.jump(after)
        self.b.start(after)

    def lanes_of(self, loop: Loop) -> int:
        """How many lanes: as many as a register has of the widest float, or of f32."""
        bits = 32
        for leaf in leaves(loop.body):
            for access in self.program.statement(leaf.statement).accesses:
                bits = max(bits, self.program.tensors[access.tensor].dtype.bits)
        return self.p.wide * 32 // bits

    def whole_steps(self, low: Value, high: Value, step: int) -> Value:
        """The last value that so many iterations at a time reach."""
        length = self.b.called("smax", self.b.binary("sub nsw", high, low), number(0, "i64"))
        rest = self.b.binary("and", length, number(step - 1, "i64"))
        return self.b.binary("sub nsw", self.b.binary("add nsw", low, length), rest)

    def mark(self) -> Mark:
        """Here, to come back to."""
        held = {n: (dict(b.slots), dict(b.holders)) for n, b in self.buffers.items() if b.slots is not None}
        return Mark(len(self.b.lines), len(self.b.starts), self.b.block, self.masks, dict(self.buffers), held)

    def back(self, mark: Mark) -> None:
        """Give up all that was written since."""
        self.masks, self.p.streams = mark.masks, False
        del self.b.lines[mark.lines :], self.b.starts[mark.starts :]
        self.b.block = mark.block
        self.buffers.clear()
        self.buffers.update(mark.buffers)
        for name, (slots, holders) in mark.held.items():
            self.buffers[name].slots, self.buffers[name].holders = slots, holders


def from_0(index: str, count: int) -> isl.Set:
    """That an index is one of so many, from 0 on."""
    return make_set((index,), (), Range(index, (Affine(),), (Affine.number(count),)).formula()).params()


def _word(index: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in index) + "."
