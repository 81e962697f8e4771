"""Evaluation of a sequence at one argument, in exact arithmetic with one rounding an operation."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, cast

from ..scalar import fma, round_to

if TYPE_CHECKING:
    from ..dtype import DType
    from .sequence import Op, Sequence

Scalar = float | int | bool


def evaluate(sequence: Sequence, x: float) -> float:
    """The value of *sequence* at *x*, a float that the sequence's type holds exactly."""
    values: list[Scalar] = []
    for op in sequence.ops:
        if op.kind == "x":
            values.append(x)
        else:
            values.append(_apply(op, [values[a] for a in op.args], sequence.dtype))
    return float(values[sequence.result])


def _apply(op: Op, args: list[Scalar], dtype: DType) -> Scalar:
    match op.kind:
        case "const" | "iconst":
            return cast("Scalar", op.value)
        case "lookup":
            return cast("tuple[int, ...]", op.value)[int(args[0])]
        case "select":
            return args[1] if args[0] else args[2]
        case "lt" | "le" | "eq" | "ieq" | "ult":
            return _compare(op.kind, args[0], args[1])
        case "bits":
            return _word(float(args[0]), dtype)
        case "float":
            return _from_word(int(args[0]), dtype)
        case "iadd" | "isub" | "imul" | "umulhi" | "and" | "or" | "xor" | "shl" | "shr":
            return _integer(op.kind, int(args[0]), int(args[1]), dtype.bits)
        case "int_to_float":
            word = int(args[0])
            return round_to(dtype, word - (1 << dtype.bits) if word >> (dtype.bits - 1) else word)
        case _:
            return _float(op.kind, [float(a) for a in args], dtype)


def _compare(kind: str, a: Scalar, b: Scalar) -> bool:
    if kind in ("lt", "ult"):
        return a < b
    return a <= b if kind == "le" else a == b


def _integer(kind: str, a: int, b: int, width: int) -> int:
    match kind:
        case "iadd":
            result = a + b
        case "isub":
            result = a - b
        case "imul":
            result = a * b
        case "umulhi":
            result = a * b >> width
        case "and":
            result = a & b
        case "or":
            result = a | b
        case "xor":
            result = a ^ b
        case "shl":
            result = a << b
        case _:
            result = a >> b
    return result & ((1 << width) - 1)


def _float(kind: str, args: list[float], dtype: DType) -> float:
    """Float operations. For f32 the f64 operation and a second rounding give the same as one rounding,
    since 53 >= 2 * 24 + 2 (Figueroa); a product or sum beyond f64 cannot arise there."""
    a = args[0]
    match kind:
        case "fma":
            return fma(a, args[1], args[2], dtype)
        case "neg":
            return -a
        case "clamp_above":
            return args[1] if a > args[1] else a
        case "clamp_below":
            return args[1] if a < args[1] else a
        case "fmin":
            return a if a < args[1] else args[1]
        case "fmax":
            return a if a > args[1] else args[1]
        case "add":
            return round_to(dtype, a + args[1])
        case "sub":
            return round_to(dtype, a - args[1])
        case "mul":
            return round_to(dtype, a * args[1])
        case "div":
            return round_to(dtype, _divide(a, args[1]))
        case "sqrt":
            return round_to(dtype, math.sqrt(a) if a >= 0 or math.isnan(a) else math.nan)
        case _:
            raise AssertionError(f"no float operation {kind!r}")


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, math.copysign(1.0, a) * math.copysign(1.0, b))


def _word(value: float, dtype: DType) -> int:
    layout, integer = ("<f", "<I") if dtype.bits == 32 else ("<d", "<Q")
    return int(struct.unpack(integer, struct.pack(layout, value))[0])


def _from_word(word: int, dtype: DType) -> float:
    layout, integer = ("<f", "<I") if dtype.bits == 32 else ("<d", "<Q")
    return float(struct.unpack(layout, struct.pack(integer, word))[0])
