"""A schedule for a CPU: a fixed heuristic made of steps that anybody could take, each of them checked.

Elementwise equations are written into their readers, but for functions of a row that several read. Then each output, or
tensor that is kept, is one nest. A sum of products whose factors have indices of their own gets tiles of registers, and
copies of its factors in the order in which they are read; rows that are reduced stay in a buffer of one row; all else
runs along the last index. The last index is a vector's, the first one parallel. Where a step is refused, the heuristic
does without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Index, Read, Reduce, postorder
from .auto import inline_all
from .groups import dimensions, groups, reads, reductions, transposed
from .recipe import attempt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Program, Stage
    from .groups import Group
    from .recipe import Steps


@dataclass(frozen=True)
class CpuSizes:
    """Of tiles: *rows* and *columns* of a tile that is kept in registers; *panel*, *width*: how many rows and columns
    have their factors copied at once; *packed*: whether they have; *depth*: terms of a sum that lie beside each other
    in a copy; *chunk*: elements of one index that a thread takes at a time; *side*: of square tiles."""

    rows: int = 6
    columns: int = 16
    panel: int = 480
    width: int = 2048
    depth: int = 64
    chunk: int = 16384
    side: int = 32
    packed: bool = True


def sizes_for(lanes: int) -> CpuSizes:
    """Tiles for registers of so many f32: of AVX-512 there are 32, of others 16."""
    rows = 14 if lanes == 16 else 6
    return CpuSizes(rows=rows, columns=2 * lanes, panel=rows * (12 if lanes == 16 else 28), width=64 * 2 * lanes)


def few_rows(sizes: CpuSizes, rows: int) -> CpuSizes:
    """The tiles for so few rows that a copy of the other factor would be read less often than it is made."""
    columns = sizes.columns * max(1, min(4, 8 // rows))
    return replace(sizes, rows=rows, columns=columns, panel=rows, width=4 * columns, packed=False)


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


# Below so many rows factors are read where they lie.
FEW = 8


def schedule_for_cpu(steps: Steps, sizes: CpuSizes, at: Mapping[str, int] | None = None) -> None:
    """Take the steps. What no recipe fits stays as it is, and runs element by element.

    *at*: sizes that it is made for; it runs at others as well.
    """
    inline_all(steps, None)
    program = steps.state.program
    for group in groups(program):
        names = (*group.members, group.root)
        found = [p for n in names if (p := product(program, program.stage(n))) is not None]
        if len(found) == 1 and attempt(steps, _tiles, steps, group, found[0], _fitting(program, found[0], sizes, at)):
            continue
        if any(reductions(program.stage(n)) for n in names) and attempt(steps, _rows, steps, group):
            continue
        attempt(steps, _elements, steps, group, sizes)


def _fitting(program: Program, one: Product, sizes: CpuSizes, at: Mapping[str, int] | None) -> CpuSizes:
    """The tiles for a product whose rows are known."""
    if at is None:
        return sizes
    (extent,) = (r for r in program.stage(one.stage).ranges if r.index == one.row)
    count = min(e.evaluate(at) for e in extent.upper) - max(e.evaluate(at) for e in extent.lower)
    return few_rows(sizes, count) if 0 < count <= FEW else sizes


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


def _tiles(steps: Steps, group: Group, one: Product, sizes: CpuSizes) -> None:
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
    if sizes.packed:
        attempt(steps, _packed_columns, steps, one, width, sizes)
        attempt(steps, _packed_rows, steps, one, panel, node.ranges[-1].index, sizes)
    steps.parallel((*batch, *others, panel if sizes.packed else width)[0])


def _is_of(loop: str, column: str, inner: str) -> bool:
    """Whether a loop of a tile runs over its columns."""
    name = loop.split(".")[-1].removesuffix("_a").removesuffix("_b")
    return name == column or loop.removesuffix("_a").removesuffix("_b") == inner


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


def _packed_rows(steps: Steps, one: Product, loop: str, summed: str, sizes: CpuSizes) -> None:
    """A copy of the factor with rows, in squares of a tile's rows and of some terms of the sum: so they are copied by
    vectors, and the rows of a tile lie apart by a number."""
    program = steps.state.program
    row, term = (_place(program, one.left, index) for index in (one.row, summed))
    if row is None or term is None:
        return
    names = [f"d{n}" for n in range(program.tensors[one.left].rank)]
    rest = [n for n in names if n not in (names[row], names[term])]
    outer = [f"{names[row]} // {sizes.rows}", f"{names[term]} // {sizes.depth}"]
    inner = [f"{names[row]} % {sizes.rows}", f"{names[term]} % {sizes.depth}"]
    layout = ", ".join([*outer, *rest, *inner])
    copy = steps.cache_read(one.left, loop, layout=f"({', '.join(names)}) -> ({layout})")
    loops = list(steps[copy].loops)[-len(names) :]
    others = [n for d, n in enumerate(loops) if d not in (row, term)]
    ro, ri = steps.split(loops[row], sizes.rows)
    to, ti = steps.split(loops[term], sizes.depth)
    steps.reorder(ro, to, *others, ri, ti)
    steps.vectorize(ti)


def _place(program: Program, tensor: str, index: str) -> int | None:
    """In which dimension of a tensor an index stands, alone, in every read of it."""
    found: set[int | None] = set()
    for stage in program.stages:
        for read in reads(stage.value):
            if read.tensor == tensor:
                here = [d for d, s in enumerate(read.subscripts) if isinstance(s, Index) and s.affine.bare == index]
                found.add(here[0] if len(here) == 1 and read.fill is None else None)
    return found.pop() if len(found) == 1 else None


def _rows(steps: Steps, group: Group) -> None:
    """A row at a time: what only it needs is computed in the row's iteration."""
    program = steps.state.program
    root = program.stage(group.root)
    names = (*group.members, group.root)
    reduced = [n for n in names if reductions(program.stage(n))]
    of = dimensions(program, group)
    shared = [r.index for r in root.ranges if all(any(r.index in d for d in of[m].values()) for m in reduced)]
    if not shared:
        return
    grid = [f"{group.root}.{n}" for n in shared]
    steps.reorder(*grid, *(f"{group.root}.{r.index}" for r in root.ranges if r.index not in shared))
    for member in reversed(group.members):
        steps.compute_at(member, grid[-1])
    for name in names:
        stage = program.stage(name)
        lanes = [n for n in reductions(stage) if n.order.kind == "lanes"]
        if lanes:
            attempt(steps, _lanes, steps, name, lanes[0])
        elif reductions(stage):
            # Legal where the order of the sum makes no difference, or is left free.
            attempt(steps, steps.vectorize, f"{name}.{reductions(stage)[0].ranges[-1].index}")
        else:
            last = steps[name].loops[-1]
            if last not in grid:
                attempt(steps, steps.vectorize, last)
    steps.parallel(grid[0])


def _lanes(steps: Steps, name: str, node: Reduce) -> None:
    """A sum that goes by lanes, a vector of them at a time."""
    loop = f"{name}.{node.ranges[-1].index}"
    _, inner = steps.split(loop, node.order.size)
    steps.vectorize(inner)
    for own in steps[name].loops:
        if own.split(".")[-1] == "lane":
            steps.vectorize(own)


def _elements(steps: Steps, group: Group, sizes: CpuSizes) -> None:
    root = steps.state.program.stage(group.root)
    order: Sequence[str] = [f"{group.root}.{r.index}" for r in root.ranges]
    if not order or reductions(root):
        return
    other = transposed(root, root.ranges[-1].index)
    if other is not None:
        # Elements of one line of the cache are read in rows, and written in columns.
        across, along = f"{group.root}.{other}", order[-1]
        ao, bo, _, bi = steps.tile(across, along, sizes.side, sizes.side)
        rest = [n for n in order if n not in (across, along)]
        steps.reorder(*rest, ao, bo)
        steps.vectorize(bi)
        steps.parallel(rest[0] if rest else ao)
        return
    if len(order) == 1:
        outer, inner = steps.split(order[0], sizes.chunk)
        steps.vectorize(inner)
        steps.parallel(outer)
        return
    steps.vectorize(order[-1])
    steps.parallel(order[0])
