"""The value of a statement as operations on tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...compiler.ir.expr import (
    Allow,
    Call,
    Const,
    Expr,
    Index,
    Logic,
    Partial,
    Read,
    Scalar,
    Select,
    children,
    postorder,
)
from ...compiler.ir.expr import Reduce as Reduction
from ...compiler.ir.permissions import ulps
from ...compiler.ir.quasiaffine import Affine, All, Comparison, Formula, conjunction, substituted
from .lanes import simplified
from .masks import condition, formula_set, names_in, projected
from .refusing import cannot
from .tile import Elem, Full, Integer, Load, Reduce, Ref, Value, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    import islpy as isl

    from ...compiler.ir.program import Program
    from .lanes import Lanes


@dataclass(frozen=True, eq=False)
class Scene:
    """Where a leaf runs. *bound*: the statement's iterators over sizes, loops and axes. *lanes_of*: the leaf's axes.

    *domain*: the lanes and iterations that it runs in; *known*: what holds of sizes and outer loops, with every lane
    of the axes. *permissions*: granted for all of the statement.
    """

    program: Program
    lanes: Lanes
    bound: Mapping[str, Affine]
    lanes_of: tuple[str, ...]
    domain: isl.Set
    known: isl.Set
    permissions: tuple[str, ...] = ()

    def place(self, affine: Affine) -> Affine:
        """An index expression of the statement over loops and axes."""
        reach = {**self.lanes.reach, **{n: a.used for n, a in self.lanes.axes.items()}}
        return simplified(affine.substituted(self.bound), reach)

    def axes_in(self, *affines: Affine) -> tuple[str, ...]:
        """The axes that expressions mention, in the leaf's order."""
        found = {n for a in affines for n in a.names()}
        return tuple(n for n in self.lanes_of if n in found)

    def joined(self, *values: Value) -> tuple[str, ...]:
        """The axes of several values, in the leaf's order."""
        found = {n for v in values for n in v.axes}
        return tuple(n for n in self.lanes_of if n in found)

    def lanes_where(self, axes: tuple[str, ...], *conditions: Formula) -> Formula:
        """The lanes of some axes in which the leaf runs anywhere, as far as that is not known.

        Raises:
            UnsayableError: no condition describes them.
        """
        outer = [n for n in self._names() if n not in self.lanes_of]
        points = self.domain
        for extra in conditions:
            points = points.intersect(formula_set(sorted(names_in(extra)), extra))
        points = projected(points, [*outer, *axes])
        return condition(points.gist(projected(self.known, [*outer, *axes])))

    def _names(self) -> list[str]:
        from islpy import dim_type

        both = (self.domain, self.known)
        return list(
            dict.fromkeys(str(s.get_dim_name(dim_type.param, i)) for s in both for i in range(s.dim(dim_type.param)))
        )


def value_of(expr: Expr, scene: Scene) -> Value:
    """An expression as tile operations, shared where the expression is.

    Raises:
        IllegalTransformError: it reads what tiles do not hold (rule target).
    """
    done: dict[int, Value] = {}
    _require_sure_gathers(expr, scene)
    granted = _granted(expr, ulps(scene.permissions))
    for node in postorder(expr):
        inner = tuple(done[id(c)] for c in children(node) if id(c) in done)
        made = _value(node, inner, scene)
        done[id(node)] = replace(made, ulps=granted[id(node)]) if isinstance(node, Call) else made
    return done[id(expr)]


def _granted(expr: Expr, outside: int) -> dict[int, int]:
    """How many units in the last place each node may be off, by the permissions written round it: the fewest, where an
    expression stands in several places."""
    found: dict[int, int] = {}
    waiting = [(expr, outside)]
    while waiting:
        node, number = waiting.pop()
        if found.get(id(node), number + 1) <= number:
            continue
        found[id(node)] = number
        inner = max(number, ulps(node.permissions)) if isinstance(node, (Allow, Reduction)) else number
        waiting += [(child, inner) for child in children(node)]
    return found


def _require_sure_gathers(expr: Expr, scene: Scene) -> None:
    """Refuse a position that data decide in a branch that data may switch off: where it is checked is not said."""
    for node in postorder(expr):
        branches = (node.then, node.other) if isinstance(node, Select) else ()
        branches += node.operands[1:] if isinstance(node, Logic) else ()
        for branch in branches:
            for read in postorder(branch):
                if isinstance(read, Read) and read.gathers:
                    text = f"data decide where {read.tensor} is read, in a branch that may not be taken"
                    raise cannot(scene.program, text, "an equation of its own for what is read", read.span)


def _value(node: Expr, inner: tuple[Value, ...], scene: Scene) -> Value:
    match node:
        case Const():
            return Full(node.value, (), node.dtype)
        case Index():
            place = scene.place(node.affine)
            return Integer(place, scene.axes_in(place), node.dtype)
        case Scalar():
            return Elem(node, (), (), node.dtype)
        case Allow():
            return inner[0]
        case Partial():
            return _merged(node, scene)
        case Read():
            return _read(node, inner, scene)
        case _:
            return Elem(node, inner, scene.joined(*inner), node.dtype)


def _merged(node: Partial, scene: Scene) -> Value:
    """The adjacent-pair merge of an axis of a tile."""
    dims = scene.lanes.tiles.get(node.tensor)
    lane = dims[-1] if dims else None
    if (
        dims is None
        or lane is None
        or scene.lanes.axes[lane].used != node.count
        or scene.lanes.axes[lane].extent != node.count
    ):
        text = f"the lanes of {node.tensor} are no axis of a tile: their merge cannot be said"
        raise cannot(scene.program, text, "block the loop over the lanes, and keep the sum in one nest", node.span)
    prefix = tuple(scene.place(s.affine) for s in node.prefix)
    axes = scene.axes_in(*prefix)
    held = Ref(scene.lanes.tile(node.tensor, prefix), tuple(n for n in dims if n is not None), node.dtype)
    return Reduce(node.op, held, (lane,), axes, node.dtype, pairs=True)


def _read(node: Read, inner: tuple[Value, ...], scene: Scene) -> Value:
    tensor = scene.program.tensors[node.tensor]
    dims = scene.lanes.tiles.get(node.tensor)
    index: list[Affine | Value] = []
    for sub, value in zip(node.subscripts, inner, strict=False):
        index.append(scene.place(sub.affine) if isinstance(sub, Index) else value)
    if dims is not None:
        # A tile has one place at each position, none of which data decide.
        places = [i for i in index if isinstance(i, Affine)]
        return Ref(scene.lanes.tile(node.tensor, places), tuple(n for n in dims if n is not None), node.dtype)
    # In the order of the tensor's dimensions, as they lie in memory.
    by_dimension = [scene.axes_in(i) if isinstance(i, Affine) else i.axes for i in index]
    axes = tuple(dict.fromkeys(n for dimension in by_dimension for n in dimension))
    guard = substituted(node.guard, {n: scene.place(a) for n, a in scene.bound.items()})
    inside: list[Formula] = []
    if node.fill is not None:
        for place, extent in zip(index, tensor.extents, strict=True):
            if not isinstance(place, Affine):
                raise cannot(
                    scene.program,
                    f"data decide where {node.tensor} is read, and it may be beyond its edge",
                    None,
                    node.span,
                )
            inside += [Comparison(">=", place, a) for a in extent.lower]
            inside += [Comparison("<", place, b) for b in extent.upper]
    within = conjunction(*inside)
    mask = scene.lanes_where(axes, within, guard)
    load = Load(node.tensor, tuple(index), axes, node.dtype, mask)
    if node.fill is None:
        return load
    pad = inner[len(node.subscripts)]
    needed = _not_always(within, scene, axes)
    if needed == All():
        return load
    if isinstance(pad, Full) and not pad.axes:
        return Load(node.tensor, tuple(index), axes, node.dtype, mask, pad.value, padded=True)
    return Where(needed, load, pad, scene.joined(load, pad), node.dtype)


def _scalars(scene: Scene) -> set[str]:
    """The names without lanes: sizes and outer loops."""
    from islpy import dim_type

    return {str(scene.known.get_dim_name(dim_type.param, i)) for i in range(scene.known.dim(dim_type.param))} - set(
        scene.lanes_of
    )


def _not_always(within: Formula, scene: Scene, axes: tuple[str, ...]) -> Formula:
    """The part of a condition that does not follow from where the leaf runs."""
    points = formula_set(sorted(names_in(within)), within)
    return condition(points.gist(projected(scene.domain, [*axes, *_scalars(scene)])))
