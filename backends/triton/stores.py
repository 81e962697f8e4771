"""Writing tiles to memory: lane by lane, or as blocks by the copy engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import TRUE
from ..lower.tile import Elem, Ref

if TYPE_CHECKING:
    from ..lower.tile import Store, Value
    from .blocks import Block
    from .kernel import KernelPrinter

LONG = 60


def store(printer: KernelPrinter, stmt: Store) -> None:
    """The lines that write a tile: where the launch has the copy engine by that, else lane by lane."""
    block = printer.blocks.get(id(stmt))
    if block is None:
        _lanes(printer, stmt)
        return
    before = dict(printer.loads)
    printer.writer.line("if TMA:")
    printer.writer.indent += 1
    _block(printer, stmt, block)
    printer.writer.indent -= 1
    # What one branch has loaded the other has not.
    printer.loads = before
    printer.writer.line("else:")
    printer.writer.indent += 1
    _lanes(printer, stmt)
    printer.writer.indent -= 1


def _lanes(printer: KernelPrinter, stmt: Store) -> None:
    where = printer.pointer(stmt.tensor, stmt.index, stmt.axes)
    value = printer.aligned(stmt.value, stmt.axes)
    if len(value) > LONG:
        name = printer.names.fresh(f"{stmt.tensor.lower()}_tile")
        printer.writer.line(f"{name} = {value}")
        value = name
    mask = "" if stmt.mask == TRUE else f", mask={printer.condition(stmt.mask, stmt.axes)}"
    waits = ["tl.debug_barrier()"] if stmt.tensor in printer.shared else []
    for line in (*waits, f"tl.store({where}, {value}{mask})", *waits):
        printer.writer.line(line)


def _block(printer: KernelPrinter, stmt: Store, block: Block) -> None:
    whole = [printer.axes[n].extent for n in stmt.axes]
    shape = block.descriptor.shape
    starts = [printer.integer(a, ()) for a in block.starts]
    if shape[-1] == whole[-1]:
        _put(printer, stmt, block, starts, len(whole))
        return
    # Half a tile at a time takes half the room, in registers and in shared memory.
    leaves: dict[int, tuple[str, str]] = {}
    _halve(printer, stmt, stmt.value, leaves)
    for side in (0, 1):
        printer.parts = {key: names[side] for key, names in leaves.items()}
        starts[-1] = f"{starts[-1]} + {shape[-1]}" if side else starts[-1]
        _put(printer, stmt, block, starts, len(whole))
    printer.parts = {}


def _put(printer: KernelPrinter, stmt: Store, block: Block, starts: list[str], rank: int) -> None:
    value = printer.aligned(stmt.value, stmt.axes)
    if len(starts) != rank:
        value = f"tl.reshape({value}, ({', '.join(str(n) for n in block.descriptor.shape)}))"
    printer.writer.line(f"{block.descriptor.name}.store([{', '.join(starts)}], {value})")


def _halve(printer: KernelPrinter, stmt: Store, value: Value, leaves: dict[int, tuple[str, str]]) -> None:
    """Name the halves of what a value is made of; a narrow number is halved as such, for it is half to move."""
    if id(value) in leaves or stmt.axes[-1] not in value.axes:
        return
    if isinstance(value, Elem) and (value is stmt.value or value.dtype.bits > 16):
        for operand in value.operands:
            _halve(printer, stmt, operand, leaves)
        return
    text = printer.aligned(value, [n for n in stmt.axes if n in value.axes])
    stem = printer.names[value.name] if isinstance(value, Ref) else f"{stmt.tensor.lower()}_part"
    leaves[id(value)] = left, right = printer.names.fresh(f"{stem}_left"), printer.names.fresh(f"{stem}_right")
    function = "column_halves" if len(value.axes) > 1 else "lane_halves"
    printer.writer.line(f"{left}, {right} = {function}({text})")
