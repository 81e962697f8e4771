"""A loop tree as blocks of instructions.

A serial loop is one that tests behind its body. A vector loop runs over as many lanes as a register has, and what is
left one by one; if something in it differs from lane to lane (where a loop ends, whether a statement runs), all of it
one by one. An unrolled loop is written out.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.codegen import without
from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.show import statement_text
from ...compiler.ir.storage import PLAIN
from ...compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves
from .ahead import fetch
from .blocks import MOST
from .builder import Value, number
from .memory import places_of, store
from .parts import RUNNER, Part
from .positions import VariesError
from .repeats import repeats
from .scopes import Scopes, loops_of
from .sums import free

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .blocks import Around


# What may be written out, and of how many statements a copy of memory's work may be.
UNROLLED, COPIES = ("unroll", "vector"), 256


class Nest(Scopes):
    """Every kind of node."""

    def walk(self, nodes: Sequence[Node], around: Around, known: isl.Set) -> None:
        """The instructions of some nodes, one after the other."""
        for node in nodes:
            if isinstance(node, Loop) and self.bounds.values(node, around).intersect(known).is_empty():
                continue
            only = self.only_value(node, around, known) if isinstance(node, Loop) and around else None
            if isinstance(node, Loop) and only is not None:
                inside = self.bounds.values(node, around).intersect(known)
                with self.fixed(node.index, only):
                    self.walk(node.body, (*around, node.index), inside)
                continue
            match node:
                case Leaf():
                    self.leaf(node, known)
                case Loop(kind="unroll"):
                    self.unrolled(node, around, known)
                case Loop(kind="parallel") if not self.shared and not self.p.vector:
                    self.parallel(node, around, known)
                case Loop(kind="vector", descending=False) if not self.p.vector and free(self.program, node) is None:
                    self.vector(node, around, known)
                case Loop():
                    self.loop(node, around, known)
                case Alloc() if not around and node.storage == PLAIN:
                    self.walk(node.body, around, known)
                case Alloc():
                    self.alloc(node, around, known)

    def leaf(self, leaf: Leaf, known: isl.Set) -> None:
        statement = self.program.statement(leaf.statement)
        guard = self.bounds.guard(leaf, known)
        after = self.b.label("after")
        if guard is not None:
            run = self.b.label("runs")
            self.b.branch(Value(guard, "i1"), run, after)
            self.b.start(run)
        bound = dict(zip(statement.iterators, leaf.instance, strict=True))
        made = self.expressions(bound, statement)
        self.b.line(f"; {statement_text(statement)}")
        value = made.value(statement.value)
        if self.p.vector and self.p.mask is None:
            fetch(self.p, self.buffers, bound, self.again.get(id(leaf), ()))
        buffer = self.buffers[statement.tensor]
        position = [a.substituted(bound) for a in statement.position]
        store(self.p, buffer, places_of(self.p, buffer, position), value)
        if guard is not None:
            self.b.jump(after)
            self.b.start(after)

    def loop(self, loop: Loop, around: Around, known: isl.Set) -> None:
        step = free(self.program, loop) if not self.p.vector else None
        if step is not None:
            mark = self.mark()
            try:
                self.in_lanes(loop, step, around, known)
                return
            except VariesError:
                self.back(mark)
        with self.guarded(loop, around, known) as (low, high, inside):
            self.counted(loop, low, high, 1, lambda: self.walk(loop.body, (*around, loop.index), inside))

    def parallel(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """A loop as a function of a range of its iterations, which threads share where there is work enough."""
        with self.guarded(loop, around, known) as (low, high, inside):
            outer, flag = self.b, self.b.slot("i64", "flag")
            outer.line(f"store i64 0, ptr {flag}")
            work = self._work(loop)
            part = Part(outer, f"@.part{len(outer.functions)}", flag)
            failed, self.failed = self.failed, part.b.slot("i1", "failed")
            self.p.b, self.shared = part.b, True
            try:
                part.b.line(f"store i1 false, ptr {self.failed}")
                body = lambda: self.walk(loop.body, (*around, loop.index), inside)  # noqa: E731
                self.counted(loop, part.low, part.high, 1, body)
                part.end(self.failed)
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

    def unrolled(self, loop: Loop, around: Around, known: isl.Set) -> None:
        """Every iteration written out where there are as many as there ever are, counted from 0 on; elsewhere each
        behind a test if registers are worked on, else a loop."""
        count = self.count_of(loop, around, known)
        if count is not None and count <= MOST:
            self._written_out(loop, around, known, count)
            return
        most = self.most_of(loop, around, known)
        if most is None or most > MOST:
            self.loop(loop, around, known)
            return
        held = self._held_in(loop)
        if self.masks and held:
            if repeats(self, loop, around, known):
                self._repeated(loop, around, known, most)
                return
            if self._writes_memory(loop):
                # Once for a tile: a copy without tests would gain nothing.
                self._in_part(loop, around, known, most)
                return
        # What works on memory is written out with all that is below, where all of it is full.
        below = () if held else loops_of(loop.body, (*around, loop.index))
        full = self.full([(loop, around), *below], around, known, UNROLLED)
        rest = partial(self._in_part, most=most) if held else self.loop
        if full.is_empty() or (not held and self._copies(loop, around, known) > COPIES):
            rest(loop, around, known)
            return
        self.either(
            full,
            known,
            lambda: self._written_out(loop, around, full, most),
            lambda: rest(loop, around, known),
        )

    def _repeated(self, loop: Loop, around: Around, known: isl.Set, most: int) -> None:
        """As many iterations written out as there ever are: those beyond the end are the last one once more, in
        registers of their own."""
        with self.guarded(loop, around, known) as (_, high, inside):
            last = self.p.plus(high, number(-1, "i64"))
            for value in _order(loop, most):
                self.p.names[loop.index] = self.b.called("smin", number(value, "i64"), last)
                with self.repeating(loop.index, value):
                    self.walk(loop.body, (*around, loop.index), inside)

    def _copies(self, node: Node, around: Around, known: isl.Set) -> float:
        """Of how many statements a node consists where it is written out."""
        if isinstance(node, Leaf):
            return 1
        inner = (*around, node.index) if isinstance(node, Loop) else around
        total = sum(self._copies(child, inner, known) for child in node.body)
        if not isinstance(node, Loop) or node.kind not in UNROLLED:
            return total
        most = self.most_of(node, around, known)
        return inf if most is None else total * (most if node.kind == "unroll" else most / self.lanes_of(node))

    def _written_out(self, loop: Loop, around: Around, known: isl.Set, count: int) -> None:
        for value in _order(loop, count):
            with self.fixed(loop.index, Affine.number(value)):
                self.walk(loop.body, (*around, loop.index), _at(known, loop.index, value))

    def _in_part(self, loop: Loop, around: Around, known: isl.Set, most: int) -> None:
        """Every iteration written out that there may be, each behind a test whether it is there."""
        values = self.bounds.values(loop, around)
        for value in _order(loop, most):
            here = without(_at(values, loop.index, value), [loop.index])
            if here.intersect(known).is_empty():
                continue
            run, after = self.b.label("runs"), self.b.label("after")
            self.b.branch(self.holds(here, known), run, after)
            self.b.start(run)
            with self.fixed(loop.index, Affine.number(value)):
                self.walk(loop.body, (*around, loop.index), _at(known.intersect(here), loop.index, value))
            self.b.jump(after)
            self.b.start(after)

    def _writes_memory(self, loop: Loop) -> bool:
        """Whether all that a loop writes is memory."""
        written = (self.program.statement(leaf.statement).tensor for leaf in leaves(loop.body))
        return all(self.buffers[tensor].slots is None for tensor in written)

    def _held_in(self, loop: Loop) -> bool:
        """Whether a loop works on registers."""
        statements = (self.program.statement(leaf.statement) for leaf in leaves(loop.body))
        return any(self.buffers[a.tensor].slots is not None for one in statements for a in one.accesses)


def _order(loop: Loop, count: int) -> range:
    return range(count - 1, -1, -1) if loop.descending else range(count)


def _at(known: isl.Set, index: str, value: int) -> isl.Set:
    """What is known where an index has a value."""
    position = known.find_dim_by_name(isl.dim_type.param, index)
    if position < 0:
        known = known.add_dims(isl.dim_type.param, 1)
        position = known.dim(isl.dim_type.param) - 1
        known = known.set_dim_name(isl.dim_type.param, position, index)
    return known.fix_val(isl.dim_type.param, position, isl.Val(value))
