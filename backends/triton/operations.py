"""Triton text for the language's scalar operations on tiles.

Operands are text of atoms. Triton's own operators are used where they mean what the language says; the 16-bit floats
compute in f32 and round once more, which is one rounding since 24 >= 2p + 2; all else calls a function of
`runtime.py`. Modules are compiled without contraction, so an operation rounds where it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.dtype import F32, DType
from ...compiler.ir.expr import Call
from .types import triton_type

if TYPE_CHECKING:
    from ..lower.tile import Elem


def cast_text(x: str, source: DType, target: DType, saturating: bool = False) -> str:
    """Text of *x*, a tile of *source*, cast to *target*; it is an atom again.

    *saturating* clamps to the target's range (integers, 8- and 16-bit floats).
    """
    if source == target:
        return x
    if target.is_bool:
        # The 8-bit floats have no operations at all.
        return f"({_to_float(x, source, F32)} != 0)" if source.stores_only else f"({x} != 0)"
    if target.is_int:
        return _to_integer(x, source, target, saturating)
    if saturating and target.bits <= 16:
        x, source = _clamped(x, source, target)
    return _to_float(x, source, target)


def _clamped(x: str, source: DType, target: DType) -> tuple[str, DType]:
    """*x* within the finite range of the float *target*, and its type."""
    if source.is_bool or (source.is_int and -source.least <= target.largest >= source.greatest):
        return x, source
    if source.is_int:
        bound = int(target.largest)
        return f"tl.minimum(tl.maximum({x}, -{bound}), {bound})", source
    if source.bits < 32:
        # The bounds need not exist in a narrower source.
        x, source = _to_float(x, source, F32), F32
    return f"minimum(maximum({x}, -{target.largest!r}), {target.largest!r})", source


def _to_integer(x: str, source: DType, target: DType, saturating: bool) -> str:
    if source.is_float:
        wide = x if source.bits >= 32 else _to_float(x, source, F32)
        return f"float_to_int({wide}, {triton_type(target)}, {target.least}, {target.greatest})"
    if saturating and not source.is_bool:
        low, high = max(target.least, source.least), min(target.greatest, source.greatest)
        x = f"tl.maximum({x}, {low})" if low > source.least else x
        x = f"tl.minimum({x}, {high})" if high < source.greatest else x
    return f"{x}.to({triton_type(target)})"


def _to_float(x: str, source: DType, target: DType) -> str:
    if source == target:
        return x
    if target.bits >= 32:
        x = f"{x}.to(tl.float32)" if source.stores_only and target != F32 else x
        return f"{x}.to({triton_type(target)})"
    # A narrow format is reached from f32, which has to hold the value exactly or as an odd neighbour.
    if source.bits == 64 and source.is_float:
        x = f"f64_to_odd_f32({x})"
    elif source.is_int and source.bits >= 32:
        x = f"int_to_odd_f32({x})"
    elif source != F32:
        x = f"{x}.to(tl.float32)"
    return f"f32_to_{target}({x})" if target.bits == 8 else f"{x}.to({triton_type(target)})"


def binary_text(op: str, a: str, b: str, dtype: DType) -> str:
    """Text of ``a op b`` on two tiles of *dtype*, without parentheses around it.

    Raises:
        ValueError: the type has no such operation.
    """
    if op in ("min", "max"):
        return f"{op}imum({a}, {b})"
    if dtype.is_float and not dtype.stores_only and op in ("+", "-", "*", "/"):
        divides = op == "/" and dtype.bits < 64
        return _narrowed("tl.div_rn({}, {})" if divides else f"{{}} {op} {{}}", (a, b), dtype)
    if dtype.is_int and op in ("+", "-", "*"):
        return f"{a} {op} {b}"
    if dtype.is_int and op in ("//", "%"):
        word = "div" if op == "//" else "mod"
        return f"{'floor' if dtype.signed else 'unsigned'}_{word}({a}, {b})"
    raise ValueError(f"{dtype} has no operation {op!r}")


def unary_text(op: str, a: str, dtype: DType) -> str:
    """Text of ``op a`` on a tile of *dtype*; "-" has no parentheses around it.

    Raises:
        ValueError: the type has no such operation.
    """
    if dtype.is_int and op == "abs":
        return f"tl.abs({a})" if dtype.signed else a
    if dtype.is_int and op == "-":
        return f"0 - {a}"
    if dtype.is_float and not dtype.stores_only:
        if op == "-":
            # Triton's own minus is 0 - x, which loses the sign of a zero.
            return _narrowed("{} * -1.0", (a,), dtype)
        if op == "round":
            return _narrowed(f"round_even_{dtype.wide}({{}})", (a,), dtype)
        if op == "sqrt":
            return _narrowed("tl.sqrt({})" if dtype.bits == 64 else "tl.sqrt_rn({})", (a,), dtype)
        if op in ("floor", "ceil"):
            # Triton's own take subnormal f32 for 0.
            return _narrowed(f"tl.{op}({{}})" if dtype.bits == 64 else f"{op}_f32({{}})", (a,), dtype)
        if op == "abs":
            return _narrowed("tl.abs({})", (a,), dtype)
    raise ValueError(f"{dtype} has no operation {op!r}")


def fma_text(a: str, b: str, c: str, dtype: DType) -> str:
    """Text of ``a * b + c`` with one rounding on three tiles of the float type *dtype*.

    Raises:
        ValueError: *dtype* is no float type with arithmetic.
    """
    if not dtype.is_float or dtype.stores_only:
        raise ValueError(f"{dtype} has no fma")
    return f"tl.fma({a}, {b}, {c})" if dtype.bits >= 32 else f"fma_{dtype}({a}, {b}, {c})"


# By how many units in the last place the functions fast_.. of `runtime.py` may be off: the PTX manual bounds ex2 by a
# relative error of 2^-22 and rsqrt by 2^-22.4, which are 4 units; exp adds what its correction rounds.
FAST = {"exp2": 4, "rsqrt": 4, "exp": 6}


def is_fast(value: Elem) -> bool:
    """Whether an operation is a call of what the hardware has, within what the kernel permits."""
    node = value.node
    return isinstance(node, Call) and node.dtype.wide == F32 and FAST.get(node.function, value.ulps + 1) <= value.ulps


def combine_name(op: str, dtype: DType) -> str:
    """The function of `runtime.py` that is one step of a reduction."""
    word = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}[op]
    narrow = dtype.is_float and dtype.bits == 16 and op in ("sum", "prod")
    return f"{word}_{dtype}" if narrow else word


def pairs_name(op: str, dtype: DType) -> str:
    """The function that combines lanes by adjacent pairs; `pairs_text` is its text."""
    return f"pairs_{combine_name(op, dtype)}"


def pairs_text(name: str) -> str:
    """The function `pairs_<combine>`: Triton takes what combines two lanes by its name only."""
    return f'''@triton.jit
def {name}(x, rows: tl.constexpr, levels: tl.constexpr):
    """The 2**levels columns of x [rows, columns] combined by adjacent pairs until one is left: [rows]."""
    for level in tl.static_range(levels):
        x = tl.reduce(tl.reshape(x, (rows, 2 ** (levels - 1 - level), 2)), 2, {name.removeprefix("pairs_")})
    return tl.reshape(x, (rows,))'''


def _narrowed(text: str, operands: tuple[str, ...], dtype: DType) -> str:
    """An operation on floats, of 16 bits by way of f32."""
    if not dtype.is_float or dtype.bits >= 32:
        return text.format(*operands)
    inner = text.format(*(f"{x}.to(tl.float32)" for x in operands))
    return f"({inner}).to({triton_type(dtype)})" if " " in inner else f"{inner}.to({triton_type(dtype)})"
