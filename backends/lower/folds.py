"""The sums of matrix units, `mma=`, in tiles: which tiles hold whole steps of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...compiler.ir.expr import Index, postorder
from ...compiler.ir.fold import added, factors_of, unit_of
from ...compiler.ir.quasiaffine import Affine
from .refusing import cannot
from .tile import Folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.fold import Unit
    from ...compiler.ir.program import Program, Statement
    from ...passes.refusal import IllegalTransformError
    from .tile import Value
    from .values import Scene


def unit(statement: Statement) -> Unit:
    """The matrix unit that runs an update."""
    assert statement.reduction is not None
    return unit_of(statement.reduction.order, added(statement.value))


def one_at_a_time(program: Program, statement: Statement) -> IllegalTransformError:
    """The refusal of a sum whose index is a loop and no axis."""
    if not all(_own_indices(statement)):
        return no_product(program, statement)
    text = f"{statement.name} adds one element at a time, and a matrix unit adds many"
    return cannot(program, text, "split the loop over the innermost index by 64, and block it", statement.span)


def no_product(program: Program, statement: Statement) -> IllegalTransformError:
    """The refusal of a sum that is no product of rows and columns, or whose rows or columns are no axes."""
    text = f"{statement.name} is the sum of a matrix unit, and its tile no product of rows and columns"
    remedy = "block an index of each factor, and the one they share"
    if not all(_own_indices(statement)):
        remedy = "call the definition, in NumPy; or write the sum with lanes="
    return cannot(program, text, remedy, statement.span)


def _written(statement: Statement) -> set[str]:
    """The indices of the result."""
    return {n for a in statement.position for n in a.names()}


def _own_indices(statement: Statement) -> tuple[set[str], set[str]]:
    """The indices of the result that one factor alone has, and those that the other has."""
    first, second = (
        {n for node in postorder(factor) if isinstance(node, Index) for n in node.affine.names()} & _written(statement)
        for factor in factors_of(added(statement.value))
    )
    return first - second, second - first


def folding(statement: Statement, scene: Scene, start: Value, reduced: Sequence[str]) -> Folded:
    """How a product over the axes *reduced* is added to the tile *start*.

    The blocks of a fold are those of the innermost index, from 0 on: a tile has to begin where one does. It may end
    where it likes, since products with 0 change nothing.

    Raises:
        IllegalTransformError: the tile begins inside a block, or has several indices of the sum (rule target).
    """
    assert statement.reduction is not None
    inner = [n for n in statement.iterators if n not in _written(statement)][-1]
    found, promote = unit(statement), statement.reduction.order.promote
    whole = promote or found.block
    place = scene.place(Affine.name(inner))
    rest = [c for term, c in place.terms if term not in reduced]
    own = [c for term, c in place.terms if term in reduced]
    if len(reduced) != 1 or own != [1] or any(c % whole for c in (*rest, place.constant)):
        text = f"a tile of {statement.name} does not begin where {whole} consecutive {inner} of the fold do"
        hint = f"block {inner} alone of the indices that are summed, split by a multiple of {whole}"
        raise cannot(scene.program, text, hint, statement.span)
    if promote and scene.lanes.axes[reduced[0]].used % promote:
        text = f"a tile of {statement.name} ends inside the {promote} elements that are added in f32"
        raise cannot(scene.program, text, f"split {inner} by a multiple of {promote}", statement.span)
    return Folded(start, found, promote)
