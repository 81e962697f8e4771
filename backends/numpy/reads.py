"""Reads of tensors: slices where the position is a plain one, else index arrays, clipped where they may lie outside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Expr, Index, Read
from ...compiler.ir.quasiaffine import Affine, Comparison
from .positions import Positions
from .text import COMPARED, OR, SUM, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Extent
    from ...compiler.ir.trampoline import Deep


@dataclass
class Reads(Positions):
    """Emits reads; the expressions inside them are emitted by the class on top."""

    def emit(self, node: Expr, mask: str | None = None) -> Deep[Value]:
        """The value of an expression; given by `Expressions`."""
        raise NotImplementedError

    def named(self, value: Value, wanted: str) -> Value:
        """The value under a name of its own."""
        if value.text.isidentifier():
            return value
        name = self.names.fresh(wanted)
        self.writer.line(f"{name} = {value.text}")
        return Value(name, value.axes, python=value.python)

    def read(self, node: Read, mask: str | None) -> Deep[Value]:
        tensor = self.program.tensors[node.tensor]
        name = self.names[node.tensor]
        if not node.subscripts:
            return Value(f"{name}[()]")
        safe = self.axes.inside(node, self.substituted)
        affine = [self.substituted(s.affine) if isinstance(s, Index) else None for s in node.subscripts]
        if all(safe) and None not in affine and node.fill is None:
            sliced = self.sliced(node, [a for a in affine if a is not None])
            if sliced is not None:
                return sliced
        wanted = mask
        positions: list[Value] = []
        outside: list[Value] = []
        for dimension, (sub, extent, fine) in enumerate(zip(node.subscripts, tensor.extents, safe, strict=True)):
            value = self.integer(sub.affine) if isinstance(sub, Index) else (yield self.emit(sub, mask))
            size = self.extent_text(extent)
            if not isinstance(sub, Index):
                value = self.named(value, "p")
            if not isinstance(sub, Index) and node.fill is None:
                value = self._checked(value, extent, node, sub, wanted)
            else:
                value = self.from_origin(value, extent)
            if node.fill is not None and not (isinstance(sub, Index) and fine):
                value = self.named(value, "p") if not value.python else value
                tests = self.within_shape(node, dimension, value, size)
                outside += [replace(value, text=t, strength=COMPARED) for t in tests]
            positions.append(value)
        axes = frozenset[str]().union(*(v.axes for v in positions))
        data = [v for v, sub in zip(positions, node.subscripts, strict=True) if not isinstance(sub, Index)]
        gathered = bool(data)
        # Where a gather does not matter (a guard, another axis without positions), its tensor may even be empty.
        always = wanted is None and all(
            self._never_empty(self.axes.box[n]) or all(n in v.axes for v in data) for n in self.axes.vector
        )
        reach = all(safe) and node.fill is None and (always or not gathered)
        value = Value(self.element(node.tensor, positions, reach), axes)
        if outside:
            fill = yield self.emit(node.fill, mask) if node.fill is not None else self._none()
            inside = " & ".join(o.atomic for o in outside)
            text = f"np.where({inside}, {value.text}, {fill.text})" + ("" if axes else "[()]")
            value = Value(text, axes)
        return value

    def element(self, tensor: str, positions: Sequence[Value], reach: bool) -> str:
        """The element of an array at positions; clipped to its ends unless it is sure to *reach* them."""
        texts = ", ".join(v.text for v in positions)
        name = self.names[tensor]
        return f"{name}[{texts}]" if reach else f"clipped({name}, {texts})"

    def from_origin(self, value: Value, extent: Extent) -> Value:
        """A position of a tensor as one of its array."""
        if extent.lower == (Affine(),):
            return value
        low = self.ends(extent.low_word, extent.lower)
        text = value.text if value.python else f"{value.atomic}.astype(np.int64)"  # a narrow integer would wrap
        return replace(value, text=f"{text} - ({low})", strength=SUM)

    def _none(self) -> Deep[Value]:
        return Value("")
        yield

    def within_shape(self, node: Read, dimension: int, value: Value, size: str) -> list[str]:
        """The conditions under which a position lies inside its tensor's shape, without those that always hold."""
        tests: list[str] = []
        sub, extent = node.subscripts[dimension], self.program.tensors[node.tensor].extents[dimension]
        affine = self.substituted(sub.affine) if isinstance(sub, Index) else None
        low_sure = affine is not None and all(self.axes.never(Comparison("<", affine, a)) for a in extent.lower)
        high_sure = affine is not None and all(self.axes.never(Comparison(">=", affine, b)) for b in extent.upper)
        if not low_sure:
            tests.append(f"{value.within(OR)} >= 0")
        if not high_sure:
            tests.append(f"{value.within(OR)} < {size}")
        return tests

    def _checked(self, value: Value, extent: Extent, node: Read, sub: Expr, wanted: str | None) -> Value:
        span = sub.span
        text = node.tensor
        if span is not None:
            line = self.program.source.split("\n")[span.line - 1]
            text = line[span.column - 1 : span.column - 1 + span.width]
        names = sorted({n for n in self.axes.box if n in _words(text)})
        found = ", ".join(f"{n!r}: {self.integer(Affine.name(n)).text}" for n in names)
        low, high = self.ends(extent.low_word, extent.lower), self.ends(extent.high_word, extent.upper)
        # Where another axis has no positions, nothing is read.
        empty = [self.axes.box[n] for n in self.axes.vector if n not in value.axes]
        tests = [f"({self._length_text(*ends)} > 0)" for ends in empty if not self._never_empty(ends)]
        wanted = " & ".join([*([f"({wanted})"] if wanted and tests else [wanted] if wanted else []), *tests]) or "True"
        call = f"checked({value.text}, {low}, {high}, {node.tensor!r}, {text!r}, {wanted}, {{{found}}})"
        return self.named(Value(call, value.axes), "p")

    def sliced(self, node: Read, positions: list[Affine]) -> Value | None:
        """The read by basic slicing, or None where some position is no plain slice."""
        tensor = self.program.tensors[node.tensor]
        parts: list[str] = []
        order: list[str] = []
        for affine, extent in zip(positions, tensor.extents, strict=True):
            if extent.lower != (Affine(),):
                if len(extent.lower) != 1:
                    return None
                affine = affine - extent.lower[0]
            found = [n for n in affine.names() if n in self.axes.vector]
            if not found:
                if not self.axes.nonnegative(affine):
                    return None
                parts.append(self.integer(affine).text)
                continue
            text = self.slice_text(affine, found, extent)
            if text is None or found[0] in order:
                return None
            order.append(found[0])
            parts.append(text)
        name = self.names[node.tensor]
        whole = all(p == ":" for p in parts)
        ranked = sorted(order, key=self.axes.position)
        if order != ranked:
            text = name if whole else f"{name}[{', '.join(parts)}]"
            if len(order) == 2:
                text = f"{text}.T"
            else:
                text = f"{text}.transpose({', '.join(str(order.index(n)) for n in ranked)})"
            return self._spread(text, ranked)
        if not order:
            return Value(f"{name}[{', '.join(parts)}]")
        # New axes go where the other vector indices stand.
        with_axes: list[str] = []
        queue = list(ranked)
        remaining = list(self.axes.vector[self.axes.position(ranked[0]) :])
        for part, affine in zip(parts, positions, strict=True):
            vector = [n for n in affine.names() if n in self.axes.vector]
            if vector:
                while remaining and remaining[0] != queue[0]:
                    with_axes.append("None")
                    remaining.pop(0)
                remaining.pop(0)
                queue.pop(0)
            with_axes.append(part)
        with_axes += ["None"] * len(remaining)
        if all(p == ":" for p in with_axes):
            return Value(name, frozenset(order))
        return Value(f"{name}[{', '.join(with_axes)}]", frozenset(order))

    def _spread(self, text: str, order: list[str]) -> Value:
        """An array whose axes are *order*, with axes of size 1 for the vector indices after the first."""
        tail = self.axes.vector[self.axes.position(order[0]) :]
        if list(tail) == order:
            return Value(text, frozenset(order))
        parts = [":" if n in order else "None" for n in tail]
        return Value(f"{text}[{', '.join(parts)}]", frozenset(order))

    def slice_text(self, affine: Affine, found: list[str], extent: Extent) -> str | None:
        """`lo:hi:step` for a position `step * index + rest`, or None."""
        step = dict(affine.terms).get(found[0], 0)
        if len(found) != 1 or step <= 0:
            return None
        rest = affine - Affine.name(found[0]).scaled(step)
        lower, upper = self.axes.box[found[0]]
        if len(lower) != 1 or len(upper) != 1:
            return None
        start = lower[0].scaled(step) + rest
        stop = (upper[0] - 1).scaled(step) + rest + 1
        size = extent.size
        if start == Affine() and stop == size and step == 1:
            return ":"
        first = self._bound_text(start)
        last = self._bound_text(stop)
        return f"{'' if first == '0' else first}:{last}" + (f":{step}" if step != 1 else "")

    def _bound_text(self, value: Affine) -> str:
        # A negative bound would count from the end.
        text = self.integer(value).text
        return text if self.axes.nonnegative(value) else f"max(0, {text})"


def _words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())
