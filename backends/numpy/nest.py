"""A scheduled kernel in NumPy, loop by loop: slow, and exactly what the schedule says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...compiler.ir.affine import make_map
from ...compiler.ir.codegen import Bounds, as_params, without
from ...compiler.ir.program import Extent, Program, Tensor
from ...compiler.ir.quasiaffine import TRUE, Affine, All
from ...compiler.ir.show import statement_text
from ...compiler.ir.trampoline import Deep, run
from ...compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves
from .axes import Axes
from .emit import bind_arguments, helper_names, module_text
from .expressions import Expressions
from .naming import Names
from .text import Value, Writer, type_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import islpy as isl

    from ...compiler.ir.expr import Partial, Read


def emit_nest(program: Program, tree: Sequence[Node], heading: str) -> str:
    """The text of a module with one function that runs a loop tree; *heading* is put above its body as comments.

    Arguments and results are those of `emit.emit`.
    """
    private = {node.tensor for node in _allocs(tree)}
    program = replace(program, tensors={n: _boxed(t) if n in private else t for n, t in program.tensors.items()})
    names = Names(program, helper_names())
    body = Writer(indent=1)
    for line in heading.splitlines():
        body.line(f"# {line}".rstrip())
    bind_arguments(program, names, body)
    outer = Emission(program, names, Axes(program, ()), body)
    for name, tensor in program.tensors.items():
        if tensor.role in ("input", "constant") or name in private:
            continue
        outer.allocate(name)
    bounds = Bounds(program, lambda name: names[name])
    _write(outer, tree, bounds, (), bounds.start())
    body.line(f"return {', '.join(names[o] for o in program.outputs)}")
    return module_text(program, names, "\n".join(body.lines))


def _allocs(nodes: Sequence[Node]) -> list[Alloc]:
    found: list[Alloc] = []
    for node in nodes:
        if isinstance(node, Alloc):
            found.append(node)
        if not isinstance(node, Leaf):
            found += _allocs(node.body)
    return found


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


@dataclass
class Emission(Expressions):
    """Expressions of one leaf, all scalars."""

    def allocate(self, tensor: str) -> None:
        """The line that makes a tensor."""
        found = self.program.tensors[tensor]
        sizes = [self.extent_text(e) for e in found.extents]
        shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
        self.writer.line(f"{self.names[tensor]} = np.zeros({shape}, {type_text(found.dtype)})")

    def merged(self, node: Partial) -> Deep[Value]:
        """The adjacent-pair merge of the lanes of an accumulator."""
        tensor = self.program.tensors[node.tensor]
        positions = [self.place(sub.affine, extent) for sub, extent in zip(node.prefix, tensor.extents, strict=False)]
        text = ", ".join([*positions, ":"])
        return Value(f"pairwise_{node.op}({self.names[node.tensor]}[{text}])")
        yield

    def place(self, position: Affine, extent: Extent) -> str:
        """A position of a tensor as an index of its array."""
        if len(extent.lower) == 1:
            return self.integer(self.substituted(position) - extent.lower[0]).text
        return self.from_origin(self.integer(position), extent).text


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
                span = f"reversed({span})" if node.descending else span
                writer.line(f"for {names[node.index]} in {span}:{note}")
                writer.indent += 1
                _write(outer, node.body, bounds, (*around, node.index), inside)
                writer.indent = depth
            case Alloc():
                for position, (low, high) in enumerate(_box(program, node, bounds, around, known)):
                    writer.line(f"{names[f'{node.tensor} low {position}']} = {low}")
                    writer.line(f"{names[f'{node.tensor} high {position}']} = {high}")
                outer.allocate(node.tensor)
                _write(outer, node.body, bounds, around, known)


def _box(
    program: Program, alloc: Alloc, bounds: Bounds, around: tuple[str, ...], known: isl.Set
) -> list[tuple[str, str]]:
    """The ends of what is written to a private tensor, for one iteration of the loops around."""
    statements = {s.name: s for s in program.statements}
    rank = program.tensors[alloc.tensor].rank
    places = tuple(f"place {p}" for p in range(rank))
    union: isl.Set | None = None
    for leaf in leaves(alloc.body):
        statement = statements[leaf.statement]
        if statement.tensor != alloc.tensor:
            continue
        instance = dict(zip(statement.iterators, leaf.instance, strict=True))
        images = [*(Affine.name(n) for n in around), *(a.substituted(instance) for a in statement.position)]
        relation = make_map(program.sizes, leaf.indices, images, All()).intersect_domain(leaf.domain)
        points = as_params(relation.range(), (*around, *places))
        union = points if union is None else union.union(points)
    assert union is not None
    return [bounds.ends(without(union, [p for p in places if p != place]), place, known) for place in places]


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
    emission = Emission(program, names, axes, writer, bound)
    writer.line(f"# {statement_text(statement)}" if len(statement_text(statement)) < 110 else f"# {statement.name}")
    emission.prepare(statement.value)
    value = run(emission.emit(statement.value))
    tensor = program.tensors[statement.tensor]
    target = ", ".join(emission.place(a, e) for a, e in zip(statement.position, tensor.extents, strict=True)) or "()"
    writer.line(f"{names[statement.tensor]}[{target}] = {value.text}")
    names.release(mark)
    writer.indent = depth
