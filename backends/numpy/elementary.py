"""The NumPy text of an elementary function, printed from its sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from ..elementary import SequencePrinter, function_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...compiler.ir.elementary.sequence import Op, Sequence


def function_text(sequence: Sequence) -> str:
    """The constants and the function `name_type(x)` of *sequence*, as Python source without a final newline.

    x is an array or NumPy scalar of exactly the sequence's type; the result has its shape and type. The
    module around it holds `import numpy as np` and the run-time function fma_f32 or fma_f64, and its
    caller silences NumPy's floating-point warnings.
    """
    printer = _Numpy(sequence)
    body = printer.body()
    summary = f"{sequence.name} on {sequence.dtype}, as a fixed sequence of correctly rounded operations."
    head = [f"def {function_name(sequence)}(x):", f'    """{summary}"""']
    return "\n".join([*printer.constants, "", "", *head, *body])


class _Numpy(SequencePrinter):
    calls: ClassVar[Mapping[str, str]] = {
        "sqrt": "np.sqrt({})",
        "fma": "fma_{float_name}({}, {}, {})",
        "select": "np.where({}, {}, {})",
        "clamp_above": "np.where({0} > {1}, {1}, {0})",
        "clamp_below": "np.where({0} < {1}, {1}, {0})",
        "fmin": "np.fmin({}, {})",
        "fmax": "np.fmax({}, {})",
    }
    methods: ClassVar[Mapping[str, str]] = {
        "bits": "{}.view(np.{word})",
        "float": "{}.view(np.{float})",
        "int_to_float": "{}.view(np.{signed}).astype(np.{float})",
        "umulhi": "({}.astype(np.uint64) * {} >> 32).astype(np.{word})",
    }

    def word(self, word: int, bare: bool) -> str:
        text = str(word) if word < 256 else f"0x{word:X}"
        return text if bare else f"np.uint{self.sequence.dtype.bits}({text})"

    def constant(self, content: str) -> str:
        return f"np.float{self.sequence.dtype.bits}({content})"

    def special(self, op: Op) -> str | None:
        if op.kind == "lookup":
            return f"{self._table(op)}[{self.operand(op.args[0])}.astype(np.intp)]"
        return f"-{self.operand(op.args[0], atom=True)}" if op.kind == "neg" else None

    def _table(self, op: Op) -> str:
        name = self.global_name(op)
        bits = self.sequence.dtype.bits
        words = [f"0x{word:0{bits // 4}X}" for word in cast("tuple[int, ...]", op.value)]
        rows = [", ".join(words[k : k + 4]) for k in range(0, len(words), 4)]
        self.constants.append(f"{name} = np.array([\n    " + ",\n    ".join(rows) + f"], np.uint{bits})")
        return name
