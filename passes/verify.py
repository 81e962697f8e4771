"""The final check: that a placed program computes what the definition computes.

It knows the program and the tree, and nothing of the steps that made it: it imports no transformation, no
dependence analysis, no legality. From the leaves, their times and their buffers it computes afresh which write each
read gets its value from, and compares that with the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, make_map, make_set
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.quasiaffine import Affine, All, Comparison, Formula, Some, conjunction
from ..compiler.ir.tree import Node, Placed, instance_map, loops, placed
from .refusal import IllegalTransformError, Refusal, Rule
from .rewritten import Reordering, reorderings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Access, Program, Statement

OPERATIONS = 20_000_000
SPREAD = ("parallel", "vector", "bind", "block")


@dataclass(frozen=True)
class Certificate:
    """What was proved of a placed program, for which sizes, and which permissions it leans on."""

    proved: tuple[str, ...]
    sizes: str
    permissions: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Leaf:
    """A leaf prepared for the flow computation; its space is named for its number."""

    name: str
    item: Placed
    statement: Statement
    instances: isl.Map  # { name[indices] -> statement[iterators] }
    time: isl.Map  # { name[indices] -> [place, index, ..] }


def verify(program: Program, tree: Sequence[Node], original: Program | None = None) -> Certificate:
    """Prove a placed program equal to its definition, at all sizes that the kernel promises.

    *original*: the kernel's own program, where a step has rewritten it.

    Raises:
        IllegalTransformError: a point is violated (rule dependence, coverage, race, rounding, bounds), or isl did not
            decide (unknown).
    """
    try:
        with budget(OPERATIONS):
            reordered = reorderings(original, program) if original is not None else ()
            return _verify(program, tree, reordered)
    except UndecidedError:
        raise _failed("unknown", program, "isl did not decide the final check within its budget") from None


def _failed(rule: Rule, program: Program, message: str) -> IllegalTransformError:
    return IllegalTransformError(Refusal(rule, "final check", message, program.span, kernel=program.name))


def _verify(program: Program, tree: Sequence[Node], reordered: tuple[Reordering, ...]) -> Certificate:
    leaves = _prepared(program, tree)
    _check_instances(program, leaves)
    _check_bounds(program, leaves)
    # An exact reduction needs no permission for its order.
    relaxed = set[str]() if all(found.exact for found in reordered) else {"reassociate"}
    for tensor in program.tensors.values():
        if tensor.role not in ("input", "constant"):
            relaxed |= _check_flow(program, leaves, tensor.name)
    _check_parallel(program, tree, leaves)
    proved = (
        "every output element is written by the right instance",
        "every read sees the value that its definition names",
        "every update of a reduction runs once, between its start and its reads"
        + (", in order" if not relaxed else ""),
        "no two iterations that run at once touch one element with a write among them",
        "every access lies inside its tensor",
        "every scalar expression and rounding is the definition's",
        *(f"in another order, which is free to choose: {found.text}" for found in reordered),
    )
    return Certificate(proved, str(program.context), tuple(sorted(relaxed)))


def _prepared(program: Program, tree: Sequence[Node]) -> list[_Leaf]:
    statements = {s.name: s for s in program.statements}
    items = placed(tree)
    depth = max((len(item.loops) for item in items), default=0)
    found: list[_Leaf] = []
    for number, item in enumerate(items):
        name = f"leaf{number}"
        if item.leaf.statement not in statements:
            raise _failed("coverage", program, f"{item.leaf.statement} is no statement of the program")
        instances = instance_map(program, item.leaf).set_tuple_name(isl.dim_type.in_, name)
        time = _time(program, item, depth).intersect_domain(item.leaf.domain).set_tuple_name(isl.dim_type.in_, name)
        found.append(_Leaf(name, item, statements[item.leaf.statement], instances, time))
    return found


def _time(program: Program, item: Placed, depth: int) -> isl.Map:
    entries: list[Affine] = []
    for place, loop in zip(item.places, item.loops, strict=False):
        entries += [Affine.number(place), Affine.name(loop.index).scaled(-1 if loop.descending else 1)]
    entries.append(Affine.number(item.places[-1]))
    entries += [Affine()] * (2 * depth + 1 - len(entries))
    return make_map(program.sizes, item.leaf.indices, entries, All())


def _check_instances(program: Program, leaves: list[_Leaf]) -> None:
    """No leaf runs what is no instance of its statement."""
    for leaf in leaves:
        beyond = leaf.instances.range().subtract(program.domain(leaf.statement))
        if not beyond.is_empty():
            raise _failed("coverage", program, f"{leaf.statement.name} is run outside its domain")


def _check_bounds(program: Program, leaves: list[_Leaf]) -> None:
    """Every access of every leaf lies inside its tensor."""
    for leaf in leaves:
        for access in leaf.statement.accesses:
            if access.padded:
                continue
            outside = _outside(program, access)
            if outside is None:
                continue
            names = (*leaf.statement.iterators, *(r.index for r in access.free))
            condition = conjunction(
                leaf.statement.condition, access.guard, *(r.formula() for r in access.free), outside
            )
            bad = make_set(program.sizes, names, conjunction(program.context, condition))
            bad = bad.project_out(isl.dim_type.set, len(leaf.statement.iterators), len(access.free))
            if not bad.set_tuple_name(leaf.statement.name).intersect(leaf.instances.range()).is_empty():
                raise _failed("bounds", program, f"{leaf.statement.name} reaches outside {access.tensor}")


def _outside(program: Program, access: Access) -> Formula | None:
    parts: list[Formula] = []
    for position, extent in zip(access.affine, program.tensors[access.tensor].extents, strict=True):
        if position is None:
            continue
        below = [Comparison("<", position, a) for a in extent.lower]
        above = [Comparison(">=", position, b) for b in extent.upper]
        # Outside a meet is outside any of its ends; outside a hull, outside all of them.
        join = (lambda p: Some(tuple(p))) if extent.meet else (lambda p: All(tuple(p)))
        parts += [join(below), join(above)]
    return Some(tuple(parts)) if parts else None


def _element(program: Program, leaf: _Leaf, access: Access) -> isl.Map:
    """{ leaf[indices] -> buffer[iterations that have one each, position] }."""
    scope = leaf.item.scope(access.tensor)
    relation = _plain(program, leaf, access)
    whole = _scope(program, leaf, scope).flat_range_product(relation) if scope else relation
    return whole.set_tuple_name(isl.dim_type.out, _buffer(access.tensor, scope))


def _plain(program: Program, leaf: _Leaf, access: Access) -> isl.Map:
    """{ leaf[indices] -> tensor[position] }."""
    return leaf.instances.apply_range(program.relation(leaf.statement, access))


def _scope(program: Program, leaf: _Leaf, scope: Sequence[str]) -> isl.Map:
    """{ leaf[indices] -> the iterations that have a buffer each }."""
    images = [Affine.name(n) for n in scope]
    return make_map(program.sizes, leaf.item.leaf.indices, images, All(), source=leaf.name, target="scope")


def _buffer(tensor: str, scope: Sequence[str]) -> str:
    return f"{tensor} in {len(scope)}"


def _space(program: Program) -> isl.Space:
    return make_set(program.sizes, (), All()).get_space().params()


@dataclass(frozen=True, eq=False)
class _Reader:
    """A read, or the end of the program as the reader of an output. One read may take several elements."""

    plain: isl.Map  # { point -> element }
    buffer: isl.Map  # { [point -> element] -> element of the buffer it is looked up in }
    time: isl.Map


def _flow(program: Program, leaves: Sequence[_Leaf], tensor: str) -> isl.UnionMap:
    """{ [reader point -> element] -> the point of the last write before it } of a tensor, buffer by buffer.

    By the latest time, computed as a lexicographic maximum: isl's own dataflow analysis gives up exactness where
    domains have divisions.
    """
    writers = [
        (leaf, _element(program, leaf, leaf.statement.accesses[0]))
        for leaf in leaves
        if leaf.statement.tensor == tensor
    ]
    flow = isl.UnionMap.empty(_space(program))
    for reader in _readers(program, leaves, tensor):
        last: isl.Map | None = None
        for writer, written in writers:
            if written.get_tuple_name(isl.dim_type.out) != reader.buffer.get_tuple_name(isl.dim_type.out):
                continue
            earlier = reader.plain.domain_map().apply_range(reader.time.lex_gt_map(writer.time))
            before = reader.buffer.apply_range(written.reverse()).intersect(earlier)
            when = before.apply_range(writer.time)
            last = when if last is None else last.union(when)
        if last is None:
            continue
        last = last.lexmax()
        for writer, _ in writers:
            found = last.apply_range(writer.time.reverse())
            if not found.is_empty():
                flow = flow.union(found.to_union_map())
    return flow


def _readers(program: Program, leaves: Sequence[_Leaf], tensor: str) -> Iterator[_Reader]:
    """Every read of a tensor; an output has a reader behind everything."""
    for leaf in leaves:
        scope = leaf.item.scope(tensor)
        for access in leaf.statement.accesses:
            if access.tensor == tensor and access.kind == "read":
                plain = _plain(program, leaf, access)
                buffer = plain.range_map()
                if scope:
                    prefix = plain.domain_map().apply_range(_scope(program, leaf, scope))
                    buffer = prefix.flat_range_product(buffer)
                yield _Reader(plain, buffer.set_tuple_name(isl.dim_type.out, _buffer(tensor, scope)), leaf.time)
    if tensor not in program.outputs:
        return
    names = tuple(f"position{p}" for p in range(program.tensors[tensor].rank))
    box = conjunction(program.context, program.tensors[tensor].box(names))
    images = [Affine.name(n) for n in names]
    length = leaves[0].time.dim(isl.dim_type.out) if leaves else 1
    end = 1 + max((leaf.item.places[0] for leaf in leaves), default=0)
    time = make_map(program.sizes, names, [Affine.number(end)] + [Affine()] * (length - 1), box, source="end")
    plain = make_map(program.sizes, names, images, box, source="end", target=tensor)
    yield _Reader(plain, plain.range_map().set_tuple_name(isl.dim_type.out, _buffer(tensor, ())), time)


@lru_cache(maxsize=64)
def _defined(program: Program) -> tuple[tuple[_Leaf, ...], dict[str, isl.UnionMap]]:
    """The definition's own leaves and flows."""
    leaves = _prepared(program, definition_tree(program))
    names = [t.name for t in program.tensors.values() if t.role not in ("input", "constant")]
    return tuple(leaves), {name: _flow(program, leaves, name) for name in names}


def _instances(leaves: Sequence[_Leaf]) -> isl.UnionMap:
    found = leaves[0].instances.to_union_map()
    for leaf in leaves[1:]:
        found = found.union(leaf.instances.to_union_map())
    return found


def _with_end(program: Program, relation: isl.UnionMap, tensor: str) -> isl.UnionMap:
    """The instances, and for an output the reader at the end as its own instance."""
    if tensor not in program.outputs:
        return relation
    return relation.union(_same(program, tensor, "end"))


def _same(program: Program, tensor: str, space: str) -> isl.UnionMap:
    """{ space[position] -> space[position] } for the positions of a tensor."""
    names = tuple(f"position{p}" for p in range(program.tensors[tensor].rank))
    images = [Affine.name(n) for n in names]
    return make_map(program.sizes, names, images, All(), source=space, target=space).to_union_map()


def _check_flow(program: Program, leaves: list[_Leaf], tensor: str) -> set[str]:
    """Each read of a tensor gets its value from the instance that the definition names; the permissions it leans on."""
    own, flows = _defined(program)
    flow = _flow(program, leaves, tensor)
    back = _with_end(program, _instances(leaves), tensor)
    # { [reader point -> element] -> instance of the writer }, by this tree and by the definition
    got = flow.apply_range(back)
    own_back = _with_end(program, _instances(own), tensor)
    elements = _same(program, tensor, tensor)
    defined = flows[tensor].apply_domain(own_back.product(elements)).apply_range(own_back)
    wanted = back.product(elements).apply_range(defined)
    updates = [s for s in program.statements if s.tensor == tensor and s.kind in ("update", "merge") and s.reduction]
    if got.is_equal(wanted):
        return set()
    lost = wanted.subtract(got)
    pair = _first_pair(lost if not lost.is_empty() else got.subtract(wanted))
    text = f"a read of {tensor} does not see the value that the definition names: {pair}"
    if not updates:
        raise _failed("dependence", program, text)
    # Apart from the order of the updates all must be right; then the order must be free.
    _check_reduction(program, leaves, tensor, updates)
    if not all(_relaxable(program, s) for s in updates):
        raise _failed("rounding", program, text)
    exact = all(s.reduction and s.reduction.exact(program.tensors[tensor].dtype) for s in updates)
    return set() if exact else {"reassociate"}


def _relaxable(program: Program, statement: Statement) -> bool:
    reduction = statement.reduction
    if reduction is None or reduction.order.kind == "mma":
        return False
    granted = "reassociate" in (*program.permissions, *reduction.permissions)
    return granted or reduction.exact(program.tensors[statement.tensor].dtype)


def _first_pair(pairs: isl.UnionMap) -> str:
    found: list[isl.Map] = []
    pairs.foreach_map(found.append)
    texts = sorted(str(m.coalesce()) for m in found)
    return texts[0][:300] if texts else "a value from outside the definition"


def _check_reduction(program: Program, leaves: list[_Leaf], tensor: str, updates: Sequence[Statement]) -> None:
    """A reduction whose order is free: in each buffer its start once, then every update once, then the reads."""
    names = {s.name for s in updates}
    mine = [leaf for leaf in leaves if leaf.statement.name in names]
    starts = [leaf for leaf in leaves if leaf.statement.tensor == tensor and leaf.statement.name not in names]
    for leaf in mine:
        elements = _element(program, leaf, leaf.statement.accesses[0])
        run = elements.flat_range_product(leaf.instances)
        if not run.is_injective():
            raise _failed("coverage", program, f"{leaf.statement.name} runs an update of {tensor} twice on one buffer")
    for first in mine:
        for second in mine:
            if first is not second and not _meeting(program, first, second, tensor, same_instance=True).is_empty():
                raise _failed("coverage", program, f"an update of {tensor} is run by two leaves")
    for start in starts:
        for leaf in mine:
            late = _meeting(program, start, leaf, tensor).intersect(start.time.lex_ge_map(leaf.time))
            if not late.is_empty():
                raise _failed("dependence", program, f"{tensor} is started after an update of it")
    for leaf in mine:
        started = isl.Set.empty(leaf.instances.domain().get_space())
        for start in starts:
            started = started.union(_meeting(program, start, leaf, tensor).range())
        if not leaf.instances.domain().subtract(started).is_empty():
            raise _failed("dependence", program, f"an update of {tensor} finds no start")
    _check_reads_after(program, leaves, tensor, mine, updates)


def _meeting(program: Program, a: _Leaf, b: _Leaf, tensor: str, same_instance: bool = False) -> isl.Map:
    """{ point of a -> point of b } that write one element of one buffer."""
    first, second = _element(program, a, a.statement.accesses[0]), _element(program, b, b.statement.accesses[0])
    if first.get_tuple_name(isl.dim_type.out) != second.get_tuple_name(isl.dim_type.out):
        return _nothing(a, b)
    met = first.apply_range(second.reverse())
    if same_instance and a.statement.name == b.statement.name:
        return met.intersect(a.instances.apply_range(b.instances.reverse()))
    return _nothing(a, b) if same_instance else met


def _nothing(a: _Leaf, b: _Leaf) -> isl.Map:
    pairs = isl.Map.from_domain_and_range(a.instances.domain(), b.instances.domain())
    return pairs.subtract(pairs)


def _check_reads_after(
    program: Program, leaves: list[_Leaf], tensor: str, mine: list[_Leaf], updates: Sequence[Statement]
) -> None:
    """Every read of the total comes after every update of its element, in its buffer."""
    names = {s.name for s in updates}
    for reader in leaves:
        if reader.statement.name in names:
            continue
        for access in reader.statement.accesses:
            if access.tensor != tensor or access.kind != "read":
                continue
            element = _element(program, reader, access)
            for statement in updates:
                # { reader point -> update instances of the elements it reads }
                of_element = program.relation(reader.statement, access).apply_range(
                    program.relation(statement, statement.accesses[0]).reverse()
                )
                wanted = reader.instances.apply_range(of_element)
                seen = wanted.subtract(wanted)
                for leaf in mine:
                    if leaf.statement.name != statement.name:
                        continue
                    buffer = _element(program, leaf, leaf.statement.accesses[0])
                    if buffer.get_tuple_name(isl.dim_type.out) != element.get_tuple_name(isl.dim_type.out):
                        continue
                    before = element.apply_range(buffer.reverse()).intersect(reader.time.lex_gt_map(leaf.time))
                    seen = seen.union(before.apply_range(leaf.instances))
                if not wanted.is_subset(seen):
                    raise _failed(
                        "dependence", program, f"{reader.statement.name} reads {tensor} before its last update"
                    )


def _check_parallel(program: Program, tree: Sequence[Node], leaves: list[_Leaf]) -> None:
    """Iterations that run at once share no element that one of them writes."""
    for loop in loops(tree):
        if loop.kind not in SPREAD:
            continue
        inside = [leaf for leaf in leaves if loop.index in leaf.item.leaf.indices]
        for a in inside:
            for b in inside:
                level = a.item.leaf.indices.index(loop.index)
                for first in a.statement.accesses:
                    for second in b.statement.accesses:
                        if first.tensor != second.tensor or "write" not in (first.kind, second.kind):
                            continue
                        if loop.kind in ("vector", "block") and _one_reduction(program, a, b, first.tensor):
                            continue
                        pairs = _touching(program, a, b, first, second)
                        if pairs is None:
                            continue
                        for outer in range(level):
                            pairs = pairs.equate(isl.dim_type.in_, outer, isl.dim_type.out, outer)
                        apart = pairs.order_lt(isl.dim_type.in_, level, isl.dim_type.out, level)
                        apart = apart.union(pairs.order_gt(isl.dim_type.in_, level, isl.dim_type.out, level))
                        if not apart.is_empty():
                            text = f"iterations of {loop.index} run at once and touch one element of {first.tensor}"
                            raise _failed("race", program, text)


def _one_reduction(program: Program, a: _Leaf, b: _Leaf, tensor: str) -> bool:
    """Whether both are updates of one accumulator whose order is free: lanes of a vector then reduce."""
    statement = a.statement
    own = statement is b.statement and statement.tensor == tensor and statement.kind == "update"
    return own and _relaxable(program, statement)


def _touching(program: Program, a: _Leaf, b: _Leaf, first: Access, second: Access) -> isl.Map | None:
    one, other = _element(program, a, first), _element(program, b, second)
    if one.get_tuple_name(isl.dim_type.out) != other.get_tuple_name(isl.dim_type.out):
        return None
    return one.apply_range(other.reverse())
