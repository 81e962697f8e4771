"""Reductions as NumPy text: a Python loop for each reduced index, in the order of the definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Index, Reduce, postorder
from ...compiler.ir.fold import factors_of, unit_of
from ...compiler.ir.quasiaffine import Affine, Range
from ...compiler.ir.reduction import identity
from .casts import binary_text
from .expressions import Expressions
from .text import COMPARED, STRENGTH, Value, constant_text, type_text

if TYPE_CHECKING:
    from ...compiler.ir.trampoline import Deep


@dataclass
class StageEmitter(Expressions):
    """Expressions with reductions."""

    def reduce(self, node: Reduce, mask: str | None) -> Deep[Value]:
        """A loop for each reduced index, in the order of the definition."""
        exact = [self.axes.enter(r, self.substituted) for r in node.ranges]
        shape_axes = self._axes_of(node)
        if node.order.kind == "lanes":
            result = yield self._lanes(node, exact, shape_axes, mask)
        elif node.order.kind == "blocks":
            result = yield self._blocks(node, exact, shape_axes, mask)
        elif node.order.kind == "mma":
            result = yield self._fold(node, exact, shape_axes, mask)
        elif node.op in ("argmax", "argmin"):
            result = yield self._arg(node, exact, shape_axes, mask)
        else:
            result = yield self._ascending(node, exact, shape_axes, mask)
        for found in node.ranges:
            self.axes.leave(found)
        return result

    def _axes_of(self, node: Reduce) -> frozenset[str]:
        """The vector indices that the result of a reduction varies along."""
        found: set[str] = set()
        for part in postorder(node.body):
            if isinstance(part, Index):
                found.update(self.substituted(part.affine).names())
            elif isinstance(part, Reduce):
                for r in part.ranges:
                    found.update(n for end in (*r.lower, *r.upper) for n in self.substituted(end).names())
        for r in node.ranges:
            found.update(n for end in (*r.lower, *r.upper) for n in self.substituted(end).names())
        return frozenset(n for n in found if n in self.axes.vector)

    def _shape(self, axes: frozenset[str], lead: str = "") -> str:
        """The text of an accumulator's shape."""
        parts = [lead] if lead else []
        first = min((self.axes.position(n) for n in axes), default=len(self.axes.vector))
        for name in self.axes.vector[first:]:
            parts.append(self._length(name) if name in axes else "1")
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def _length(self, name: str) -> str:
        lower, upper = self.axes.box[name]
        if lower == (Affine(),) and len(upper) == 1 and self.axes.nonnegative(upper[0]):
            return self.integer(upper[0]).text
        low, high = self.ends("max", lower), self.ends("min", upper)
        return f"max(0, {high}{'' if low == '0' else f' - ({low})'})"

    def _start(self, node: Reduce, axes: frozenset[str], wanted: str) -> str:
        """A new accumulator at the identity; its name."""
        name = self.names.fresh(wanted)
        dtype = node.body.dtype
        start = identity(node.op, dtype)
        if not axes:
            self.writer.line(f"{name} = {constant_text(start, dtype)}")
        elif start == 0 and not dtype.is_bool:
            self.writer.line(f"{name} = np.zeros({self._shape(axes)}, {type_text(dtype)})")
        else:
            self.writer.line(f"{name} = np.full({self._shape(axes)}, {constant_text(start, dtype)})")
        return name

    def _loops(self, ranges: tuple[Range, ...]) -> None:
        for found in ranges:
            lower, upper = self.axes.box[found.index]
            low, high = self.ends("max", lower), self.ends("min", upper)
            span = high if low == "0" else f"{low}, {high}"
            self.writer.line(f"for {self.names[found.index]} in range({span}):")
            self.writer.indent += 1

    def _element_mask(self, ranges: tuple[Range, ...], exact: list[bool]) -> str | None:
        """Where the element of this iteration belongs to the reduction, if not everywhere."""
        tests: list[str] = []
        for found, fine in zip(ranges, exact, strict=True):
            if fine:
                continue
            index = self.names[found.index]
            for end in found.lower:
                if any(n in self.axes.vector for n in self.substituted(end).names()):
                    tests.append(f"({index} >= {self.integer(end).text})")
            for end in found.upper:
                if any(n in self.axes.vector for n in self.substituted(end).names()):
                    tests.append(f"({index} < {self.integer(end).text})")
        return joined_tests(tests)

    def _body(
        self, node: Reduce, ranges: tuple[Range, ...], exact: list[bool], mask: str | None
    ) -> Deep[tuple[Value, str | None]]:
        """Inside the loops: the element, and where it counts."""
        counts = self._element_mask(ranges, exact)
        inner = mask
        if counts is not None and (id(node.body) in self.gathers or len(counts) > 40):
            self.writer.line(f"{(name := self.names.fresh('inside'))} = {counts}")
            counts = name
        if counts is not None:
            inner = counts if mask is None else f"({mask}) & ({counts})"
        value = yield self.emit(node.body, inner)
        return value, counts

    def _ascending(self, node: Reduce, exact: list[bool], axes: frozenset[str], mask: str | None) -> Deep[Value]:
        total = self._start(node, axes, "acc")
        indent = self.writer.indent
        self._loops(node.ranges)
        value, counts = yield self._body(node, node.ranges, exact, mask)
        self._accumulate(node, total, value, counts, bool(axes))
        self.writer.indent = indent
        return Value(total, axes)

    def _accumulate(self, node: Reduce, total: str, value: Value, counts: str | None, array: bool) -> None:
        """One step: total = total op value, where it counts."""
        op = node.op
        if op in ("any", "all"):
            step = f"{total} {'|' if op == 'any' else '&'} {value.atomic}"
        else:
            symbol = {"sum": "+", "prod": "*", "min": "min", "max": "max"}[op]
            operand = value.within(STRENGTH.get(symbol, COMPARED) + 1)
            step = binary_text(symbol, total, operand, node.dtype)
            if counts is None and array and symbol in "+*":
                self.writer.line(f"{total} {symbol}= {value.text}")
                return
        if counts is not None:
            step = f"np.where({counts}, {step}, {total})" + ("" if array else "[()]")
        self.writer.line(f"{total} = {step}")

    def _arg(self, node: Reduce, exact: list[bool], axes: frozenset[str], mask: str | None) -> Deep[Value]:
        best = self._start(node, axes, "best")
        found = node.ranges[0]
        where = self.names.fresh("at")
        first = self.ends("max", found.lower)
        fill = f"np.full({self._shape(axes)}, np.int64({first}))" if axes else f"np.int64({first})"
        if axes and first == "0":
            fill = f"np.zeros({self._shape(axes)}, np.int64)"
        if any(n in self.axes.vector for end in found.lower for n in self.substituted(end).names()):
            fill = f"np.zeros({self._shape(axes)}, np.int64) + {first}"
        self.writer.line(f"{where} = {fill}")
        indent = self.writer.indent
        self._loops(node.ranges)
        value, counts = yield self._body(node, node.ranges, exact, mask)
        value = self.named(value, "x")
        sign = ">" if node.op == "argmax" else "<"
        wins = f"{value.text} {sign} {best}"
        if node.body.dtype.is_float:
            # The first NaN wins, and nothing wins against it.
            wins = f"({wins}) | (({value.text} != {value.text}) & ({best} == {best}))"
        if counts is not None:
            wins = f"{counts} & ({wins})"
        name = self.names.fresh("wins")
        end = "" if axes else "[()]"
        self.writer.line(f"{name} = {wins}")
        self.writer.line(f"{where} = np.where({name}, {self.names[found.index]}, {where}){end}")
        self.writer.line(f"{best} = np.where({name}, {value.text}, {best}){end}")
        self.writer.indent = indent
        return Value(where, axes)

    def _lanes(self, node: Reduce, exact: list[bool], axes: frozenset[str], mask: str | None) -> Deep[Value]:
        """Lane k % size takes element k; then adjacent lanes are merged until one is left."""
        size, dtype = node.order.size, node.dtype
        lanes = self.names.fresh("lanes")
        start = constant_text(identity(node.op, dtype), dtype)
        self.writer.line(f"{lanes} = np.full({self._shape(axes, str(size))}, {start})")
        indent = self.writer.indent
        self._loops(node.ranges)
        value, counts = yield self._body(node, node.ranges, exact, mask)
        slot = f"{lanes}[{self.names[node.ranges[-1].index]} % {size}]"
        self._accumulate(node, slot, value, counts, bool(axes))
        self.writer.indent = indent
        symbol = "+" if node.op == "sum" else "*"
        self.writer.line(f"while len({lanes}) > 1:")
        self.writer.line(f"    {lanes} = {lanes}[0::2] {symbol} {lanes}[1::2]")
        return Value(f"{lanes}[0]", axes)

    def _blocks_of(self, low: str, high: str, size: int, wanted: str, begins: bool = False) -> tuple[str, str]:
        """Begin a loop over the blocks of *size* that a span touches: where one begins, and where it ends.

        *begins*: a block begins where the span does.
        """
        name = self.names.fresh(wanted)
        first = low if begins or low == "0" else f"{_wrapped(low)} // {size} * {size}"
        self.writer.line(f"for {name} in range({first}, {high}, {size}):")
        self.writer.indent += 1
        return name, f"min({name} + {size}, {high})"

    def _fold(self, node: Reduce, exact: list[bool], axes: frozenset[str], mask: str | None) -> Deep[Value]:
        """Steps of a matrix unit, in ascending order of blocks; with `promote=`, parts that are added in f32."""
        unit, promote = unit_of(node.order, node.body), node.order.promote
        held = total = self._start(node, axes, "acc")
        indent = self.writer.indent
        self._loops(node.ranges[:-1])
        inner = node.ranges[-1]
        lower, upper = self.axes.box[inner.index]
        low, high = self.ends("max", lower), self.ends("min", upper)
        begin = low
        if promote:
            begin, high = self._blocks_of(begin, high, promote, "part")
            held = self._start(node, axes, "fold")
        step, high = self._blocks_of(begin, high, unit.block, "step", promote > 0)
        left, right = self.names.fresh("left"), self.names.fresh("right")
        self.writer.line(f"{left}, {right} = [], []")
        begin = step if low == "0" else f"max({step}, {low})"
        self.writer.line(f"for {self.names[inner.index]} in range({begin}, {high}):")
        self.writer.indent += 1
        counts = self._element_mask(node.ranges, exact)
        inside = " & ".join(f"({m})" for m in (mask, counts) if m is not None) or None
        for side, factor in zip((left, right), factors_of(node.body), strict=True):
            value = yield self.emit(factor, inside)
            # An element that does not belong to the sum is 0 times 0.
            zero = constant_text(0.0, factor.dtype)
            text = value.text if counts is None else f"np.where({counts}, {value.text}, {zero})"
            self.writer.line(f"{side}.append({text})")
        self.writer.indent -= 1
        facts = f"{unit.align}, {unit.bits}, {unit.least}, {unit.cut}"
        self.writer.line(f"{held} = fold_step({held}, {left}, {right}, {facts})")
        self.writer.indent -= 1
        if promote:
            self._accumulate(node, total, Value(held, axes), None, bool(axes))
        self.writer.indent = indent
        return Value(total, axes)

    def _blocks(self, node: Reduce, exact: list[bool], axes: frozenset[str], mask: str | None) -> Deep[Value]:
        """Blocks k // size in ascending order, then their results in ascending order."""
        size = node.order.size
        total = self._start(node, axes, "acc")
        indent = self.writer.indent
        self._loops(node.ranges[:-1])
        inner = node.ranges[-1]
        lower, upper = self.axes.box[inner.index]
        low, high = self.ends("max", lower), self.ends("min", upper)
        start, high = self._blocks_of(low, high, size, "start")
        part = self._start(node, axes, "part")
        begin = start if low == "0" else f"max({start}, {low})"
        self.writer.line(f"for {self.names[inner.index]} in range({begin}, {high}):")
        self.writer.indent += 1
        value, counts = yield self._body(node, node.ranges, exact, mask)
        self._accumulate(node, part, value, counts, bool(axes))
        self.writer.indent -= 1
        self._accumulate(node, total, Value(part, axes), None, bool(axes))
        self.writer.indent = indent
        return Value(total, axes)


def joined_tests(tests: list[str]) -> str | None:
    """Tests in parentheses as one condition; a single one without them."""
    return tests[0][1:-1] if len(tests) == 1 else " & ".join(tests) or None


def _wrapped(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"
