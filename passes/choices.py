"""Sizes of tiles that are worth reckoning with for a program, the plainest first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .cpu_products import product
from .groups import contraction, transposed
from .recipe import Sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..compiler.ir.program import Program
    from .cpu_products import CpuSizes

# Rows by columns of a contraction's tile.
TILES = (
    (128, 128), (64, 128), (128, 64), (64, 64), (32, 128), (16, 128), (16, 64), (64, 256), (128, 256),
)  # fmt: skip
# Bytes of factors that may be under way in one program.
ROOM = 200 << 10
# Elements of a tile with which one program has a multiprocessor to itself, and consumers have enough to do.
LARGE = 128 * 256


def choices(program: Program) -> Iterator[Sizes]:
    """The choices for a program: of one contraction, tiles with as many loads under way as there is room for, in groups
    or not; of what turns a tensor over, squares; of all else, and of several contractions, what is always taken."""
    plain = Sizes()
    yield plain
    contractions = sum(contraction(program, stage) is not None for stage in program.stages)
    if contractions > 1:
        return
    if contractions:
        for rows, columns in TILES:
            each = (rows + columns) * plain.depth * 2
            stages = next(n for n in (6, 4, 3, 2) if n * each <= ROOM) if rows * columns < LARGE else 3
            one = replace(plain, rows=rows, columns=columns, stages=stages, together=1)
            yield from (one, replace(one, together=8))
            if rows * columns == LARGE:
                yield replace(one, together=8, processors=True)
                for together in (8, 16):
                    yield replace(one, together=together, processors=True, consumers=2)
    elif any(stage.ranges and transposed(stage, stage.ranges[-1].index) for stage in program.stages):
        yield from (replace(plain, side=side) for side in (32, 128))


def cpu_choices(program: Program, plain: CpuSizes, lanes: int, registers: int) -> Iterator[CpuSizes]:
    """The choices for a processor whose *registers* have so many lanes of f32: of sums of products, tiles of one, two
    and four vectors with as many rows as there are registers for, or half of them, in large and small panels, and the
    columns of few rows; of what turns a tensor over, squares."""
    yield plain
    if any(product(program, stage) is not None for stage in program.stages):
        for vectors in (1, 2, 4):
            most = (registers - vectors) // vectors
            for rows in dict.fromkeys((most - most % 2, max(1, most // 2))):
                one = replace(plain, rows=rows, columns=vectors * lanes, width=64 * vectors * lanes)
                yield from (replace(one, panel=panels * rows) for panels in (6, 24))
        yield from (replace(plain, length=length) for length in (512, 2048, 4096) if length != plain.length)
    elif any(stage.ranges and transposed(stage, stage.ranges[-1].index) for stage in program.stages):
        yield from (replace(plain, side=side) for side in (8, 16, 64, 128))
