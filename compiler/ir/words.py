"""Quasi-affine expressions and conditions from text, for the arguments of steps."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from .quasiaffine import Affine, Comparison, Formula, conjunction, disjunction

if TYPE_CHECKING:
    from collections.abc import Collection

_SIGNS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==", ast.NotEq: "!=", ast.GtE: ">=", ast.Gt: ">",
}  # fmt: skip


def affine_of_text(text: str, names: Collection[str]) -> Affine:
    """`4 * (k // 8) + k % 4` as an expression of these names.

    Raises:
        ValueError: it is no such expression.
    """
    return _affine(_parsed(text), names, text)


def condition_of_text(text: str, names: Collection[str]) -> Formula:
    """`K % 32 == 0 and M <= 64` as a condition on these names.

    Raises:
        ValueError: it is no such condition.
    """
    return _condition(_parsed(text), names, text)


def layout_of_text(text: str) -> tuple[tuple[str, ...], tuple[Affine, ...]]:
    """`(k, n) -> (n // 8, k, n % 8)`: the names, and the expressions of them.

    Raises:
        ValueError: it is no such layout.
    """
    left, arrow, right = text.partition("->")
    names = tuple(n.strip() for n in left.strip().strip("()").split(",") if n.strip())
    if not arrow or not all(n.isidentifier() for n in names) or len(set(names)) != len(names):
        raise ValueError(f"a layout is written (k, n) -> (n // 8, k, n % 8); this is {text!r}")
    tree = _parsed(right.strip())
    parts = tree.elts if isinstance(tree, ast.Tuple) else [tree]
    return names, tuple(_affine(part, names, text) for part in parts)


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"this is no expression: {text!r}") from None


def _affine(node: ast.expr, names: Collection[str], text: str) -> Affine:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return Affine.number(value)
        case ast.Name(id=name) if name in names:
            return Affine.name(name)
        case ast.Name(id=name):
            raise ValueError(f"{name} is none of {', '.join(names)}")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _affine(operand, names, text).scaled(-1)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _affine(left, names, text), _affine(right, names, text)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult() if a.is_number or b.is_number:
                    return b.scaled(a.constant) if a.is_number else a.scaled(b.constant)
                case ast.FloorDiv() | ast.Mod() if b.is_number and b.constant > 0:
                    return a.divided("//" if isinstance(op, ast.FloorDiv) else "%", b.constant)
                case _:
                    pass
        case _:
            pass
    raise ValueError(f"{ast.unparse(node)} is not affine: sums, products with a number, and // and % by one")


def _condition(node: ast.expr, names: Collection[str], text: str) -> Formula:
    match node:
        case ast.BoolOp(op=op, values=values):
            parts = [_condition(v, names, text) for v in values]
            return conjunction(*parts) if isinstance(op, ast.And) else disjunction(*parts)
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [_affine(side, names, text) for side in (left, *others)]
            signs = [_SIGNS.get(type(op)) for op in ops]
            if None not in signs:
                pairs = zip(signs, sides, sides[1:], strict=False)
                return conjunction(*(Comparison(str(sign), a, b) for sign, a, b in pairs))
        case _:
            pass
    raise ValueError(f"{ast.unparse(node)} is no condition on {', '.join(names)}")
