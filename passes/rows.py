"""What a group of equations reads of the row that it works on, and whether that row is one of a few pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.expr import Index
from ..compiler.ir.quasiaffine import Affine
from .groups import dimensions, greatest, reads, reductions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.expr import Read
    from ..compiler.ir.program import Program
    from .groups import Group

# The places of a read at which an index of the root stands, with that index.
Row = frozenset[tuple[int, str]]


def piece_of_row(program: Program, group: Group, rows: Sequence[str], longest: int) -> int:
    """How long the pieces of a row are whose sums go by lanes, each of which is a tile; 0 where it is no such row.

    All that the group's equations run over beside *rows* must be the row, of one and the same length at any size.
    """
    lanes: set[int] = set()
    lengths: set[int | None] = set()
    for name in (*group.members, group.root):
        inside = along_row(program, group, name, rows)
        if len(inside) > 1:
            return 0
        lanes |= {n.order.size for n in reductions(program.stage(name)) if n.order.kind == "lanes"}
        lengths |= {_length(program, name, index) for index in inside}
    if len(lanes) != 1 or len(lengths) != 1:
        return 0
    (piece,), (length,) = lanes, lengths
    return piece if length is not None and piece < length <= longest else 0


def along_row(program: Program, group: Group, name: str, rows: Sequence[str]) -> list[str]:
    """The indices of an equation that do not say which row it works on: those of its sums, and its own."""
    stage, of = program.stage(name), dimensions(program, group)[name]
    summed = [r.index for node in reductions(stage) for r in node.ranges]
    return [*summed, *(r.index for r in stage.ranges if not of[r.index] & set(rows))]


def _length(program: Program, stage: str, index: str) -> int | None:
    """How many values an index has, if it has the values from 0 on, and as many at any size and for any others."""
    last = greatest(program, stage, index)
    for statement in program.statements_of(stage):
        if last is None or index not in statement.iterators:
            continue
        points, place = program.domain(statement), statement.iterators.index(index)
        whole = points.eliminate(isl.dim_type.set, place, 1)
        whole = whole.lower_bound_val(isl.dim_type.set, place, isl.Val(0))
        whole = whole.upper_bound_val(isl.dim_type.set, place, isl.Val(last))
        if not whole.is_equal(points):
            return None
    return None if last is None else last + 1


def read_again(program: Program, group: Group, rows: Sequence[str]) -> list[str]:
    """The tensors in memory that several equations of a group read, each of them the elements of its own row alone.

    *rows*: the root's indices that say which row it is.
    """
    return [
        tensor
        for tensor, seen in _seen(program, group, rows).items()
        if len({name for name, _, _ in seen}) > 1
        and len({row for _, _, row in seen}) == 1
        and seen[0][2]
        and {index for _, index in seen[0][2]} == set(rows)
    ]


def read_along(program: Program, group: Group, rows: Sequence[str]) -> list[str]:
    """The tensors in memory of which a group reads nothing but a row: its own, or one that all rows have in common."""
    found: list[str] = []
    for tensor, seen in _seen(program, group, rows).items():
        alike = {row for _, _, row in seen}
        last = {len(read.subscripts) - 1 for _, read, _ in seen}
        if len(alike) == 1 and seen[0][2] is not None and not {place for place, _ in seen[0][2]} & last:
            found.append(tensor)
    return found


def _seen(program: Program, group: Group, rows: Sequence[str]) -> dict[str, list[tuple[str, Read, Row | None]]]:
    """For each tensor in memory the reads of it: the equation, the read, and the row that it reads."""
    of = dimensions(program, group)
    own = {program.stage(name).tensor for name in (*group.members, group.root)}
    found: dict[str, list[tuple[str, Read, Row | None]]] = {}
    for name in (*group.members, group.root):
        inner = {r.index for node in reductions(program.stage(name)) for r in node.ranges}
        for read in reads(program.stage(name).value):
            if read.tensor not in own:
                row = _row(read, of[name], inner, rows)
                found.setdefault(read.tensor, []).append((name, read, row))
    return found


def _row(read: Read, of: Mapping[str, frozenset[str]], inner: set[str], rows: Sequence[str]) -> Row | None:
    """At which places of a read which row of the root stands; None where a place has more than an index."""
    found: set[tuple[int, str]] = set()
    for place, position in enumerate(read.subscripts):
        if not isinstance(position, Index) or read.fill is not None:
            return None
        names = list(position.affine.names())
        if len(names) != 1 or position.affine != Affine.name(names[0]):
            return None
        decided = frozenset() if names[0] in inner else of.get(names[0], frozenset())
        if decided & set(rows):
            if len(decided) > 1:
                return None
            found |= {(place, index) for index in decided}
    return frozenset(found)
