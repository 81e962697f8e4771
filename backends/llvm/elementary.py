"""Elementary functions where they are called: their sequences, operation by operation."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, cast

from .builder import Value, number

if TYPE_CHECKING:
    from ...compiler.ir.elementary.sequence import Op, Sequence
    from .builder import Builder

BINARY = {
    "add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "iadd": "add", "isub": "sub", "imul": "mul",
    "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "lshr",
}  # fmt: skip
TESTS = {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ieq": "icmp eq", "ult": "icmp ult"}


def applied(b: Builder, sequence: Sequence, x: Value) -> Value:
    """The function of x, a value of the sequence's own type."""
    made: list[Value] = []
    word = f"i{sequence.dtype.bits}"
    for op in sequence.ops:
        made.append(_operation(b, sequence, op, [made[a] for a in op.args], x, word))
    return made[sequence.result]


def _operation(b: Builder, sequence: Sequence, op: Op, args: list[Value], x: Value, word: str) -> Value:
    match op.kind:
        case "x":
            return x
        case "const":
            return number(cast("float", op.value), x.type)
        case "iconst":
            return number(_signed(cast("int", op.value), sequence.dtype.bits), word)
        case "fma":
            return b.called("fma", *args)
        case "sqrt":
            return b.called("sqrt", *args)
        case "neg":
            return b.negated(args[0])
        case "clamp_above":
            return b.selected(b.compared("fcmp ogt", *args), args[1], args[0])
        case "clamp_below":
            return b.selected(b.compared("fcmp olt", *args), args[1], args[0])
        case "fmin":
            return b.selected(b.compared("fcmp olt", *args), args[0], args[1])
        case "fmax":
            return b.selected(b.compared("fcmp ogt", *args), args[0], args[1])
        case "select":
            return b.selected(*args)
        case "bits":
            return b.converted("bitcast", args[0], word)
        case "float":
            return b.converted("bitcast", args[0], x.type)
        case "int_to_float":
            return b.converted("sitofp", args[0], x.type)
        case "umulhi":
            return _upper_half(b, args, sequence.dtype.bits, word)
        case "lookup":
            return _looked_up(b, cast("tuple[int, ...]", op.value), args[0], sequence, word)
        case _ if op.kind in TESTS:
            return b.compared(TESTS[op.kind], *args)
        case _:
            return b.binary(BINARY[op.kind], *args)


def _signed(word: int, bits: int) -> int:
    return word - (1 << bits) if word >> bits - 1 else word


def _upper_half(b: Builder, args: list[Value], bits: int, word: str) -> Value:
    wide = [b.converted("zext", a, f"i{2 * bits}") for a in b.alike(*args)]
    product = b.binary("mul", wide[0], wide[1])
    return b.converted("trunc", b.binary("lshr", product, number(bits, f"i{2 * bits}")), word)


def _looked_up(b: Builder, words: tuple[int, ...], index: Value, sequence: Sequence, word: str) -> Value:
    """A word of a table of the module, lane by lane."""
    name = f'@"{sequence.name} {word} {zlib.crc32(repr(words).encode()):08x}"'
    bits = sequence.dtype.bits
    items = ", ".join(f"{word} {_signed(w, bits)}" for w in words)
    b.tables[name] = f"{name} = private constant [{len(words)} x {word}] [{items}]"
    found: list[Value] = []
    for number_ in range(index.lanes):
        place = b.made(f"getelementptr inbounds {word}, ptr {name}, {b.lane(index, number_)}", "ptr")
        found.append(b.made(f"load {word}, {place}", word))
    return found[0] if index.lanes == 1 else b.joined(found)
