"""Python expression text for the language's scalar operations on NumPy arrays.

Operands are text of atoms: names, calls, subscripts, or anything in parentheses. NumPy's own operators are
used where they mean what the language says (the 16-bit floats compute in f32 and round once more, which is
one rounding since 24 >= 2p + 2); everything else calls a function of `runtime.py`.
"""

from __future__ import annotations

from ...compiler.ir.dtype import F32, DType

_FLOAT_OPERATORS = ("+", "-", "*", "/")
_INTEGER_OPERATORS = ("+", "-", "*", "//", "%")
_NUMPY_UNARY = {"abs": "abs", "floor": "floor", "ceil": "ceil", "round": "rint", "sqrt": "sqrt"}
_ML_DTYPES = ("bf16", "f8e4m3", "f8e5m2")


def cast_text(x: str, source: DType, target: DType, saturating: bool = False) -> str:
    """Text of *x*, an array or NumPy scalar of *source*, cast to *target*; it is an atom again.

    *saturating* clamps to the target's range (integers, 8- and 16-bit floats).
    """
    if target.is_bool:
        return x if source.is_bool else f"({x} != 0)"
    if target.is_int:
        return _to_integer(x, source, target, saturating)
    if saturating and target.bits <= 16 and not _fits(source, target):
        if source.is_float and source.bits < 32:
            # The bounds need not exist in a narrower source.
            x, source = _to_float(x, source, F32), F32
        bound = str(int(target.largest)) if target.largest < 2**17 else repr(target.largest)
        x = f"np.clip({x}, -{bound}, {bound})"
    return _to_float(x, source, target)


def _fits(source: DType, target: DType) -> bool:
    """Whether every value of a bool or integer *source* is within the range of the float *target*."""
    return source.is_bool or (source.is_int and -source.least <= target.largest >= source.greatest)


def _to_integer(x: str, source: DType, target: DType, saturating: bool) -> str:
    if source == target:
        return x
    numpy_type = f"np.{target.numpy.name}"
    if source.is_float:
        return f"float_to_int({x}, {numpy_type})"
    inside = source.is_bool or (target.least <= source.least and source.greatest <= target.greatest)
    return f"{x}.astype({numpy_type})" if inside or not saturating else f"saturate_int({x}, {numpy_type})"


def _to_float(x: str, source: DType, target: DType) -> str:
    if source == target:
        return x
    if target.name not in _ML_DTYPES:
        return f"{x}.astype(np.{target.numpy.name})"
    if source.is_float and source.bits == 64:
        return f"f64_to_{target}({x})"
    if source.is_int and source.bits >= 32 and target.name == "bf16":
        return f"int_to_bf16({x})"
    return f"to_{target}({x})"


def binary_text(op: str, a: str, b: str, dtype: DType) -> str:
    """Text of ``a op b`` on two arrays of *dtype* (see `scalar.binary`), without parentheses around it.

    Raises:
        ValueError: the type has no such operation.
    """
    if op in ("min", "max"):
        return f"{'' if dtype.is_float else 'np.'}{op}imum({a}, {b})"
    arithmetic = dtype.is_float and not dtype.stores_only and op in _FLOAT_OPERATORS
    if arithmetic or (dtype.is_int and op in _INTEGER_OPERATORS):
        return f"{a} {op} {b}"
    raise ValueError(f"{dtype} has no operation {op!r}")


def unary_text(op: str, a: str, dtype: DType) -> str:
    """Text of ``op a`` on an array of *dtype* (see `scalar.unary`); "-" has no parentheses around it.

    Raises:
        ValueError: the type has no such operation.
    """
    arithmetic = dtype.is_int or (dtype.is_float and not dtype.stores_only)
    if arithmetic and op == "-":
        return f"-{a}"
    if arithmetic and op in _NUMPY_UNARY and (dtype.is_float or op == "abs"):
        return f"np.{_NUMPY_UNARY[op]}({a})"
    raise ValueError(f"{dtype} has no operation {op!r}")


def fma_text(a: str, b: str, c: str, dtype: DType) -> str:
    """Text of ``a * b + c`` with one rounding on three arrays of the float type *dtype*.

    Raises:
        ValueError: *dtype* is no float type with arithmetic.
    """
    if not dtype.is_float or dtype.stores_only:
        raise ValueError(f"{dtype} has no fma")
    return f"fma_{dtype}({a}, {b}, {c})"
