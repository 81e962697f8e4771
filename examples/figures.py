"""Draw the pictures of docs/cost.md: `python examples/figures.py FOLDER` (needs matplotlib)."""

from __future__ import annotations

import sys
from pathlib import Path

import tilewright as tw
from tilewright.cost.bounds import bound
from tilewright.cost.capacity import fits
from tilewright.cost.estimate import estimate
from tilewright.cost.machine import machine
from tilewright.cost.plot import save, scatter
from tilewright.cost.traffic import moved

HERE = Path(__file__).parent
SIZES = {"M": 1024, "K": 4096, "N": 12288}
KIB, MIB = 2**10, 2**20


def projection(rows: int, columns: int) -> tuple[str, float, float]:
    """Tiles of the product: their bytes of local storage, 32 terms deep, and the bytes that they ask for."""
    kernel = tw.load(HERE / "matmul_silu.tx")["matmul_silu"]
    state = tw.gpu_schedule(kernel, tw.Sizes(rows=rows, columns=columns, depth=32)).state
    asked = sum(m.asked.at(SIZES) for m in moved(state.program, state.tree))
    return f"{rows} x {columns}", 2 * 32 * (rows + columns) + 4 * rows * columns, asked


def attention(block: int, length: int = 8192, depth: int = 128, room: int = 99 * KIB) -> tuple[str, float, float]:
    """A block of keys in `room` bytes: what is left is for rows of queries, and the fewer they are, the oftener all
    keys and values are read."""
    rows = fits(room, 2 * depth + 4 * block + 4 * depth + 12, 2 * block * depth)
    sweeps = -(-length // rows)
    return (
        f"{block} key{'s' if block > 1 else ''}, {rows} rows",
        2 * block * depth,
        2 * length * depth * 2 * (sweeps + 1),
    )


def main(folder: Path) -> None:
    """Three pictures: the projection, its tiles against the bound, and blocks of attention in 99 KiB."""
    folder.mkdir(parents=True, exist_ok=True)
    kernel = tw.load(HERE / "matmul_silu.tx")["matmul_silu"]
    schedules = {f"{m} x {n}": tw.gpu_schedule(kernel, tw.Sizes(rows=m, columns=n)) for m, n in ((32, 64), (64, 64))}
    found = {
        name: estimate(s.state.program, s.state.tree, machine("h200"), SIZES)
        for name, s in {**schedules, "best": tw.gpu_schedule(kernel, at=SIZES)}.items()
    }
    best = found.pop("best")
    save(best, folder / "projection.png", list(found.items()))
    tiles = [projection(m, n) for m, n in ((32, 32), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256))]
    rooms = [2.0**k * KIB for k in range(2, 10)]
    scatter(tiles, [(room, bound(kernel.program, SIZES, room).least) for room in rooms], folder / "tiles.png")
    scatter([attention(block) for block in (1, 8, 16, 32, 64, 128)], [], folder / "attention.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
