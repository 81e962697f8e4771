"""What the recipes of the default schedule share: the sizes of tiles, the steps that they take, and taking them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from .refusal import IllegalTransformError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .groups import Contraction
    from .state import State

# The side of a square of rows.
SQUARE = 8


@dataclass(frozen=True)
class Sizes:
    """Of tiles.

    *rows*, *columns*, *depth* (of 16-bit factors), *stages*: of contractions, and how many loads are under way;
    *together*: row tiles that share a column tile before the next one's turn; *processors*: whether as many programs as
    the device has processors share the tiles, so that the loads of the next one go on while one ends; *consumers*: how
    many groups of warps of these multiply, beside others that load and others that finish a tile (0: all do
    everything); *part*: how much of a summed index a program adds up, the parts being merged in order by a second
    launch (0: all of it); *lanes*: along a row; *elements*: where there are nothing but elements; *whole*: a row that
    is never longer is one tile; *side*: of square tiles; *strict*: rows at once where a sum over a row has to run in
    its order.
    """

    rows: int = 128
    columns: int = 128
    depth: int = 64
    stages: int = 4
    together: int = 8
    processors: bool = False
    consumers: int = 0
    part: int = 0
    lanes: int = 1024
    elements: int = 1024
    whole: int = 16384
    side: int = 64
    strict: int = 32


class Steps(Protocol):
    """The part of a schedule that is used."""

    @property
    def state(self) -> State: ...
    @property
    def trace(self) -> Sequence[Any]: ...
    def __getitem__(self, stage: str, /) -> Any: ...
    def undo(self) -> None: ...
    def split(self, loop: str, factor: int, /) -> tuple[str, str]: ...
    def tile(self, a: str, b: str, factor_a: int, factor_b: int, /) -> tuple[str, str, str, str]: ...
    def reorder(self, *names: str) -> None: ...
    def fuse(self, outer: str, inner: str, /) -> str: ...
    def compute_at(self, stage: str, loop: str, /) -> None: ...
    def merge(self, first: str, second: str, /) -> str: ...
    def distribute(self, loop: str, /) -> tuple[str, ...]: ...
    def rfactor(self, loop: str, /) -> None: ...
    def store(self, tensor: str, *, at: str | None = None, layout: str | None = None) -> None: ...
    def parallel(self, loop: str, /) -> None: ...
    def bind(self, loop: str, target: str, /) -> None: ...
    def block(self, *names: str) -> None: ...
    def contract(self, stage: str, /) -> None: ...
    def unroll(self, loop: str, /) -> None: ...
    def pipeline(self, loop: str, stages: int, /) -> None: ...
    def roles(self, loop: str, consumers: int, /, *epilogue: str) -> None: ...
    def inline(self, stage: str, /) -> None: ...
    def cache_read(self, tensor: str, loop: str, /, layout: str | None = None, *, pad: bool = False) -> str: ...
    def vectorize(self, loop: str, /) -> None: ...
    def group(self, outer: str, inner: str, size: int, /) -> tuple[str, str, str]: ...


def default_warps(lanes: int, product: bool, reduces: bool) -> int:
    """How many warps a program has whose largest tile (of a *product*, its result) has so many lanes: 8 elements for a
    thread, of a product 32 and between 4 and 8 warps; of a long row that it *reduces* up to 32, which wait less for
    each other. Measured on an H200."""
    if product:
        return min(8, max(4, lanes // (32 * 32)))
    most = max(8, lanes // (32 * 32)) if reduces else 16
    return min(16, most, max(1, lanes // (32 * 8)))


def attempt(steps: Steps, recipe: Callable[..., object], *arguments: object) -> bool:
    """Whether a recipe's steps are all taken; if one is refused, none is."""
    before = len(steps.trace)
    try:
        recipe(*arguments)
    except IllegalTransformError:
        while len(steps.trace) > before:
            steps.undo()
        return False
    return True


def summed_in_tiles(
    steps: Steps, one: Contraction, before: Sequence[str], last: str, tile: Sequence[str], sizes: Sizes
) -> tuple[str, list[str]]:
    """Run a sum in pieces over a tile, its factors loaded ahead; the loop over the pieces, and the copies.

    *before*, *last*: its loops, outermost first; *tile*: those of the tile.
    """
    program = steps.state.program
    widest = max(program.tensors[t].dtype.bits for t in one.factors)
    ko, ki = steps.split(last, max(16, sizes.depth * 16 // widest))
    steps.reorder(*before, ko, *tile, ki)
    copies: list[str] = []
    for tensor in (t for t in one.factors if t not in one.padded):
        attempt(steps, lambda t: copies.append(steps.cache_read(t, ko)), tensor)
    attempt(steps, steps.pipeline, ko, sizes.stages)
    return ko, copies


def block_all(steps: Steps, stage: str, outer: Sequence[str]) -> None:
    """Make every loop of an equation a tile's axis that is none of the outer ones."""
    inner = [n for n in steps[stage].loops if n not in outer]
    if inner:
        steps.block(*inner)
