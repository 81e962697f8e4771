"""The lowering's own check: the lanes that take part, derived again from the tile IR, are those of the leaf's domain.

For all sizes at once, by isl. It reads masks and fills off what was made and knows nothing of how they were found; what
values the other lanes hold is for the run beside the definition to show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .masks import formula_set, names_in, projected
from .neutral import loads
from .refusing import cannot
from .tile import Dot, Elem, Let, Load, Reduce, Store, Value, Where, operands

if TYPE_CHECKING:
    from collections.abc import Iterable

    import islpy as isl

    from ...compiler.ir.expr import Expr
    from ...compiler.ir.program import Statement
    from ...compiler.ir.quasiaffine import Formula
    from .values import Scene


def check_lanes(scene: Scene, statement: Statement, made: Let | Store, alive: isl.Set | None) -> None:
    """Check one statement. *alive*: the lanes that its tile had before (None: it is new, or lies in memory).

    Raises:
        IllegalTransformError: lanes take part that should not, or do not that should (rule unknown): the lowering is
            at fault.
    """
    reduced = [n for n in scene.lanes_of if n not in made.axes]
    rows = projected(scene.domain, _without(scene.domain, reduced))
    outer = projected(scene.domain, _without(scene.domain, scene.lanes_of))
    everywhere = scene.known.intersect(outer)
    known = projected(everywhere, _without(everywhere, reduced))
    if alive is not None:
        alive = projected(alive, {*_names(scene.known), *made.axes})
        known = known.intersect(alive)
    if isinstance(made, Store):
        _require(scene, statement, _set(made.mask), rows, known, "stored")
    elif alive is not None:
        _require(scene, statement, _set(made.mask) if made.keep else known, rows, known, "changed")
    if reduced:
        inside = everywhere if alive is None else everywhere.intersect(alive)
        inside = inside.intersect(rows) if isinstance(made, Store) else inside
        for value in _reductions(made.value):
            found, padded = _taking_part(value, inside), any(load.padded for load in loads(value))
            # Beyond an array's edge the kernel reads a number, which may well be the neutral one.
            wanted = scene.domain.intersect(found) if padded and found.is_subset(scene.domain) else scene.domain
            _require(scene, statement, found, wanted, inside, "summed")


def _require(scene: Scene, statement: Statement, found: isl.Set, wanted: isl.Set, known: isl.Set, what: str) -> None:
    if not found.intersect(known).is_equal(wanted.intersect(known)):
        text = f"the lanes of {statement.name} that are {what} are not those in which it runs"
        raise cannot(scene.program, text, None, statement.span, "unknown")


def _set(mask: Formula) -> isl.Set:
    return formula_set(sorted(names_in(mask)), mask)


def _names(points: isl.Set) -> set[str]:
    from islpy import dim_type

    return {str(points.get_dim_name(dim_type.param, i)) for i in range(points.dim(dim_type.param))}


def _without(points: isl.Set, names: Iterable[str]) -> set[str]:
    return _names(points) - set(names)


def _reductions(value: Value) -> list[Value]:
    """What is combined over lanes: the operand of a reduction, or a matrix product."""
    if isinstance(value, Dot):
        return [value]
    if isinstance(value, Reduce):
        return [value.value]
    return [found for inner in operands(value) for found in _reductions(inner)]


def _taking_part(value: Value, everywhere: isl.Set) -> isl.Set:
    """The lanes in which a value may be another than the neutral one."""
    match value:
        case Load():
            return everywhere if value.fill is None else everywhere.intersect(_set(value.mask))
        case Where():
            return _taking_part(value.value, everywhere).intersect(_set(value.mask))
        case Dot():
            return _taking_part(value.a, everywhere).intersect(_taking_part(value.b, everywhere))
        case Elem() if value.operands and not _any_of(value.node):
            parts = [_taking_part(v, everywhere) for v in value.operands if v.axes]
            found = parts[0] if parts else everywhere
            for part in parts[1:]:
                found = found.intersect(part) if _product(value.node) else found.union(part)
            return found
        case _:
            return everywhere


def _product(node: Expr) -> bool:
    return getattr(node, "op", "") in ("*", "and")


def _any_of(node: Expr) -> bool:
    """Whether a node's value does not follow its operands': a choice between them."""
    return type(node).__name__ == "Select"
