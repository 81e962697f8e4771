"""Straight-line sequences of correctly rounded operations, and the builder that writes them.

A sequence computes an elementary function of one float. All its integers are words of the float's
width and are read as unsigned; their arithmetic wraps. Float operations round once, to nearest even,
and keep subnormals. The bits of a NaN are not defined.

Operations, by kind (f a float, i a word, b a truth value; *value* is the field of ``Op``)::

    x                       f   the argument; always operation 0, and only there
    const, iconst           f i the literal in *value*
    add sub mul div f f     f   one rounding            sqrt f, neg f    f   neg flips the sign bit
    fma f f f               f   a * b + c, one rounding
    clamp_above f c         f   c if a > c else a       NaN stays; c is a finite non-zero const
    clamp_below f c         f   c if a < c else a
    fmin fmax f c           f   the lesser, the greater  c for NaN; c is a finite non-zero const
    lt le eq f f            b   false on NaN            ieq ult i i      b   equal, unsigned less
    select b p q            p   p if b else q; p and q both floats or both words
    bits f                  i   the float's bits        float i          f   the float of these bits
    int_to_float i          f   the word read as two's complement, rounded once
    iadd isub imul i i      i   modulo 2^width          umulhi i i       i   upper half of the product
    and or xor i i          i   bitwise
    shl shr i n             i   logical; the word n is below the width (a const in most places)
    lookup i                i   *value*[i], a tuple of words; i is a valid index for every argument
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ..dtype import DType

Kind = Literal[
    "x",
    "const",
    "iconst",
    "add",
    "sub",
    "mul",
    "div",
    "sqrt",
    "fma",
    "neg",
    "clamp_above",
    "clamp_below",
    "fmin",
    "fmax",
    "lt",
    "le",
    "eq",
    "ieq",
    "ult",
    "select",
    "bits",
    "float",
    "int_to_float",
    "iadd",
    "isub",
    "imul",
    "umulhi",
    "and",
    "or",
    "xor",
    "shl",
    "shr",
    "lookup",
]
Sort = Literal["f", "i", "b"]

# Sorts of the arguments, and of the result; select, the one polymorphic kind, is not in the table.
SIGNATURES: dict[Kind, tuple[str, Sort]] = {
    "x": ("", "f"),
    "const": ("", "f"),
    "iconst": ("", "i"),
    "add": ("ff", "f"),
    "sub": ("ff", "f"),
    "mul": ("ff", "f"),
    "div": ("ff", "f"),
    "sqrt": ("f", "f"),
    "fma": ("fff", "f"),
    "neg": ("f", "f"),
    "clamp_above": ("ff", "f"),
    "clamp_below": ("ff", "f"),
    "fmin": ("ff", "f"),
    "fmax": ("ff", "f"),
    "lt": ("ff", "b"),
    "le": ("ff", "b"),
    "eq": ("ff", "b"),
    "ieq": ("ii", "b"),
    "ult": ("ii", "b"),
    "bits": ("f", "i"),
    "float": ("i", "f"),
    "int_to_float": ("i", "f"),
    "iadd": ("ii", "i"),
    "isub": ("ii", "i"),
    "imul": ("ii", "i"),
    "umulhi": ("ii", "i"),
    "and": ("ii", "i"),
    "or": ("ii", "i"),
    "xor": ("ii", "i"),
    "shl": ("ii", "i"),
    "shr": ("ii", "i"),
    "lookup": ("i", "i"),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One operation on the results of earlier ones.

    *args* are positions in the sequence. *value* is the literal of a const (float) or iconst (int, not
    negative) and the table of a lookup. *name* is what the value is called in a listing ("" when it has
    no name of its own); several operations may share a name, as the steps of a Horner scheme do.
    """

    kind: Kind
    args: tuple[int, ...] = ()
    value: float | int | tuple[int, ...] | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Sequence:
    """The definition of one elementary function on one float type.

    Invariant: operation 0 is the argument, each argument is an earlier operation of the sort that the
    kind wants, no operation occurs twice, and *result* is the position of a float.
    """

    name: str
    dtype: DType
    ops: tuple[Op, ...]
    result: int

    def __post_init__(self) -> None:
        sorts = sorts_of(self.ops)
        if sorts[self.result] != "f":
            raise ValueError(f"{self.name}: the result is not a float")

    @property
    def sorts(self) -> tuple[Sort, ...]:
        """The sort of each operation's value: float, integer word or truth value."""
        return sorts_of(self.ops)

    @property
    def cost(self) -> int:
        """Operations that take an instruction: all but the argument, literals and bit casts."""
        free = {"x", "const", "iconst", "bits", "float"}
        return sum(op.kind not in free for op in self.ops)


def sorts_of(ops: tuple[Op, ...]) -> tuple[Sort, ...]:
    """Check that *ops* is well formed and return the sort of each value.

    Raises:
        ValueError: an operation has an argument that is not earlier or is of the wrong sort.
    """
    sorts: list[Sort] = []
    for position, op in enumerate(ops):
        if (op.kind == "x") != (position == 0) or any(not 0 <= a < position for a in op.args):
            raise ValueError(f"operation {position} ({op.kind}) is out of place")
        got = "".join(sorts[a] for a in op.args)
        if op.kind == "select":
            wanted, sort = ("bff", "f") if got == "bff" else ("bii", "i")
        else:
            wanted, sort = SIGNATURES[op.kind]
        if got != wanted:
            raise ValueError(f"operation {position} ({op.kind}) takes {wanted!r}, not {got!r}")
        sorts.append(sort)
    return tuple(sorts)


@dataclass(frozen=True, slots=True)
class Value:
    """A value under construction: the position of its operation."""

    position: int


class Builder:
    """Writes a sequence, one method call an operation; an operation that is already there is shared.

    A float operand is a ``Value`` or a Python float, an integer operand a ``Value`` or a Python int
    (a negative one stands for its two's complement).
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.x = Value(0)
        self._ops: list[Op] = [Op("x", name="x")]
        self._known: dict[tuple[Kind, tuple[int, ...], str], Value] = {}

    def finish(self, name: str, result: Value) -> Sequence:
        """The sequence called *name* that ends in *result*."""
        return Sequence(name, self.dtype, tuple(self._ops), result.position)

    def op(self, kind: Kind, *args: Value | float | int, name: str = "") -> Value:
        """Append an operation of any kind but the literals and the lookup."""
        wanted = SIGNATURES[kind][0] if kind != "select" else "b??"
        operands = tuple(self._operand(a, sort).position for a, sort in zip(args, wanted, strict=True))
        return self._append(Op(kind, operands, None, name))

    def const(self, value: float, name: str = "") -> Value:
        """The float literal *value*, which the type must hold exactly; -0.0 is not 0.0."""
        return self._append(Op("const", (), value, name))

    def iconst(self, value: int, name: str = "") -> Value:
        """The word *value*, taken modulo 2^width."""
        return self._append(Op("iconst", (), value % (1 << self.dtype.bits), name))

    def lookup(self, table: tuple[int, ...], index: Value, name: str = "") -> Value:
        """The word at *index* of *table*."""
        return self._append(Op("lookup", (index.position,), table, name))

    def fma(self, a: Value | float, b: Value | float, c: Value | float, name: str = "") -> Value:
        """a * b + c with one rounding."""
        return self.op("fma", a, b, c, name=name)

    def select(self, condition: Value, a: Value | float, b: Value | float, name: str = "") -> Value:
        """*a* where the condition holds, else *b*; two Python ints are words."""
        return self.op("select", condition, a, b, name=name)

    def horner(self, x: Value, coefficients: tuple[float, ...], name: str = "p") -> Value:
        """The polynomial with these coefficients, lowest power first, by fused Horner steps."""
        constants = [self.const(c, f"{name}{power}") for power, c in enumerate(coefficients)]
        p = constants.pop()
        while constants:
            p = self.fma(p, x, constants.pop(), name)
        return p

    def _append(self, op: Op) -> Value:
        """The value of *op*: an earlier one when the same operation is already there."""
        literal = op.value.hex() if isinstance(op.value, float) else str(op.value)  # tells -0 from 0
        key = (op.kind, op.args, literal)
        if key not in self._known:
            self._ops.append(op)
            self._known[key] = Value(len(self._ops) - 1)
        return self._known[key]

    def _operand(self, operand: Value | float | int, sort: str) -> Value:
        if isinstance(operand, Value):
            return operand
        if sort == "i" or (sort == "?" and isinstance(operand, int)):
            if not isinstance(operand, int):
                raise TypeError(f"{operand!r} stands where a word is wanted")
            return self.iconst(operand)
        return self.const(float(operand))
