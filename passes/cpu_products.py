"""Sums of products on a CPU: tiles of registers over copied factors, or few rows through which a factor streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Index, Read, postorder
from .groups import dimensions, reads, reductions
from .recipe import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.program import Program, Stage
    from .groups import Group
    from .recipe import Steps

# Up to so many rows the other factor is read where it lies: a copy would be read less often than it is made.
FEW = 8


@dataclass(frozen=True)
class CpuSizes:
    """Of tiles: *rows* and *columns* of a tile that is kept in registers; *panel*, *width*: how many rows and columns
    have their factors copied at once; *depth*: terms of a sum that lie beside each other in a copy, or are taken
    together where nothing is copied; *length*: columns of what few rows are summed up in; *chunk*: elements of one
    index that a thread takes at a time; *side*: of square tiles."""

    rows: int = 6
    columns: int = 16
    panel: int = 480
    width: int = 2048
    depth: int = 16
    chunk: int = 16384
    side: int = 32
    length: int = 2048


def sizes_for(lanes: int, threads: int = 1) -> CpuSizes:
    """Tiles for registers of so many f32 (of AVX-512 there are 32, of others 16), and for so many threads: what they
    share, panels and the columns of few rows, is worth more than long runs."""
    rows, panel = (14, 336 if threads == 1 else 168) if lanes == 16 else (6, 168)
    length = 4096 if threads == 1 else 2048
    return CpuSizes(rows=rows, columns=2 * lanes, panel=panel, width=64 * 2 * lanes, length=length)


@dataclass(frozen=True)
class Product:
    """A reduction over tensors that have indices of their own: *row* is one that *left* has and *right* has not,
    *column* one that *right* has and *left* has not; *shared*: those that both have, or *right* beside its column."""

    stage: str
    row: str
    column: str
    left: str
    right: str
    shared: tuple[str, ...] = ()


def known_rows(program: Program, one: Product, at: Mapping[str, int]) -> int:
    """How many rows a product has at some sizes.

    Raises:
        KeyError: a size is missing.
    """
    (extent,) = (r for r in program.stage(one.stage).ranges if r.index == one.row)
    return min(e.evaluate(at) for e in extent.upper) - max(e.evaluate(at) for e in extent.lower)


def product(program: Program, stage: Stage) -> Product | None:
    """The reduction of an equation, if it reads two tensors, each with an index that the other one has not."""
    found = reductions(stage)
    if len(found) != 1 or found[0].order.kind != "ascending" or found[0].op in ("argmax", "argmin"):
        return None
    summed = {r.index for r in found[0].ranges}
    own = [r.index for r in stage.ranges]
    inside = [n for n in postorder(found[0].body) if isinstance(n, Read)]
    if len({r.tensor for r in inside}) != 2 or len(inside) != 2 or not summed:
        return None
    used = [{n for s in r.subscripts if isinstance(s, Index) for n in s.affine.names()} for r in inside]
    for left, right in ((0, 1), (1, 0)):
        rows = [n for n in own if n in used[left] and n not in used[right]]
        columns = [n for n in own if n in used[right] and n not in used[left]]
        if rows and columns and columns[-1] == own[-1]:
            shared = tuple(n for n in own if n in used[right] and n != columns[-1])
            return Product(stage.name, rows[-1], columns[-1], inside[left].tensor, inside[right].tensor, shared)
    return None


def streamed(steps: Steps, group: Group, one: Product, sizes: CpuSizes, rows: int) -> None:
    """So few rows that their sums stay in the first cache: the other factor passes once, some of its rows at a time,
    in the order in which it lies."""
    program = steps.state.program
    root = program.stage(group.root)
    of = dimensions(program, group)[one.stage]
    (row,), (column,) = of[one.row], of[one.column]
    rest = [f"{group.root}.{r.index}" for r in root.ranges if r.index not in (row, column)]
    block, columns = steps.split(f"{group.root}.{column}", sizes.length)
    ro, ri = steps.split(f"{group.root}.{row}", rows)
    steps.reorder(*rest, block, ro, ri, columns)
    for member in reversed(group.members):
        steps.compute_at(member, ro)
    own_row, own_columns, others = ri, columns, list[str]()
    if one.stage != group.root:
        own_row, own_columns = f"{one.stage}.{one.row}", f"{one.stage}.{one.column}"
        indices = [r.index for r in program.stage(one.stage).ranges]
        others = [f"{one.stage}.{n}" for n in indices if n not in (one.row, one.column)]
    vectors, lanes = steps.split(own_columns, sizes.columns // 2)
    (node,) = reductions(program.stage(one.stage))
    *summed, last = (f"{one.stage}.{r.index}" for r in node.ranges)
    ko, ki = steps.split(last, sizes.depth)
    steps.reorder(*summed, *others, ko, vectors, ki, own_row, lanes)
    if one.stage == group.root:
        steps.store(f"{one.stage}.acc", at=ro)
    for name in (*group.members, group.root):
        for loop in steps[name].loops:
            plain = _whole(loop)
            if plain == lanes or (name != one.stage and plain in (columns, f"{name}.{column}")):
                steps.vectorize(loop)
            elif plain in (ki, own_row):
                steps.unroll(loop)
    attempt(steps, steps.contract, one.stage)
    steps.parallel((*rest, block)[0])


def tiled(steps: Steps, group: Group, one: Product, sizes: CpuSizes) -> None:
    """Tiles of registers, inside panels whose factors are copied."""
    program = steps.state.program
    root = program.stage(group.root)
    of = dimensions(program, group)[one.stage]
    (row,), (column,) = of[one.row], of[one.column]
    order = [r.index for r in root.ranges]
    # The copy of the factor with columns is made once for all that it does not depend on.
    decided = {d for n in one.shared for d in of[n]}
    batch = [f"{group.root}.{n}" for n in order if n in decided]
    others = [f"{group.root}.{n}" for n in order if n not in (row, column, *decided)]
    panel, inner_row = steps.split(f"{group.root}.{row}", sizes.panel)
    width, inner_column = steps.split(f"{group.root}.{column}", sizes.width)
    ro, ri = steps.split(inner_row, sizes.rows)
    co, ci = steps.split(inner_column, sizes.columns)
    steps.reorder(*batch, width, *others, panel, co, ro, ri, ci)
    for member in reversed(group.members):
        steps.compute_at(member, ro)
    (node,) = reductions(program.stage(one.stage))
    *summed, last = (f"{one.stage}.{r.index}" for r in node.ranges)
    summed += steps.split(last, sizes.depth)
    if one.stage == group.root:
        steps.reorder(*summed, ri, ci)
        steps.store(f"{one.stage}.acc", at=ro)
    else:
        steps.reorder(*summed, *(f"{one.stage}.{r.index}" for r in program.stage(one.stage).ranges))
    outer = [*batch, width, *others, panel, co, ro, *summed]
    for name in (*group.members, group.root):
        for loop in steps[name].loops:
            if loop in outer:
                continue
            if _is_of(loop, one.column if name == one.stage else column, ci):
                steps.vectorize(loop)
            else:
                steps.unroll(loop)
    attempt(steps, steps.contract, one.stage)
    attempt(steps, _packed_columns, steps, one, width, sizes)
    packed = _packed_rows if _place(program, one.left, one.row) is not None else _packed_windows
    attempt(steps, packed, steps, one, panel, node.ranges[-1].index, sizes)
    steps.parallel((*batch, *others, panel)[0])


def _is_of(loop: str, column: str, inner: str) -> bool:
    """Whether a loop of a tile runs over its columns."""
    return _whole(loop).split(".")[-1] == column or _whole(loop) == inner


def _whole(loop: str) -> str:
    """The loop that one over its statements before or behind the sum is a part of."""
    return loop.removesuffix("_a").removesuffix("_b")


def _packed_columns(steps: Steps, one: Product, loop: str, sizes: CpuSizes) -> None:
    """A copy of the factor with columns, those of a tile beside each other."""
    program = steps.state.program
    place = _place(program, one.right, one.column)
    if place is None:
        return
    names = [f"d{n}" for n in range(program.tensors[one.right].rank)]
    rest = [n for n in names if n != names[place]]
    layout = ", ".join([f"{names[place]} // {sizes.columns}", *rest, f"{names[place]} % {sizes.columns}"])
    copy = steps.cache_read(one.right, loop, layout=f"({', '.join(names)}) -> ({layout})")
    loops = list(steps[copy].loops)[-len(names) :]
    outer, inner = steps.split(loops[place], sizes.columns)
    steps.reorder(outer, *(n for n in loops if n != loops[place]), inner)
    steps.vectorize(inner)
    attempt(steps, steps.parallel, outer)


def _packed_rows(steps: Steps, one: Product, loop: str, summed: str, sizes: CpuSizes) -> None:
    """A copy of the factor with rows, in squares of a tile's rows and of some terms of the sum: so they are copied by
    vectors, and the rows of a tile lie apart by a number."""
    program = steps.state.program
    row, term = (_place(program, one.left, index) for index in (one.row, summed))
    if row is None or term is None:
        return
    names = [f"d{n}" for n in range(program.tensors[one.left].rank)]
    rest = [n for n in names if n not in (names[row], names[term])]
    # Vectors run along the dimension whose elements lie beside each other.
    beside = row if row == len(names) - 1 else term
    if beside == row:
        rest.append(names[term])
        layout = ", ".join([f"{names[row]} // {sizes.rows}", *rest, f"{names[row]} % {sizes.rows}"])
    else:
        outer = [f"{names[row]} // {sizes.rows}", f"{names[term]} // {sizes.depth}"]
        inner = [f"{names[row]} % {sizes.rows}", f"{names[term]} % {sizes.depth}"]
        layout = ", ".join([*outer, *rest, *inner])
    copy = steps.cache_read(one.left, loop, layout=f"({', '.join(names)}) -> ({layout})")
    loops = list(steps[copy].loops)[-len(names) :]
    others = [n for d, n in enumerate(loops) if d not in (row, term)]
    ro, ri = steps.split(loops[row], sizes.rows)
    if beside == row:
        steps.reorder(ro, *others, loops[term], ri)
        steps.vectorize(ri)
        return
    to, ti = steps.split(loops[term], sizes.depth)
    steps.reorder(ro, to, *others, ri, ti)
    steps.vectorize(ti)


def _packed_windows(steps: Steps, one: Product, loop: str, summed: str, sizes: CpuSizes) -> None:
    """A copy of a factor whose rows overlap, as the windows of a convolution do: some terms of the sum beside each
    other, so that the rows of a tile lie apart by a number, and with what is read beyond the edges."""
    program = steps.state.program
    term = _place(program, one.left, summed)
    found = [r for stage in program.stages for r in reads(stage.value) if r.tensor == one.left]
    subscripts = found[0].subscripts if len(found) == 1 else ()
    moving = [d for d, s in enumerate(subscripts) if isinstance(s, Index) and one.row in s.affine.names()]
    if term is None or len(moving) != 1 or moving[0] == term:
        return
    names = [f"d{n}" for n in range(len(subscripts))]
    rest = [n for d, n in enumerate(names) if d not in (term, moving[0])]
    layout = [*rest, f"{names[term]} // {sizes.depth}", names[moving[0]], f"{names[term]} % {sizes.depth}"]
    padded = found[0].fill is not None
    copy = steps.cache_read(one.left, loop, layout=f"({', '.join(names)}) -> ({', '.join(layout)})", pad=padded)
    loops = list(steps[copy].loops)[-len(names) :]
    to, ti = steps.split(loops[term], sizes.depth)
    steps.reorder(*(n for d, n in enumerate(loops) if d not in (term, moving[0])), to, loops[moving[0]], ti)
    steps.vectorize(ti)


def _place(program: Program, tensor: str, index: str) -> int | None:
    """In which dimension of a tensor an index stands, alone, in every read of it, and in no other."""
    found: set[int | None] = set()
    for stage in program.stages:
        for read in reads(stage.value):
            if read.tensor == tensor:
                where = [(d, s.affine) for d, s in enumerate(read.subscripts) if isinstance(s, Index)]
                here = [(d, at) for d, at in where if index in at.names()]
                found.add(here[0][0] if len(here) == 1 and here[0][1].bare == index else None)
    return found.pop() if len(found) == 1 else None
