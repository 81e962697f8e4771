"""LLVM text, instruction by instruction: values with a type and a number of lanes, blocks, and slots."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHORT = {"float": "f32", "double": "f64"}


@dataclass(frozen=True)
class Value:
    """An operand: *text* is a name or a constant, *type* that of one lane; one lane is a scalar."""

    text: str
    type: str
    lanes: int = 1

    @property
    def full(self) -> str:
        """The type of all lanes."""
        return self.type if self.lanes == 1 else f"<{self.lanes} x {self.type}>"

    def __str__(self) -> str:
        return f"{self.full} {self.text}"


def number(value: float | int | bool, type: str) -> Value:
    """A constant of one lane; a float is one that its type holds exactly."""
    if type in SHORT:
        (word,) = struct.unpack("<Q", struct.pack("<d", float(value)))
        return Value(f"0x{word:016X}", type)
    if type == "i1":
        return Value("true" if value else "false", type)
    return Value(str(int(value)), type)


def is_constant(value: Value) -> bool:
    """Whether an operand is written out."""
    return not value.text.startswith("%")


@dataclass
class Builder:
    """One function under construction.

    *starts*: the lines of its first block, where slots are made; *declared*: the intrinsics it calls; *tables*: the
    constants of the module that it reads, *functions* those that it calls, by name.
    """

    lines: list[str] = field(default_factory=list[str])
    starts: list[str] = field(default_factory=list[str])
    declared: dict[str, str] = field(default_factory=dict[str, str])
    tables: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, str] = field(default_factory=dict[str, str])
    # The types of names, of functions inside this one too.
    types: dict[str, str] = field(default_factory=dict[str, str])
    block: str = "entry"
    count: int = 0
    # Bytes of buffers on the stack.
    stacked: int = 0
    # How the function ends where there is no memory.
    gives_up: tuple[str, ...] = ("ret i64 2",)
    # Whether the processor converts f16 by instructions of its own.
    halves: bool = True

    def fresh(self, word: str = "t") -> str:
        """A name that is new in the function; those of a kernel do not begin with a dot."""
        self.count += 1
        return f"%.{word}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def made(self, text: str, type: str, lanes: int = 1) -> Value:
        """The value of an instruction."""
        return self.named(Value(self.fresh(), type, lanes), text)

    def named(self, value: Value, text: str) -> Value:
        """The value of an instruction, under a name that is there already."""
        self.line(f"{value.text} = {text}")
        self.types[value.text] = value.full
        return value

    # ---- blocks

    def label(self, word: str) -> str:
        """A name for a block that is new in the function."""
        return self.fresh(f"{word}.")[1:]

    def start(self, label: str) -> None:
        """Go on in a new block."""
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Value, then: str, other: str) -> None:
        self.line(f"br i1 {condition.text}, label %{then}, label %{other}")

    # ---- lanes

    def spread(self, value: Value, lanes: int) -> Value:
        """A value in every one of so many lanes."""
        if value.lanes == lanes:
            return value
        if is_constant(value):
            return Value(f"splat ({value})", value.type, lanes)
        full = f"<{lanes} x {value.type}>"
        first = self.made(f"insertelement {full} poison, {value}, i64 0", value.type, lanes)
        return self.made(f"shufflevector {first}, {full} poison, <{lanes} x i32> zeroinitializer", value.type, lanes)

    def alike(self, *values: Value) -> list[Value]:
        """The values with as many lanes as the widest of them."""
        lanes = max(v.lanes for v in values)
        return [self.spread(v, lanes) for v in values]

    def lane(self, value: Value, number: int) -> Value:
        """One lane of a value."""
        if value.lanes == 1:
            return value
        return self.made(f"extractelement {value}, i64 {number}", value.type)

    def joined(self, parts: Sequence[Value]) -> Value:
        """Scalars as the lanes of one value."""
        (first, *_) = parts
        lanes = len(parts)
        whole = Value("poison", first.type, lanes)
        for number, part in enumerate(parts):
            whole = self.made(f"insertelement {whole}, {part}, i64 {number}", first.type, lanes)
        return whole

    def shuffled(self, a: Value, b: Value, order: Sequence[int]) -> Value:
        """The lanes of two values, counted through, in some order."""
        mask = f"<{len(order)} x i32> <{', '.join(f'i32 {n}' for n in order)}>"
        return self.made(f"shufflevector {a}, {b}, {mask}", a.type, len(order))

    # ---- operations

    def binary(self, op: str, a: Value, b: Value) -> Value:
        a, b = self.alike(a, b)
        return self.made(f"{op} {a}, {b.text}", a.type, a.lanes)

    def compared(self, op: str, a: Value, b: Value) -> Value:
        """icmp or fcmp; *op*: with the word, as in `icmp slt`."""
        a, b = self.alike(a, b)
        return self.made(f"{op} {a}, {b.text}", "i1", a.lanes)

    def selected(self, test: Value, then: Value, other: Value) -> Value:
        test, then, other = self.alike(test, then, other)
        return self.made(f"select {test}, {then}, {other}", then.type, then.lanes)

    def converted(self, op: str, value: Value, type: str) -> Value:
        """A conversion of each lane: fpext, sitofp, bitcast, trunc and so on."""
        full = type if value.lanes == 1 else f"<{value.lanes} x {type}>"
        return self.made(f"{op} {value} to {full}", type, value.lanes)

    def any_of(self, test: Value) -> Value:
        """Whether a test holds in any lane."""
        if test.lanes == 1:
            return test
        word = self.made(f"bitcast {test} to i{test.lanes}", f"i{test.lanes}")
        return self.compared("icmp ne", word, number(0, word.type))

    def negated(self, value: Value) -> Value:
        """The float with its sign bit flipped."""
        return self.made(f"fneg {value}", value.type, value.lanes)

    def inverted(self, test: Value) -> Value:
        return self.binary("xor", test, number(True, "i1"))

    def called(self, name: str, *arguments: Value, extra: str = "") -> Value:
        """An intrinsic of one type, such as `fma`, applied to each lane; *extra*: a last argument."""
        given = self.alike(*arguments)
        (first, *_) = given
        suffix = SHORT.get(first.type, first.type)
        suffix = suffix if first.lanes == 1 else f"v{first.lanes}{suffix}"
        whole = f"llvm.{name}.{suffix}"
        kinds = ", ".join([*(v.full for v in given), *([extra.split()[0]] if extra else [])])
        self.declared[whole] = f"declare {first.full} @{whole}({kinds})"
        text = ", ".join([*(str(v) for v in given), *([extra] if extra else [])])
        return self.made(f"call {first.full} @{whole}({text})", first.type, first.lanes)

    # ---- memory

    def slot(self, type: str, word: str = "slot") -> str:
        """A place of the function's own, made once."""
        name = self.fresh(word)
        self.starts.append(f"  {name} = alloca {type}, align 64")
        self.types[name] = "ptr"
        return name

    def text(self) -> Iterator[str]:
        """The blocks, the first one named entry."""
        yield "entry:"
        yield from self.starts
        yield from self.lines
