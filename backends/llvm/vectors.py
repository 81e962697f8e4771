"""Loops that run in lanes: independent iterations, and sums in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.tree import Leaf
from .blocks import MOST, Blocks
from .builder import number
from .expressions import Expressions
from .memory import address, load, places_of, store
from .positions import VariesError
from .sums import SEVERAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    import islpy as isl

    from ...compiler.ir.program import Statement
    from ...compiler.ir.tree import Loop
    from .blocks import Around
    from .builder import Value
    from .sums import Free


# A result of so many bytes is written past the caches, in runs of so many: parts of lines would be written twice.
STREAMED, RUN = 8 << 20, 1 << 10


class Vectors(Blocks):
    """Vector loops: as many lanes as a register has, and the rest one by one."""

    def expressions(self, bound: Mapping[str, Affine], statement: Statement) -> Expressions:
        """What emits the values of a statement's instance."""
        return Expressions(self.program, self.p, self.buffers, self.scalars, bound, self.failed, statement, self.ranges)

    def loop(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """A loop whose iterations run one by one."""
        raise NotImplementedError

    def vector(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """Lanes of a register at a time, and the rest one by one."""
        lanes = self.lanes_of(loop)
        count = self.count_of(loop, around, known)
        mark = self.mark()
        try:
            if count is not None and count % lanes == 0 and count // lanes <= MOST:
                self._whole(loop, around, known, count, lanes)
                return
            most = self.most_of(loop, around, known)
            # Where registers are 512 bits wide, part of one is written as fast as all of it.
            limit = MOST * lanes if self.masks else lanes - 1 if self.p.wide >= 16 else 0
            if most is not None and most <= limit:
                self._masked(loop, around, known, most, lanes)
                return
            with self.guarded(loop, around, known) as (low, high, inside):
                self._by_lanes(loop, around, inside, low, high, lanes)
        except VariesError:
            self.back(mark)
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
        with self.guarded(loop, around, known) as (low, high, inside), self.only(low, high):
            for start in range(0, most, lanes):
                self.p.names[loop.index] = number(start, "i64")
                with self.spread(loop.index, lanes, Affine.number(start)):
                    numbers = self.p.counted(number(start, "i64"))
                    below = self.b.compared("icmp slt", numbers, high)
                    self.p.mask = self.b.binary("and", self.b.compared("icmp sge", numbers, low), below)
                    self.walk(loop.body, (*around, loop.index), inside)

    def _by_lanes(self, loop: Loop, around: Around, inside: isl.Set, low: Value, high: Value, lanes: int) -> None:
        b, inner = self.b, (*around, loop.index)

        def lane_by_lane() -> None:
            with self.spread(loop.index, lanes, None):
                self.walk(loop.body, inner, inside)

        found = self._streams(loop, low, high, lanes)
        after = b.label("after") if found is not None else ""
        if found is not None:
            streams, skipped = found
            past, through = b.label("past"), b.label("through")
            b.branch(streams, past, through)
            b.start(past)
            # The first register and the last one overlap those between, each of which begins a line of the cache.
            last = self.p.plus(high, number(-lanes, "i64"))
            apart = b.binary("sub nsw", last, low)
            self.counted(loop, low, self.p.plus(last, number(1, "i64")), apart, lane_by_lane)
            first = self.p.plus(low, skipped)
            self.p.streams = True
            self.counted(loop, first, self.whole_steps(first, high, lanes), lanes, lane_by_lane)
            self.p.streams = False
            b.line("fence seq_cst")  # others see what was written once this is over
            b.jump(after)
            b.start(through)
        middle = self.whole_steps(low, high, lanes)
        self.counted(loop, low, middle, lanes, lane_by_lane)
        self.counted(loop, middle, high, 1, lambda: self.walk(loop.body, inner, inside))
        if after:
            b.jump(after)
            b.start(after)

    def _streams(self, loop: Loop, low: Value, high: Value, lanes: int) -> tuple[Value, Value] | None:
        """Whether a loop writes a long run of a result that is so large that nobody finds it in a cache, and how many
        elements on a whole register of them begins a line; None where it writes something else."""
        leaf = loop.body[0]
        if len(loop.body) != 1 or not isinstance(leaf, Leaf) or loop.descending:
            return None
        statement = self.program.statement(leaf.statement)
        read = any(
            a.tensor == statement.tensor and a.kind == "read" for s in self.program.statements for a in s.accesses
        )
        if statement.tensor not in self.program.outputs or read or statement.kind != "assign":
            return None
        buffer = self.buffers[statement.tensor]
        size = number(buffer.size, "i64")
        for count in buffer.counts:
            size = self.p.times(size, count)
        self.p.names[loop.index] = low
        bound = dict(zip(statement.iterators, leaf.instance, strict=True))
        places = places_of(self.p, buffer, [a.substituted(bound) for a in statement.position])
        at, width = address(self.p, buffer, places), number(buffer.size * lanes, "i64")
        beyond = self.b.binary("and", at, number(buffer.size * lanes - 1, "i64"))
        skipped = self.b.binary("udiv", self.b.binary("sub nsw", width, beyond), number(buffer.size, "i64"))
        within = self.b.binary("and", at, number(buffer.size - 1, "i64"))
        whole = self.b.compared("icmp eq", within, number(0, "i64"))
        large = self.b.compared("icmp sge", size, number(STREAMED, "i64"))
        length = self.p.times(self.b.binary("sub nsw", high, low), number(buffer.size, "i64"))
        large = self.b.binary("and", large, self.b.compared("icmp sge", length, number(RUN, "i64")))
        return self.b.binary("and", whole, large), skipped

    def in_lanes(self, loop: Loop, step: Free, around: Around, known: isl.Set) -> None:
        """A reduction in any order: vectors of partial results, and what is left element by element."""
        b, lanes = self.b, self.lanes_of(loop)
        (leaf,) = loop.body
        assert isinstance(leaf, Leaf)
        bound = dict(zip(step.statement.iterators, leaf.instance, strict=True))
        kind = f"<{lanes} x {step.start().type}>"
        held = [b.slot(kind, "part") for _ in range(SEVERAL)]
        start = b.spread(step.start(), lanes)
        with self.guarded(loop, around, known) as (low, high, inside):
            if not inside.is_subset(self.bounds.points(leaf)):
                raise VariesError
            middle = self.whole_steps(low, high, lanes * SEVERAL)
            with self.only(low, middle):
                for slot in held:
                    b.line(f"store {start}, ptr {slot}")

                def several() -> None:
                    first = self.p.names[loop.index]
                    for place, slot in enumerate(held):
                        self.p.names[loop.index] = self.p.plus(first, number(place * lanes, "i64"))
                        with self.spread(loop.index, lanes, None):
                            made = self.expressions(bound, step.statement)
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
                place = places_of(self.p, buffer, position)
                total = step.combined(b, load(self.p, buffer, place), step.across(b, values[0]))
                store(self.p, buffer, place, total)
            self.counted(loop, middle, high, 1, lambda: self.walk(loop.body, (*around, loop.index), inside))
