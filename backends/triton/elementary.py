"""The Triton text of an elementary function, printed from its sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from ..elementary import SequencePrinter, function_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...compiler.ir.elementary.sequence import Op, Sequence


def function_text(sequence: Sequence) -> str:
    """The constants and the function `name_type(x)` of *sequence*, as Triton source without a final newline.

    x is a tile of exactly the sequence's type; the result has its shape and type. Compiled with
    enable_fp_fusion=False, each operation rounds once: the bits are those of every other target.
    """
    printer = _Triton(sequence)
    body = printer.body()
    name, _, shorter = sequence.name.partition("_")
    what = f"Half of {name}" if shorter == "half" else name
    where = {"": "", "nonpositive": " of what is not above 0"}.get(shorter, ", where it is a normal number")
    summary = f"{what} on {sequence.dtype}{where}, as a fixed sequence of correctly rounded operations."
    head = ["@triton.jit", f"def {function_name(sequence)}(x):", f'    """{summary}"""']
    return "\n".join([*printer.constants, *([""] * 2 if printer.constants else []), *head, *body])


class _Triton(SequencePrinter):
    calls: ClassVar[Mapping[str, str]] = {
        "fma": "tl.fma({}, {}, {})",
        "select": "tl.where({}, {}, {})",
        "clamp_above": "tl.where({0} > {1}, {1}, {0})",
        "clamp_below": "tl.where({0} < {1}, {1}, {0})",
        "fmin": "tl.minimum({}, {})",
        "fmax": "tl.maximum({}, {})",
        "umulhi": "tl.umulhi({}, {})",
    }
    methods: ClassVar[Mapping[str, str]] = {
        "bits": "{}.to(tl.{word}, bitcast=True)",
        "float": "{}.to(tl.{float}, bitcast=True)",
        "int_to_float": "{}.to(tl.{signed}, bitcast=True).to(tl.{float})",
    }

    @property
    def _wide(self) -> bool:
        return self.sequence.dtype.bits == 64

    def special(self, op: Op) -> str | None:
        match op.kind:
            case "div" if self._wide:
                # Of two f64 the plain quotient is rounded to nearest; of two f32 it is an approximation.
                return "{} / {}".format(*(self.operand(a, atom=True) for a in op.args))
            case "div":
                return f"tl.div_rn({', '.join(self.operand(a) for a in op.args)})"
            case "sqrt":
                return f"tl.{'sqrt' if self._wide else 'sqrt_rn'}({self.operand(op.args[0])})"
            case "neg":
                # Triton's own minus is 0 - x, which loses the sign of a zero.
                return f"{self.operand(op.args[0], atom=True)} * -1.0"
            case "clamp_above" | "clamp_below" if not self._wide:
                # One instruction that f64 does not have.
                word = "minimum" if op.kind == "clamp_above" else "maximum"
                return f"tl.{word}({', '.join(self.operand(a) for a in op.args)}, propagate_nan=tl.PropagateNan.ALL)"
            case "lookup":
                return self._choice(op, self.operand(op.args[0]))
            case _:
                return None

    def word(self, word: int, bare: bool) -> str:
        text = str(word) if word < 256 else f"0x{word:X}"
        return text if bare else f"tl.full((), {text}, tl.uint{self.sequence.dtype.bits})"

    def constant(self, content: str) -> str:
        return f"tl.constexpr({content})"

    def typed(self, name: str) -> str:
        # A float constant by itself is an f32.
        return f"tl.full((), {name}, tl.float64)" if self._wide else name

    def _choice(self, op: Op, index: str) -> str:
        """A word of a table: registers hold none, a chain of choices is one."""
        *words, last = cast("tuple[int, ...]", op.value)
        text = self.word(last, bare=False)
        for position in reversed(range(len(words))):
            text = f"tl.where({index} == {position}, {self.word(words[position], bare=False)}, {text})"
        return text
