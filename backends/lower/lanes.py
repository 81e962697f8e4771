"""The axes of tiles: block loops from 0 on, joined where they index one dimension of one tile."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.quasiaffine import Affine, Division
from ...compiler.ir.tree import instance_map, loops, placed
from ...passes.dependence import dependences
from .extents import extent_of, greatest, power
from .tile import Axis

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...compiler.ir.program import Access, Program
    from ...compiler.ir.tree import Node, Placed

MATRIX = 16  # the fewest rows, columns or terms that a matrix unit takes


@dataclass(frozen=True, eq=False)
class Lanes:
    """The axes of a tree: *axis_of*: block loop -> its axis; *tiles*: tensor -> the axis of each dimension (None: it
    has none there); *reach*: how many values loops have at most, at any size, those that begin at 0; *slices*: tensor
    -> the constants of the positions at which its tiles begin, a tile each."""

    axes: dict[str, Axis]
    axis_of: Mapping[str, str]
    tiles: Mapping[str, tuple[str | None, ...]]
    reach: Mapping[str, int]
    slices: Mapping[str, tuple[tuple[int, ...], ...]]

    def tile(self, tensor: str, places: Sequence[Affine]) -> str:
        """The name of the tile that holds a tensor's elements there; *places*: as `Scene.place` has them."""
        slices = self.slices[tensor]
        if len(slices) == 1:
            return tensor
        begin = tuple(p.constant for p in places)
        return f"{tensor}.{slices.index((*begin, *slices[0][len(begin) :]))}"

    def tiles_of(self, tensor: str) -> tuple[str, ...]:
        """The names of all of its tiles."""
        count = len(self.slices[tensor])
        return (tensor,) if count == 1 else tuple(f"{tensor}.{n}" for n in range(count))


def find_lanes(program: Program, tree: Sequence[Node]) -> Lanes:
    """The axes and tiles of a tree whose block loops start at 0.

    Raises:
        IllegalTransformError: a block loop has no constant bound (rule shape).
    """
    items = placed(tree)
    used: dict[str, int] = {}
    for loop in loops(tree):
        if loop.kind == "block":
            used[loop.index] = max(used.get(loop.index, 1), extent_of(program, loop))
    others = ((loop.index, greatest(program, loop)) for loop in loops(tree) if loop.kind != "block")
    reach = {**used, **{n: found + 1 for n, found in others if found is not None}}
    group = {name: name for name in used}
    tiles: dict[str, tuple[str | None, ...]] = {}
    slices: dict[str, tuple[tuple[int, ...], ...]] = {}
    for tensor in _candidates(program, items):
        found = _tile(program, items, tensor, used, reach)
        if found is None:
            continue
        columns, slices[tensor] = found
        for column in columns:
            for name in column[1:]:
                _join(group, column[0], name)
        tiles[tensor] = tuple(column[0] if column else None for column in columns)
    roots = {name: _root(group, name) for name in used}
    extent: dict[str, int] = {}
    for name, root in roots.items():
        extent[root] = max(extent.get(root, 1), used[name])
    words = _words(roots)
    axes = {words[r]: Axis(words[r], power(n), n) for r, n in extent.items()}
    axis_of = {name: words[root] for name, root in roots.items()}
    held = {t: tuple(axis_of[n] if n else None for n in dims) for t, dims in tiles.items()}
    return Lanes(axes, axis_of, held, reach, slices)


def widened(lanes: Lanes, wider: Mapping[str, int]) -> Lanes:
    """The lanes with some axes at least so wide."""
    found = {n: replace(a, extent=max(a.extent, wider.get(n, 1))) for n, a in lanes.axes.items()}
    return replace(lanes, axes=found)


def _candidates(program: Program, items: Sequence[Placed]) -> Iterator[str]:
    """Tensors that may be tiles: neither given nor results, touched under one nest."""
    for name, tensor in program.tensors.items():
        if tensor.role in ("input", "constant") or name in program.outputs:
            continue
        users = [item for item in items if _accesses(program, item, name)]
        if users and len({item.places[0] for item in users}) == 1 and all(item.loops for item in users):
            yield name


def _accesses(program: Program, item: Placed, tensor: str) -> list[Access]:
    return [a for a in program.statement(item.leaf.statement).accesses if a.tensor == tensor]


def _tile(
    program: Program, items: Sequence[Placed], tensor: str, used: Mapping[str, int], reach: Mapping[str, int]
) -> tuple[list[list[str]], tuple[tuple[int, ...], ...]] | None:
    """For each dimension the block loops that run over it, and where its tiles begin; None where it is no tile.

    It is one if every access is the same slice: in each dimension an offset in sizes and common outer loops, plus at
    most one block index; and if no value lives on from one iteration of those loops to the next. Slices that lie apart
    by constants are several tiles.
    """
    users = [item for item in items if _accesses(program, item, tensor)]
    common = _common(users)
    columns: list[list[str]] = [[] for _ in range(program.tensors[tensor].rank)]
    offsets: list[list[Affine | None]] = [[] for _ in columns]
    for item in users:
        statement = program.statement(item.leaf.statement)
        instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
        for access in _accesses(program, item, tensor):
            for dimension, value in enumerate(access.affine):
                if value is None or access.padded:
                    return None
                if access.free and dimension == len(access.affine) - 1:
                    offsets[dimension].append(None)  # the lanes that a merge reads, all of them
                    continue
                place = simplified(value.substituted(instance), reach)
                found = [n for n in place.names() if n in used]
                if len(set(found)) > 1 or (found and dict(place.terms).get(found[0]) != 1):
                    return None
                offset = place - Affine.name(found[0]) if found else place
                if any(n in used for n in offset.names()) or any(
                    n not in common and n not in program.sizes for n in offset.names()
                ):
                    return None
                offsets[dimension].append(offset)
                columns[dimension] += found
                if bool(found) != bool(columns[dimension]):
                    return None
    if any(len(set(c)) != len(c) for c in _by_leaf(users, columns)):
        return None
    slices = _slices(offsets, [max((used[n] for n in column), default=1) for column in columns])
    whole = all(_in_every(program, users, tensor, d, c, used, reach) for d, c in enumerate(columns))
    return (columns, slices) if slices and whole and _stays(program, items, tensor, len(common)) else None


def _slices(offsets: Sequence[Sequence[Affine | None]], widths: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """The constants at which slices begin; None where they differ by more than constants, or overlap.

    *offsets*: for each dimension those of all accesses (None: all of it); *widths*: how many lanes slices have there.
    """
    constants: list[list[int]] = []
    for dimension in offsets:
        found = [o for o in dimension if o is not None]
        begins = {o.constant for o in found}
        if len({o - o.constant for o in found}) > 1 or (len(found) < len(dimension) and len(begins) > 1):
            return None
        constants.append([min(begins, default=0) if o is None else o.constant for o in dimension])
    slices = sorted(set(zip(*constants, strict=True)))
    for one, other in itertools.combinations(slices, 2):
        if all(abs(a - b) < width for a, b, width in zip(one, other, widths, strict=True)):
            return None
    return tuple(slices) or ((),)


def _by_leaf(users: Sequence[Placed], columns: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """For each leaf the block loops of the dimensions: two dimensions with one are a diagonal."""
    for item in users:
        yield [n for n in item.leaf.indices for column in columns if n in column]


def _in_every(
    program: Program,
    users: Sequence[Placed],
    tensor: str,
    dimension: int,
    column: Sequence[str],
    used: Mapping[str, int],
    reach: Mapping[str, int],
) -> bool:
    """Whether every access of a dimension has a block index, or none has."""
    if not column:
        return True
    for item in users:
        statement = program.statement(item.leaf.statement)
        instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
        for access in _accesses(program, item, tensor):
            value = access.affine[dimension]
            if access.free and dimension == len(access.affine) - 1:
                continue
            if value is None or not any(n in used for n in simplified(value.substituted(instance), reach).names()):
                return False
    return True


def _common(users: Sequence[Placed]) -> list[str]:
    """The loops around all of some leaves that are no block loops."""
    found = [[loop.index for loop in item.loops if loop.kind != "block"] for item in users]
    shared = list(found[0])
    for names in found[1:]:
        count = next(
            (i for i, (a, b) in enumerate(zip(shared, names, strict=False)) if a != b), min(len(shared), len(names))
        )
        shared = shared[:count]
    return shared


def _stays(program: Program, items: Sequence[Placed], tensor: str, depth: int) -> bool:
    """Whether each value of a tensor is read in the iteration of the outer loops that computes it."""
    for flow in dependences(program):
        if flow.kind != "flow" or flow.tensor != tensor:
            continue
        for a in items:
            for b in items:
                if (a.leaf.statement, b.leaf.statement) != (flow.source, flow.target):
                    continue
                source, target = instance_map(program, a.leaf), instance_map(program, b.leaf)
                pairs = source.apply_range(flow.relation).apply_range(target.reverse())
                scope = len(a.scope(tensor))
                for level in range(min(scope, depth)):
                    pairs = pairs.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
                together = pairs
                for level in range(depth):
                    together = together.equate(isl.dim_type.in_, level, isl.dim_type.out, level)
                if not pairs.is_subset(together):
                    return False
    return True


def simplified(value: Affine, used: Mapping[str, int]) -> Affine:
    """An expression in which divisions are carried out that lanes do not reach: (16 * ko + ki) % 16 is ki."""
    total = Affine.number(value.constant)
    for term, factor in value.terms:
        if not isinstance(term, Division):
            total += Affine.name(term).scaled(factor)
            continue
        inner = simplified(term.numerator, used)
        whole = Affine.number(inner.constant // term.divisor)
        rest = Affine.number(inner.constant % term.divisor)
        for name, count in inner.terms:
            part = Affine(((name, count),))
            if count % term.divisor == 0:
                whole += Affine(((name, count // term.divisor),))
            else:
                rest += part
        reach = rest.constant
        known = True
        for name, count in rest.terms:
            known = known and isinstance(name, str) and name in used and count > 0
            reach += count * (used.get(name, 1) - 1) if isinstance(name, str) else 0
        if known and reach < term.divisor:
            total += (whole if term.kind == "//" else rest).scaled(factor)
        else:
            total += inner.divided(term.kind, term.divisor).scaled(factor)
    return total


def _join(group: dict[str, str], a: str, b: str) -> None:
    group[_root(group, b)] = _root(group, a)


def _root(group: Mapping[str, str], name: str) -> str:
    while group[name] != name:
        name = group[name]
    return name


def _words(roots: Mapping[str, str]) -> dict[str, str]:
    """A short name for each axis, after the first loop of it."""
    taken: dict[str, str] = {}
    for root in dict.fromkeys(roots.values()):
        word = root.split(".")[-1]
        number = 1
        while word in taken.values():
            number += 1
            word = f"{root.split('.')[-1]}{number}"
        taken[root] = word
    return taken
