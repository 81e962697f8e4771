"""One launch as Triton text: a grid of programs, and in each of them loops around operations on tiles."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Binary, Call, Cast, Compare, Logic, Scalar, Select, Unary
from ...compiler.ir.quasiaffine import TRUE, Affine, Division
from ..lower.printing import TilePrinter, atom, tuple_text
from ..lower.tile import Dot, Elem, For, Full, Integer, Let, Load, Reduce, Ref, Store, Value, Where
from .loops import apart, fused, range_text
from .operations import binary_text, cast_text, fma_text, unary_text
from .products import product_text
from .reductions import reduction_text
from .types import constant_text, full_text, literal_text, negative_zero, number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.program import Extent
    from ..lower.tile import Axis
    from .blocks import Block

# Factors from here on are multiplied in 64 bits.
LARGE = 1 << 16


@dataclass
class KernelPrinter(TilePrinter):
    """Prints the statements of a launch.

    *nonnegative*: the sizes, loops and axes that are never below 0. *shared*: the tensors in memory that a program
    both writes and reads: its threads wait for one another before a write to one and after it. What other programs do
    does not matter, for no loop of the grid carries a dependence.
    """

    axes: Mapping[str, Axis]
    nonnegative: set[str]
    shared: set[str]
    # The loads that are blocks of a tensor, and the shorter functions for operations, by identity.
    blocks: Mapping[int, Block]
    forms: Mapping[int, str]

    # ---- statements

    def loop(self, stmt: For) -> None:
        chain, body = fused(stmt)
        for loop in chain:
            if loop.condition:
                self.writer.line(f"if {loop.condition}:")
                self.writer.indent += 1
            if loop.low.isdigit() or loop.low in {self.names[n] for n in self.nonnegative}:
                self.nonnegative.add(loop.index)
        index = self.names[stmt.index]
        if len(chain) > 1:
            index = self.names.fresh("_".join([index, *(loop.index.split(".")[-1] for loop in chain[1:])]))
        self.writer.line(f"for {index} in {range_text(chain)}:")
        self.writer.indent += 1
        for line in apart(index, chain, self.names) if len(chain) > 1 else ():
            self.writer.line(line)
        self.body(body)

    def store(self, stmt: Store) -> None:
        where = self.pointer(stmt.tensor, stmt.index, stmt.axes)
        value = self.aligned(stmt.value, stmt.axes)
        if len(value) > 60:
            name = self.names.fresh(f"{stmt.tensor.lower()}_tile")
            self.writer.line(f"{name} = {value}")
            value = name
        mask = "" if stmt.mask == TRUE else f", mask={self.condition(stmt.mask, stmt.axes)}"
        waits = ["tl.debug_barrier()"] if stmt.tensor in self.shared else []
        for line in (*waits, f"tl.store({where}, {value}{mask})", *waits):
            self.writer.line(line)

    def let(self, stmt: Let) -> None:
        name, value = self.names[stmt.name], stmt.value
        shape = self.shape(stmt.axes)
        if isinstance(value, Full) and not stmt.keep:
            self.writer.line(f"{name} = {full_text(shape, value.value, value.dtype)}")
            return
        if isinstance(value, Load) and not stmt.keep and value.axes == tuple(stmt.axes):
            self.load_as(name, value)
            return
        text = self.accumulated(stmt) or self.aligned(value, stmt.axes)
        if stmt.keep:
            text = f"tl.where({self.condition(stmt.mask, stmt.axes)}, {text}, {name})"
        elif set(value.axes) != set(stmt.axes):
            text = f"tl.broadcast_to({text}, {shape})"
        self.writer.line(f"{name} = {text}")

    def accumulated(self, stmt: Let) -> str | None:
        """`acc = acc + a @ b` in the form that matrix units take; None where it is something else."""
        value = stmt.value
        if isinstance(value, Dot) and value.fold is not None:
            return product_text(self, value, stmt.axes)
        if not isinstance(value, Elem) or not isinstance(value.node, Binary) or value.node.op != "+":
            return None
        old, dot = value.operands
        if isinstance(old, Ref) and isinstance(dot, Dot) and old.axes == tuple(stmt.axes):
            return product_text(self, dot, old.axes, self.names[old.name])
        return None

    def shape(self, axes: Sequence[str]) -> str:
        return tuple_text([str(self.axes[a].extent) for a in axes])

    def lanes(self, axes: Sequence[str]) -> int:
        """How many lanes some axes have together."""
        return prod(self.axes[a].extent for a in axes)

    # ---- values

    def aligned(self, value: Value, axes: Sequence[str]) -> str:
        """A value whose axes are some of *axes*, in that order, with new ones of one lane where it has none."""
        own = list(value.axes)
        order = [a for a in axes if a in own]
        if isinstance(value, Dot):
            text = product_text(self, value, order)
        else:
            text = self.text(value)
            if own != order:
                text = f"tl.permute({text}, {tuple_text([str(own.index(a)) for a in order])})"
        if not own or len(order) == len(axes):
            return text
        return f"{atom(text)}[{', '.join(':' if a in own else 'None' for a in axes)}]"

    def text(self, value: Value) -> str:
        match value:
            case Ref():
                return self.names[value.name]
            case Full():
                return constant_text(value.value, value.dtype)
            case Integer():
                return f"tl.cast({self.integer(value.affine, value.axes)}, tl.int64)"
            case Load():
                return self.load(value)
            case Elem():
                return self.operation(value)
            case Where():
                mask = self.condition(value.mask, value.axes)
                return f"tl.where({mask}, {self.aligned(value.value, value.axes)}, {self.beside(value.other, value)})"
            case Reduce():
                return reduction_text(self, value)
            case Dot():
                return product_text(self, value, value.axes)

    def beside(self, value: Value, whole: Value) -> str:
        """An operand whose type the others give it."""
        if isinstance(value, Full):
            return literal_text(value.value, value.dtype)
        return self.aligned(value, whole.axes)

    def load(self, value: Load) -> str:
        """The name of the tile that a load makes, once in a statement."""
        text = self.load_text(value)
        if text not in self.loads:
            self.loads[text] = self.names.fresh(f"{value.tensor.lower()}_tile")
            self.load_as(self.loads[text], value)
        return self.loads[text]

    def load_as(self, name: str, value: Load) -> None:
        """The lines that name a loaded tile: by the copy engine, where the launch has it, or lane by lane."""
        block = self.blocks.get(id(value))
        if block is None:
            self.writer.line(f"{name} = {self.load_text(value)}")
            return
        starts = ", ".join(self.integer(a, ()) for a in block.starts)
        text = f"{block.descriptor.name}.load([{starts}])"
        if len(block.starts) != len(value.axes):
            text = f"tl.reshape({text}, {self.shape(value.axes)})"
        self.writer.line("if TMA:")
        self.writer.line(f"    {name} = {text}")
        self.writer.line("else:")
        self.writer.line(f"    {name} = {self.load_text(value)}")

    def load_text(self, value: Load) -> str:
        axes = value.axes
        index = self.pointer(value.tensor, value.index, axes)
        masks = [] if value.mask == TRUE else [self.condition(value.mask, axes)]
        for dimension, place in enumerate(value.index):
            if not isinstance(place, Affine):
                # A position that data give is read only where there is something.
                text = atom(self.aligned(place, axes))
                extent = self.program.tensors[value.tensor].extents[dimension]
                masks += [f"{text} >= {self.low(extent)}", f"{text} < {self.high(extent)}"]
        mask = masks[0] if len(masks) == 1 else " & ".join(f"({m})" for m in masks)
        fill = value.fill if value.fill is not None or all(isinstance(i, Affine) for i in value.index) else 0
        words = [index]
        words += [f"mask={mask}"] if masks else []
        if masks and fill is not None:
            words.append(f"other={constant_text(fill, value.dtype) if negative_zero(fill) else number_text(fill)}")
        return f"tl.load({', '.join(words)})"

    def pointer(self, tensor: str, index: Sequence[Affine | Value], axes: Sequence[str]) -> str:
        """Where elements lie in memory, row by row."""
        total = [self.names[tensor]]
        extents = self.program.tensors[tensor].extents
        for dimension, (place, extent) in enumerate(zip(index, extents, strict=True)):
            low = self.low(extent)
            if place == Affine() and low == "0":
                continue
            text = self.integer(place, axes) if isinstance(place, Affine) else self.aligned(place, axes)
            text = text if low == "0" else f"{text} - {atom(low)}"
            steps = [atom(self.count(e)) for e in extents[dimension + 1 :]]
            total.append(" * ".join([atom(text), *steps]) if steps else text)
        return " + ".join(total)

    def low(self, extent: Extent) -> str:
        """The first position of a dimension."""
        return self._extreme(extent.low_word, extent.lower)

    def high(self, extent: Extent) -> str:
        """One past the last position of a dimension."""
        return self._extreme(extent.high_word, extent.upper)

    def count(self, extent: Extent) -> str:
        """The number of positions of a dimension, where there are any."""
        low = self.low(extent)
        return self.high(extent) if low == "0" else f"{self.high(extent)} - {atom(low)}"

    def _extreme(self, word: str, ends: Sequence[Affine]) -> str:
        *texts, last = (self.integer(a, ()) for a in ends)
        for text in reversed(texts):
            last = f"{word}({text}, {last})"
        return last

    def integer(self, affine: Affine, axes: Sequence[str]) -> str:
        parts: list[str] = []
        # What is the same in all lanes first, and something positive in front.
        for term, factor in sorted(affine.terms, key=lambda pair: (pair[1] < 0, pair[0] in axes)):
            if isinstance(term, str):
                text = self.lane(term, axes) if term in axes else self.names[term]
            else:
                text = self.division(term, axes)
            if abs(factor) >= LARGE:
                # The launcher looks at how far sizes reach; what a factor alone can take beyond 31 bits is wide here.
                text = f"tl.cast({text}, tl.int64)"
            text = text if abs(factor) == 1 else f"{abs(factor)} * {text}"
            sign = "-" if factor < 0 else "+"
            parts.append(f" {sign} {text}" if parts else f"-{text}" if factor < 0 else text)
        if affine.constant or not parts:
            sign = "-" if affine.constant < 0 else "+"
            size = str(abs(affine.constant))
            size = size if abs(affine.constant) < 1 << 30 else f"tl.full((), {size}, tl.int64)"
            parts.append(f" {sign} {size}" if parts else f"-{size}" if affine.constant < 0 else size)
        return "".join(parts)

    def division(self, term: Division, axes: Sequence[str]) -> str:
        """Triton's own division is toward 0: it will do for what is never below 0."""
        inner = self.integer(term.numerator, axes)
        if self.is_nonnegative(term.numerator):
            return f"({atom(inner)} {term.kind} {term.divisor})"
        return f"floor_{'div' if term.kind == '//' else 'mod'}({inner}, {term.divisor})"

    def is_nonnegative(self, affine: Affine) -> bool:
        return affine.constant >= 0 and all(
            factor > 0
            and (
                term in self.nonnegative
                if isinstance(term, str)
                else term.kind == "%" or self.is_nonnegative(term.numerator)
            )
            for term, factor in affine.terms
        )

    def operation(self, value: Elem) -> str:
        node = value.node
        if isinstance(node, Scalar):
            return self.names[node.name]
        texts = self.operands(value)
        match node:
            case Unary():
                return unary_text(node.op, texts[0], node.dtype)
            case Binary() if id(value) in self.forms:
                return f"{self.forms[id(value)]}({texts[0]}, {texts[1]})"
            case Binary():
                return binary_text(node.op, texts[0], texts[1], node.dtype)
            case Compare():
                return f"{texts[0]} {node.op} {texts[1]}"
            case Logic(op="not"):
                return f"{texts[0]} == 0"
            case Logic():
                return f"{texts[0]} {'&' if node.op == 'and' else '|'} {texts[1]}"
            case Select():
                then, test, other = texts
                return f"tl.where({test}, {then}, {other})"
            case Cast():
                return cast_text(texts[0], value.operands[0].dtype, node.dtype, node.saturating)
            case Call(function="fma"):
                return fma_text(texts[0], texts[1], texts[2], node.dtype)
            case Call():
                wide = node.dtype.wide
                function = self.forms.get(id(value), node.function)
                return cast_text(f"{function}_{wide}({cast_text(texts[0], node.dtype, wide)})", wide, node.dtype)
            case _:
                raise TypeError(f"{type(node).__name__} is no operation on lanes")

    def operands(self, value: Elem) -> list[str]:
        """The operands as atoms; a constant is a literal where another operand gives it its type."""
        tiles = [v for v in value.operands if not isinstance(v, Full)]
        plain = isinstance(value.node, (Binary, Compare)) and bool(tiles)
        texts: list[str] = []
        for operand in value.operands:
            if plain and isinstance(operand, Full):
                texts.append(literal_text(operand.value, operand.dtype))
            else:
                texts.append(atom(self.aligned(operand, value.axes)))
        return texts
