"""From a placed loop tree to tiles: outer loops, and each leaf under block loops as one operation on a tile.

Two kinds of masks are kept apart: the lanes that may be *read* (a load's mask; the others may hold anything), and the
lanes that must be *neutral* (those of a reduced axis that take no part in a sum that is alive). The method is that of
masks by projection and gist: a mask is what a leaf's domain says beyond what is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import islpy as isl

from ...compiler.ir.affine import make_map
from ...compiler.ir.codegen import PYTHON, Bounds, Rename, Words, without
from ...compiler.ir.expr import Binary, Call, Expr, Logic, Read
from ...compiler.ir.quasiaffine import TRUE, Affine, Formula, Some, conjunction
from ...compiler.ir.reduction import identity
from ...compiler.ir.show import statement_text
from ...compiler.ir.tree import Alloc, Leaf, Loop, Node, leaves
from .check import check_lanes
from .fills import with_fills
from .folds import folding, no_product, one_at_a_time
from .forward import with_forwarded
from .groups import of_grid
from .lanes import Lanes, find_lanes, simplified, widened
from .lifetimes import with_carried, with_starts
from .masks import UnsayableError, box, condition, named, names_in, parts_of, projected
from .neutral import Known, neutralised
from .origins import from_zero
from .products import as_dot, dot_axes
from .refusing import cannot
from .tile import Elem, For, If, Let, Reduce, Roles, Stmt, Store, Tiles, Value
from .unroll import unrolled
from .values import Scene, value_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compiler.ir.program import Program, Statement


@dataclass
class _Work:
    """What the walk carries: the axes, the bounds of loops, and the lanes of each tile that are alive."""

    program: Program
    lanes: Lanes
    bounds: Bounds
    # Those of loops that may become a grid, in Python's words.
    spans: Bounds
    live: dict[str, isl.Set] = field(default_factory=dict)  # pyright: ignore


def lower_to_tiles(
    program: Program, tree: Sequence[Node], rename: Rename = lambda name: name, words: Words = PYTHON
) -> Tiles:
    """A program and its tree in tiles.

    *rename*, *words*: how names of loops and sizes, and operators, are written in the ends of loops.

    Raises:
        IllegalTransformError: tiles cannot say it (rule target), an axis has no constant extent (shape), or a masked
            matrix product would add terms that the definition does not have (rounding).
    """
    plain = unrolled(program, from_zero(program, tree))
    lanes = find_lanes(program, plain)
    _require_distinct(program, plain, lanes)
    work = _Work(program, lanes, Bounds(program, rename, words), Bounds(program, rename))
    # Matrix units want wide axes: which ones they get shows when their products are found.
    work.lanes = widened(lanes, dot_axes(program, plain, lanes))
    body = _walk(work, plain, (), work.bounds.start())
    arrays = tuple(
        n
        for n, t in program.tensors.items()
        if t.role not in ("input", "constant") and n not in program.outputs and n not in lanes.tiles
    )
    body = with_forwarded(with_fills(body), work.lanes.axes)
    carried = with_carried(with_starts(body))
    tiles = tuple(n for tensor in lanes.tiles for n in lanes.tiles_of(tensor))
    return Tiles(work.lanes.axes, carried, arrays, tiles, dict(_orders(tree, arrays)))


def _orders(tree: Sequence[Node], arrays: Sequence[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The arrays of which a layout says nothing but the order of the dimensions, with that order."""
    for node in tree:
        if isinstance(node, Alloc):
            storage = node.storage
            names = [a.bare for a in storage.layout]
            if node.tensor in arrays and names and sorted(storage.names) == sorted(n or "" for n in names):
                yield node.tensor, tuple(storage.names.index(n) for n in names if n is not None)
        if not isinstance(node, Leaf):
            yield from _orders(node.body, arrays)


def _require_distinct(program: Program, tree: Sequence[Node], lanes: Lanes) -> None:
    """No leaf has one axis twice."""
    for leaf in leaves(tree):
        found = [lanes.axis_of[n] for n in leaf.indices if n in lanes.axis_of]
        if len(set(found)) != len(found):
            statement = program.statement(leaf.statement)
            text = f"{leaf.statement} has one axis of a tile under two names"
            raise cannot(program, text, "block one of the two loops only", statement.span)


def _walk(work: _Work, nodes: Sequence[Node], around: tuple[str, ...], known: isl.Set) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for node in nodes:
        match node:
            case Leaf():
                result += _leaf(work, node, (), known)
            case Loop(kind="block"):
                leaf, block = _only_leaf(node)
                result += _leaf(work, leaf, block, known)
            case Loop():
                guard, low, high, inside = work.bounds.loop(node, around, known)
                before = dict(work.live)
                body = _walk(work, node.body, (*around, node.index), inside)
                # A tile made inside is alive inside; of one made before more lanes may be alive now.
                work.live = {n: without(s, [node.index]) for n, s in work.live.items() if n in before}
                made = For(
                    node.index, low, high, body, node.kind, node.descending, guard, node.stages, fused=node.fused
                )
                if node.roles is not None:
                    last = frozenset(work.program.statement(name).tensor for name in node.roles.epilogue)
                    made = replace(made, roles=Roles(node.roles.consumers, last))
                if node.kind in ("bind", "parallel"):
                    made = of_grid(work.spans, made, node, around, known)
                result.append(made)
            case _:
                result += _walk(work, node.body, around, known)
    return _together(result)


def _together(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements with those that follow one another under one condition in one `If`."""
    result: list[Stmt] = []
    for stmt in body:
        last = result[-1] if result else None
        if isinstance(stmt, If) and isinstance(last, If) and stmt.condition == last.condition:
            result[-1] = If(last.condition, (*last.body, *stmt.body))
        else:
            result.append(stmt)
    return tuple(result)


def _only_leaf(node: Loop) -> tuple[Leaf, tuple[str, ...]]:
    """The leaf under block loops that are round it alone."""
    names = [node.index]
    inner: Node = node.body[0]
    while isinstance(inner, Loop):
        names.append(inner.index)
        inner = inner.body[0]
    assert isinstance(inner, Leaf)
    return inner, tuple(names)


def _leaf(work: _Work, leaf: Leaf, block: tuple[str, ...], known: isl.Set) -> list[Stmt]:
    program, lanes = work.program, work.lanes
    statement = program.statement(leaf.statement)
    words = {n: lanes.axis_of[n] for n in block}
    names = tuple(words.get(n, n) for n in leaf.indices)
    axes = tuple(words[n] for n in block)
    domain = named(leaf, names)
    everywhere = known.intersect(box((a, lanes.axes[a].extent) for a in axes))
    bound = dict(zip(statement.iterators, (a.renamed(words) for a in leaf.instance), strict=True))
    granted = (*program.permissions, *(statement.reduction.permissions if statement.reduction else ()))
    scene = Scene(program, lanes, bound, axes, domain, everywhere, granted)
    _require_apart(program, lanes, statement, leaf, block)
    try:
        runs = condition(projected(domain, [n for n in _params(domain) if n not in axes]).gist(known))
        alive = work.live.get(_tile(statement, scene))
        made = _statement(work, statement, scene)
        check_lanes(scene, statement, made, alive)
    except UnsayableError:
        text = f"the lanes in which {statement.name} runs are no condition on their numbers"
        raise cannot(program, text, "split or peel so that they are", statement.span) from None
    if runs == TRUE:
        return [made]
    return [] if runs == Some() else [If(runs, (made,))]


def _require_apart(program: Program, lanes: Lanes, statement: Statement, leaf: Leaf, block: tuple[str, ...]) -> None:
    """Lanes that are in what a statement writes write different elements; the others are reduced."""
    if not block:
        return
    instance = dict(zip(statement.iterators, leaf.instance, strict=True))
    position = [simplified(a.substituted(instance), lanes.reach) for a in statement.position]
    written = {n for a in position for n in a.names()}
    kept = [n for n in leaf.indices if n not in block or n in written]
    domain = leaf.domain
    for place in reversed(range(len(leaf.indices))):
        if leaf.indices[place] not in kept:
            domain = domain.project_out(isl.dim_type.set, place, 1)
    images = [*(Affine.name(n) for n in kept if n not in block), *position]
    if not make_map(program.sizes, kept, images, TRUE).intersect_domain(domain).is_injective():
        text = f"several lanes of {statement.name} update one element of {statement.tensor}, and it is no reduced axis"
        raise cannot(program, text, f"split by what divides them, or do not block {', '.join(block)}", statement.span)


def _params(points: isl.Set) -> list[str]:
    from islpy import dim_type

    return [str(points.get_dim_name(dim_type.param, i)) for i in range(points.dim(dim_type.param))]


def _statement(work: _Work, statement: Statement, scene: Scene) -> Let | Store:
    comment = statement_text(statement)
    target = tuple(scene.place(a) for a in statement.position)
    dims = scene.lanes.tiles.get(statement.tensor)
    kept = scene.axes_in(*target)
    reduced = tuple(a for a in scene.lanes_of if a not in kept)
    if statement.folds and not reduced:
        raise one_at_a_time(scene.program, statement)
    value = _reduced(work, statement, scene, reduced) if reduced else value_of(statement.value, scene)
    if dims is None:
        mask = scene.lanes_where(kept)
        return Store(statement.tensor, target, mask, value, kept, comment)
    axes = tuple(n for n in dims if n is not None)
    name = _tile(statement, scene)
    alive = work.live.get(name)
    domain = projected(scene.domain, [n for n in _params(scene.domain) if n not in reduced])
    if alive is None:
        work.live[name] = domain
        return Let(name, value, axes, comment=comment)
    # Lanes that are alive and take no part keep what they hold.
    context = projected(scene.known, [n for n in _params(scene.known) if n not in reduced]).intersect(
        projected(alive, [n for n in _params(alive) if n in {*_params(scene.known), *axes}])
    )
    mask = condition(domain.gist(context))
    work.live[name] = alive.union(domain).coalesce()
    return Let(name, value, axes, mask, mask != TRUE, comment)


def _tile(statement: Statement, scene: Scene) -> str:
    """The tile that a statement writes, or the tensor in memory."""
    if statement.tensor not in scene.lanes.tiles:
        return statement.tensor
    return scene.lanes.tile(statement.tensor, [scene.place(a) for a in statement.position])


def _reduced(work: _Work, statement: Statement, scene: Scene, reduced: tuple[str, ...]) -> Value:
    """A statement some of whose axes are not in what it writes: a reduction carries them out."""
    program = scene.program
    op = statement.reduction.op if statement.reduction else ""
    parts = _step(statement)
    if parts is None or op in ("argmax", "argmin"):
        text = f"{statement.name} writes one element from several lanes, and is no sum, product, min, max, any or all"
        raise cannot(program, text, f"do not block {', '.join(reduced)}", statement.span)
    held, element, combine = parts
    old = value_of(held, scene)
    missing = _missing(work, statement, scene, reduced)
    known = Known(scene.known)
    dot = as_dot(element, scene, reduced, missing, known, statement)
    if statement.folds:
        if dot is None:
            raise no_product(program, statement)
        return replace(dot, fold=folding(statement, scene, old, reduced))
    if dot is not None:
        added = Binary("+", held, element, dot.dtype) if isinstance(combine, Call) else combine
        return Elem(added, (old, dot), old.axes, old.dtype)
    if isinstance(combine, Call):
        text = f"{statement.name} adds by fma: the products of several lanes have no common rounding"
        raise cannot(program, text, f"do not block {', '.join(reduced)}, or do not contract", statement.span)
    value = value_of(element, scene)
    if not set(reduced) <= set(value.axes):
        text = f"{statement.name} adds one value as often as {', '.join(reduced)} has lanes"
        raise cannot(program, text, f"do not block {', '.join(reduced)}", statement.span)
    value = neutralised(value, missing, identity(op, value.dtype), known)
    total = Reduce(op, value, reduced, tuple(a for a in value.axes if a not in reduced), value.dtype)
    return Elem(combine, (old, total), scene.joined(old, total), old.dtype)


def _step(statement: Statement) -> tuple[Expr, Expr, Expr] | None:
    """(the accumulator's read, the element, the operation) of one step of a reduction."""
    value = statement.value
    match value:
        case Binary(left=Read() as held, right=element) if held.tensor == statement.tensor:
            return held, element, value
        case Logic(operands=(element, Read() as held)) if held.tensor == statement.tensor:
            return held, element, replace(value, operands=(held, element))
        case Call(function="fma", arguments=(a, b, Read() as held)) if held.tensor == statement.tensor:
            return held, Binary("*", a, b, value.dtype, value.span), value
        case _:
            return None


def _missing(work: _Work, statement: Statement, scene: Scene, reduced: tuple[str, ...]) -> Formula:
    """The condition that fails in lanes that take no part in a sum that is alive."""
    context = scene.known
    alive = work.live.get(_tile(statement, scene))
    if statement.tensor not in scene.lanes.tiles:
        # What lies in memory is written where the statement runs, and nowhere else.
        alive = projected(scene.domain, [n for n in _params(scene.domain) if n not in reduced])
    if alive is not None:
        context = context.intersect(alive)
    found = condition(scene.domain.gist(context))
    scalar = set(_params(scene.known)) - set(scene.lanes_of)
    return conjunction(*(p for p in parts_of(found) if not names_in(p) <= scalar))
