"""The scalar types of the language and their number formats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class DType:
    """A scalar type.

    A float's finite values are m * 2^e with |m| < 2^precision and e >= emin; *largest* is the greatest
    of them. *overflow* says what a cast makes of a larger value: "inf", or "nan" where the format has
    no infinity (f8e4m3). Integers are two's complement (u8: unsigned) and wrap.
    """

    name: str
    kind: Literal["float", "int", "bool"]
    bits: int
    precision: int = 0
    emin: int = 0
    largest: float = 0.0
    overflow: Literal["inf", "nan"] = "inf"
    signed: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        return self.kind == "int"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def stores_only(self) -> bool:
        """The 8-bit floats hold values; arithmetic on them is not part of the language."""
        return self.is_float and self.bits == 8

    @property
    def least(self) -> int:
        """Least integer of an integer type."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def greatest(self) -> int:
        """Greatest integer of an integer type."""
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def wide(self) -> DType:
        """The type whose elementary functions serve this one: f64 for f64, f32 for all other floats."""
        return F64 if self.bits == 64 else F32

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type of an array of these elements (ml_dtypes for bf16 and the 8-bit floats)."""
        import ml_dtypes
        import numpy as np

        special = {
            "bf16": ml_dtypes.bfloat16,
            "f8e4m3": ml_dtypes.float8_e4m3fn,
            "f8e5m2": ml_dtypes.float8_e5m2,
        }
        plain = {
            "f64": "f8",
            "f32": "f4",
            "f16": "f2",
            "i64": "i8",
            "i32": "i4",
            "i16": "i2",
            "i8": "i1",
            "u8": "u1",
            "bool": "?",
        }
        return np.dtype(special[self.name] if self.name in special else plain[self.name])


F64 = DType("f64", "float", 64, 53, -1074, float.fromhex("0x1.fffffffffffffp+1023"))
F32 = DType("f32", "float", 32, 24, -149, float.fromhex("0x1.fffffep+127"))
F16 = DType("f16", "float", 16, 11, -24, 65504.0)
BF16 = DType("bf16", "float", 16, 8, -133, float.fromhex("0x1.fep+127"))
F8E4M3 = DType("f8e4m3", "float", 8, 4, -9, 448.0, "nan")
F8E5M2 = DType("f8e5m2", "float", 8, 3, -16, 57344.0)
I64 = DType("i64", "int", 64)
I32 = DType("i32", "int", 32)
I16 = DType("i16", "int", 16)
I8 = DType("i8", "int", 8)
U8 = DType("u8", "int", 8, signed=False)
BOOL = DType("bool", "bool", 8, signed=False)

DTYPES: dict[str, DType] = {t.name: t for t in (F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, BOOL)}
