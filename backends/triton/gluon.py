"""A launch with roles as Gluon text: one function for each part, which wait for one another at slots of shared memory.

Every slot has two events: `full`, at which its readers wait, and `empty`, at which its writer does. An event has a
phase that turns over with each use; whoever is at its n-th use of a slot waits for the n-th end of the other's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..lower.tile import Axis, Full
from ..naming import Writer
from .kernel import KernelPrinter
from .types import full_text, triton_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...compiler.ir.program import Program
    from ..lower.tile import For, Let, Tiles
    from ..naming import Names
    from .grid import Grid
    from .roles import Fetch, Parts

# What the epilogue takes at a time: columns that lie together in shared memory, in the bytes of all its banks, and as
# many rows as leave a thread 16 elements of 16 bits, which its few registers hold with what is made of them. The loop
# over such pieces is not written out: the instructions for a whole tile would not fit in their cache.
BANKS, STRIP = 128, 16


@dataclass(frozen=True)
class Plain:
    """What is the same in the launch without roles: the stem of its name, its arguments without blocks, the lines that
    give scalars their types, the loops of its grid, and the lines that take a tile's number `pid` apart."""

    stem: str
    arguments: tuple[tuple[str, str], ...]
    scalars: tuple[str, ...]
    chain: tuple[For, ...]
    grid: Grid
    numbered: tuple[str, ...]


@dataclass
class PartsPrinter:
    """Prints the functions of the parts, each with the names of what it is given."""

    program: Program
    names: Names
    tiles: Tiles
    parts: Parts
    forms: Mapping[int, str]
    plain: Plain

    # ---- what all parts need

    def printer(self, writer: Writer, columns: int, rows: int) -> KernelPrinter:
        """A printer of what is done with so many columns and rows of the tile."""
        p = self.parts
        axes = {
            **self.tiles.axes,
            p.rows.name: _sized(p.rows, rows),
            p.columns.name: _sized(p.columns, columns),
        }
        nonnegative = {*self.program.sizes, *self.tiles.axes, *(loop.index for loop in self.plain.chain)}
        return KernelPrinter(
            self.program, self.names, writer, nonnegative, self.tiles.orders, axes, set(), {}, self.forms
        )

    def used(self, lines: Sequence[str]) -> list[str]:
        """The arguments of the launch that some lines mention."""
        return [n for n, _ in self.plain.arguments if mentions(lines, n)]

    @property
    def indices(self) -> str:
        return ", ".join(self.names[loop.index] for loop in self.plain.chain)

    def tiles_loop(self, indices: bool = True) -> list[str]:
        """The head of a loop over the tiles of a program."""
        head = f"for pid in range(tl.program_id(0), {self.plain.grid.total}, tl.num_programs(0)):"
        call = f"{self.plain.stem}_tile({', '.join(['pid', *self.used(self.plain.numbered)])})"
        return [head, f"    {self.indices} = {call}"] if indices else [head]

    def function(self, name: str, first: Sequence[str], summary: str, lines: Sequence[str]) -> str:
        parameters = ", ".join([*first, *self.used(lines)])
        # Gluon's own word for one number would want a layout.
        lines = [re.sub(r"tl\.full\(\(\), ", "tl.cast(", line) for line in lines]
        lines = [*(s for s in self.plain.scalars if mentions(lines, s.split(" = ")[0])), *lines]
        return "\n".join(
            ["@gluon.jit", f"def {name}({parameters}):", f'    """{summary}"""', *(f"    {x}" for x in lines)]
        )

    @property
    def depth(self) -> int:
        return self.parts.loop.stages

    @property
    def head(self) -> str:
        loop = self.parts.loop
        return f"for {self.names[loop.index]} in range({loop.low}, {loop.high}):"

    # ---- the parts

    def tile(self) -> str:
        summary = "The indices of the loops for a tile's number."
        return self.function(
            f"{self.plain.stem}_tile", ["pid"], summary, [*self.plain.numbered, f"return {self.indices}"]
        )

    def producer(self) -> tuple[str, list[str]]:
        """The function that loads, and its parameters."""
        fetches = self.parts.fetches
        writer = Writer()
        printer = self.printer(writer, self.parts.columns.extent, self.parts.height)
        total = " + ".join(f"{f'{f.parts} * ' if f.parts > 1 else ''}{f.box.name}.block_type.nbytes" for f in fetches)
        lines = ["turn = 0", *self.tiles_loop(), f"    {self.head}"]
        lines += [f"        slot = turn % {self.depth}"]
        lines += [f"        mbarrier.wait(empty.index(slot), turn // {self.depth} % 2 ^ 1)"]
        lines += [f"        mbarrier.expect(full.index(slot), {total})"]
        for fetch in fetches:
            lines += [f"        # {fetch.let.comment}"]
            lines += [f"        {line}" for line in self.copies(fetch, printer)]
        lines += ["        turn += 1"]
        first = [*(f.box.name for f in fetches), *(f.slots for f in fetches), "full", "empty"]
        names = " and ".join(dict.fromkeys(f.box.tensor for f in fetches))
        text = self.function(
            f"{self.plain.stem}_load",
            first,
            f"The producer: one warp loads boxes of {names} as long as slots are free.",
            lines,
        )
        return text, [*first, *self.used(lines)]

    def copies(self, fetch: Fetch, printer: KernelPrinter) -> Iterator[str]:
        step = fetch.box.shape[fetch.along]
        for part in range(fetch.parts):
            starts = [printer.integer(a, ()) for a in fetch.starts]
            starts[fetch.along] += f" + {part * step}" if part else ""
            slot = _slot(fetch, str(part))
            given = f"{fetch.box.name}, [{', '.join(starts)}], full.index(slot), {slot}"
            yield f"copies.async_copy_global_to_shared({given})"

    def consumer(self) -> tuple[str, list[str]]:
        """The function of a consumer, and its parameters but PART."""
        p, names = self.parts, self.names
        writer = Writer(indent=1)
        printer = self.printer(writer, p.columns.extent, p.height)
        shape = f"({p.height}, {p.columns.extent})"
        sums = {names[product.let.name]: product for product in p.products}
        for let in p.starts:
            assert isinstance(let.value, Full)
            writer.line(f"# {let.comment}")
            text = full_text(shape, let.value.value, let.value.dtype)
            writer.line(f"{names[let.name]} = gl.full{text.removeprefix('tl.full')[:-1]}, layout)")
        writer.line("begun = turn")
        writer.line(self.head)
        writer.indent += 1
        writer.line(f"slot = turn % {self.depth}")
        writer.line(f"mbarrier.wait(full.index(slot), turn // {self.depth} % 2)")
        tokens: list[str] = []
        for name, product in sums.items():
            writer.line(f"# {product.let.comment}")
            sides = [f"{_slot(product.a, 'PART')}", f"{_slot(product.b, 'PART')}"]
            left, right = (f"{s}.permute((1, 0))" if t else s for s, t in zip(sides, product.turned, strict=True))
            writer.line(f"{name} = warpgroup_mma({left}, {right}, {name}, is_async=True)")
            tokens.append(name)
        wait = f"warpgroup_mma_wait({{}}, deps=({', '.join(tokens)}{',' if len(tokens) == 1 else ''}))"
        writer.line("# The slot before is free when only these products are under way.")
        writer.line(f"{', '.join(tokens)} = {wait.format(len(tokens))}")
        last = f"(turn + {self.depth - 1}) % {self.depth}"
        writer.line(f"mbarrier.arrive(empty.index({last}), count=1, pred=turn > begun)")
        writer.line("turn += 1")
        writer.indent -= 1
        writer.line(f"{', '.join(tokens)} = {wait.format(0)}")
        writer.line(f"mbarrier.arrive(empty.index({last}), count=1, pred=turn > begun)")
        self.behind(printer, p.computed)
        first = [*(f.slots for f in p.fetches), "full", "empty"]
        if p.handed:
            for h in p.handed:
                writer.line(f"mbarrier.wait({h.empty}.index(PART), tile % 2 ^ 1)")
                writer.line(f"{h.slots}.index(PART).store({names[h.tensor]})")
                writer.line(f"mbarrier.arrive({h.full}.index(PART), count=1)")
                first += [h.slots, h.full, h.empty]
            writer.line("tile += 1")
        else:
            for put in p.puts:
                value = printer.aligned(put.store.value, put.store.axes)
                writer.line(f"# {put.store.comment}")
                writer.line("copies.store_wait(0)")
                writer.line(f"{put.slots}.index(PART).store({value})")
                writer.line("fence_async_shared()")
                writer.line(self.copy_out(printer, put.box.name, put.starts, put.slots, "PART"))
                first += [put.box.name, put.slots]
        lines = [*self.layout_lines(), "turn = 0", *(["tile = 0"] if p.handed else [])]
        lines += [*self.tiles_loop(any(mentions(writer.lines, self.names[loop.index]) for loop in self.plain.chain))]
        rows = [f"{p.height} * PART"] if p.consumers > 1 else []
        own = self.lanes(writer.lines, (rows, p.height), ([], p.columns.extent))
        lines += [*(f"    {x}" for x in own), *writer.lines]
        lines += [] if p.handed else ["copies.store_wait(0)"]
        sums_of = " and ".join(product.let.name.removesuffix(".acc") for product in p.products)
        text = self.function(
            f"{self.plain.stem}_multiply",
            ["PART: gl.constexpr", *first],
            f"A consumer: four warps compute {p.height} rows of each tile of {sums_of}.",
            lines,
        )
        return text, [*first, *self.used(lines)]

    def epilogue(self) -> tuple[str, list[str]]:
        """The function that finishes what is handed on, and its parameters."""
        p = self.parts
        kind = p.handed[0].dtype
        width = min(BANKS * 8 // kind.bits, p.columns.extent)
        strips, count = p.height // STRIP, p.height // STRIP * (p.columns.extent // width)
        body = Writer(indent=3)
        printer = self.printer(body, width, STRIP)
        slots = dict.fromkeys((*(h.slots for h in p.handed), *(put.slots for put in p.puts)))
        stems = {name: name.removesuffix("_slots") for name in slots}
        views = {name: self.names.fresh(f"{stem}_pieces") for name, stem in stems.items()}
        places = {name: self.names.fresh(f"{stem}_piece") for name, stem in stems.items()}
        for name, place in places.items():
            body.line(f"{place} = {views[name]}.index({count} * part + piece)")
        for handed in p.handed:
            body.line(f"{self.names[handed.tensor]} = {places[handed.slots]}.load(layout)")
        self.behind(printer, p.finished)
        for put in p.puts:
            body.line(f"# {put.store.comment}")
            body.line(f"{places[put.slots]}.store({printer.aligned(put.store.value, put.store.axes)})")
        vector = f"[1, {16 * 8 // kind.bits}]"
        lines = [f"layout: gl.constexpr = gl.BlockedLayout({vector}, [4, 8], [2, 1], [1, 0])"]
        lines += [
            f"# A slot is {p.columns.extent // width} strips of columns, one behind the other, of {strips} pieces."
        ]
        shape, dtype = f"[{p.consumers * count}, {STRIP}, {width}]", triton_type(kind)
        inside = f"gl.NVMMASharedLayout.get_default_for([{STRIP}, {width}], {dtype})"
        lines += [f"{view} = {name}._reinterpret({dtype}, {shape}, {inside})" for name, view in views.items()]
        lines += ["tile = 0", *self.tiles_loop(), f"    for part in range({p.consumers}):"]
        lines += [f"        mbarrier.wait({h.full}.index(part), tile % 2)" for h in p.handed]
        lines += [f"        for piece in range({count}):"]
        rows = [*([f"{p.height} * part"] if p.consumers > 1 else []), f"{STRIP} * (piece % {strips})"]
        columns = [f"{width} * (piece // {strips})"]
        lines += [f"{' ' * 12}{x}" for x in self.lanes(body.lines, (rows, STRIP), (columns, width))]
        lines += body.lines
        lines += ["        fence_async_shared()"]
        lines += [f"        {self.copy_out(printer, put.box.name, put.starts, put.slots, 'part')}" for put in p.puts]
        lines += ["        copies.store_wait(0)"]
        lines += [f"        mbarrier.arrive({h.empty}.index(part), count=1)" for h in p.handed]
        lines += ["    tile += 1"]
        first = [word for h in p.handed for word in (h.slots, h.full, h.empty)]
        first += [word for put in p.puts for word in ([put.box.name, put.slots] if put.own else [put.box.name])]
        stages = " and ".join(put.store.tensor for put in p.puts)
        text = self.function(
            f"{self.plain.stem}_finish",
            first,
            f"The epilogue: two warps make {stages} of what the consumers hand on, while those are at the next tile.",
            lines,
        )
        return text, [*first, *self.used(lines)]

    def behind(self, printer: KernelPrinter, lets: Sequence[Let]) -> None:
        for let in lets:
            printer.writer.line(f"# {let.comment}")
            printer.let(let)

    def copy_out(self, printer: KernelPrinter, box: str, starts: Sequence[object], slots: str, part: str) -> str:
        texts = [printer.integer(a, ()) for a in starts]  # type: ignore[arg-type]  # affine
        texts[0] = f"{texts[0]} + {self.parts.height} * {part}" if self.parts.consumers > 1 else texts[0]
        return f"copies.async_copy_shared_to_global({box}, [{', '.join(texts)}], {slots}.index({part}))"

    def layout_lines(self) -> list[str]:
        instruction = f"instr_shape=[16, {self.parts.columns.extent}, 16]"
        made = f"gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], {instruction})"
        return [f"layout: gl.constexpr = {made}"]

    def lanes(
        self, lines: Sequence[str], rows: tuple[Sequence[str], int], columns: tuple[Sequence[str], int]
    ) -> Iterator[str]:
        """The numbers of rows and columns, where something asks for them: what comes before, and how many they are."""
        for side, (axis, (offsets, count)) in enumerate(((self.parts.rows, rows), (self.parts.columns, columns))):
            name = self.names[axis.name]
            if mentions(lines, name):
                numbers = f"gl.arange(0, {count}, gl.SliceLayout({1 - side}, layout))"
                yield f"{name} = {' + '.join([*offsets, numbers])}"


def _sized(axis: Axis, extent: int) -> Axis:
    return Axis(axis.name, extent, extent)


def _slot(fetch: Fetch, part: str) -> str:
    """The slot of a box for a turn; *part*: whose rows, where the consumers share it."""
    if fetch.parts == 1:
        return f"{fetch.slots}.index(slot)"
    return f"{fetch.slots}.index({fetch.parts} * slot{'' if part == '0' else f' + {part}'})"


def mentions(lines: Sequence[str], name: str) -> bool:
    """Whether lines of code have a name in them."""
    word = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return any(word.search(line.split("#")[0]) for line in lines)
