"""Memory for private tensors: how large, from which position on, in which layout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import affine_of_isl
from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.storage import greatest_places
from ...passes.footprint import extents, sides
from .builder import Value, is_constant, number
from .memory import Buffer
from .vectors import Vectors
from .workspace import taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.storage import Storage
    from ...compiler.ir.tree import Alloc
    from .blocks import Around

# Bytes of the buffers of a function that lie on the stack.
STACK = 1 << 17


class Buffers(Vectors):
    """Makes the buffers of private tensors."""

    def buffer(self, alloc: Alloc, around: Around, known: isl.Set) -> tuple[Buffer, str | None]:
        """Memory for what one iteration of the loops around holds of a tensor; where it has to be given back."""
        tensor = self.program.tensors[alloc.tensor]
        lows, counts = self.box(alloc, around, known)
        most = extents(self.program, alloc.body, alloc.tensor, around, known)
        held = counts
        if most is not None and all(m.isdigit() for m in most):
            # Rows of the greatest length that there is: their strides are numbers.
            held = [number(int(m), "i64") for m in most]
        total, strides = self.strides(held, alloc.storage)
        made = Buffer(tensor.name, tensor.dtype, "", lows, counts, strides, alloc.storage)
        made.wide = tensor.dtype.is_float and tensor.dtype.bits < 32
        bytes = int(total.text) * made.size if is_constant(total) else STACK + 1
        if bytes + self.b.stacked <= STACK:
            self.b.stacked += bytes
            made.pointer = self.b.slot(f"[{max(int(total.text), 1)} x {made.type}]", "buffer")
            return made, None
        made.pointer, place = taken(self.b, self.p.times(total, number(made.size, "i64")))
        return made, place

    def box(self, alloc: Alloc, around: Around, known: isl.Set) -> tuple[list[Affine], list[Value]]:
        """The first position and the number of positions of each dimension."""
        found = sides(self.program, alloc.body, alloc.tensor, around, known)
        if found is None:
            rank = self.program.tensors[alloc.tensor].rank
            return [Affine()] * rank, [number(0, "i64")] * rank
        lows: list[Affine] = []
        counts: list[Value] = []
        for dimension, (place, alone) in enumerate(found):
            low = self._low(alone, place, known)
            first, beyond = self.bounds.ends(alone, place, known)
            if low is None:
                name = f"{alloc.tensor} low {dimension} {self.b.count}"
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
        names = tuple(f"count {d}" for d in range(len(counts)))
        for name, count in zip(names, counts, strict=True):
            self.p.names[name] = self.b.called("smax", count, number(1, "i64"))
        known, found = greatest_places(storage, names)
        build = isl.AstBuild.from_context(known)
        sizes: list[Value] = []
        for greatest in found:
            # What lies within a number has all of it, so that the strides outside are numbers too.
            most = greatest.max_val()
            if most.is_int():
                sizes.append(number(int(most.to_python()) + 1, "i64"))
            else:
                text = self.bounds.written(build.expr_from_pw_aff(greatest))
                sizes.append(self.p.plus(Value(text, "i64"), number(1, "i64")))
        return sizes

    def _difference(self, a: Value, b: Value) -> Value:
        if is_constant(a) and is_constant(b):
            return number(int(a.text) - int(b.text), "i64")
        return self.b.called("smax", self.b.binary("sub nsw", a, b), number(0, "i64"))

    def _low(self, points: isl.Set, place: str, known: isl.Set) -> Affine | None:
        """The first place as one expression, if it is one."""
        position = points.find_dim_by_name(isl.dim_type.param, place)
        values = points.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        pieces = values.dim_min(0).gist(known).coalesce().get_pieces()
        if len(pieces) > 1:
            # Where the first of two expressions is known to be the greater one, there is no second.
            pieces = values.intersect_params(known).dim_min(0).gist(known).coalesce().get_pieces()
        if len(pieces) != 1:
            return None
        try:
            return affine_of_isl(pieces[0][1].ceil())
        except isl.Error:
            return None
