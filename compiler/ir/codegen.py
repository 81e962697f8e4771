"""Bounds and guards of a loop tree as expressions: what isl knows, as text of loops.

isl's own code generator of expressions (`AstBuild`) turns piecewise affine bounds into min, max, divisions and
remainders; the walk below prints them in Python's words, which are also those of the language.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import islpy as isl

from .affine import make_set
from .tree import Leaf, Loop, leaves

if TYPE_CHECKING:
    from .program import Program

Rename = Callable[[str], str]


@dataclass(frozen=True)
class Words:
    """What the languages of targets say differently. *floor*: the function that divides toward minus infinity, where
    `//` does not do it for a negative number."""

    both: str = "and"
    either: str = "or"
    floor: str | None = None


PYTHON = Words()

_OPERATORS = {
    isl.ast_expr_op_type.add: "+",
    isl.ast_expr_op_type.sub: "-",
    isl.ast_expr_op_type.mul: "*",
    isl.ast_expr_op_type.div: "//",
    isl.ast_expr_op_type.fdiv_q: "//",
    isl.ast_expr_op_type.pdiv_q: "//",
    isl.ast_expr_op_type.pdiv_r: "%",
    isl.ast_expr_op_type.zdiv_r: "%",
    isl.ast_expr_op_type.eq: "==",
    isl.ast_expr_op_type.le: "<=",
    isl.ast_expr_op_type.lt: "<",
    isl.ast_expr_op_type.ge: ">=",
    isl.ast_expr_op_type.gt: ">",
    isl.ast_expr_op_type.and_: "and",  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks it
    isl.ast_expr_op_type.or_: "or",  # pyright: ignore[reportAttributeAccessIssue]  # the stub lacks it
}
_STRENGTH = {"or": 1, "and": 2, "==": 3, "<=": 3, "<": 3, ">=": 3, ">": 3, "+": 4, "-": 4, "*": 5, "//": 5, "%": 5}
_ATOM = 9


def expression(node: Any, rename: Rename, words: Words = PYTHON) -> str:
    """An isl expression as text."""
    return _text(node, rename, words)[0]


def _text(node: Any, rename: Rename, words: Words) -> tuple[str, int]:
    kind = node.get_type()
    if kind == isl.ast_expr_type.id:
        return rename(node.get_id().get_name()), _ATOM
    if kind == isl.ast_expr_type.int:
        value = int(node.get_val().to_python())
        return str(value), _ATOM if value >= 0 else 4
    op = node.get_op_type()
    count = node.get_op_n_arg()
    arguments = [_text(node.get_op_arg(i), rename, words) for i in range(count)]
    if op in (isl.ast_expr_op_type.min, isl.ast_expr_op_type.max):
        word = "min" if op == isl.ast_expr_op_type.min else "max"
        texts = [text for text, _ in arguments]
        while words != PYTHON and len(texts) > 2:
            texts[-2:] = [f"{word}({texts[-2]}, {texts[-1]})"]
        return f"{word}({', '.join(texts)})", _ATOM
    if op == isl.ast_expr_op_type.minus:
        return f"-{_wrapped(arguments[0], 6)}", 4
    if op in (isl.ast_expr_op_type.cond, isl.ast_expr_op_type.select):
        test, then, other = arguments
        return f"({then[0]} if {test[0]} else {other[0]})", _ATOM
    if op == isl.ast_expr_op_type.add:
        for at in (0, 1):
            size = _negative_factor(node.get_op_arg(at))
            if size is not None:
                # a + -2 * b, in whatever order isl has it, reads a - 2 * b
                factor, other = size
                text = _text(other, rename, words)
                shown = _wrapped(text, 5) if factor == 1 else f"{factor} * {_wrapped(text, 6)}"
                return f"{_wrapped(arguments[1 - at], 4)} - {shown}", 4
    if op == isl.ast_expr_op_type.fdiv_q and words.floor is not None:
        return f"{words.floor}({', '.join(text for text, _ in arguments)})", _ATOM
    symbol = _OPERATORS[op]
    if symbol in ("and", "or") and words != PYTHON:
        # Where it is a bit operation, it binds tighter than comparisons.
        word = words.both if symbol == "and" else words.either
        return f" {word} ".join(_wrapped(a, _ATOM) for a in arguments), _STRENGTH[symbol]
    strength = _STRENGTH[symbol]
    return f"{_wrapped(arguments[0], strength)} {symbol} {_wrapped(arguments[1], strength + 1)}", strength


def _negative_factor(node: Any) -> tuple[int, Any] | None:
    """(c, b) where an expression is -c * b."""
    if node.get_type() != isl.ast_expr_type.op or node.get_op_type() != isl.ast_expr_op_type.mul:
        return None
    first = node.get_op_arg(0)
    if first.get_type() != isl.ast_expr_type.int:
        return None
    value = int(first.get_val().to_python())
    return (-value, node.get_op_arg(1)) if value < 0 else None


def _wrapped(shown: tuple[str, int], strength: int) -> str:
    return shown[0] if shown[1] >= strength else f"({shown[0]})"


def as_params(points: isl.Set, indices: Sequence[str]) -> isl.Set:
    """The set with its dimensions, by name, as parameters: one space for all leaves."""
    plain = points.reset_tuple_id() if points.has_tuple_id() else points
    for position in range(len(indices)):
        plain = plain.set_dim_name(isl.dim_type.set, position, f"index{position}")
    # isl tightens a set in place when it is asked something. What it says of the set's text depends on the set alone.
    plain = isl.Set.read_from_str(plain.get_ctx(), str(plain.detect_equalities().remove_redundancies()))
    for position, name in enumerate(indices):
        plain = plain.set_dim_name(isl.dim_type.set, position, name)
    count = plain.dim(isl.dim_type.param)
    plain = plain.move_dims(isl.dim_type.param, count, isl.dim_type.set, 0, len(indices))
    for position, name in enumerate(indices):
        plain = plain.set_dim_name(isl.dim_type.param, count + position, name)
    return plain.params()


def without(points: isl.Set, names: Sequence[str]) -> isl.Set:
    """A parameter set with some of its parameters projected out."""
    for name in names:
        position = points.find_dim_by_name(isl.dim_type.param, name)
        if position >= 0:
            points = points.project_out(isl.dim_type.param, position, 1)
    return points


# (condition, first value, one past the last, what is known inside) of a loop; without ends one that never runs.
Bound = tuple[isl.AstExpr | None, isl.AstExpr | None, isl.AstExpr | None, isl.Set]


class Bounds:
    """Bounds of loops and guards of leaves, for one walk down a tree."""

    def __init__(self, program: Program, rename: Rename = lambda name: name, words: Words = PYTHON) -> None:
        isl.DEFAULT_CONTEXT.set_ast_build_detect_min_max(1)
        self.program = program
        self.rename = rename
        self.words = words
        # The domains of leaves as parameter sets: a leaf is asked for at every loop around it.
        self._points: dict[Leaf, isl.Set] = {}
        # The values of loops, by the nodes of the tree, which are kept here so that no other takes their place.
        self._values: dict[tuple[int, tuple[str, ...]], tuple[Loop, isl.Set]] = {}
        self._bounds: dict[tuple[int, tuple[str, ...], int], tuple[Loop, isl.Set, Bound]] = {}

    def start(self) -> isl.Set:
        """What is known outside every loop."""
        return make_set(self.program.sizes, (), self.program.context).params()

    def loop(self, loop: Loop, outer: Sequence[str], known: isl.Set) -> tuple[str | None, str, str, isl.Set]:
        """(condition under which it has values, first value, one past the last, what is known inside) of a loop.

        The condition is None where the bounds alone make the loop empty or it never is.
        """
        # A loop inside one that is written out is asked for again and again.
        key = id(loop), tuple(outer), id(known)
        if key not in self._bounds:
            self._bounds[key] = loop, known, self._bound(loop, outer, known)
        guard, low, high, inside = self._bounds[key][2]
        if low is None or high is None:
            return None, "0", "0", inside
        return None if guard is None else self.written(guard), self.written(low), self.written(high), inside

    def _bound(self, loop: Loop, outer: Sequence[str], known: isl.Set) -> Bound:
        inside = self.values(loop, outer)
        if inside.is_empty():
            return None, None, None, known
        position = inside.find_dim_by_name(isl.dim_type.param, loop.index)
        values = inside.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1) if position >= 0 else inside
        low, high = values.dim_min(0), values.dim_max(0)
        # Outside the points that have values the bounds mean nothing.
        some = without(inside, [loop.index])
        lows, highs = low.gist(some).coalesce().get_pieces(), high.gist(some).coalesce().get_pieces()
        if len(lows) == len(highs) == 1:
            # Bounds of one piece hold everywhere: what they allow beyond, the loops and guards inside still refuse.
            first, last = isl.PwAff.from_aff(lows[0][1].ceil()), isl.PwAff.from_aff(highs[0][1].floor())
            build = isl.AstBuild.from_context(known)
            ends = build.expr_from_pw_aff(first), build.expr_from_pw_aff(last.add(_one(last)))
            return None, *ends, known.intersect(between(first, last, loop.index))
        guard = None
        if not known.is_subset(some):
            guard = isl.AstBuild.from_context(known).expr_from_set(some.gist(known).coalesce())
            known = known.intersect(some)
        low, high = low.gist(known).coalesce(), high.gist(known).coalesce()
        build = isl.AstBuild.from_context(known)
        hull = isl.Set.from_basic_set(inside.polyhedral_hull())
        ends = build.expr_from_pw_aff(low), build.expr_from_pw_aff(high.add(_one(high)))
        return guard, *ends, known.intersect(hull)

    def ends(self, points: isl.Set, name: str, known: isl.Set) -> tuple[str, str]:
        """(least, one past the greatest) value of a parameter of a parameter set."""
        position = points.find_dim_by_name(isl.dim_type.param, name)
        values = points.move_dims(isl.dim_type.set, 0, isl.dim_type.param, position, 1)
        low, high = values.dim_min(0).gist(known).coalesce(), values.dim_max(0).gist(known).coalesce()
        return self._shown(low, known), self._shown(high.add(_one(high)), known)

    def _shown(self, bound: isl.PwAff, known: isl.Set) -> str:
        return self.written(isl.AstBuild.from_context(known).expr_from_pw_aff(bound))

    def written(self, node: isl.AstExpr) -> str:
        """An expression of isl as the target writes it."""
        return expression(node, self.rename, self.words)

    def values(self, loop: Loop, outer: Sequence[str]) -> isl.Set:
        """The values of a loop's index, over the sizes and the outer indices, as a parameter set."""
        key = id(loop), tuple(outer)
        if key not in self._values:
            union: isl.Set | None = None
            for leaf in leaves(loop.body):
                inner = [n for n in leaf.indices if n not in (*outer, loop.index)]
                points = without(self.points(leaf), inner)
                union = points if union is None else union.union(points)
            assert union is not None
            self._values[key] = loop, union.coalesce()
        return self._values[key][1]

    def points(self, leaf: Leaf) -> isl.Set:
        """The domain of a leaf as a parameter set."""
        if leaf not in self._points:
            self._points[leaf] = as_params(leaf.domain, leaf.indices)
        return self._points[leaf]

    def guard(self, leaf: Leaf, known: isl.Set) -> str | None:
        """The condition under which a leaf runs, None where it always does."""
        domain = self.points(leaf)
        if known.is_subset(domain):
            return None
        build = isl.AstBuild.from_context(known)
        return self.written(build.expr_from_set(domain.gist(known).coalesce()))


def between(first: isl.PwAff, last: isl.PwAff, index: str) -> isl.Set:
    """first <= index <= last, as a parameter set."""
    # To the bounds the index is a new parameter.
    named = isl.Space.params_alloc(isl.DEFAULT_CONTEXT, 1).set_dim_name(isl.dim_type.param, 0, index)
    space = first.get_domain_space().align_params(named)
    position = space.find_dim_by_name(isl.dim_type.param, index)
    value = isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), isl.dim_type.param, position))
    return first.le_set(value).intersect(value.le_set(last)).params()


def _one(like: isl.PwAff) -> isl.PwAff:
    space = like.get_domain_space()
    return isl.PwAff.from_aff(isl.Aff.val_on_domain_space(space, isl.Val(1)))
