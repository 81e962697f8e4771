"""The text of an elementary function, printed from its sequence: what all Python-like targets share."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.elementary.sequence import Op, Sequence

INFIX = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "div": "{} / {}",
    "lt": "{} < {}",
    "le": "{} <= {}",
    "eq": "{} == {}",
    "ieq": "{} == {}",
    "ult": "{} < {}",
    "iadd": "{} + {}",
    "isub": "{} - {}",
    "imul": "{} * {}",
    "and": "{} & {}",
    "or": "{} | {}",
    "xor": "{} ^ {}",
    "shl": "{} << {}",
    "shr": "{} >> {}",
}


def function_name(sequence: Sequence) -> str:
    """The name of the printed function, such as exp_f32."""
    return f"{sequence.name}_{sequence.dtype}"


@dataclass
class SequencePrinter:
    """Prints one sequence; a target says in a class of its own how its operations and literals read.

    A named value is assigned to its name; an unnamed one that is used once, a bit cast and a literal stand where they
    are used. A name is taken again once its last value is dead.
    """

    # Operations as calls of their operands, and those that are written behind one.
    calls: ClassVar[Mapping[str, str]]
    methods: ClassVar[Mapping[str, str]]

    sequence: Sequence
    constants: list[str] = field(default_factory=list[str])
    _texts: dict[int, str] = field(default_factory=dict[int, str])
    _literals: dict[int, str] = field(default_factory=dict[int, str])
    _globals: set[str] = field(default_factory=set[str])

    def body(self) -> list[str]:
        """The indented statements, the return last."""
        ops = self.sequence.ops
        uses = self._uses()
        inlined = {k for k, op in enumerate(ops) if self._stands_where_used(op, uses[k])}
        last = self._last_statement(uses, inlined)
        holder: dict[str, int] = {"x": 0}
        self._texts[0] = "x"
        lines: list[str] = []
        for position, op in enumerate(ops):
            if op.kind in ("x", "const", "iconst"):
                continue
            text = self._expression(op)
            if position in inlined:
                self._texts[position] = text
            elif position == self.sequence.result:
                lines.append(f"    return {text}")
            else:
                name = _free_name(op.name or "v", position, holder, last)
                self._texts[position] = name
                lines.append(f"    {name} = {text}")
        return lines

    def _uses(self) -> list[list[int]]:
        uses: list[list[int]] = [[] for _ in self.sequence.ops]
        for position, op in enumerate(self.sequence.ops):
            for argument in op.args:
                uses[argument].append(position)
        return uses

    def _stands_where_used(self, op: Op, uses: list[int]) -> bool:
        if op.kind in ("x", "const", "iconst") or not uses:
            return False
        return not op.name and (len(uses) == 1 or op.kind in ("bits", "float"))

    def _last_statement(self, uses: list[list[int]], inlined: set[int]) -> list[int]:
        """For each value, the position of the last statement whose text reads it."""
        last = [0] * len(uses)
        for position in reversed(range(len(uses))):
            last[position] = max((last[u] if u in inlined else u for u in uses[position]), default=position)
        return last

    def _expression(self, op: Op) -> str:
        special = self.special(op)
        if special is not None:
            return special
        if op.kind in INFIX:
            return INFIX[op.kind].format(*(self.operand(a, atom=True, bare=True) for a in op.args))
        names = self._type_names()
        if op.kind in self.calls:
            return self.calls[op.kind].format(*(self.operand(a) for a in op.args), **names)
        return self.methods[op.kind].format(*(self.operand(a, atom=True) for a in op.args), **names)

    def _type_names(self) -> dict[str, str]:
        bits = self.sequence.dtype.bits
        return {
            "float_name": self.sequence.dtype.name,
            "float": f"float{bits}",
            "word": f"uint{bits}",
            "signed": f"int{bits}",
        }

    def operand(self, position: int, *, atom: bool = False, bare: bool = False) -> str:
        """The text of an operand: with *atom* in brackets where needed; with *bare* a plain Python literal
        may do, since the other operand fixes the type."""
        op = self.sequence.ops[position]
        if op.kind == "iconst":
            return self.word(cast("int", op.value), bare)
        if op.kind == "const":
            text = self._constant(position, bare)
            return text if bare else self.typed(text)
        text = self._texts[position]
        return f"({text})" if atom and not _is_atom(text) else text

    def special(self, op: Op) -> str | None:
        """An operation that reads otherwise than INFIX, *calls* and *methods* have it."""
        raise NotImplementedError

    def word(self, word: int, bare: bool) -> str:
        """A literal word; *bare*: where the other operand fixes its type."""
        raise NotImplementedError

    def constant(self, content: str) -> str:
        """A module's float constant of the sequence's type, from the text of its value."""
        raise NotImplementedError

    def typed(self, name: str) -> str:
        """A module's constant where nothing beside it fixes its type."""
        return name

    def _constant(self, position: int, bare: bool) -> str:
        op = self.sequence.ops[position]
        value = cast("float", op.value)
        if bare and math.isfinite(value) and len(repr(value)) <= 6:
            return repr(value)
        if position not in self._literals:
            name = self.global_name(op)
            content = f'float.fromhex("{short_hex(value)}")' if math.isfinite(value) else f'float("{value}")'
            self.constants.append(f"{name} = {self.constant(content)}")
            self._literals[position] = name
        return self._literals[position]

    def global_name(self, op: Op) -> str:
        """A module-level name: of the function and the operation, with a number where that is taken."""
        stem = f"{function_name(self.sequence)}_{op.name or 'c'}".upper()
        name, number = stem, 1
        while name in self._globals:
            number += 1
            name = f"{stem}_{number}"
        self._globals.add(name)
        return name


def _free_name(wanted: str, position: int, holder: dict[str, int], last: list[int]) -> str:
    """*wanted*, or it with the first number that makes it free at *position*; the name is then held."""
    name, number = wanted, 1
    while name in holder and last[holder[name]] > position:
        number += 1
        name = f"{wanted}_{number}"
    holder[name] = position
    return name


def _is_atom(text: str) -> bool:
    """Whether *text* binds tighter than any operator: a name, or a call or subscript to its end."""
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if depth == 0 and character == " ":
            return False
    return not text.startswith("-")


def short_hex(value: float) -> str:
    """The hexadecimal text of a finite float without trailing zeros in the fraction."""
    head, exponent = value.hex().split("p")
    return f"{head.rstrip('0').rstrip('.')}p{exponent}" if "." in head else value.hex()
