"""What a program of a launch holds: the tiles that it computes, and those that are on their way to it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.codegen import Bounds
from ..compiler.ir.tree import Alloc, Loop, leaves, loops, placed
from ..passes.footprint import extents
from .count import count as counted
from .count import most, number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import sympy

    from ..compiler.ir.program import Program
    from ..compiler.ir.tree import Leaf, Node
    from .launches import Launch


@dataclass(frozen=True, eq=False)
class Loaded:
    """What a pipelined loop loads. *size*: bytes of all blocks of an iteration, what lies beyond an edge included;
    *stages*: how many versions of them there are; *times*: how often the loop's body runs, in all programs; *tensors*:
    those that the blocks are of."""

    size: int
    stages: int
    times: sympy.Expr | None
    tensors: frozenset[str]


@dataclass(frozen=True, eq=False)
class Held:
    """The tiles of a program. *lanes*: of the largest; *reduces*: whether lanes of one are combined; *sums*, *kept*:
    words of all accumulators, and of what else stays in an iteration of the grid; *loaded*: by its pipelined loops."""

    lanes: int
    reduces: bool
    sums: int
    kept: int
    loaded: tuple[Loaded, ...]

    @property
    def shared(self) -> int:
        """Bytes of shared memory: one pipelined loop after the other has the room."""
        return max((one.size * one.stages for one in self.loaded), default=0)

    def under_way(self, threads: int) -> int:
        """The bytes that are on their way or in use at once: the slots of a pipeline, or two loads of 16 bytes a
        thread."""
        return max(self.shared, 32 * threads)


def held(program: Program, launch: Launch) -> Held:
    """What a program of a launch holds, where its sizes are no question of the kernel's."""
    lanes, sums, kept = 1, 0, 0
    reduces = False
    sizes: dict[tuple[tuple[str, ...], int], int] = {}
    tensors: dict[tuple[tuple[str, ...], int], set[str]] = {}
    bounds = Bounds(program)
    blocks = {loop.index for loop in loops((launch.node,)) if loop.kind == "block"}
    for leaf in leaves((launch.node,)):
        sides = [most(leaf.domain, place) for place, index in enumerate(leaf.indices) if index in blocks]
        lanes = max(lanes, prod(n for n in sides if n))
        reduces |= _combines(program, leaf, blocks)
    for alloc, around, stages in _buffers((launch.node,), (), 1):
        counts = extents(program, alloc.body, alloc.tensor, around, bounds.start()) or []
        if not all(c.isdigit() for c in counts):
            continue
        words = prod(int(c) for c in counts) * program.tensors[alloc.tensor].dtype.bits // 32
        if stages > 1:
            sizes[around, stages] = sizes.get((around, stages), 0) + 4 * words
            tensors.setdefault((around, stages), set()).update(_copied(program, alloc.tensor))
        elif program.tensors[alloc.tensor].role == "accumulator":
            sums += words
        else:
            kept += words
    for key, tensor, size in _read_directly(program, launch):
        if key in sizes:
            sizes[key] += size
            tensors[key].add(tensor)
    found = (
        Loaded(size, stages, runs(launch, around[-1]), frozenset(tensors[around, stages]))
        for (around, stages), size in sizes.items()
    )
    return Held(lanes, reduces, sums, kept, tuple(found))


def _combines(program: Program, leaf: Leaf, blocks: set[str]) -> bool:
    """Whether a leaf takes several lanes of a tile to one number."""
    statement = program.statement(leaf.statement)
    if statement.kind not in ("update", "merge"):
        return False
    instance = dict(zip(statement.iterators, leaf.instance, strict=True))
    kept = {n for place in statement.position for i in place.names() if i in instance for n in instance[i].names()}
    return statement.kind == "merge" or any(index in blocks and index not in kept for index in leaf.indices)


def _read_directly(program: Program, launch: Launch) -> Iterator[tuple[tuple[tuple[str, ...], int], str, int]]:
    """What statements in pipelined loops read of memory without a buffer, in tiles: which loop, of which tensor, and
    how many bytes."""
    for item in placed((launch.node,)):
        deepest = next((place for place in reversed(range(len(item.loops))) if item.loops[place].stages > 1), None)
        statement = program.statement(item.leaf.statement)
        if deepest is None or program.stage(statement.stage).copies:
            continue
        key = (tuple(loop.index for loop in item.loops[: deepest + 1]), item.loops[deepest].stages)
        instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
        for access in statement.accesses:
            tensor = program.tensors[access.tensor]
            if access.kind != "read" or item.scope(access.tensor) or tensor.role == "accumulator":
                continue
            names = {
                n
                for p in access.affine
                if p is not None
                for i in p.names()
                if i in instance
                for n in instance[i].names()
            }
            places = [k for k, loop in enumerate(item.loops) if loop.kind == "block" and loop.index in names]
            lanes = prod(most(item.leaf.domain, place) or 1 for place in places)
            yield key, access.tensor, lanes * tensor.dtype.bits // 8


def _copied(program: Program, buffer: str) -> list[str]:
    """The tensor that a buffer is a copy of."""
    made = [s for s in program.statements if s.tensor == buffer]
    return [access.tensor for s in made for access in s.accesses if access.kind == "read"]


def _buffers(
    nodes: Sequence[Node], around: tuple[str, ...], stages: int
) -> Iterator[tuple[Alloc, tuple[str, ...], int]]:
    for node in nodes:
        match node:
            case Alloc():
                yield node, around, stages
                yield from _buffers(node.body, around, stages)
            case Loop():
                yield from _buffers(node.body, (*around, node.index), node.stages)
            case _:
                pass


def runs(launch: Launch, index: str) -> sympy.Expr | None:
    """How often the body of a loop runs in all programs of a launch; None where there is no formula."""
    points: isl.Set | None = None
    for leaf in leaves((launch.node,)):
        if index not in leaf.indices:
            continue
        place = leaf.indices.index(index)
        own = leaf.domain.project_out(isl.dim_type.set, place + 1, len(leaf.indices) - place - 1).reset_tuple_id()
        points = own if points is None else points.union(own).coalesce()
    return counted(points) if points is not None else None


def waits(program: Program, launch: Launch, sizes: Mapping[str, int], cached: set[str]) -> Iterator[tuple[float, bool]]:
    """The loops in which a program waits for what it reads, no pipeline running ahead: how often it does so, and
    whether all of it is in a cache, being one of the tensors *cached* or read before."""
    programs = launch.count(program, sizes)
    grid = {loop.index for loop in launch.grid}
    before = set(cached)
    in_memory = {name for name, tensor in program.tensors.items() if tensor.role in ("input", "output")}
    for loop in loops((launch.node,)):
        if loop.index in grid or loop.kind != "serial" or any(inner.stages > 1 for inner in (loop, *loops(loop.body))):
            continue
        formula = runs(launch, loop.index)
        statements = [program.statement(leaf.statement) for leaf in leaves(loop.body)]
        reads = {a.tensor for s in statements for a in s.accesses if a.kind == "read"} & in_memory
        if formula is not None:
            yield number(formula, sizes) / programs, bool(reads) and reads <= before
        before |= reads
