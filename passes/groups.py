"""Groups of equations that one loop nest computes: an output, or a tensor kept in memory, and what only it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Allow, Binary, Cast, Expr, Index, Read, Reduce, postorder
from ..compiler.ir.program import stages_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..compiler.ir.program import Program, Stage


@dataclass(frozen=True)
class Group:
    """*root*: the equation whose loops the nest is; *members*: what it needs and nothing else does, in order."""

    root: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Contraction:
    """A sum of products whose factors have indices of their own: *rows* the first's, *columns* the second's, *summed*
    those over which it runs, the innermost last; *factors*: the tensors that the two read; *padded*: those of them that
    are read beyond an edge too."""

    stage: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    summed: tuple[str, ...]
    factors: tuple[str, ...]
    padded: frozenset[str]


def groups(program: Program, apart: Collection[str] = ()) -> list[Group]:
    """The groups, in the order of their roots. What a contraction multiplies is in memory before, and so are the
    equations *apart*."""
    readers: dict[str, list[str]] = {}
    factors = multiplied(program)
    several = {s.tensor for s in program.stages if sum(o.tensor == s.tensor for o in program.stages) > 1}
    for stage in program.stages:
        for tensor in _reads(stage):
            readers.setdefault(tensor, []).append(stage.name)
    root_of: dict[str, str] = {}
    for stage in reversed(_in_order(program)):
        inside = {root_of.get(name) for name in readers.get(stage.tensor, [])}
        own = stage.tensor in (*program.outputs, *factors, *several) or stage.name in apart
        recurrent = stage.tensor in _reads(stage)
        if own or recurrent or len(inside) != 1 or None in inside:
            root_of[stage.name] = stage.name
            continue
        root = root_of[stage.name] = str(inside.pop())
        if not _alike(program, _members(program, root_of, root)):
            root_of[stage.name] = stage.name
    return [_members(program, root_of, s.name) for s in _in_order(program) if root_of[s.name] == s.name]


def _members(program: Program, root_of: Mapping[str, str], root: str) -> Group:
    return Group(root, tuple(s.name for s in _in_order(program) if root_of.get(s.name) == root and s.name != root))


def _alike(program: Program, group: Group) -> bool:
    """Whether the same indices of the root decide which of each reduction is read: one loop nest holds them all."""
    of = dimensions(program, group)
    reduced = [n for n in (*group.members, group.root) if reductions(program.stage(n))]
    if not all(found for n in reduced for found in of[n].values()):
        return False  # one is read along an index that its reader sums over
    return len({frozenset(d for found in of[n].values() for d in found) for n in reduced}) <= 1


def same_rows(program: Program, first: Group, second: Group) -> bool:
    """Whether a group reads what another one computes, for each of its rows the element of that row alone."""
    found = dimensions(program, Group(second.root, (*second.members, first.root)))[first.root]
    rows = [r.index for r in program.stage(first.root).ranges]
    leading = [frozenset({r.index}) for r in program.stage(second.root).ranges[: len(rows)]]
    return bool(rows) and [found[r] for r in rows] == leading


def contraction(program: Program, stage: Stage) -> Contraction | None:
    """The contraction that an equation is, or None: a sum of products that a matrix unit computes, and that may run in
    any order, or in the unit's own."""
    for node in postorder(stage.value):
        if not isinstance(node, Reduce) or node.op != "sum" or node.order.kind not in ("ascending", "mma"):
            continue
        folds = node.order.kind == "mma"
        granted = {*program.permissions, *stage.permissions, *node.permissions}
        if not folds and "reassociate" not in granted:
            continue
        body = node.body
        while isinstance(body, Allow):
            body = body.operand
        if not isinstance(body, Binary) or body.op != "*" or body.dtype.name != "f32":
            continue
        if not (folds or (_narrow(body.left) and _narrow(body.right))) and not granted & {"tf32", "contract"}:
            continue  # matrix units would round the factors, or not round the products
        summed = tuple(r.index for r in node.ranges)
        own = [r.index for r in stage.ranges]
        first, second = (_indices(side) for side in (body.left, body.right))
        rows = tuple(n for n in own if n in first and n not in second)
        columns = tuple(n for n in own if n in second and n not in first)
        if rows and columns and summed and set(summed) <= first & second:
            found = [r for side in (body.left, body.right) for r in reads(side)]
            factors = tuple(dict.fromkeys(r.tensor for r in found))
            padded = frozenset(r.tensor for r in found if r.fill is not None)
            return Contraction(stage.name, rows, columns, summed, factors, padded)
    return None


def _narrow(factor: Expr) -> bool:
    """Whether a factor has 16 bits or fewer before it is widened."""
    while isinstance(factor, Allow):
        factor = factor.operand
    return isinstance(factor, Cast) and factor.operand.dtype.is_float and factor.operand.dtype.bits <= 16


def multiplied(program: Program) -> set[str]:
    """The tensors that contractions multiply."""
    found = (contraction(program, stage) for stage in program.stages)
    return {tensor for one in found if one is not None for tensor in one.factors}


def reductions(stage: Stage) -> list[Reduce]:
    """The reductions of an equation."""
    return [node for node in postorder(stage.value) if isinstance(node, Reduce)]


def dimensions(program: Program, group: Group) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """For each equation of a group, for each of its indices: the indices of the root that decide where it is read."""
    root = program.stage(group.root)
    found: dict[str, dict[str, frozenset[str]]] = {group.root: {r.index: frozenset({r.index}) for r in root.ranges}}
    for name in reversed(group.members):
        stage = program.stage(name)
        own: dict[str, set[str]] = {r.index: set() for r in stage.ranges}
        for reader, of_reader in found.items():
            for read in reads(program.stage(reader).value):
                if read.tensor != stage.tensor:
                    continue
                for left, place in zip(stage.lefts, read.subscripts, strict=True):
                    names = place.affine.names() if isinstance(place, Index) else ()
                    decided = {d for n in names for d in of_reader.get(n, ())}
                    for index in left.names():
                        own[index] |= decided
        found[name] = {n: frozenset(d) for n, d in own.items()}
    return found


def greatest(program: Program, stage: str, index: str) -> int | None:
    """The greatest value of an index at any size; None where there is none."""
    found: list[int] = []
    for statement in program.statements_of(stage):
        if index in statement.iterators:
            value = program.domain(statement).dim_max_val(statement.iterators.index(index))
            if not value.is_int():
                return None
            found.append(int(value.to_python()))
    return max(found, default=None)


def _in_order(program: Program) -> list[Stage]:
    return [program.stage(n) for n in stages_of(program.order)]


def _reads(stage: Stage) -> list[str]:
    return [read.tensor for read in reads(stage.value)]


def reads(expr: Expr) -> Iterator[Read]:
    """The reads in an expression."""
    return (node for node in postorder(expr) if isinstance(node, Read))


def _indices(expr: Expr) -> set[str]:
    return {n for node in postorder(expr) if isinstance(node, Index) for n in node.affine.names()}


def transposed(stage: Stage, last: str) -> str | None:
    """An index other than *last* along which some tensor lies in memory while the result lies along *last*."""
    for read in reads(stage.value):
        place = read.subscripts[-1] if read.subscripts else None
        names = list(place.affine.names()) if isinstance(place, Index) and len(read.subscripts) > 1 else []
        own = [r.index for r in stage.ranges]
        if names and last not in names and names[-1] in own:
            return names[-1]
    return None
