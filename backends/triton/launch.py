"""One launch of a module: its kernel's text, and how it is started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from ...compiler.ir.dtype import DTYPES, DType
from ...passes.recipe import default_warps
from ..lower.refusing import cannot
from ..lower.tile import Dot, For, Load, Reduce, Store, operands, statements_of, values_of
from ..naming import Writer
from .blocks import blocks
from .forms import shorter_forms
from .gluon import Plain, mentions
from .gluon_launch import roles_text
from .grid import grid_of, numbers
from .kernel import KernelPrinter
from .layout import broken, tidied
from .operations import cast_text
from .products import flat_tiles
from .roles import parts_of_launch
from .types import signature_type, triton_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...compiler.ir.program import Program
    from ..lower.tile import Folded, Stmt, Tiles
    from ..naming import Names
    from .blocks import Block, Descriptor
    from .gluon_launch import RoleLaunch
    from .grid import Grid

# The most elements that Triton lets a tile have.
LARGEST = 1 << 20


@dataclass(frozen=True)
class Launch:
    """A kernel and how it is started.

    *arguments*: (name, type in a signature: `*bf16` a tensor, `i32` a size, `fp32` a scalar), in order; *warps*,
    *stages*: the options that it is compiled with; *descriptors*: those of the arguments that are blocks of tensors;
    *roles*: the same launch with a part of the work for each group of warps, for devices that can.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    grid: Grid
    warps: int
    stages: int
    descriptors: tuple[Descriptor, ...] = ()
    roles: RoleLaunch | None = None


def passed_by_pointer(dtype: DType) -> bool:
    """Whether a scalar is passed as a tensor of one f64: Triton takes a Python float as an f32."""
    return dtype.is_float and dtype.name != "f32"


def kernel_text(program: Program, names: Names, tiles: Tiles, stmt: Stmt, warps: int | None) -> tuple[str, str, Launch]:
    """The kernel that is an outermost statement, and its other form if a loop has roles ("" where none has).

    Its grid is made of the bound and parallel loops that hold nothing but each other; a statement that is no such loop
    is a launch of one program.

    Raises:
        IllegalTransformError: Triton cannot say it (rule target).
    """
    chain, body = _grid(stmt)
    stores = list(dict.fromkeys(s.tensor for s in statements_of((stmt,)) if isinstance(s, Store)))
    _require_sayable(program, tiles, chain, body, warps)
    name = names.fresh("_".join([names.function, *(s.lower() for s in stores[:2]), "kernel"]))
    grid = grid_of(names, chain)
    loads = {v.tensor for v in values_of((stmt,)) if isinstance(v, Load)}
    found, descriptors = blocks(program, names, tiles.axes, stmt, stores, tiles.orders)
    forms = shorter_forms(program, body)
    inner = _body(program, names, tiles, chain, grid, body, loads & set(stores), found, forms)
    counted = grid.several and not grid.plane
    numbered = list(numbers(names, grid, chain, "pid" if counted else "tl.program_id(0)"))
    arguments = _arguments(program, names, tiles, grid, [*numbered, *inner, *([grid.total] if grid.shared else [])])
    arguments += tuple((d.name, d.signature) for d in descriptors)
    stages = max((s.stages for s in statements_of((stmt,)) if isinstance(s, For)), default=1)
    launch = Launch(name, arguments, grid, warps or _warps(tiles, stmt), stages, descriptors)
    given = {n for n, _ in arguments}
    flags = [*(["TMA: tl.constexpr"] if descriptors else []), *(["TALL: tl.constexpr"] if grid.tall else [])]
    parameters = ", ".join([*(n for n, _ in arguments), *flags, "WIDE: tl.constexpr"])
    sizes = [names[n] for n in program.sizes if names[n] in given]
    scalars = [f"{names[n]} = {_scalar(names[n], t)}" for n, t in program.scalars.items() if names[n] in given]
    own = [axis for axis in tiles.axes.values() if mentions(inner, names[axis.name])]
    axes = [f"{names[axis.name]} = tl.arange(0, {axis.extent})" for axis in own]
    axes += _if_wide(f"{names[a.name]} = {names[a.name]}.to(tl.int64)" for a in own)
    loops = [names[loop.index] for loop in chain]
    if grid.shared:
        # The loads of the next tile go on while one ends, if nothing stands between.
        one = sum(isinstance(s, For) for s in body) == 1 and not _guards(names, chain, grid)
        flat = ", flatten=True" if one else ""
        head = [*_if_wide(_cast(n) for n in sizes), *scalars, *axes]
        head.append(f"for pid in tl.range(tl.program_id(0), {grid.total}, tl.num_programs(0){flat}):")
        text = [*head, *(f"    {line}" for line in [*numbered, *_if_wide(_cast(n) for n in loops)])]
    else:
        first = ["pid = tl.program_id(0)"] if counted else []
        text = [*first, *numbered, *_if_wide(_cast(n) for n in [*loops, *sizes]), *scalars, *axes]
    lines = [_decorator(grid, given), f"def {name}({parameters}):", *(f"    {line}" for line in text), *inner]
    whole = "\n".join(piece for line in lines for piece in broken(tidied(line)))
    parts = parts_of_launch(program, names, tiles, grid, body, found)
    if parts is not None:
        if _guards(names, chain, grid):
            text = f"the roles of {parts.loop.index}: a tile of the grid has a condition"
            raise cannot(program, text, "loops of the grid that run over a rectangle, or in groups")
        own = tuple((n, kind) for n, kind in arguments if n not in {d.name for d in descriptors})
        plain = Plain(name.removesuffix("_kernel"), own, tuple(scalars), tuple(chain), grid, tuple(numbered))
        text, other = roles_text(program, names, tiles, parts, forms, plain)
        return whole, text, replace(launch, roles=other)
    return whole, "", launch


def _if_wide(lines: Iterable[str]) -> list[str]:
    """Lines for numbers that take 64 bits."""
    found = [f"    {line}" for line in lines]
    return ["if WIDE:", *found] if found else []


def _cast(name: str) -> str:
    return f"{name} = tl.cast({name}, tl.int64)"


def _grid(stmt: Stmt) -> tuple[list[For], tuple[Stmt, ...]]:
    """The loops of a launch's grid, outermost first, and what every program runs."""
    chain: list[For] = []
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind in ("bind", "parallel"):
        chain.append(body[0])
        body = body[0].body
    return chain, body


def _require_sayable(
    program: Program, tiles: Tiles, chain: Sequence[For], body: Sequence[Stmt], warps: int | None
) -> None:
    for loop in [*chain[1:], *statements_of(body)]:
        if isinstance(loop, For) and loop.shared:
            text = f"{loop.index} is bound to processors, and is not the outermost loop of its nest"
            raise cannot(program, text, "bind the outermost loop of the grid")
    for loop in statements_of(body):
        if isinstance(loop, For) and loop.kind == "bind":
            text = f"{loop.index} is bound to the grid, and stands beside other statements or inside a serial loop"
            raise cannot(program, text, "distribute the nest, or do not bind it")
    for value in values_of(body):
        if isinstance(value, Dot) and value.fold is not None:
            _require_fold(program, value, value.fold, warps)
        axes = dict.fromkeys(n for v in (value, *operands(value)) for n in v.axes)
        lanes = prod(tiles.axes[n].extent for n in (axes if not isinstance(value, Dot) else value.axes))
        if lanes > LARGEST:
            text = f"a tile has {lanes} elements, and Triton takes {LARGEST} at most"
            raise cannot(program, text, "split the loops that are blocked by smaller numbers")


def _require_fold(program: Program, value: Dot, fold: Folded, warps: int | None) -> None:
    narrow = value.a.dtype.bits == 8
    if narrow and warps is not None and warps < 4:
        raise cannot(program, f"the unit that multiplies {value.a.dtype} takes 4 warps", "compile with 4 warps or more")
    if fold.promote and not narrow:
        text = f"Triton adds {value.a.dtype} products in the matrix unit alone, and not in parts of {fold.promote}"
        raise cannot(program, text, "leave promote= out; 8-bit floats are what needs it")


def _body(
    program: Program,
    names: Names,
    tiles: Tiles,
    chain: Sequence[For],
    grid: Grid,
    body: Sequence[Stmt],
    shared: set[str],
    found: Mapping[int, Block],
    forms: Mapping[int, str],
) -> list[str]:
    """What every program runs, under the conditions of the grid's loops.

    *shared*: tensors that it writes and reads; *found*: its loads that are blocks; *forms*: shorter functions.
    """
    nonnegative = {*program.sizes, *tiles.axes}
    nonnegative |= {loop.index for loop, count in zip(chain, grid.counts, strict=True) if count.low.isdigit()}
    writer = Writer(indent=2 if grid.shared else 1)
    for guard in _guards(names, chain, grid):
        writer.line(f"if {guard}:")
        writer.indent += 1
    printer = KernelPrinter(program, names, writer, nonnegative, tiles.orders, tiles.axes, shared, found, forms)
    printer.flat = flat_tiles(printer, body)
    printer.body(body)
    return writer.lines


def _guards(names: Names, chain: Sequence[For], grid: Grid) -> list[str]:
    """The conditions under which an iteration of the grid's loops is one."""
    found: list[str] = []
    for loop, count in zip(chain, grid.counts, strict=True):
        own = [f"({loop.condition})"] if loop.condition else []
        if not loop.rectangular and count.grouped is None:
            own += [f"({loop.low} <= {names[loop.index]})", f"({names[loop.index]} < {loop.high})"]
        found += [" & ".join(own)] if own else []
    outer = [f"not TALL or {names[chain[0].index]} < {grid.counts[0].name}"] if grid.tall else []
    return [*outer, *found]


def _arguments(
    program: Program, names: Names, tiles: Tiles, grid: Grid, lines: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """What a kernel's text mentions: tensors, scalars, sizes, counts."""
    found = [
        (names[n], f"*{signature_type(t.dtype)}")
        for n, t in program.tensors.items()
        if n not in tiles.tiles and mentions(lines, names[n])
    ]
    for n, dtype in program.scalars.items():
        if mentions(lines, names[n]):
            kind = "*fp64" if passed_by_pointer(dtype) else "i32" if dtype.is_bool else signature_type(dtype)
            found.append((names[n], kind))
    found += [(names[n], "i32") for n in program.sizes if mentions(lines, names[n])]
    return (*found, *((c.name, "i32") for c in grid.counts if mentions(lines, c.name)))


def _decorator(grid: Grid, given: set[str]) -> str:
    # Triton compiles a kernel anew for a number that is 1 or divisible by 16: for how many programs there are, in vain.
    fixed = ", ".join(f'"{c.name}"' for c in grid.counts if c.name in given)
    return f"@triton.jit(do_not_specialize=[{fixed}])" if fixed else "@triton.jit"


def _scalar(name: str, dtype: DType) -> str:
    if passed_by_pointer(dtype):
        return cast_text(f"tl.load({name})", DTYPES["f64"], dtype)
    if dtype.is_bool:
        return f"tl.cast({name}, tl.int32) != 0"
    return f"tl.cast({name}, {triton_type(dtype)})"


def _warps(tiles: Tiles, stmt: Stmt) -> int:
    """How many warps a program has, if nobody says."""
    values = list(values_of((stmt,)))
    products = [v for v in values if isinstance(v, Dot)]
    lanes = max((prod(tiles.axes[n].extent for n in v.axes) for v in products or values), default=1)
    return default_warps(lanes, bool(products), any(isinstance(v, Reduce) for v in values))
