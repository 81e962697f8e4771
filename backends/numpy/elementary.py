"""The NumPy text of an elementary function, printed from its sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ...compiler.ir.elementary.sequence import Op, Sequence

_BINARY = {
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
_CALLS = {
    "sqrt": "np.sqrt({})",
    "fma": "fma_{float_name}({}, {}, {})",
    "select": "np.where({}, {}, {})",
    "clamp_above": "np.where({0} > {1}, {1}, {0})",
    "clamp_below": "np.where({0} < {1}, {1}, {0})",
}
_METHODS = {
    "bits": "{}.view(np.{word})",
    "float": "{}.view(np.{float})",
    "int_to_float": "{}.view(np.{signed}).astype(np.{float})",
    "umulhi": "({}.astype(np.uint64) * {} >> 32).astype(np.{word})",
}


def function_name(sequence: Sequence) -> str:
    """The name of the printed function, such as exp_f32."""
    return f"{sequence.name}_{sequence.dtype}"


def function_text(sequence: Sequence) -> str:
    """The constants and the function `name_type(x)` of *sequence*, as Python source without a final newline.

    x is an array or NumPy scalar of exactly the sequence's type; the result has its shape and type. The
    module around it holds `import numpy as np` and the run-time function fma_f32 or fma_f64, and its
    caller silences NumPy's floating-point warnings.
    """
    printer = _Printer(sequence)
    body = printer.body()
    summary = f"{sequence.name} on {sequence.dtype}, as a fixed sequence of correctly rounded operations."
    head = [f"def {function_name(sequence)}(x):", f'    """{summary}"""']
    return "\n".join([*printer.constants, "", "", *head, *body])


@dataclass
class _Printer:
    """Prints one sequence. A named value is assigned to its name; an unnamed one that is used once, a bit
    cast and a literal stand where they are used. A name is taken again once its last value is dead."""

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
        if op.kind == "lookup":
            return f"{self._table(op)}[{self._texts[op.args[0]]}.astype(np.intp)]"
        if op.kind == "neg":
            return f"-{self._operand(op.args[0], atom=True)}"
        if op.kind in _BINARY:
            return _BINARY[op.kind].format(*(self._operand(a, atom=True, bare=True) for a in op.args))
        names = self._type_names()
        if op.kind in _CALLS:
            return _CALLS[op.kind].format(*(self._operand(a) for a in op.args), **names)
        return _METHODS[op.kind].format(*(self._operand(a, atom=True) for a in op.args), **names)

    def _type_names(self) -> dict[str, str]:
        bits = self.sequence.dtype.bits
        return {
            "float_name": self.sequence.dtype.name,
            "float": f"float{bits}",
            "word": f"uint{bits}",
            "signed": f"int{bits}",
        }

    def _operand(self, position: int, *, atom: bool = False, bare: bool = False) -> str:
        """The text of an operand: with *atom* in brackets where needed; with *bare* a plain Python literal
        may do, since the other operand fixes the type."""
        op = self.sequence.ops[position]
        if op.kind == "iconst":
            return self._word(cast("int", op.value), bare)
        if op.kind == "const":
            return self._constant(position, bare)
        text = self._texts[position]
        return f"({text})" if atom and not _is_atom(text) else text

    def _word(self, word: int, bare: bool) -> str:
        text = str(word) if word < 256 else f"0x{word:X}"
        return text if bare else f"np.uint{self.sequence.dtype.bits}({text})"

    def _constant(self, position: int, bare: bool) -> str:
        op = self.sequence.ops[position]
        value = cast("float", op.value)
        if bare and math.isfinite(value) and len(repr(value)) <= 6:
            return repr(value)
        if position not in self._literals:
            name = self._global_name(op)
            content = f'float.fromhex("{short_hex(value)}")' if math.isfinite(value) else f'float("{value}")'
            self.constants.append(f"{name} = np.float{self.sequence.dtype.bits}({content})")
            self._literals[position] = name
        return self._literals[position]

    def _table(self, op: Op) -> str:
        name = self._global_name(op)
        bits = self.sequence.dtype.bits
        words = [f"0x{word:0{bits // 4}X}" for word in cast("tuple[int, ...]", op.value)]
        rows = [", ".join(words[k : k + 4]) for k in range(0, len(words), 4)]
        self.constants.append(f"{name} = np.array([\n    " + ",\n    ".join(rows) + f"], np.uint{bits})")
        return name

    def _global_name(self, op: Op) -> str:
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
