"""A scheduled kernel in NumPy, loop by loop: slow, and exactly what the schedule says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.codegen import Bounds, expression
from ...compiler.ir.expr import Index
from ...compiler.ir.program import Extent, Program, Tensor
from ...compiler.ir.quasiaffine import TRUE, Affine
from ...compiler.ir.show import statement_text
from ...compiler.ir.storage import PLAIN, Storage, greatest_places
from ...compiler.ir.trampoline import Deep, run
from ...compiler.ir.tree import Alloc, Leaf, Loop, Node, allocs, at_root, distributed, placed
from ...passes.footprint import sides
from ..embed import helper_names
from ..naming import Names, Writer
from .axes import Axes
from .emit import bind_arguments, module_text
from .expressions import Expressions
from .text import OR, Value, type_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.expr import Partial, Read


def emit_nest(program: Program, tree: Sequence[Node], heading: str) -> str:
    """The text of a module with one function that runs a loop tree; *heading* is put above its body as comments.

    Arguments and results are those of `emit.emit`.
    """
    tree = distributed(tree)
    scopes = allocs(tree)
    private = {node.tensor for node in scopes}
    shapes = {name: program.tensors[name].extents for name in private}
    program = replace(program, tensors={n: _boxed(t) if n in private else t for n, t in program.tensors.items()})
    names = Names(program, helper_names("numpy"))
    body = Writer(indent=1)
    for line in heading.splitlines():
        body.line(f"# {line}".rstrip())
    bind_arguments(program, names, body)
    layouts = {node.tensor: node.storage for node in scopes if _laid_out(node.storage)}
    outer = Emission(program, names, Axes(program, ()), body, layouts=layouts, shapes=shapes, whole=set(at_root(tree)))
    for tensor, storage in layouts.items():
        body.line(f"{names[_at(tensor)]} = {_places_text(program, tensor, storage)}")
    for name, tensor in program.tensors.items():
        if tensor.role in ("input", "constant") or name in private:
            continue
        outer.allocate(name)
    whole = at_root(tree)
    for name in whole:
        # One buffer for everything, wherever in the text its mark stands.
        for position, extent in enumerate(shapes[name]):
            low, high = (outer.ends(word, ends) for word, ends in zip(*_ends(extent), strict=True))
            body.line(f"{names[f'{name} low {position}']}, {names[f'{name} high {position}']} = {low}, {high}")
        outer.allocate(name)
    for name in _outside(program, tree, private - set(whole)):
        # Such a read has no element to find: what is beyond the shape, or a branch not taken.
        for position in range(program.tensors[name].rank):
            body.line(f"{names[f'{name} low {position}']} = {names[f'{name} high {position}']} = 0")
        outer.allocate(name)
    bounds = Bounds(program, lambda name: names[name])
    _write(outer, tree, bounds, (), bounds.start())
    body.line(f"return {', '.join(names[o] for o in program.outputs)}")
    return module_text(program, names, "\n".join(body.lines))


def _ends(extent: Extent) -> tuple[tuple[str, str], tuple[tuple[Affine, ...], tuple[Affine, ...]]]:
    """The words that join the ends of a dimension, and those: lower, upper."""
    return (extent.low_word, extent.high_word), (extent.lower, extent.upper)


def _outside(program: Program, tree: Sequence[Node], private: set[str]) -> list[str]:
    """Private tensors that a leaf reads outside their buffers."""
    found: dict[str, None] = {}
    for item in placed(tree):
        reads = {a.tensor for a in program.statement(item.leaf.statement).accesses if a.kind == "read"}
        found.update(dict.fromkeys(sorted((reads & private) - set(dict(item.scopes)))))
    return list(found)


def _boxed(tensor: Tensor) -> Tensor:
    """A private tensor: its ends are variables, set where its buffer is made."""
    ends = [(Affine.name(f"{tensor.name} low {p}"), Affine.name(f"{tensor.name} high {p}")) for p in range(tensor.rank)]
    return replace(tensor, extents=tuple(Extent((low,), (high,)) for low, high in ends))


class LeafAxes(Axes):
    """No axes: every index is a loop's. What the checker proved of a statement holds at every point of its leaves."""

    def inside(self, read: Read, substitute: object) -> list[bool]:
        sure = read.guard == TRUE and read.fill is None
        return [sure] * len(read.subscripts)

    def nonnegative(self, value: Affine) -> bool:
        if any(n not in self.program.sizes for n in value.names()):
            return True
        return super().nonnegative(value)


def _laid_out(storage: Storage) -> bool:
    """Whether the place of an element is another than its position."""
    return bool(storage.layout or storage.pad or storage.swizzle or storage.fold)


def _at(tensor: str) -> str:
    """The name of the function that gives the place of an element."""
    return f"{tensor} at"


def _places_text(program: Program, tensor: str, storage: Storage) -> str:
    """That function: from positions, folded ones as they are and others from the buffer's first, to places."""
    rank = program.tensors[tensor].rank
    words = [n if n not in ("", "lambda") else f"at{d}" for d, n in enumerate(storage.names)]
    words = words or [f"at{d}" for d in range(rank)]
    places = storage.places({d: Affine.name(w) for d, w in enumerate(words)}, rank)
    texts = [str(p) for p in places]
    if storage.swizzle:
        texts[-1] = f"({texts[-1]}) ^ (({texts[-2]}) % {storage.swizzle})"
    return f"lambda {', '.join(words)}: ({', '.join(texts)},)"


@dataclass
class Emission(Expressions):
    """Expressions of one leaf, all scalars. *layouts*: how the buffers lie whose places are not the positions."""

    layouts: Mapping[str, Storage] = field(default_factory=dict[str, Storage])
    # The shapes of tensors with buffers of their own: a buffer holds a part, and what is beyond the shape is elsewhere.
    shapes: Mapping[str, tuple[Extent, ...]] = field(default_factory=dict[str, "tuple[Extent, ...]"])
    # Those with a buffer outside every loop, which others inside may hide for a while.
    whole: set[str] = field(default_factory=set[str])

    def within_shape(self, node: Read, dimension: int, value: Value, size: str) -> list[str]:
        if node.tensor not in self.shapes:
            return super().within_shape(node, dimension, value, size)
        sub, extent = node.subscripts[dimension], self.shapes[node.tensor][dimension]
        if isinstance(sub, Index):
            position = self.integer(sub.affine).within(OR)
        else:
            held = self.program.tensors[node.tensor].extents[dimension]
            position = f"{value.atomic} + {self.ends(held.low_word, held.lower)}"
        low, high = self.ends(extent.low_word, extent.lower), self.ends(extent.high_word, extent.upper)
        return [f"{position} >= {low}", f"{position} < {high}"]

    def allocate(self, tensor: str) -> None:
        """The line that makes a tensor."""
        found = self.program.tensors[tensor]
        sizes = [self.extent_text(e) for e in found.extents]
        storage = self.layouts.get(tensor, PLAIN)
        if _laid_out(storage):
            counts = dict(storage.fold)
            ends = [str(counts[d]) if d in counts else f"max(1, {s})" for d, s in enumerate(sizes)]
            sizes = _place_counts(storage, found.rank, ends)
        shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
        self.writer.line(f"{self.names[tensor]} = np.zeros({shape}, {type_text(found.dtype)})")

    def merged(self, node: Partial) -> Deep[Value]:
        """The adjacent-pair merge of the lanes of an accumulator."""
        tensor = self.program.tensors[node.tensor]
        positions = [self.place(sub.affine, extent) for sub, extent in zip(node.prefix, tensor.extents, strict=False)]
        text = ", ".join([*positions, ":"])
        return Value(f"pairwise_{node.op}({self.names[node.tensor]}[{text}])")
        yield

    def sliced(self, node: Read, positions: list[Affine]) -> Value | None:
        return None if node.tensor in self.layouts else super().sliced(node, positions)

    def element(self, tensor: str, positions: Sequence[Value], reach: bool) -> str:
        """An element where its layout puts it."""
        storage = self.layouts.get(tensor)
        if storage is None:
            return super().element(tensor, positions, reach)
        return f"{self.names[tensor]}[{self._places(tensor, [v.text for v in positions], storage, reach)}]"

    def _places(self, tensor: str, positions: Sequence[str], storage: Storage, reach: bool) -> str:
        extents = self.program.tensors[tensor].extents
        counts = dict(storage.fold)
        texts: list[str] = []
        for dimension, (text, extent) in enumerate(zip(positions, extents, strict=True)):
            if dimension in counts:
                # Its place goes by the position itself, not from where the buffer starts.
                low = self.ends(extent.low_word, extent.lower)
                text = text if low == "0" else f"{text} + {low}"
            elif not reach:
                text = f"min(max({text}, 0), max(0, {self.extent_text(extent)} - 1))"
            texts.append(text)
        return f"{self.names[_at(tensor)]}({', '.join(texts)})"

    def target(self, tensor: Tensor, position: Sequence[Affine]) -> str:
        """The subscript of a store."""
        texts = [self.place(a, e) for a, e in zip(position, tensor.extents, strict=True)]
        storage = self.layouts.get(tensor.name)
        if storage is not None:
            return self._places(tensor.name, texts, storage, True)
        return ", ".join(texts) or "()"

    def place(self, position: Affine, extent: Extent) -> str:
        """A position of a tensor as an index of its array."""
        if len(extent.lower) == 1:
            return self.integer(self.substituted(position) - extent.lower[0]).text
        return self.from_origin(self.integer(position), extent).text


def _place_counts(storage: Storage, rank: int, counts: Sequence[str]) -> list[str]:
    """How many places each dimension of a layout has, for a buffer with that many positions in each of its own."""
    names = tuple(f"count{d}" for d in range(rank))
    known, greatest = greatest_places(storage, names)
    texts = dict(zip(names, counts, strict=True))
    build = isl.AstBuild.from_context(known)
    found = [f"{expression(build.expr_from_pw_aff(g), lambda n: f'({texts[n]})')} + 1" for g in greatest]
    if storage.swizzle:
        found[-1] = f"-(-({found[-1]}) // {storage.swizzle}) * {storage.swizzle}"
    if storage.pad:
        found[-1] = f"{found[-1]} + {storage.pad}"
    return found


def _write(outer: Emission, nodes: Sequence[Node], bounds: Bounds, around: tuple[str, ...], known: isl.Set) -> None:
    writer, program, names = outer.writer, outer.program, outer.names
    if not nodes:
        writer.line("pass")
    for node in nodes:
        match node:
            case Leaf():
                _write_leaf(outer, node, bounds, known)
            case Loop():
                condition, low, high, inside = bounds.loop(node, around, known)
                depth = writer.indent
                if condition:
                    writer.line(f"if {condition}:")
                    writer.indent += 1
                span = f"range({high})" if low == "0" else f"range({low}, {high})"
                note = "" if node.kind == "serial" else f"  # {node.kind}{' ' + node.target if node.target else ''}"
                note += f"  # a pipeline of {node.stages}" if node.stages > 1 else ""
                span = f"reversed({span})" if node.descending else span
                writer.line(f"for {names[node.index]} in {span}:{note}")
                writer.indent += 1
                _write(outer, node.body, bounds, (*around, node.index), inside)
                writer.indent = depth
            case Alloc() if not around:
                _write(outer, node.body, bounds, around, known)
            case Alloc():
                ends = [
                    names[f"{node.tensor} {end} {p}"]
                    for p in range(program.tensors[node.tensor].rank)
                    for end in ("low", "high")
                ]
                held = ", ".join([names[node.tensor], *ends])
                kept = names.fresh(f"{node.tensor}_outside") if node.tensor in outer.whole else None
                if kept is not None:
                    writer.line(f"{kept} = {held}{'' if ends else ','}")
                for position, (low, high) in enumerate(_box(program, node, bounds, around, known)):
                    writer.line(f"{names[f'{node.tensor} low {position}']} = {low}")
                    writer.line(f"{names[f'{node.tensor} high {position}']} = {high}")
                outer.allocate(node.tensor)
                _write(outer, node.body, bounds, around, known)
                if kept is not None:
                    writer.line(f"{held}{'' if ends else ','} = {kept}")


def _box(
    program: Program, alloc: Alloc, bounds: Bounds, around: tuple[str, ...], known: isl.Set
) -> list[tuple[str, str]]:
    """The ends of a private tensor's buffer, for one iteration of the loops around."""
    found = sides(program, alloc.body, alloc.tensor, around, known)
    if found is None:
        return [("0", "0")] * program.tensors[alloc.tensor].rank  # nothing of it matters in this part of the program
    return [bounds.ends(points, place, known) for place, points in found]


def _write_leaf(outer: Emission, leaf: Leaf, bounds: Bounds, known: isl.Set) -> None:
    program, names, writer = outer.program, outer.names, outer.writer
    statement = next(s for s in program.statements if s.name == leaf.statement)
    guard = bounds.guard(leaf, known)
    depth = writer.indent
    if guard:
        writer.line(f"if {guard}:")
        writer.indent += 1
    mark = names.mark()
    bound = dict(zip(statement.iterators, leaf.instance, strict=True))
    axes = LeafAxes(program, ())
    emission = Emission(program, names, axes, writer, bound, layouts=outer.layouts, shapes=outer.shapes)
    writer.line(f"# {statement_text(statement)}" if len(statement_text(statement)) < 110 else f"# {statement.name}")
    emission.prepare(statement.value)
    value = run(emission.emit(statement.value))
    tensor = program.tensors[statement.tensor]
    writer.line(f"{names[statement.tensor]}[{emission.target(tensor, statement.position)}] = {value.text}")
    names.release(mark)
    writer.indent = depth
