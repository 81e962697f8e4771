"""The kernel of a launch with roles: slots in shared memory, their events, and the parts that run at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .gluon import PartsPrinter
from .layout import broken, tidied
from .types import triton_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.program import Program
    from ..lower.tile import Tiles
    from ..naming import Names
    from .blocks import Descriptor
    from .gluon import Plain
    from .roles import Parts

GLUON_NAMES = (
    *("gluon", "gl", "mbarrier", "fence_async_shared", "warpgroup_mma", "warpgroup_mma_wait", "warnings", "GLUON"),
    *(
        "GluonDescriptor",
        "has_wgmma",
        "PART",
        "maxnreg",
        "layout",
        "part",
        "strip",
        "piece",
        "place",
        "slot",
        "turn",
        "begun",
    ),
    *("tile", "full", "empty", "roles", "copies"),
)

IMPORTS = """# Gluon's words change with Triton's releases, and these are those of 3.6.
GLUON = triton.__version__.startswith("3.6.")
if GLUON:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import (
        fence_async_shared,
        mbarrier,
        tma as copies,
        warpgroup_mma,
        warpgroup_mma_wait,
    )
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
else:
    warnings.warn(f"Triton {triton.__version__} is not 3.6: kernels with roles run without them", stacklevel=2)"""


@dataclass(frozen=True)
class RoleLaunch:
    """A kernel whose parts have warps of their own. *arguments*: as of a Launch, without the *boxes*, which come first;
    *registers*: of a thread, as it is compiled."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    boxes: tuple[Descriptor, ...]
    registers: int


def swizzle(columns: int, bits: int) -> int:
    """The bytes of a row of a box that the copy engine permutes in shared memory, so that no banks clash."""
    return next(n for n in (128, 64, 32, 0) if columns * bits // 8 % max(n, 1) == 0)


def layout_name(box: Descriptor) -> str:
    """What the layout of a box in shared memory is called."""
    return f"ROWS_OF_{swizzle(box.shape[-1], box.dtype.bits)}_BYTES_{box.dtype.bits}"


def layouts_text(boxes: Iterable[Descriptor]) -> str:
    """The layouts of boxes, each once."""
    found = {layout_name(b): (swizzle(b.shape[-1], b.dtype.bits), b.dtype.bits) for b in boxes}
    made = "gl.NVMMASharedLayout(swizzle_byte_width={}, element_bitwidth={})"
    lines = [f"{name} = {made.format(*numbers)}" for name, numbers in sorted(found.items())]
    return "\n".join(["# How the copy engine lays boxes in shared memory, so that no banks clash.", *lines])


def roles_text(
    program: Program, names: Names, tiles: Tiles, parts: Parts, forms: Mapping[int, str], plain: Plain
) -> tuple[str, RoleLaunch]:
    """The functions of a launch with roles, and how it is started.

    *forms*: shorter functions for operations, by identity; *plain*: the launch as one kernel without roles.
    """
    printer = PartsPrinter(program, names, tiles, parts, forms, plain)
    producer, loads = printer.producer()
    consumer, adds = printer.consumer()
    functions = [printer.tile(), producer, consumer]
    run = [f"({plain.stem}_multiply, ({', '.join([str(n), *adds])}))" for n in range(parts.consumers)]
    taken = [*loads, *adds]
    if parts.handed:
        epilogue, ends = printer.epilogue()
        functions.append(epilogue)
        run.append(f"({plain.stem}_finish, ({', '.join(ends)}))")
        taken += ends
    run.append(f"({plain.stem}_load, ({', '.join(loads)}))")
    compiled, own, helper = parts.registers
    # The first consumer has the warps that the kernel is started with; the others are said.
    warps = [*([4] * (parts.consumers - 1)), *parts.helpers]
    registers = [*([own] * (parts.consumers - 1)), *([helper] * len(parts.helpers))]
    lines = [*_slots(parts), "gl.warp_specialize(", "    [", *(f"        {text}," for text in run), "    ],"]
    lines += [f"    {warps},", f"    {registers},", ")"]
    boxes = tuple(dict.fromkeys((*(f.box for f in parts.fetches), *(put.box for put in parts.puts))))
    arguments = tuple((n, kind) for n, kind in plain.arguments if n in taken)
    name = f"{plain.stem}_roles"
    summary = "The slots with their events, and the parts: who runs what, in how many warps of how many registers."
    functions.append(printer.function(name, [b.name for b in boxes], summary, lines))
    text = "\n\n".join("\n".join(p for line in f.splitlines() for p in broken(tidied(line))) for f in functions)
    return text, RoleLaunch(name, arguments, boxes, compiled)


def _slots(parts: Parts) -> Iterator[str]:
    """The lines that make the slots and their events."""
    depth, shape = parts.loop.stages, (parts.height, parts.columns.extent)
    for f in parts.fetches:
        yield _buffer(f.slots, f.parts * depth, f.box.shape, f.box.dtype, f"{f.box.name}.layout")
    for put in parts.puts:
        if put.own:
            yield _buffer(put.slots, parts.consumers, shape, put.box.dtype, f"{put.box.name}.layout")
    for h in parts.handed:
        # What is stored from a slot lies in it as the copy engine wants it.
        box = next((put.box.name for put in parts.puts if put.slots == h.slots), None)
        made = f"gl.NVMMASharedLayout.get_default_for({list(shape)}, {triton_type(h.dtype)})"
        yield _buffer(h.slots, parts.consumers, shape, h.dtype, f"{box}.layout" if box else made)
    yield from _barriers("full", "empty", depth, parts.consumers, "slot")
    for h in parts.handed:
        yield from _barriers(h.full, h.empty, parts.consumers, 1, "part")
    yield "fence_async_shared()"


def _buffer(slots: str, count: int, shape: tuple[int, ...], dtype: DType, layout: str) -> str:
    whole = ", ".join(map(str, (count, *shape)))
    return f"{slots} = gl.allocate_shared_memory({triton_type(dtype)}, [{whole}], {layout})"


def _barriers(full: str, empty: str, count: int, readers: int, index: str) -> Iterator[str]:
    for name in (full, empty):
        yield f"{name} = gl.allocate_shared_memory(gl.int64, [{count}, 1], mbarrier.MBarrierLayout())"
    yield f"for {index} in gl.static_range({count}):"
    yield f"    mbarrier.init({full}.index({index}), count=1)"
    yield f"    mbarrier.init({empty}.index({index}), count={readers})"
