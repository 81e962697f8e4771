"""Types and numbers as Triton and torch write them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...compiler.ir.dtype import DType

_TRITON = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8e4nv",
    "f8e5m2": "float8e5",
    "u8": "uint8",
    "bool": "int1",
}
_TORCH = {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "bool": "bool"}
_SIGNATURE = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}


def triton_type(dtype: DType) -> str:
    """`tl.float32`: the type of a tile's elements."""
    return f"tl.{_TRITON.get(dtype.name) or f'int{dtype.bits}'}"


def torch_type(dtype: DType) -> str:
    """`torch.float32`: the type of a torch tensor's elements."""
    return f"torch.{_TORCH.get(dtype.name) or _TRITON.get(dtype.name) or f'int{dtype.bits}'}"


def signature_type(dtype: DType) -> str:
    """`fp32`: the type as the signature of a kernel compiled ahead of time has it."""
    return _SIGNATURE.get(dtype.name) or ("i1" if dtype.is_bool else dtype.name)


def number_text(value: float | int | bool) -> str:
    """A number as the text of a literal."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return str(int(value)) if isinstance(value, bool) else repr(value)


def full_text(shape: str, value: float | int | bool, dtype: DType) -> str:
    """A tile of one number. Triton takes -0 for 0 wherever it is given as a literal."""
    if negative_zero(value):
        wide = triton_type(dtype.wide)
        text = f"tl.full({shape}, 0.0, {wide}) * -1.0"
        return text if dtype.bits >= 32 else f"({text}).to({triton_type(dtype)})"
    return f"tl.full({shape}, {number_text(value)}, {triton_type(dtype)})"


def negative_zero(value: float | int | bool) -> bool:
    """Whether a number is -0.0."""
    return isinstance(value, float) and not value and math.copysign(1, value) < 0


def constant_text(value: float | int | bool, dtype: DType) -> str:
    """A constant of a type, as an atom: a scalar that takes part as such in every operation."""
    text = full_text("()", value, dtype)
    return f"({text})" if text.endswith("-1.0") else text


def literal_text(value: float | int | bool, dtype: DType) -> str:
    """A constant beside an operand of its type, which gives it that type: a literal where that is so."""
    plain = dtype.name in ("f32", "i32", "i64") and not negative_zero(value)
    return number_text(value) if plain else constant_text(value, dtype)
