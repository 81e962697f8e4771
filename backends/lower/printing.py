"""What the texts of tiles have in common, in whatever target: index expressions, lanes and conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, All, Comparison, Formula, Some
from .tile import For, If, Let, Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Program
    from ..naming import Names, Writer
    from .tile import Stmt


def tuple_text(texts: Sequence[str]) -> str:
    """A tuple of some expressions."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def atom(text: str) -> str:
    """The text as an operand of anything: in parentheses unless it is one name, call or subscript."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter in " -*/":
            return f"({text})"
    return text


@dataclass
class TilePrinter:
    """Prints index expressions and conditions; *axes* are always those of the whole that the text is part of."""

    program: Program
    names: Names
    writer: Writer
    # The loads of the statement at hand: their text, and the name that each has got.
    loads: dict[str, str] = field(default_factory=dict[str, str], kw_only=True)

    def body(self, stmts: Sequence[Stmt]) -> None:
        """The lines of some statements."""
        said = ""
        for stmt in stmts:
            self.statement(stmt, said)
            said = stmt.comment if isinstance(stmt, (Let, Store)) else ""

    def statement(self, stmt: Stmt, said: str = "") -> None:
        """The lines of a statement; names that it alone needs are free again after it. *said*: the comment above it."""
        mark = self.names.mark()
        self.loads = {}
        match stmt:
            case For():
                depth = self.writer.indent
                self.loop(stmt)
                self.writer.indent = depth
            case If():
                self.writer.line(f"if {self.condition(stmt.condition, ())}:")
                self.writer.indent += 1
                self.body(stmt.body)
                self.writer.indent -= 1
            case Let() | Store():
                if stmt.comment != said:
                    self.comment(stmt.comment)
                self.let(stmt) if isinstance(stmt, Let) else self.store(stmt)
        self.names.release(mark)

    def comment(self, text: str) -> None:
        """What the statement is, in the kernel's words."""
        if text:
            self.writer.line(f"# {text}" if len(text) < 110 else f"# {text[:100]} ..")

    def loop(self, stmt: For) -> None:
        """The head of a loop, indented what it runs."""
        raise NotImplementedError

    def let(self, stmt: Let) -> None:
        """The line that names a tile."""
        raise NotImplementedError

    def store(self, stmt: Store) -> None:
        """The line that writes a tile to memory."""
        raise NotImplementedError

    def integer(self, affine: Affine, axes: Sequence[str]) -> str:
        """An index expression, its axes spread over those of the whole."""
        words = {n: self.lane(n, axes) if n in axes else self.names[n] for n in affine.names()}
        return str(affine.renamed(words))

    def lane(self, axis: str, axes: Sequence[str]) -> str:
        name = self.names[axis]
        if len(axes) == 1:
            return name
        return f"{name}[{', '.join(':' if a == axis else 'None' for a in axes)}]"

    def condition(self, formula: Formula, axes: Sequence[str]) -> str:
        match formula:
            case Comparison():
                return self.comparison(formula, axes)
            case All(parts) | Some(parts):
                sign = " & " if isinstance(formula, All) else " | "
                texts = [self.condition(p, axes) for p in parts]
                if len(texts) == 1:
                    return texts[0]
                return sign.join(f"({t})" for t in texts) if texts else str(isinstance(formula, All))

    def comparison(self, found: Comparison, axes: Sequence[str]) -> str:
        """`a < b` with every term on the side where it is positive."""
        both = found.left - found.right
        more = Affine(tuple((t, c) for t, c in both.terms if c > 0))
        less = Affine(tuple((t, -c) for t, c in both.terms if c < 0))
        if found.op != ">=":
            return f"{self.integer(more + both.constant, axes)} {found.op} {self.integer(less, axes)}"
        if both.constant < 0 and less == Affine():
            return f"{self.integer(more, axes)} >= {-both.constant}"
        if both.constant == -1:
            return f"{self.integer(less, axes)} < {self.integer(more, axes)}"
        return f"{self.integer(less, axes)} <= {self.integer(more + both.constant, axes)}"
