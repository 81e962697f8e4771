"""What the parts of a launch with roles do: loads of boxes, products of them, what is handed on, and the end.

A launch has that form if a program runs tile after tile, and a tile is: sums that start from numbers, a pipelined loop
in which boxes are loaded and multiplied, and operations lane by lane on the sums, up to stores of boxes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from ..lower.lifetimes import refs
from ..lower.refusing import cannot
from ..lower.tile import Dot, Elem, For, Full, If, Integer, Let, Load, Ref, Store, Where, statements_of, values_of
from .blocks import Descriptor, axis_of
from .products import added, sides

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from ...compiler.ir.quasiaffine import Affine
    from ..lower.tile import Axis, Roles, Stmt, Tiles
    from ..naming import Names
    from .blocks import Block
    from .grid import Grid

# A consumer is a group of four warps; more than two of them leave the matrix unit too few registers.
CONSUMERS = 2
WARPGROUP, ROWS, COLUMNS = 128, 64, 256
# Sums that a thread holds at most, and bytes of shared memory that a program has.
HELD, SHARED = 200, 232_448 - 1024


@dataclass(frozen=True, eq=False)
class Fetch:
    """A box that the producer loads: *parts* pieces, one below the other along *along*, into as many slots a turn."""

    let: Let
    box: Descriptor
    starts: tuple[Affine, ...]
    slots: str
    parts: int
    along: int


@dataclass(frozen=True, eq=False)
class Product:
    """`let` adds a product of two fetched boxes to a sum; *turned*: whether each is taken with its axes exchanged."""

    let: Let
    a: Fetch
    b: Fetch
    turned: tuple[bool, bool]


@dataclass(frozen=True, eq=False)
class Handed:
    """A tile that the consumers hand to the epilogue; *slots*: a buffer for each consumer, with their events."""

    tensor: str
    dtype: DType
    slots: str
    full: str
    empty: str


@dataclass(frozen=True, eq=False)
class Put:
    """A store of a box; *slots*: the buffers that it goes by; *own*: whether they are nobody else's."""

    store: Store
    box: Descriptor
    starts: tuple[Affine, ...]
    slots: str
    own: bool


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts of a launch. *rows*, *columns*: the axes of its tile; *depth*: slots of the ring; *computed*: what the
    consumers do behind the loop, *finished*: what the epilogue does with what is handed on."""

    loop: For
    consumers: int
    starts: tuple[Let, ...]
    fetches: tuple[Fetch, ...]
    products: tuple[Product, ...]
    computed: tuple[Let, ...]
    handed: tuple[Handed, ...]
    finished: tuple[Let, ...]
    puts: tuple[Put, ...]
    rows: Axis
    columns: Axis

    @property
    def height(self) -> int:
        """The rows of one consumer."""
        return self.rows.extent // self.consumers

    @property
    def helpers(self) -> list[int]:
        """The warps of the epilogue, if there is one, and of the producer."""
        return [2, 1] if self.handed else [1]

    @property
    def registers(self) -> tuple[int, int, int]:
        """Of a thread: as the kernel is compiled, of a consumer, of a helper. A warp takes 32 of 65,536 for each."""
        warps = 4 * self.consumers + 4
        helper = 72 if self.handed else 24
        consumer = min(240, (2048 - 4 * helper) // (4 * self.consumers) // 8 * 8)
        return min(248, 2048 // warps // 8 * 8), consumer, helper


def parts_of_launch(
    program: Program, names: Names, tiles: Tiles, grid: Grid, body: Sequence[Stmt], blocks: Mapping[int, Block]
) -> Parts | None:
    """The parts of a launch; None where no loop has roles.

    Raises:
        IllegalTransformError: it has another form (rule target).
    """
    found = [loop for loop in statements_of(body) if isinstance(loop, For) and loop.roles is not None]
    if not found:
        return None
    loop = found[0]
    assert loop.roles is not None
    finder = _Finder(program, names, tiles, blocks, loop, loop.roles)
    if len(found) > 1 or loop not in body:
        raise finder.refuse("it does not stand alone in a tile of the grid", "leave the roles out")
    place = body.index(loop)
    return finder.parts(grid, body[:place], body[place + 1 :])


@dataclass
class _Finder:
    """Looks for the parts, and refuses what is none of them."""

    program: Program
    names: Names
    tiles: Tiles
    blocks: Mapping[int, Block]
    loop: For
    roles: Roles

    def refuse(self, text: str, remedy: str) -> Exception:
        return cannot(self.program, f"the roles of {self.loop.index}: {text}", remedy)

    def parts(self, grid: Grid, before: Sequence[Stmt], after: Sequence[Stmt]) -> Parts:
        if not grid.shared:
            raise self.refuse("a program runs one tile only", 'bind the outermost loop of the grid to "processors"')
        if not 1 <= self.roles.consumers <= CONSUMERS:
            raise self.refuse(
                f"{self.roles.consumers} consumers", f"1 to {CONSUMERS}: more would have too few registers"
            )
        if self.loop.condition or self.loop.descending:
            raise self.refuse(
                "the loop has a condition, or runs down", "let it run from its first iteration to its last"
            )
        starts = [stmt for stmt in before if isinstance(stmt, Let) and isinstance(stmt.value, Full) and not stmt.keep]
        if len(starts) != len(before):
            raise self.refuse("before the loop more happens than that sums start", "compute it elsewhere")
        loads, adds = self._inside()
        rows, columns = self._tile(adds)
        fetches = {let.name: self._fetch(let, rows) for let in loads}
        products = [self._product(let, fetches, rows, columns) for let in adds]
        computed, handed, finished, puts = self._behind(after, rows, columns)
        found = Parts(
            self.loop, self.roles.consumers, tuple(starts), tuple(fetches.values()), tuple(products), tuple(computed),
            tuple(handed), tuple(finished), tuple(puts), rows, columns,
        )  # fmt: skip
        self._require_room(found)
        return found

    def _inside(self) -> tuple[list[Let], list[Let]]:
        """The loads and the products of the loop."""
        loads: list[Let] = []
        adds: list[Let] = []
        for stmt in self.loop.body:
            if isinstance(stmt, Let) and not stmt.keep and id(stmt.value) in self.blocks:
                loads.append(stmt)
            elif isinstance(stmt, Let) and not stmt.keep and _added(stmt) is not None:
                adds.append(stmt)
            else:
                text = "inside the loop more happens than that boxes are loaded and multiplied"
                raise self.refuse(text, "cache_read the factors at the loop, in boxes, and block all other loops")
        if not adds or len({let.name for let in adds}) != len(adds):
            raise self.refuse("there is no product of 16-bit tiles in the loop for each sum", "leave the roles out")
        return loads, adds

    def _tile(self, adds: Sequence[Let]) -> tuple[Axis, Axis]:
        axes = {let.axes for let in adds}
        if len(axes) != 1 or len(adds[0].axes) != 2:
            raise self.refuse("the products are no tiles of rows and columns, all alike", "leave the roles out")
        rows, columns = (self.tiles.axes[n] for n in adds[0].axes)
        if rows.extent % (ROWS * self.roles.consumers) or columns.extent > COLUMNS or columns.extent % 8:
            text = f"a tile of {rows.extent} x {columns.extent} for {self.roles.consumers} consumers"
            raise self.refuse(text, f"{ROWS} rows for each consumer, or a multiple, and up to {COLUMNS} columns")
        return rows, columns

    def _fetch(self, let: Let, rows: Axis) -> Fetch:
        block = self.blocks[id(let.value)]
        assert isinstance(let.value, Load)
        if len(block.starts) != 2:
            raise self.refuse(f"{let.name} is no box of rows and columns", "leave the roles out")
        dims = axis_of(let.value)
        along = dims.index(rows.name) if rows.name in dims else 0
        parts = self.roles.consumers if rows.name in dims else 1
        shape = tuple(n // (parts if d == along else 1) for d, n in enumerate(block.descriptor.shape))
        box = Descriptor(self._box(block.descriptor.tensor), block.descriptor.tensor, shape, block.descriptor.dtype)
        return Fetch(let, box, block.starts, self.names.fresh(f"{self.names[let.name]}_slots"), parts, along)

    def _box(self, tensor: str) -> str:
        return self.names.fresh(f"{self.names[tensor]}_box")

    def _product(self, let: Let, fetches: Mapping[str, Fetch], rows: Axis, columns: Axis) -> Product:
        dot = _added(let)
        assert dot is not None
        left, right, own, others = sides(dot, let.axes)
        kinds = {left.dtype.name, right.dtype.name}
        narrow = dot.precision == "exact" and left.dtype.bits == 16 and left.dtype.is_float and len(kinds) == 1
        fetched = [fetches.get(side.name) if isinstance(side, Ref) else None for side in (left, right)]
        a, b = fetched
        plain = own == [rows.name] and others == [columns.name] and len(dot.over) == 1
        if not narrow or not plain or a is None or b is None or (dot.fold is not None and dot.fold.promote):
            text = (
                "the matrix unit takes products of 16-bit floats of one type, rows by columns, both loaded in the loop"
            )
            raise self.refuse(text, "leave the roles out")
        over = dot.over[0]
        turned = (axis_of(a.let.value)[0] == over, axis_of(b.let.value)[0] != over)  # type: ignore[arg-type]  # loads
        return Product(let, a, b, turned)

    def _behind(
        self, after: Sequence[Stmt], rows: Axis, columns: Axis
    ) -> tuple[list[Let], list[Handed], list[Let], list[Put]]:
        """What the consumers compute behind the loop, what they hand on, what the epilogue computes, and the stores."""
        computed: list[Let] = []
        finished: list[Let] = []
        stores: list[Store] = []
        for stmt in after:
            last = isinstance(stmt, (Let, Store)) and _target(stmt) in self.roles.epilogue
            if isinstance(stmt, (For, If)) or not self._lane_by_lane(stmt, rows, columns):
                text = "behind the loop more happens than operations lane by lane and stores of boxes"
                raise self.refuse(text, "leave the roles out")
            if isinstance(stmt, Store):
                stores.append(stmt)
            else:
                (finished if last else computed).append(stmt)
        if self.roles.epilogue and any(s.tensor not in self.roles.epilogue for s in stores):
            raise self.refuse(
                "a consumer stores beside the epilogue", "name the stage of the store in the epilogue too"
            )
        made = {let.name for let in computed} | {let.name for let in self.loop.body if isinstance(let, Let)}
        ends = [*finished, *(stores if self.roles.epilogue else [])]
        passed = {ref.name: ref for stmt in ends for ref in refs(stmt) if ref.name in made}
        words = ("slots", "full", "empty")
        fresh = {n: [self.names.fresh(f"{self.names[n]}_{word}") for word in words] for n in passed}
        handed = [Handed(n, ref.dtype, *fresh[n]) for n, ref in passed.items()]
        if any(set(ref.axes) != {rows.name, columns.name} for ref in passed.values()):
            raise self.refuse("what is handed to the epilogue is no whole tile", "name its stage in the epilogue too")
        puts = self._puts(stores, handed, rows, columns)
        if len({h.dtype.bits for h in handed} | {put.box.dtype.bits for put in puts if handed}) > 1:
            raise self.refuse("the epilogue takes and makes numbers of several widths", "cast in the consumers")
        return computed, handed, finished, puts

    def _lane_by_lane(self, stmt: Let | Store, rows: Axis, columns: Axis) -> bool:
        values = list(values_of((stmt,)))
        plain = all(isinstance(v, (Ref, Elem, Full, Where, Integer, Load)) for v in values)
        axes = {n for v in values for n in v.axes}
        kept = isinstance(stmt, Let) and (stmt.keep or isinstance(stmt.value, Full))
        return plain and not kept and axes <= {rows.name, columns.name}

    def _puts(self, stores: Sequence[Store], handed: Sequence[Handed], rows: Axis, columns: Axis) -> list[Put]:
        free = list(handed)
        found: list[Put] = []
        for store in stores:
            block = self.blocks.get(id(store))
            if block is None or len(block.starts) != 2 or store.axes != (rows.name, columns.name):
                raise self.refuse(f"{store.tensor} is not written in boxes of rows and columns", "leave the roles out")
            dtype = block.descriptor.dtype
            shape = (rows.extent // self.roles.consumers, columns.extent)
            box = Descriptor(self._box(store.tensor), store.tensor, shape, dtype)
            # What is written takes the place of what it is made from, piece by piece.
            place = next((h for h in free if h.dtype == dtype), None)
            if place is not None:
                free.remove(place)
            slots = place.slots if place else self.names.fresh(f"{self.names[store.tensor]}_slots")
            found.append(Put(store, box, block.starts, slots, place is None))
        return found

    def _require_room(self, found: Parts) -> None:
        held = len(found.products) * found.height * found.columns.extent // WARPGROUP
        if held > HELD:
            text = f"a thread of a consumer would hold {held} sums"
            raise self.refuse(text, f"smaller tiles: {HELD} sums and what is done with them fit in its registers")
        ring = sum(f.parts * prod(f.box.shape) * f.box.dtype.bits // 8 for f in found.fetches) * self.loop.stages
        kinds = [h.dtype for h in found.handed] + [p.box.dtype for p in found.puts if p.own]
        tiles = sum(found.rows.extent * found.columns.extent * kind.bits // 8 for kind in kinds)
        if ring + tiles > SHARED:
            text = f"its slots take {ring + tiles:,} bytes of shared memory, and there are {SHARED:,}"
            raise self.refuse(text, "fewer stages, or smaller tiles")


def _target(stmt: Let | Store) -> str:
    return stmt.name if isinstance(stmt, Let) else stmt.tensor


def _added(let: Let) -> Dot | None:
    """The product that a tile has added to it, in whatever order it is defined."""
    value = let.value
    if isinstance(value, Dot) and value.fold is not None:
        start = value.fold.start
        return value if isinstance(start, Ref) and start.name == let.name else None
    return added(let)
