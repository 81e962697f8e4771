"""A loop tree as blocks of instructions.

A serial loop is one that tests behind its body. A vector loop runs over as many lanes as a register has, and what is
left one by one; if something in it differs from lane to lane (where a loop ends, whether a statement runs), all of it
one by one. An unrolled loop is written out.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import affine_of_isl, make_set
from ...compiler.ir.codegen import without
from ...compiler.ir.quasiaffine import Affine, Range
from ...compiler.ir.show import statement_text
from ...compiler.ir.storage import greatest_places
from ...compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves
from ...passes.footprint import extents, places_of, touched
from .builder import Value, is_constant, number
from .expressions import Expressions
from .memory import Buffer, HeldError, load, store
from .memory import places_of as places_in
from .parts import RUNNER, Part
from .positions import LoopBounds, Positions, VariesError
from .sums import SEVERAL, Free, free
from .workspace import given_back, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.storage import Storage
    from .builder import Builder

Around = tuple[str, ...]
# Iterations that are written out, and bytes of a buffer that lies on the stack.
MOST, STACK = 64, 1 << 16
# Registers that one private tensor may be.
HELD = 64


@dataclass
class Nest:
    """The walk down a tree. *buffers*: where tensors lie at the moment."""

    program: Program
    p: Positions
    bounds: LoopBounds
    buffers: dict[str, Buffer]
    scalars: Mapping[str, Value]
    failed: str
    # Whether vector loops that are not as long as they ever are leave lanes out, and so are written out all the same.
    masks: bool = False
    # Whether this is inside a loop that threads share.
    shared: bool = False

    @property
    def b(self) -> Builder:
        return self.p.b

    def walk(self, nodes: Sequence[Node], around: Around, known: isl.Set) -> None:
        """The instructions of some nodes, one after the other."""
        for node in nodes:
            if isinstance(node, Loop) and self.bounds.values(node, around).intersect(known).is_empty():
                continue
            match node:
                case Leaf():
                    self.leaf(node, known)
                case Loop(kind="unroll"):
                    self.unrolled(node, around, known)
                case Loop(kind="parallel") if not self.shared and not self.p.vector:
                    self.parallel(node, around, known)
                case Loop(kind="vector") if not self.p.vector and free(self.program, node) is None:
                    self.vector(node, around, known)
                case Loop():
                    self.loop(node, around, known)
                case Alloc() if not around:
                    self.walk(node.body, around, known)
                case Alloc():
                    self.alloc(node, around, known)

    # ---- leaves

    def leaf(self, leaf: Leaf, known: isl.Set) -> None:
        statement = self.program.statement(leaf.statement)
        guard = self.bounds.guard(leaf, known)
        after = self.b.label("after")
        if guard is not None:
            run = self.b.label("runs")
            self.b.branch(Value(guard, "i1"), run, after)
            self.b.start(run)
        bound = dict(zip(statement.iterators, leaf.instance, strict=True))
        made = Expressions(self.program, self.p, self.buffers, self.scalars, bound, self.failed)
        self.b.line(f"; {statement_text(statement)}")
        value = made.value(statement.value)
        buffer = self.buffers[statement.tensor]
        position = [a.substituted(bound) for a in statement.position]
        store(self.p, buffer, places_in(self.p, buffer, position), value)
        if guard is not None:
            self.b.jump(after)
            self.b.start(after)

    # ---- loops

    def ends(self, loop: Loop, around: Around, known: isl.Set) -> tuple[str | None, Value, Value, isl.Set]:
        """(condition, first value, one past the last, what is known inside) of a loop."""
        guard, low, high, inside = self.bounds.loop(loop, around, known)
        return guard, Value(low, "i64"), Value(high, "i64"), inside

    def loop(self, loop: Loop, around: Around, known: isl.Set) -> None:
        step = free(self.program, loop) if not self.p.vector else None
        if step is not None:
            mark = self._mark()
            try:
                self.in_lanes(loop, step, around, known)
                return
            except VariesError:
                self._back(mark)
        with self.guarded(loop, around, known) as (low, high, inside):
            self.counted(loop, low, high, 1, lambda: self.walk(loop.body, (*around, loop.index), inside))

    def parallel(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """A loop as a function of a range of its iterations, which threads share where there is work enough."""
        with self.guarded(loop, around, known) as (low, high, inside):
            outer, flag = self.b, self.b.slot("i64", "flag")
            outer.line(f"store i64 0, ptr {flag}")
            work = self._work(loop)
            part = Part(outer, f"@part{len(outer.functions)}")
            failed, self.failed = self.failed, part.b.slot("i1", "failed")
            self.p.b, self.shared = part.b, True
            try:
                part.b.line(f"store i1 false, ptr {self.failed}")
                body = lambda: self.walk(loop.body, (*around, loop.index), inside)  # noqa: E731
                self.counted(loop, part.low, part.high, 1, body)
                part.end(self.failed, flag)
            finally:
                self.p.b, self.shared, self.failed = outer, False, failed
            part.call(low, high, work, self.p.names[RUNNER])
            bad = outer.compared("icmp ne", outer.made(f"load i64, ptr {flag}", "i64"), number(0, "i64"))
            held = outer.made(f"load i1, ptr {failed}", "i1")
            outer.line(f"store {outer.binary('or', held, bad)}, ptr {failed}")

    def _work(self, loop: Loop) -> Value:
        """How many elements a loop may touch."""
        total = number(0, "i64")
        tensors: dict[str, None] = {}
        for leaf in leaves(loop.body):
            tensors |= dict.fromkeys(a.tensor for a in self.program.statement(leaf.statement).accesses)
        for name in tensors:
            size = number(1, "i64")
            for count in self.buffers[name].counts:
                size = self.p.times(size, count)
            total = self.p.plus(total, size)
        return total

    def in_lanes(self, loop: Loop, step: Free, around: Around, known: isl.Set) -> None:
        """A reduction in any order: vectors of partial results, and what is left element by element."""
        b, lanes = self.b, self._lanes(loop)
        (leaf,) = loop.body
        assert isinstance(leaf, Leaf)
        bound = dict(zip(step.statement.iterators, leaf.instance, strict=True))
        kind = f"<{lanes} x {step.start().type}>"
        held = [b.slot(kind, "part") for _ in range(SEVERAL)]
        start = b.spread(step.start(), lanes)
        with self.guarded(loop, around, known) as (low, high, inside):
            if self.bounds.guard(leaf, inside) is not None:
                raise VariesError
            for slot in held:
                b.line(f"store {start}, ptr {slot}")
            middle = self._whole_steps(low, high, lanes * SEVERAL)

            def several() -> None:
                first = self.p.names[loop.index]
                for place, slot in enumerate(held):
                    self.p.names[loop.index] = self.p.plus(first, number(place * lanes, "i64"))
                    with self.spread(loop.index, lanes, None):
                        made = Expressions(self.program, self.p, self.buffers, self.scalars, bound, self.failed)
                        parts = [b.spread(made.value(part), lanes) for part in step.parts]
                        part = b.made(f"load {kind}, ptr {slot}", step.start().type, lanes)
                        b.line(f"store {step.stepped(b, part, parts)}, ptr {slot}")
                self.p.names[loop.index] = first

            self.counted(loop, low, middle, lanes * SEVERAL, several)
            values = [b.made(f"load {kind}, ptr {slot}", step.start().type, lanes) for slot in held]
            while len(values) > 1:
                values = [step.combined(b, x, y) for x, y in zip(values[::2], values[1::2], strict=True)]
            buffer = self.buffers[step.statement.tensor]
            position = [a.substituted(bound) for a in step.statement.position]
            place = places_in(self.p, buffer, position)
            total = step.combined(b, load(self.p, buffer, place), step.across(b, values[0]))
            store(self.p, buffer, place, total)
            self.counted(loop, middle, high, 1, lambda: self.walk(loop.body, (*around, loop.index), inside))

    def _whole_steps(self, low: Value, high: Value, step: int) -> Value:
        """The last value that so many iterations at a time reach."""
        length = self.b.called("smax", self.b.binary("sub nsw", high, low), number(0, "i64"))
        rest = self.b.binary("and", length, number(step - 1, "i64"))
        return self.b.binary("sub nsw", self.b.binary("add nsw", low, length), rest)

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

    def counted(self, loop: Loop, low: Value, high: Value, step: int, body: Callable[[], None]) -> None:
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
        by = number(-1 if loop.descending else step, "i64")
        b.named(further, f"add nsw {index}, {by.text}")
        more = b.compared("icmp sge" if loop.descending else "icmp slt", further, low if loop.descending else high)
        b.lines.insert(mark, f"  {index.text} = phi i64 [ {first.text}, %{before} ], [ {further.text}, %{b.block} ]")
        b.branch(more, inside, after)
        b.start(after)

    def unrolled(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """Every iteration written out, where there are always as many, counted from 0 on; a loop otherwise."""
        count = self._count(loop, around, known)
        if count is None or count > MOST:
            self.loop(loop, around, known)
            return
        order = range(count - 1, -1, -1) if loop.descending else range(count)
        for value in order:
            with self.fixed(loop.index, Affine.number(value)):
                self.walk(loop.body, (*around, loop.index), _at(known, loop.index, value))

    @contextmanager
    def fixed(self, index: str, value: Affine) -> Generator[None]:
        """An index is a number."""
        self.p.fixed[index] = value
        try:
            yield
        finally:
            del self.p.fixed[index]

    def _count(self, loop: Loop, around: Around, known: isl.Set) -> int | None:
        """How many values a loop has, if they start at 0 and are as many wherever it runs."""
        count = self._most(loop, around, known)
        if count is None:
            return None
        values = self.bounds.values(loop, around)
        return count if known.intersect(_from_0(loop.index, count)).is_subset(values) else None

    def _most(self, loop: Loop, around: Around, known: isl.Set) -> int | None:
        """How many values a loop has at most, if they are never below 0."""
        values = self.bounds.values(loop, around).intersect(known)
        position = values.find_dim_by_name(isl.dim_type.param, loop.index)
        if values.is_empty() or position < 0:
            return None
        alone = values.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        least, most = alone.dim_min_val(0), alone.dim_max_val(0)
        return int(most.to_python()) + 1 if most.is_int() and least.is_int() and least.to_python() >= 0 else None

    def vector(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """Lanes of a register at a time, and the rest one by one."""
        lanes = self._lanes(loop)
        count = self._count(loop, around, known)
        mark = self._mark()
        try:
            if count is not None and count % lanes == 0 and count // lanes <= MOST:
                self._whole(loop, around, known, count, lanes)
                return
            most = self._most(loop, around, known)
            if self.masks and most is not None and most <= MOST * lanes:
                self._masked(loop, around, known, most, lanes)
                return
            with self.guarded(loop, around, known) as (low, high, inside):
                self._by_lanes(loop, around, inside, low, high, lanes)
        except VariesError:
            self._back(mark)
            self.loop(loop, around, known)

    def _whole(self, loop: Loop, around: Around, known: isl.Set, count: int, lanes: int) -> None:
        """A vector loop that is so many registers, written out."""
        inside = self.bounds.values(loop, around).intersect(known)
        for start in range(0, count, lanes):
            self.p.names[loop.index] = number(start, "i64")
            with self.spread(loop.index, lanes, Affine.number(start)):
                self.walk(loop.body, (*around, loop.index), inside)

    def _masked(self, loop: Loop, around: Around, known: isl.Set, most: int, lanes: int) -> None:
        """As many registers as a vector loop ever fills, written out; lanes beyond its end take no part."""
        with self.guarded(loop, around, known) as (_, high, inside):
            for start in range(0, most, lanes):
                self.p.names[loop.index] = number(start, "i64")
                with self.spread(loop.index, lanes, Affine.number(start)):
                    numbers = self.p.counted(number(start, "i64"))
                    self.p.mask = self.b.compared("icmp slt", numbers, high)
                    self.walk(loop.body, (*around, loop.index), inside)

    def _by_lanes(self, loop: Loop, around: Around, inside: isl.Set, low: Value, high: Value, lanes: int) -> None:
        inner = (*around, loop.index)
        middle = self._whole_steps(low, high, lanes)

        def lane_by_lane() -> None:
            with self.spread(loop.index, lanes, None):
                self.walk(loop.body, inner, inside)

        self.counted(loop, low, middle, lanes, lane_by_lane)
        self.counted(loop, middle, high, 1, lambda: self.walk(loop.body, inner, inside))

    @contextmanager
    def spread(self, index: str, lanes: int, first: Affine | None) -> Generator[None]:
        """An index runs over lanes."""
        self.p.vector, self.p.lanes, self.p.first = index, lanes, first
        try:
            yield
        finally:
            self.p.vector, self.p.lanes, self.p.first, self.p.mask = "", 1, None, None

    def _lanes(self, loop: Loop) -> int:
        """How many lanes: as many as a register has of the widest float, or of f32."""
        bits = 32
        for leaf in leaves(loop.body):
            for access in self.program.statement(leaf.statement).accesses:
                bits = max(bits, self.program.tensors[access.tensor].dtype.bits)
        return self.p.wide * 32 // bits

    # What is given up: all that was written since.
    def _mark(self) -> tuple[int, int, str, dict[str, Buffer]]:
        return len(self.b.lines), len(self.b.starts), self.b.block, dict(self.buffers)

    def _back(self, mark: tuple[int, int, str, dict[str, Buffer]]) -> None:
        self.masks = False
        lines, starts, block, buffers = mark
        del self.b.lines[lines:], self.b.starts[starts:]
        self.b.block = block
        self.buffers.clear()
        self.buffers.update(buffers)

    # ---- private tensors

    def alloc(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        """In registers where every place in the buffer is a number, in a copy of the body for full tiles if it is only
        there that they are; else in memory."""
        if self.p.vector:
            raise VariesError
        mark = self._mark()
        try:
            # Tiles that are full; those that are full but for lanes at their end; the rest.
            kinds = (("unroll",),) if self.masks else (("vector", "unroll"), ("unroll",))
            self._versions(alloc, around, known, *kinds)
        except HeldError:
            self._back(mark)
            self._in_memory(alloc, around, known)

    def _versions(self, alloc: Alloc, around: Around, known: isl.Set, *kinds: tuple[str, ...]) -> None:
        """A copy of a scope for where loops of some kinds are full, and one for elsewhere."""
        if not kinds:
            self._in_memory(alloc, around, known)
            return
        first, *others = kinds
        full = self._full(alloc, around, known, first)
        if full.is_empty():
            if not others:
                raise HeldError
            self._versions(alloc, around, known, *others)
            return
        masks, self.masks = self.masks, "vector" not in first
        if known.is_subset(full):
            self._held(alloc, around, known)
            self.masks = masks
            return
        build = isl.AstBuild.from_context(known)
        whole = Value(self.bounds.written(build.expr_from_set(full.gist(known).coalesce())), "i1")
        then, other, after = (self.b.label(word) for word in ("full", "part", "after"))
        self.b.branch(whole, then, other)
        self.b.start(then)
        self._held(alloc, around, full)
        self.masks = masks
        self.b.jump(after)
        self.b.start(other)
        self._versions(alloc, around, known.subtract(full), *others)
        self.b.jump(after)
        self.b.start(after)

    def _full(self, alloc: Alloc, around: Around, known: isl.Set, kinds: tuple[str, ...]) -> isl.Set:
        """Where the loops of some kinds that say which element of a private tensor is meant are as long as they ever
        are."""
        full = known
        named = set(_indices(self.program, alloc.body, alloc.tensor))
        for loop, outer in _loops(alloc.body, around):
            if loop.index not in named or loop.kind not in kinds:
                continue
            values = self.bounds.values(loop, outer)
            position = values.find_dim_by_name(isl.dim_type.param, loop.index)
            alone = values.intersect(known) if position >= 0 else values
            if position < 0 or alone.is_empty():
                continue
            place = alone.find_dim_by_name(isl.dim_type.param, loop.index)
            most = alone.move_dims(isl.dim_type.set, 0, isl.dim_type.param, place, 1).dim_max_val(0)
            whole = most.is_int() and (loop.kind == "unroll" or (most.to_python() + 1) % self._lanes(loop) == 0)
            if not whole:
                return known.subtract(known)
            some = without(values, [loop.index])
            missing = some.intersect(_from_0(loop.index, int(most.to_python()) + 1)).subtract(values)
            full = full.subtract(without(missing, [n for n in (*outer, loop.index) if n not in around]))
        return full.coalesce()

    def _held(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        tensor = self.program.tensors[alloc.tensor]
        lows, counts = self._box(alloc, around, known)
        strides = [number(1, "i64")] * len(lows)
        buffer = Buffer(tensor.name, tensor.dtype, "", lows, counts, strides, alloc.storage, slots={}, owner=self.b)
        self._with(alloc, buffer, around, known)
        assert buffer.slots is not None
        if len(buffer.slots) > HELD:
            raise HeldError

    def _in_memory(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        buffer, place = self._buffer(alloc, around, known)
        self._with(alloc, buffer, around, known)
        if place is not None:
            given_back(self.b, buffer.pointer, place)

    def _with(self, alloc: Alloc, buffer: Buffer, around: Around, known: isl.Set) -> None:
        """The body of a private tensor's scope, with the tensor in a buffer."""
        outside = self.buffers[alloc.tensor]
        self.buffers[alloc.tensor] = buffer
        self.walk(alloc.body, around, known)
        self.buffers[alloc.tensor] = outside

    def _buffer(self, alloc: Alloc, around: Around, known: isl.Set) -> tuple[Buffer, str | None]:
        """Memory for what one iteration of the loops around holds of a tensor; where it has to be given back."""
        tensor = self.program.tensors[alloc.tensor]
        lows, counts = self._box(alloc, around, known)
        most = extents(self.program, alloc.body, alloc.tensor, around, known)
        held = counts
        if most is not None and all(m.isdigit() for m in most):
            # Rows of the greatest length that there is: their strides are numbers.
            held = [number(int(m), "i64") for m in most]
        total, strides = self.strides(held, alloc.storage)
        made = Buffer(tensor.name, tensor.dtype, "", lows, counts, strides, alloc.storage)
        made.wide = tensor.dtype.is_float and tensor.dtype.bits < 32
        if is_constant(total) and int(total.text) * made.size <= STACK:
            made.pointer = self.b.slot(f"[{max(int(total.text), 1)} x {made.type}]", "buffer")
            return made, None
        made.pointer, place = taken(self.b, self.p.times(total, number(made.size, "i64")))
        return made, place

    def _box(self, alloc: Alloc, around: Around, known: isl.Set) -> tuple[list[Affine], list[Value]]:
        """The first position and the number of positions of each dimension."""
        places = places_of(self.program.tensors[alloc.tensor].rank)
        union = touched(self.program, alloc.body, alloc.tensor, around)
        if union is None or union.intersect(known).is_empty():
            return [Affine() for _ in places], [number(0, "i64") for _ in places]
        lows: list[Affine] = []
        counts: list[Value] = []
        for number_, place in enumerate(places):
            alone = without(union, [n for n in places if n != place])
            low = self._low(alone, place, known)
            first, beyond = self.bounds.ends(alone, place, known)
            if low is None:
                name = f"{alloc.tensor} low {number_} {self.b.count}"
                self.p.names[name] = Value(first, "i64")
                low = Affine.name(name)
            lows.append(low)
            counts.append(self._difference(Value(beyond, "i64"), Value(first, "i64")))
        return lows, counts

    def strides(self, counts: Sequence[Value], storage: Storage) -> tuple[Value, list[Value]]:
        """How many elements a buffer has, and by how many each dimension of its places steps."""
        folded = dict(storage.fold)
        sizes = [number(folded[d], "i64") if d in folded else c for d, c in enumerate(counts)]
        if storage.layout:
            sizes = self._places(storage, sizes)
        if storage.swizzle:
            rows = self.p.plus(sizes[-1], number(storage.swizzle - 1, "i64"))
            sizes[-1] = self.p.times(self.p.divided("//", rows, storage.swizzle), number(storage.swizzle, "i64"))
        if storage.pad:
            sizes[-1] = self.p.plus(sizes[-1], number(storage.pad, "i64"))
        total = number(1, "i64")
        strides: list[Value] = []
        for size in reversed(sizes):
            strides.insert(0, total)
            total = self.p.times(size, total)
        return total, strides

    def _places(self, storage: Storage, counts: Sequence[Value]) -> list[Value]:
        """How many places each dimension of a layout has, for so many positions in each dimension of a tensor."""
        names = tuple(f"count{d}" for d in range(len(counts)))
        for name, count in zip(names, counts, strict=True):
            self.p.names[name] = self.b.called("smax", count, number(1, "i64"))
        known, found = greatest_places(storage, names)
        build = isl.AstBuild.from_context(known)
        texts = [self.bounds.written(build.expr_from_pw_aff(greatest)) for greatest in found]
        return [self.p.plus(Value(text, "i64"), number(1, "i64")) for text in texts]

    def _difference(self, a: Value, b: Value) -> Value:
        if is_constant(a) and is_constant(b):
            return number(int(a.text) - int(b.text), "i64")
        return self.b.called("smax", self.b.binary("sub nsw", a, b), number(0, "i64"))

    def _low(self, points: isl.Set, place: str, known: isl.Set) -> Affine | None:
        """The first place as one expression, if it is one."""
        position = points.find_dim_by_name(isl.dim_type.param, place)
        values = points.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        pieces = values.dim_min(0).gist(known).coalesce().get_pieces()
        if len(pieces) != 1:
            return None
        try:
            return affine_of_isl(pieces[0][1].ceil())
        except isl.Error:
            return None


def _from_0(index: str, count: int) -> isl.Set:
    """That an index is one of so many, from 0 on."""
    return make_set((index,), (), Range(index, (Affine(),), (Affine.number(count),)).formula()).params()


def _loops(nodes: Sequence[Node], around: Around) -> Iterator[tuple[Loop, Around]]:
    """The loops below, each with those around it."""
    for node in nodes:
        if isinstance(node, Leaf):
            continue
        if isinstance(node, Loop):
            yield node, around
        yield from _loops(node.body, (*around, node.index) if isinstance(node, Loop) else around)


def _indices(program: Program, nodes: Sequence[Node], tensor: str) -> Iterator[str]:
    """The loop indices that say which element of a tensor leaves access."""
    for leaf in leaves(nodes):
        statement = program.statement(leaf.statement)
        instance = dict(zip(statement.iterators, leaf.instance, strict=True))
        for access in statement.accesses:
            if access.tensor == tensor:
                for place in access.affine:
                    yield from place.substituted(instance).names() if place is not None else ()


def _word(index: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in index) + "."


def _at(known: isl.Set, index: str, value: int) -> isl.Set:
    """What is known where an index has a value."""
    position = known.find_dim_by_name(isl.dim_type.param, index)
    if position < 0:
        known = known.add_dims(isl.dim_type.param, 1)
        position = known.dim(isl.dim_type.param) - 1
        known = known.set_dim_name(isl.dim_type.param, position, index)
    return known.fix_val(isl.dim_type.param, position, isl.Val(value))
