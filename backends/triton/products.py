"""Matrix products as Triton says them: two operands of [batch,] rows x columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.dtype import DTYPES
from ...compiler.ir.expr import Binary
from ..lower.lifetimes import lets
from ..lower.refusing import cannot
from ..lower.tile import Dot, Elem, Full, Ref
from .types import triton_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.dtype import DType
    from ..lower.tile import Let, Stmt, Value
    from .kernel import KernelPrinter

ROWS = 64  # of a tile that wgmma multiplies


def product_text(printer: KernelPrinter, dot: Dot, order: Sequence[str], held: str | None = None) -> str:
    """The product, its axes in an order, added to the tile *held* where one is given.

    Several axes of one kind (rows, columns, what is summed) are flattened into one for the product.
    """
    a, b, rows, columns = sides(dot, order)
    batch = [n for n in order if n in dot.batch]
    found = [*batch, *rows, *columns]
    if dot.fold is not None and a.dtype.bits == 8:
        a, b, rows, columns = _of_eight_bits(printer, dot, a, b, rows, columns)
        found = [*rows, *columns]
    flat = _flattens(dot, batch, rows, columns)
    kind, precision = _operand_type(a.dtype, b.dtype, dot.precision) if dot.fold is None else _folded_type(dot)
    left = _operand(printer, a, [batch, rows, dot.over], flat, kind)
    right = _operand(printer, b, [batch, dot.over, columns], flat, kind)
    words = [left, right]
    direct = found == list(order) and (not flat or held in printer.flat)
    words += [held] if held and direct else []
    if dot.fold is not None:
        start = printer.aligned(dot.fold.start, found)
        words.append(_reshaped(printer, start, [batch, rows, columns]) if flat else start)
        words += [f"max_num_imprecise_acc={dot.fold.promote}"] if dot.fold.promote else []
    words += [f'input_precision="{precision}"'] if precision else []
    text = f"tl.dot({', '.join(words)})"
    if held and direct:
        return text
    if flat:
        text = f"tl.reshape({text}, {printer.shape(found)})"
    if found != list(order):
        text = f"tl.permute({text}, ({', '.join(str(found.index(n)) for n in order)}))"
    return f"{held} + {text}" if held else text


def flat_tiles(printer: KernelPrinter, body: Sequence[Stmt]) -> dict[str, str]:
    """The tiles that sums of products are added to and nothing else makes, whose axes a product flattens: they are kept
    as the products come out. By name, with the shape that they have then."""
    shapes: dict[str, set[str | None]] = {}
    for let in lets(body):
        dot = added(let)
        shape = "" if isinstance(let.value, Full) else dot and _flat_shape(printer, dot, let.axes)
        shapes.setdefault(let.name, set()).add(None if let.keep else shape)
    found = {printer.names[name]: shape - {""} for name, shape in shapes.items()}
    return {name: shape.pop() or "" for name, shape in found.items() if len(shape) == 1 and None not in shape}


def added(let: Let) -> Dot | None:
    """The product that a tile has added to it; None where it is made in another way."""
    value = let.value
    if not isinstance(value, Elem) or not isinstance(value.node, Binary) or value.node.op != "+":
        return None
    old, dot = value.operands
    mine = isinstance(old, Ref) and old.name == let.name and old.axes == tuple(let.axes)
    return dot if mine and isinstance(dot, Dot) else None


def _flat_shape(printer: KernelPrinter, dot: Dot, order: Sequence[str]) -> str | None:
    _, _, rows, columns = sides(dot, order)
    batch = [n for n in order if n in dot.batch]
    if not _flattens(dot, batch, rows, columns) or [*batch, *rows, *columns] != list(order):
        return None
    return f"({', '.join(str(printer.lanes(group)) for group in (batch, rows, columns) if group)})"


def sides(dot: Dot, order: Sequence[str]) -> tuple[Value, Value, list[str], list[str]]:
    """The operands so that the product comes out in the wanted order, and the rows and the columns of it."""
    rows = [n for n in order if n in dot.a.axes and n not in dot.batch]
    columns = [n for n in order if n in dot.b.axes and n not in dot.batch]
    if order and columns and next(n for n in order if n not in dot.batch) == columns[0]:
        # (a b)^T is b^T a^T.
        return dot.b, dot.a, columns, rows
    return dot.a, dot.b, rows, columns


def _flattens(dot: Dot, batch: Sequence[str], rows: Sequence[str], columns: Sequence[str]) -> bool:
    return max(len(rows), len(columns), len(batch), len(dot.over)) > 1


def _operand(printer: KernelPrinter, value: Value, groups: Sequence[Sequence[str]], flat: bool, kind: DType) -> str:
    text = printer.aligned(value, [n for group in groups for n in group])
    if flat:
        text = _reshaped(printer, text, groups)
    return text if value.dtype == kind else f"{text}.to({triton_type(kind)})"


def _reshaped(printer: KernelPrinter, text: str, groups: Sequence[Sequence[str]]) -> str:
    """A tile with each group of its axes as one."""
    return f"tl.reshape({text}, ({', '.join(str(printer.lanes(group)) for group in groups if group)}))"


def _of_eight_bits(
    printer: KernelPrinter, dot: Dot, a: Value, b: Value, rows: list[str], columns: list[str]
) -> tuple[Value, Value, list[str], list[str]]:
    """The operands of a fold of 8-bit floats in the orientation that their own matrix unit takes: 64 rows or more.

    Others are widened to f16, whose fold has other bits.
    """
    if dot.batch or max(printer.lanes(rows), printer.lanes(columns)) < ROWS:
        text = f"the unit that multiplies {a.dtype} takes tiles of {ROWS} rows or columns, and no batch of them"
        raise cannot(printer.program, text, f"split the rows or the columns by {ROWS} or more")
    return (a, b, rows, columns) if printer.lanes(rows) >= ROWS else (b, a, columns, rows)


def _folded_type(dot: Dot) -> tuple[DType, str]:
    """The type of the operands of a fold, which is their own, and the precision in which they are multiplied."""
    return dot.a.dtype, "tf32" if dot.precision == "tf32" else ""


def _operand_type(a: DType, b: DType, precision: str) -> tuple[DType, str]:
    """The type that both operands get, and the precision in which they are multiplied.

    The units add products of 8-bit floats with fewer bits than f32 has, so those are widened, which is exact. So are
    bf16 and f16 where they meet: both have no more bits than tf32.
    """
    if precision != "exact":
        return DTYPES["f32"], precision
    kinds = {t.name for t in (a, b) if t.bits == 16}
    if len(kinds) == 2:
        return DTYPES["f32"], "tf32"
    return DTYPES[kinds.pop() if kinds else "f16"], ""
