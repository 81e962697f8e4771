"""One launch as Triton text: a grid of programs, and in each of them loops around operations on tiles."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Binary, Call, Cast, Compare, Logic, Scalar, Select, Unary
from ...compiler.ir.quasiaffine import TRUE, Affine
from ..lower.printing import atom, tuple_text
from ..lower.tile import Dot, Elem, For, Full, Integer, Let, Load, Reduce, Ref, Store, Value, Where
from .loops import apart, fused, range_text
from .operations import binary_text, cast_text, fma_text, is_fast, unary_text
from .positions import PositionPrinter
from .products import added, product_text
from .reductions import reduction_text
from .stores import store
from .types import constant_text, full_text, literal_text, negative_zero, number_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..lower.tile import Axis
    from .blocks import Block


@dataclass
class KernelPrinter(PositionPrinter):
    """Prints the statements of a launch.

    *shared*: the tensors in memory that a program both writes and reads: its threads wait for one another before each
    write to one and after it. What other programs do does not matter, for no loop of the grid carries a dependence.
    """

    axes: Mapping[str, Axis]
    shared: set[str]
    # The loads that are blocks of a tensor, and the shorter functions for operations, by identity.
    blocks: Mapping[int, Block]
    forms: Mapping[int, str]
    # The tiles that are kept as products come out, by name, with the shape that they have then.
    flat: dict[str, str] = field(default_factory=dict[str, str])
    # What values are called while half a tile is written, by identity.
    parts: dict[int, str] = field(default_factory=dict[int, str])

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
        store(self, stmt)

    def let(self, stmt: Let) -> None:
        name, value = self.names[stmt.name], stmt.value
        shape = self.shape(stmt.axes)
        if isinstance(value, Full) and not stmt.keep:
            self.writer.line(f"{name} = {full_text(self.flat.get(name, shape), value.value, value.dtype)}")
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
        if isinstance(stmt.value, Dot) and stmt.value.fold is not None:
            return product_text(self, stmt.value, stmt.axes)
        dot = added(stmt)
        return None if dot is None else product_text(self, dot, stmt.axes, self.names[stmt.name])

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
            if id(value) in self.parts:
                own = [a for a in axes if a in own]  # parts of a tile have its order of axes
            if own != order:
                text = f"tl.permute({text}, {tuple_text([str(own.index(a)) for a in order])})"
        if not own or len(order) == len(axes):
            return text
        return f"{atom(text)}[{', '.join(':' if a in own else 'None' for a in axes)}]"

    def text(self, value: Value) -> str:
        if id(value) in self.parts:
            return self.parts[id(value)]
        match value:
            case Ref():
                name = self.names[value.name]
                return f"tl.reshape({name}, {self.shape(value.axes)})" if name in self.flat else name
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
            case Binary(op="+") if (place := self.doubled(value)) is not None:
                # The product with 2 is exact.
                half = value.operands[place]
                assert isinstance(half, Elem)
                return f"tl.fma({self.called(half, self.operands(half)[0])}, 2.0, {texts[1 - place]})"
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
                text = self.called(value, texts[0])
                doubled = f"({text} * 2.0)" if self.is_half(value) else text
                return cast_text(doubled, node.dtype.wide, node.dtype)
            case _:
                raise TypeError(f"{type(node).__name__} is no operation on lanes")

    def called(self, value: Elem, argument: str) -> str:
        """The call that an elementary function is, in its wide type."""
        assert isinstance(value.node, Call)
        dtype = value.node.dtype
        function = f"{self.forms.get(id(value), value.node.function)}_{dtype.wide}"
        function = f"fast_{value.node.function}" if is_fast(value) else function
        return f"{function}({cast_text(argument, dtype, dtype.wide)})"

    def is_half(self, value: Value) -> bool:
        """Whether an operation is made as half of what it is."""
        return self.forms.get(id(value), "").endswith("_half")

    def doubled(self, value: Elem) -> int | None:
        """Which operand of a sum of f32 is made as half of itself, the other being a constant; None where none is."""
        left, right = value.operands
        if value.dtype.name != "f32":
            return None
        if self.is_half(left) and isinstance(right, Full):
            return 0
        return 1 if self.is_half(right) and isinstance(left, Full) else None

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
