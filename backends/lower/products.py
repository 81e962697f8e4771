"""Matrix products, found from the axes and types of what is multiplied and added."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Allow, Binary, Cast, Expr, Index, postorder
from ...compiler.ir.tree import placed
from .folds import unit
from .lanes import MATRIX
from .masks import names_in, parts_of
from .neutral import Known, cleared, finite
from .refusing import cannot
from .tile import Dot
from .values import Scene, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Program, Statement
    from ...compiler.ir.quasiaffine import Formula
    from ...compiler.ir.tree import Leaf, Node
    from .lanes import Lanes


def factors(element: Expr) -> tuple[Expr, Expr] | None:
    """The two factors of an f32 product, and no more."""
    while isinstance(element, Allow):
        element = element.operand
    if isinstance(element, Binary) and element.op == "*" and element.dtype.name == "f32":
        return element.left, element.right
    return None


def _narrow(factor: Expr) -> Expr:
    """The 16-bit (or narrower) value that a factor widens, or the factor itself."""
    while isinstance(factor, Allow):
        factor = factor.operand
    if isinstance(factor, Cast) and factor.operand.dtype.is_float and factor.operand.dtype.bits <= 16:
        return factor.operand
    return factor


def dot_axes(program: Program, tree: Sequence[Node], lanes: Lanes) -> dict[str, int]:
    """The axes that are to be wider, and how wide, for the products of updates to fill a matrix unit.

    Rows, columns and what is summed have to come to 16 lanes each, over all axes of their kind.
    """
    wider: dict[str, int] = {}
    for item in placed(tree):
        statement = program.statement(item.leaf.statement)
        pair = _products(statement)
        if pair is None or statement.reduction is None or statement.reduction.op != "sum":
            continue
        a, b = (_axes(e, item.leaf, statement, lanes) for e in pair)
        kept = _axes_of_target(statement, item.leaf, lanes)
        if not _splits(program, pair, [a, b], kept, statement.folds):
            continue
        batch = a & b & kept
        terms = max(MATRIX, unit(statement).block) if statement.folds else MATRIX
        for kind, least in (((a | b) - kept, terms), ((a & kept) - batch, MATRIX), ((b & kept) - batch, MATRIX)):
            lanes_now = math.prod(lanes.axes[n].extent for n in kind)
            if lanes_now < least:
                last = max(kind)
                wider[last] = max(wider.get(last, 0), lanes.axes[last].extent * (least // lanes_now))
    return wider


def _products(statement: Statement) -> tuple[Expr, Expr] | None:
    for node in postorder(statement.value):
        pair = factors(node)
        if statement.kind == "update" and pair is not None:
            return pair
    return None


def _axes(expr: Expr, leaf: Leaf, statement: Statement, lanes: Lanes) -> set[str]:
    bound = dict(zip(statement.iterators, leaf.instance, strict=True))
    names = {n for node in postorder(expr) if isinstance(node, Index) for n in node.affine.substituted(bound).names()}
    return {lanes.axis_of[n] for n in names if n in lanes.axis_of}


def _axes_of_target(statement: Statement, leaf: Leaf, lanes: Lanes) -> set[str]:
    bound = dict(zip(statement.iterators, leaf.instance, strict=True))
    names = {n for a in statement.position for n in a.substituted(bound).names()}
    return {lanes.axis_of[n] for n in names if n in lanes.axis_of}


def _splits(program: Program, pair: tuple[Expr, Expr], axes: Sequence[set[str]], kept: set[str], folds: bool) -> bool:
    """Whether the axes of two factors are those of a matrix product, and their types fit."""
    a, b = axes
    over, batch = (a | b) - kept, a & b & kept
    rows, columns = (a & kept) - batch, (b & kept) - batch
    narrow = all(_narrow(f).dtype.bits <= 16 for f in pair)
    free = folds or narrow or "tf32" in program.permissions or "contract" in program.permissions
    return bool(over) and over <= a and over <= b and bool(rows) and bool(columns) and free


def as_dot(
    element: Expr, scene: Scene, reduced: tuple[str, ...], missing: Formula, known: Known, statement: Statement
) -> Dot | None:
    """A sum of products over the reduced axes as a matrix product; None where it is none.

    Lanes that take no part must add nothing: both factors are 0 there. Where only one of them can be, the product is
    0 times what the other holds, which is NaN for an infinity or a NaN: that needs `finite`.

    Raises:
        IllegalTransformError: a condition spans more axes than either factor has (rule target), or `finite` is
            needed and not granted (rule rounding).
    """
    pair = factors(element)
    if pair is None or statement.reduction is None or statement.reduction.op != "sum":
        return None
    a, b = (value_of(_narrow(f), scene) for f in pair)
    kept = {n for n in scene.lanes_of if n not in reduced}
    if not _splits(scene.program, pair, [set(a.axes), set(b.axes)], kept, statement.folds):
        return None
    allowed = (*scene.program.permissions, *statement.reduction.permissions)
    exact = all(v.dtype.bits <= 16 for v in (a, b))
    if not exact:
        a, b = (value_of(f, scene) for f in pair)
    leans: set[str] = set()
    for part in parts_of(missing):
        spans = names_in(part) & set(scene.lanes_of)
        in_a, in_b = spans <= set(a.axes), spans <= set(b.axes)
        if not in_a and not in_b:
            text = f"the lanes in which {statement.name} runs hang on axes of both factors: {part}"
            raise cannot(scene.program, text, "do not block the reduced loop", statement.span)
        if not (in_a and in_b) and "finite" not in allowed:
            text = f"where {part} fails, the product would add 0 times a value that the definition does not use"
            raise cannot(
                scene.program, text, "allow finite, if no such value is infinite or NaN", statement.span, "rounding"
            )
        leans |= set() if in_a and in_b else {"finite"}
        a = cleared(a, part, known) if in_a else finite(a, scene.lanes_where(a.axes), reduced, known)
        b = cleared(b, part, known) if in_b else finite(b, scene.lanes_where(b.axes), reduced, known)
    batch = tuple(n for n in scene.lanes_of if n in kept and n in a.axes and n in b.axes)
    axes = tuple(n for n in scene.lanes_of if n in kept)
    precision = "exact" if exact else "tf32" if statement.folds or "tf32" in allowed else "ieee"
    if not statement.folds:
        leans |= {"exact": set[str](), "tf32": {"tf32"}, "ieee": {"contract"}}[precision]
    return Dot(a, b, reduced, batch, axes, element.dtype, precision, tuple(sorted(leans)))
