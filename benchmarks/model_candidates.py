"""The candidates that the cost model is held against: kernels, sizes, and tiles that a person might try."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import tilewright as tw
from gpu_kernels import TEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Candidate:
    """A kernel of gpu_kernels at some sizes, with tiles and warps of its own."""

    kernel: str
    sizes: tuple[tuple[str, int], ...]
    tiles: tw.Sizes
    warps: int | None

    @property
    def case(self) -> str:
        """The kernel and its sizes."""
        return f"{self.kernel} {' '.join(f'{n}={v}' for n, v in self.sizes)}"

    @property
    def name(self) -> str:
        """What tells it from the other candidates of its case."""
        plain = tw.Sizes()
        changed = [f"{n}={v}" for n, v in vars(self.tiles).items() if v != getattr(plain, n)]
        return " ".join([*changed, *([f"warps={self.warps}"] if self.warps else [])]) or "as they come"

    def compiled(self) -> tw.CompiledKernel:
        """The kernel for a GPU."""
        (kernel,) = tw.parse(TEXTS[self.kernel].replace("TYPE", "bf16")).values()
        return tw.compile(kernel, tw.gpu_schedule(kernel, self.tiles), target="triton", warps=self.warps)


def candidates() -> Iterator[Candidate]:
    """All of them, case by case."""
    shape = (("K", 4096), ("N", 12288))
    few = product((16, 32, 64), (64, 128, 256), (64, 128), (3, 6))
    for rows, columns, depth, stages in few:
        tiles = tw.Sizes(rows=rows, columns=columns, depth=depth, stages=stages, together=1)
        if (rows + columns) * depth * 2 * stages < 220_000:
            yield Candidate("matmul_silu", (("M", 16), *shape), tiles, 4 if rows * columns <= 8192 else None)
    for M in (1024, 8192):
        for (rows, columns), depth, stages, together, shared in product(
            ((64, 64), (64, 128), (128, 64), (128, 128), (64, 256), (128, 256)), (32, 64), (3, 4), (1, 8), (False, True)
        ):
            small = rows * columns < 128 * 128
            if (small and (depth == 32 or shared)) or (stages == 3 and depth == 32):
                continue
            tiles = tw.Sizes(
                rows=rows, columns=columns, depth=depth, stages=stages, together=together, processors=shared
            )
            yield Candidate("matmul_silu", (("M", M), *shape), tiles, None)
        roles = tw.Sizes(rows=128, columns=256, depth=64, stages=3, together=16, processors=True, consumers=2)
        yield Candidate("matmul_silu", (("M", M), *shape), roles, None)
    for M, warps in product((1024, 8192), (1, 2, 4, 8, 16)):
        yield Candidate("rmsnorm", (("M", M), ("D", 4096)), tw.Sizes(), warps)
    for (lanes, whole), warps in product(((512, 1), (1024, 1), (2048, 1), (4096, 1), (1024, 16384)), (2, 4, 8, 16)):
        yield Candidate("softmax", (("R", 1024), ("C", 8192)), tw.Sizes(lanes=lanes, whole=whole), warps)
    for side, warps in product((16, 32, 64, 128), (1, 2, 4, 8, 16)):
        yield Candidate("transpose", (("M", 8192), ("N", 8192)), tw.Sizes(side=side), warps)
    for rows, columns, depth, stages in product((64, 128, 256), (32, 64), (32, 64), (2, 3, 4)):
        tiles = tw.Sizes(rows=rows, columns=columns, depth=depth, stages=stages)
        yield Candidate("conv", (("B", 32), ("H", 56), ("W", 56), ("C", 64), ("O", 64)), tiles, None)
