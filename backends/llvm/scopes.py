"""The scope of a private tensor: in registers where every place in it is a number, else in memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ...compiler.ir.tree import Leaf, Loop
from ...passes.footprint import extents, indices_of, sides
from .buffers import Buffers
from .builder import number
from .memory import Buffer, HeldError
from .positions import VariesError
from .workspace import given_back

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import islpy as isl

    from ...compiler.ir.tree import Alloc, Node
    from .blocks import Around

# Registers that one private tensor may be.
HELD = 64
# Pieces of a set that are taken along.
PIECES = 2


class Scopes(Buffers):
    """Copies of a scope: for full tiles, and for the rest."""

    def alloc(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        """In registers where every place in the buffer is a number, in a copy of the body for full tiles if it is only
        there that they are; else in memory."""
        if self.p.vector:
            raise VariesError
        if not self._fits(alloc, around, known):
            self._in_memory(alloc, around, known)
            return
        # Tiles that are full; the rest, with lanes left out and what is beyond the last row repeated or tested; or, if
        # rows begin anywhere, those that are full but for lanes at their end.
        rest: tuple[tuple[str, ...], ...] = ((), ("unroll",))
        kinds = rest if self.masks else (("vector", "unroll"), *rest)
        if not any(loop.kind in kinds[-1] + kinds[0] for loop, _ in self._named(alloc, around)):
            # Nothing is left out of anything.
            kinds = kinds[:1]
        elif not self.masks and self._full(alloc, around, known, kinds[0]).is_empty():
            # How many rows there are differs within the scope.
            kinds = (("vector",), ())
        self._versions(alloc, around, known, *kinds)

    def _fits(self, alloc: Alloc, around: Around, known: isl.Set) -> bool:
        """Whether a private tensor is of so few elements that it may be in registers."""
        counts = extents(self.program, alloc.body, alloc.tensor, around, known)
        if counts is None or not all(count.isdigit() for count in counts):
            return False
        return prod(int(count) for count in counts) <= HELD * self.p.wide

    def _versions(self, alloc: Alloc, around: Around, known: isl.Set, *kinds: tuple[str, ...]) -> None:
        """A copy of a scope for where loops of some kinds are full, if it can be kept in registers there, and one for
        elsewhere."""
        if not kinds:
            self._in_memory(alloc, around, known)
            return
        first, *others = kinds
        full = self._full(alloc, around, known, first)
        mark = self.mark()
        try:
            # Where a tensor has no element, nothing is kept in registers.
            if sides(self.program, alloc.body, alloc.tensor, around, full) is not None:
                self._apart(alloc, around, known, full, first, others)
                return
        except HeldError:
            self.back(mark)
        self._versions(alloc, around, known, *others)

    def _apart(
        self,
        alloc: Alloc,
        around: Around,
        known: isl.Set,
        full: isl.Set,
        first: tuple[str, ...],
        others: Sequence[tuple[str, ...]],
    ) -> None:
        """A copy in registers for full tiles, and what runs elsewhere."""
        masks, self.masks = self.masks, "vector" not in first
        if known.is_subset(full):
            self._held(alloc, around, known)
            self.masks = masks
            return

        def tiles() -> None:
            self._held(alloc, around, full)
            self.masks = masks

        def elsewhere() -> None:
            rest = known.subtract(full).coalesce()
            # Scopes inside ask about it again and again: what it takes many pieces to say is better left unsaid.
            self._versions(alloc, around, rest if rest.n_basic_set() <= PIECES else known, *others)

        self.either(full, known, tiles, elsewhere)

    def _full(self, alloc: Alloc, around: Around, known: isl.Set, kinds: tuple[str, ...]) -> isl.Set:
        """Where the loops of some kinds that say which element of a private tensor is meant are as long as they ever
        are."""
        return self.full(self._named(alloc, around), around, known, kinds)

    def _named(self, alloc: Alloc, around: Around) -> list[tuple[Loop, Around]]:
        """The loops that say which element of a private tensor is meant, each with those around it."""
        named = set(indices_of(self.program, alloc.body, alloc.tensor))
        return [(loop, outer) for loop, outer in loops_of(alloc.body, around) if loop.index in named]

    def _held(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        tensor = self.program.tensors[alloc.tensor]
        lows, counts = self.box(alloc, around, known)
        strides = [number(1, "i64")] * len(lows)
        buffer = Buffer(tensor.name, tensor.dtype, "", lows, counts, strides, alloc.storage, slots={}, owner=self.b)
        self._with(alloc, buffer, around, known)
        assert buffer.slots is not None
        if len(buffer.slots) > HELD:
            raise HeldError

    def _in_memory(self, alloc: Alloc, around: Around, known: isl.Set) -> None:
        buffer, place = self.buffer(alloc, around, known)
        self._with(alloc, buffer, around, known)
        if place is not None:
            given_back(self.b, buffer.pointer, place)

    def _with(self, alloc: Alloc, buffer: Buffer, around: Around, known: isl.Set) -> None:
        """The body of a private tensor's scope, with the tensor in a buffer."""
        outside = self.buffers[alloc.tensor]
        self.buffers[alloc.tensor] = buffer
        self.walk(alloc.body, around, known)
        self.buffers[alloc.tensor] = outside


def loops_of(nodes: Sequence[Node], around: Around) -> Iterator[tuple[Loop, Around]]:
    """The loops below, each with those around it."""
    for node in nodes:
        if isinstance(node, Leaf):
            continue
        if isinstance(node, Loop):
            yield node, around
        yield from loops_of(node.body, (*around, node.index) if isinstance(node, Loop) else around)
