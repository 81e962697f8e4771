"""Tiles as NumPy text: outer Python loops, and operations on small arrays, masked where lanes do not count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Binary, Call, Cast, Compare, Logic, Scalar, Select, Unary
from ...compiler.ir.quasiaffine import TRUE, Affine
from ..embed import helper_names
from ..lower.count import operations
from ..lower.lower import lower_to_tiles
from ..lower.printing import TilePrinter, atom, tuple_text
from ..lower.tile import (
    Dot,
    Elem,
    Folded,
    For,
    Full,
    Integer,
    Let,
    Load,
    Reduce,
    Ref,
    Store,
    Tiles,
    Value,
    Where,
    values_of,
)
from ..naming import Names, Writer
from .axes import Axes
from .casts import binary_text, cast_text, fma_text, unary_text
from .emit import bind_arguments, module_text
from .nest import Emission
from .text import constant_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Node

COMBINE = {"sum": "a + b", "prod": "a * b", "any": "a | b", "all": "a & b"}


@dataclass(frozen=True)
class InTiles:
    """A module's text, the permissions that its operations lean on, and about how many operations on tiles run at the
    sizes of a call."""

    source: str
    leans: tuple[str, ...]
    operations: Callable[[Mapping[str, int]], int]


def emit_tiles(program: Program, tree: Sequence[Node], heading: str) -> InTiles:
    """A module with one function that runs a loop tree tile by tile.

    *heading*: comments above the function's body. Arguments and results are those of `emit.emit`. Lanes that nobody may
    care about hold NaN, or the greatest integer: a result that they reach shows it.

    Raises:
        IllegalTransformError: tiles cannot say the schedule (rules target, shape and rounding).
    """
    names = Names(program, helper_names("numpy"))
    tiles = lower_to_tiles(program, tree, lambda name: names[name])
    writer = Writer(indent=1)
    for line in heading.splitlines():
        writer.line(f"# {line}".rstrip())
    bind_arguments(program, names, writer)
    arrays = Emission(program, names, Axes(program, ()), writer)
    for name in (*program.outputs, *tiles.arrays):
        arrays.allocate(name)
    for axis in tiles.axes.values():
        writer.line(f"{names[axis.name]} = np.arange({axis.extent})")
    _Printer(program, names, writer, tiles, arrays).body(tiles.body)
    writer.line(f"return {', '.join(names[o] for o in program.outputs)}")
    leans = {p for value in values_of(tiles.body) if isinstance(value, Dot) for p in value.leans}
    return InTiles(
        module_text(program, names, "\n".join(writer.lines)),
        tuple(sorted(leans)),
        lambda sizes: operations(tiles.body, names, {names[n]: v for n, v in sizes.items()}),
    )


@dataclass
class _Printer(TilePrinter):
    tiles: Tiles
    arrays: Emission

    # ---- statements

    def loop(self, stmt: For) -> None:
        if stmt.condition:
            self.writer.line(f"if {stmt.condition}:")
            self.writer.indent += 1
        span = f"range({stmt.high})" if stmt.low == "0" else f"range({stmt.low}, {stmt.high})"
        span = f"reversed({span})" if stmt.descending else span
        notes = [stmt.kind] if stmt.kind != "serial" else []
        notes += [f"a pipeline of {stmt.stages}"] if stmt.stages > 1 else []
        notes += [f"carries {', '.join(self.names[n] for n in stmt.carried)}"] if stmt.carried else []
        self.writer.line(f"for {self.names[stmt.index]} in {span}:{'  # ' + ', '.join(notes) if notes else ''}")
        self.writer.indent += 1
        self.body(stmt.body)
        if not stmt.body:
            self.writer.line("pass")

    def store(self, stmt: Store) -> None:
        index = self.index(stmt.tensor, stmt.index, stmt.axes)
        mask, value = self.condition(stmt.mask, stmt.axes), self.aligned(stmt.value, stmt.axes)
        self.writer.line(f"store({self.names[stmt.tensor]}, {index}, {mask}, {value})")

    def let(self, stmt: Let) -> None:
        name, value = self.names[stmt.name], stmt.value
        shape = tuple_text([str(self.tiles.axes[a].extent) for a in stmt.axes])
        if isinstance(value, Full) and not stmt.keep and stmt.axes:
            self.writer.line(f"{name} = np.full({shape}, {constant_text(value.value, value.dtype)})")
            return
        text = self.aligned(value, stmt.axes)
        if stmt.keep:
            text = f"np.where({self.condition(stmt.mask, stmt.axes)}, {text}, {name})"
            text += "" if stmt.axes else "[()]"
        elif set(value.axes) != set(stmt.axes):
            text = f"np.broadcast_to({text}, {shape})"
        self.writer.line(f"{name} = {text}")

    # ---- values

    def aligned(self, value: Value, axes: Sequence[str]) -> str:
        """A value whose axes are some of *axes*, in that order, with new ones of one lane where it has none."""
        text = self.text(value)
        own = list(value.axes)
        order = [a for a in axes if a in own]
        if own != order:
            text = f"{atom(text)}.transpose({', '.join(str(own.index(a)) for a in order)})"
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
                inner = self.integer(value.affine, value.axes)
                return f"({inner})" if value.axes else f"np.int64({inner})"
            case Load():
                return self.load(value)
            case Elem():
                return self.operation(value)
            case Where():
                mask = self.condition(value.mask, value.axes)
                parts = f"{self.aligned(value.value, value.axes)}, {self.aligned(value.other, value.axes)}"
                return f"np.where({mask}, {parts})" + ("" if value.axes else "[()]")
            case Reduce():
                places = tuple_text([str(value.value.axes.index(a)) for a in value.over])
                combine = COMBINE.get(value.combine) or binary_text(value.combine, "a", "b", value.dtype)
                return f"combined({self.text(value.value)}, {places}, lambda a, b: {combine})"
            case Dot():
                return self.dot(value)

    def load(self, value: Load) -> str:
        axes = value.axes
        index = self.index(value.tensor, value.index, axes)
        text = f"load({self.names[value.tensor]}, {index})"
        fill = "" if value.fill is None else f", {constant_text(value.fill, value.dtype)}"
        if not all(isinstance(i, Affine) for i in value.index):
            words = f"{value.tensor!r}, {self.names[value.tensor]}, {index}, {self.condition(value.mask, axes)}{fill}"
            text = f"gathered({words})"
        elif value.mask != TRUE or value.fill is not None:
            text = f"load({self.names[value.tensor]}, {index}, {self.condition(value.mask, axes)}{fill})"
        if text not in self.loads:
            self.loads[text] = self.names.fresh(f"{value.tensor.lower()}_tile")
            self.writer.line(f"{self.loads[text]} = {text}")
        return self.loads[text]

    def index(self, tensor: str, index: Sequence[Affine | Value], axes: Sequence[str]) -> str:
        """Where elements lie in an array, which begins with the first element that there is."""
        texts: list[str] = []
        for place, extent in zip(index, self.program.tensors[tensor].extents, strict=True):
            if isinstance(place, Affine) and len(extent.lower) == 1:
                texts.append(self.integer(place - extent.lower[0], axes))
                continue
            text = self.integer(place, axes) if isinstance(place, Affine) else self.aligned(place, axes)
            low = self.arrays.ends(extent.low_word, extent.lower)
            texts.append(text if low == "0" else f"{atom(text)} - ({low})")
        return tuple_text(texts)

    def dot(self, value: Dot) -> str:
        """By letters: each axis one."""
        letters = {a: chr(ord("a") + n) for n, a in enumerate(dict.fromkeys((*value.a.axes, *value.b.axes)))}
        sides = ["".join(letters[n] for n in axes) for axes in (value.a.axes, value.b.axes, value.axes)]
        if value.fold is not None:
            return self.folded(value, value.fold)
        texts = [cast_text(atom(self.text(v)), v.dtype, value.dtype) for v in (value.a, value.b)]
        return f'np.einsum("{sides[0]},{sides[1]}->{sides[2]}", {texts[0]}, {texts[1]})'

    def folded(self, value: Dot, fold: Folded) -> str:
        """A matrix unit's sum: operands with the axis that is summed last."""
        whole = (*value.axes, *value.over)
        left, right = (self.aligned(v, whole) for v in (value.a, value.b))
        start, unit = self.aligned(fold.start, value.axes), fold.unit
        facts = f"{unit.block}, {fold.promote}, {unit.align}, {unit.bits}, {unit.least}, {unit.cut}"
        return f"fold({start}, {left}, {right}, {facts})"

    def operation(self, value: Elem) -> str:
        if isinstance(value.node, Scalar):
            return self.names[value.node.name]
        return operation_text(value, [atom(self.aligned(v, value.axes)) for v in value.operands])


def operation_text(value: Elem, texts: Sequence[str], function: str | None = None) -> str:
    """An operation on operands of these texts, which are atoms. *function*: to call for the one that it calls."""
    node = value.node
    match node:
        case Unary():
            return unary_text(node.op, texts[0], node.dtype)
        case Binary():
            return binary_text(node.op, texts[0], texts[1], node.dtype)
        case Compare():
            return f"{texts[0]} {node.op} {texts[1]}"
        case Logic(op="not"):
            return f"np.logical_not({texts[0]})"
        case Logic():
            return f"{texts[0]} {'&' if node.op == 'and' else '|'} {texts[1]}"
        case Select():
            then, test, other = texts
            return f"np.where({test}, {then}, {other})" + ("" if value.axes else "[()]")
        case Cast():
            return cast_text(texts[0], value.operands[0].dtype, node.dtype, node.saturating)
        case Call(function="fma"):
            return fma_text(texts[0], texts[1], texts[2], node.dtype)
        case Call():
            wide = node.dtype.wide
            called = f"{function or node.function}_{wide}({cast_text(texts[0], node.dtype, wide)})"
            return cast_text(called, wide, node.dtype)
        case _:
            raise TypeError(f"{type(node).__name__} is no operation on lanes")
