"""Which write each read of a placed tree gets its value from, and whether the definition names the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import make_map, make_set
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.quasiaffine import Affine, All, conjunction
from .points import LeafPoints, buffer_name, element_map, failed, in_places, plain_map, prepared, scope_map

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..compiler.ir.program import Program, Statement


def _space(program: Program) -> isl.Space:
    return make_set(program.sizes, (), All()).get_space().params()


@dataclass(frozen=True, eq=False)
class _Reader:
    """A read, or the end of the program as the reader of an output. One read may take several elements."""

    plain: isl.Map  # { point -> element }
    buffer: isl.Map  # { [point -> element] -> element of the buffer it is looked up in }
    time: isl.Map


def _flow(program: Program, leaves: Sequence[LeafPoints], tensor: str) -> isl.UnionMap:
    """{ [reader point -> element] -> the point of the last write before it } of a tensor, buffer by buffer.

    By the latest time, computed as a lexicographic maximum: isl's own dataflow analysis gives up exactness where
    domains have divisions.
    """
    writers = [
        (leaf, element_map(program, leaf, leaf.statement.accesses[0]))
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
        # isl has been seen to lose points of a maximum whose pieces hide equalities; coalesced they do not.
        last = last.coalesce().lexmax()
        for writer, _ in writers:
            found = last.apply_range(writer.time.reverse())
            if not found.is_empty():
                flow = flow.union(found.to_union_map())
    return flow


def _readers(program: Program, leaves: Sequence[LeafPoints], tensor: str) -> Iterator[_Reader]:
    """Every read of a tensor; an output has a reader behind everything."""
    for leaf in leaves:
        scope = leaf.item.scope(tensor)
        for access in leaf.statement.accesses:
            if access.tensor == tensor and access.kind == "read":
                plain = plain_map(program, leaf, access)
                buffer = plain.range_map()
                if scope:
                    prefix = plain.domain_map().apply_range(scope_map(program, leaf, scope))
                    buffer = prefix.flat_range_product(buffer)
                yield _Reader(plain, in_places(program, leaf, tensor, buffer), leaf.time)
    if tensor not in program.outputs:
        return
    names = tuple(f"position{p}" for p in range(program.tensors[tensor].rank))
    box = conjunction(program.context, program.tensors[tensor].box(names))
    images = [Affine.name(n) for n in names]
    length = leaves[0].time.dim(isl.dim_type.out) if leaves else 1
    end = 1 + max((leaf.item.places[0] for leaf in leaves), default=0)
    time = make_map(program.sizes, names, [Affine.number(end)] + [Affine()] * (length - 1), box, source="end")
    plain = make_map(program.sizes, names, images, box, source="end", target=tensor)
    yield _Reader(plain, plain.range_map().set_tuple_name(isl.dim_type.out, buffer_name(tensor, ())), time)


@lru_cache(maxsize=64)
def _defined(program: Program) -> tuple[tuple[LeafPoints, ...], dict[str, isl.UnionMap]]:
    """The definition's own leaves and flows."""
    leaves = prepared(program, definition_tree(program))
    names = [t.name for t in program.tensors.values() if t.role not in ("input", "constant")]
    return tuple(leaves), {name: _flow(program, leaves, name) for name in names}


def _instances(leaves: Sequence[LeafPoints]) -> isl.UnionMap:
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


def check_flow(program: Program, leaves: list[LeafPoints], tensor: str) -> set[str]:
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
    # What the definition itself reads before anything wrote it stands in a branch not taken: it may be anything.
    got = got.intersect_domain(wanted.domain())
    updates = [s for s in program.statements if s.tensor == tensor and s.kind in ("update", "merge") and s.reduction]
    if got.is_equal(wanted):
        return set()
    lost = wanted.subtract(got)
    pair = _first_pair(lost if not lost.is_empty() else got.subtract(wanted))
    text = f"a read of {tensor} does not see the value that the definition names: {pair}"
    if not updates:
        raise failed("dependence", program, text)
    if any(leaf.item.storage(tensor).fold for leaf in leaves):
        raise failed("unknown", program, f"{tensor} is folded and its updates run in another order: not decided")
    # Apart from the order of the updates all must be right; then the order must be free.
    _check_reduction(program, leaves, tensor, updates)
    if not all(program.free_order(s) for s in updates):
        raise failed("rounding", program, text)
    exact = all(s.reduction and s.reduction.exact(program.tensors[tensor].dtype) for s in updates)
    return set() if exact else {"reassociate"}


def _first_pair(pairs: isl.UnionMap) -> str:
    found: list[isl.Map] = []
    pairs.foreach_map(found.append)
    texts = sorted(str(m.coalesce()) for m in found)
    return texts[0][:300] if texts else "a value from outside the definition"


def _check_reduction(program: Program, leaves: list[LeafPoints], tensor: str, updates: Sequence[Statement]) -> None:
    """A reduction whose order is free: in each buffer its start once, then every update once, then the reads."""
    names = {s.name for s in updates}
    mine = [leaf for leaf in leaves if leaf.statement.name in names]
    starts = [leaf for leaf in leaves if leaf.statement.tensor == tensor and leaf.statement.name not in names]
    for leaf in mine:
        elements = element_map(program, leaf, leaf.statement.accesses[0])
        run = elements.flat_range_product(leaf.instances)
        if not run.is_injective():
            raise failed("coverage", program, f"{leaf.statement.name} runs an update of {tensor} twice on one buffer")
    for first in mine:
        for second in mine:
            if first is not second and not _meeting(program, first, second, tensor, same_instance=True).is_empty():
                raise failed("coverage", program, f"an update of {tensor} is run by two leaves")
    for start in starts:
        for leaf in mine:
            late = _meeting(program, start, leaf, tensor).intersect(start.time.lex_ge_map(leaf.time))
            if not late.is_empty():
                raise failed("dependence", program, f"{tensor} is started after an update of it")
    beside = [leaf for leaf in leaves if _best(leaf.statement) == tensor]
    for leaf in (*mine, *beside):
        started = isl.Set.empty(leaf.instances.domain().get_space())
        for start in starts:
            before = _meeting(program, start, leaf, tensor).intersect(start.time.lex_lt_map(leaf.time))
            started = started.union(before.range())
        if not leaf.instances.domain().subtract(started).is_empty():
            raise failed("dependence", program, f"an update of {tensor} finds no start")
    for leaf in leaves:
        if tensor in (leaf.statement.tensor, _best(leaf.statement)) and _best(leaf.statement):
            _check_seen(program, leaves, leaf)
    names |= {leaf.statement.name for leaf in beside}
    _check_reads_after(program, [leaf for leaf in leaves if leaf.statement.name not in names], tensor, mine, updates)


def _best(statement: Statement) -> str:
    """The tensor of the best value, for the update of an argmax's index."""
    return statement.reduction.best if statement.kind in ("update", "merge") and statement.reduction else ""


def _check_seen(program: Program, leaves: list[LeafPoints], leaf: LeafPoints) -> None:
    """Where an argmax moves its index, the best value is that of the elements that the index has seen, and no others.

    So the order of the elements is free, for the index and the value alike.
    """
    index, best = leaf.statement.tensor, _best(leaf.statement)
    name = leaf.statement.name
    # { point -> instance of the same total whose element was seen before it }
    total = program.relation(leaf.statement, leaf.statement.accesses[0])
    of_total = leaf.instances.apply_range(total).apply_range(total.reverse())
    seen = leaf.instances.subtract(leaf.instances)
    held = seen
    for other in leaves:
        if other.statement.kind != leaf.statement.kind or other.statement.tensor not in (index, best):
            continue
        met = _meeting(program, other, leaf, other.statement.tensor).intersect(other.time.lex_lt_map(leaf.time))
        before = met.reverse().apply_range(other.instances).set_tuple_name(isl.dim_type.out, name)
        seen, held = (seen.union(before), held) if other.statement.tensor == index else (seen, held.union(before))
    if not seen.intersect(of_total).is_equal(held.intersect(of_total)):
        text = f"{index} is moved by a value of {best} that is not that of the elements it has seen"
        raise failed("dependence", program, text)


def _meeting(program: Program, a: LeafPoints, b: LeafPoints, tensor: str, same_instance: bool = False) -> isl.Map:
    """{ point of a -> point of b } that touch one element of one buffer of a tensor, as each does first."""
    first, second = (
        element_map(program, leaf, next(x for x in leaf.statement.accesses if x.tensor == tensor)) for leaf in (a, b)
    )
    if first.get_tuple_name(isl.dim_type.out) != second.get_tuple_name(isl.dim_type.out):
        return _nothing(a, b)
    met = first.apply_range(second.reverse())
    if same_instance and a.statement.name == b.statement.name:
        return met.intersect(a.instances.apply_range(b.instances.reverse()))
    return _nothing(a, b) if same_instance else met


def _nothing(a: LeafPoints, b: LeafPoints) -> isl.Map:
    pairs = isl.Map.from_domain_and_range(a.instances.domain(), b.instances.domain())
    return pairs.subtract(pairs)


def _check_reads_after(
    program: Program, leaves: list[LeafPoints], tensor: str, mine: list[LeafPoints], updates: Sequence[Statement]
) -> None:
    """Every read of the total comes after every update of its element, in its buffer."""
    names = {s.name for s in updates}
    for reader in leaves:
        if reader.statement.name in names:
            continue
        for access in reader.statement.accesses:
            if access.tensor != tensor or access.kind != "read":
                continue
            element = element_map(program, reader, access)
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
                    buffer = element_map(program, leaf, leaf.statement.accesses[0])
                    if buffer.get_tuple_name(isl.dim_type.out) != element.get_tuple_name(isl.dim_type.out):
                        continue
                    before = element.apply_range(buffer.reverse()).intersect(reader.time.lex_gt_map(leaf.time))
                    seen = seen.union(before.apply_range(leaf.instances))
                if not wanted.is_subset(seen):
                    raise failed(
                        "dependence", program, f"{reader.statement.name} reads {tensor} before its last update"
                    )
