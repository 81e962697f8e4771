"""The final check: that a placed program computes what the definition computes.

It knows the program and the tree, and nothing of the steps that made it: it imports no transformation, no
dependence analysis, no legality. From the leaves, their times and their buffers it computes afresh which write each
read gets its value from, and compares that with the definition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.affine import UndecidedError, budget, make_set
from ..compiler.ir.quasiaffine import All, Comparison, Formula, Some, conjunction
from ..compiler.ir.storage import injective
from ..compiler.ir.tree import Alloc, Leaf, Node, loops
from .flow import check_flow
from .handed import check_roles
from .points import LeafPoints, element_map, failed, prepared
from .rewritten import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Access, Program
    from .agreement import Difference

OPERATIONS = 5_000_000
SPREAD = ("parallel", "vector", "bind", "block")


@dataclass(frozen=True)
class Certificate:
    """What was proved of a placed program, for which sizes, and which permissions it leans on.

    *differences*: what the equations compute otherwise than the kernel's, and by which permission. *reordered*: whether
    the updates of some sum run in an order that the loops decide, and not the equations. *capacity*: what the kernels
    of a target take of a machine, a line for each, where that was asked for.
    """

    proved: tuple[str, ...]
    sizes: str
    permissions: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    reordered: bool = False
    capacity: tuple[str, ...] = ()


def verify(program: Program, tree: Sequence[Node], original: Program | None = None) -> Certificate:
    """Prove a placed program equal to its definition, at all sizes that the kernel promises.

    *original*: the kernel's own program, where a step has rewritten it.

    Raises:
        IllegalTransformError: a point is violated (rule dependence, coverage, race, rounding, bounds), or isl did not
            decide (unknown).
    """
    try:
        with budget(OPERATIONS):
            found = differences(original, program) if original is not None else ()
            return _verify(program, tree, found)
    except UndecidedError:
        raise failed("unknown", program, "isl did not decide the final check within its budget") from None


def _verify(program: Program, tree: Sequence[Node], found: tuple[Difference, ...]) -> Certificate:
    leaves = prepared(program, tree)
    _check_instances(program, leaves)
    _check_bounds(program, leaves)
    _check_layouts(program, tree)
    relaxed: set[str] = set()
    computed = [t.name for t in program.tensors.values() if t.role not in ("input", "constant")]
    for tensor in computed:
        relaxed |= check_flow(program, leaves, tensor)
    pipelined = [leaf for leaf in leaves if any(loop.stages > 1 for loop in leaf.item.loops)]
    touched = {access.tensor for leaf in pipelined for access in leaf.statement.accesses}
    ahead = prepared(program, tree, ahead=True) if pipelined else []
    for tensor in [name for name in computed if name in touched]:
        # Once more as far ahead as the marks allow: what is not touched inside keeps its order.
        relaxed |= check_flow(program, ahead, tensor)
    relaxed |= _check_parallel(program, tree, leaves)
    parted = [loop for loop in loops(tree) if loop.roles is not None]
    for loop in parted:
        check_roles(program, leaves, loop)
    proved = (
        "every output element is written by the right instance",
        "every read sees the value that its definition names",
        "every update of a reduction runs once, between its start and its reads, in order unless that is free",
        "no two iterations that run at once touch one element with a write among them",
        "every access lies inside its tensor",
        "every scalar expression and rounding is the definition's",
        *(f"the parts of {loop.index} meet in buffers that they hand on, and nowhere else" for loop in parted),
        *(f"otherwise than written, as {_grant(d)}: {d.text}" for d in found),
    )
    permissions = tuple(sorted(relaxed | {d.permission for d in found if d.permission}))
    return Certificate(proved, str(program.context), permissions, found, bool(relaxed))


def _grant(difference: Difference) -> str:
    """Why a difference is no fault."""
    return f"{difference.permission} permits" if difference.permission else "no bit depends on it"


def _check_instances(program: Program, leaves: list[LeafPoints]) -> None:
    """No leaf runs what is no instance of its statement."""
    for leaf in leaves:
        beyond = leaf.instances.range().subtract(program.domain(leaf.statement))
        if not beyond.is_empty():
            raise failed("coverage", program, f"{leaf.statement.name} is run outside its domain")


def _check_bounds(program: Program, leaves: list[LeafPoints]) -> None:
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
                raise failed("bounds", program, f"{leaf.statement.name} reaches outside {access.tensor}")


def _check_layouts(program: Program, tree: Sequence[Node]) -> None:
    """No layout gives two elements one place (folded ones share theirs by intent: the flow of values knows)."""
    for node in tree:
        if isinstance(node, Leaf):
            continue
        if isinstance(node, Alloc):
            storage = node.storage
            if storage.layout and (len(storage.names) != program.tensors[node.tensor].rank or not injective(storage)):
                raise failed("coverage", program, f"two elements of {node.tensor} share a place in its layout")
            if storage.swizzle & (storage.swizzle - 1) or storage.pad < 0:
                raise failed("coverage", program, f"the rows of {node.tensor} are not permuted")
        _check_layouts(program, node.body)


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


def _check_parallel(program: Program, tree: Sequence[Node], leaves: list[LeafPoints]) -> set[str]:
    """Iterations that run at once share no element that one of them writes; the permissions that this leans on."""
    relaxed: set[str] = set()
    for loop in loops(tree):
        if loop.kind not in SPREAD:
            continue
        inside = [leaf for leaf in leaves if loop.index in leaf.item.leaf.indices]
        for a in inside:
            # The leaves inside a block loop run one after the other, each for all lanes.
            for b in [a] if loop.kind == "block" else inside:
                level = a.item.leaf.indices.index(loop.index)
                for first in a.statement.accesses:
                    for second in b.statement.accesses:
                        if first.tensor != second.tensor or "write" not in (first.kind, second.kind):
                            continue
                        if loop.kind == "block" and a.statement is b.statement and a.statement.folds:
                            continue  # a matrix unit takes the lanes in their order
                        pairs = _touching(program, a, b, first, second)
                        if pairs is None:
                            continue
                        for outer in range(level):
                            pairs = pairs.equate(isl.dim_type.in_, outer, isl.dim_type.out, outer)
                        apart = pairs.order_lt(isl.dim_type.in_, level, isl.dim_type.out, level)
                        apart = apart.union(pairs.order_gt(isl.dim_type.in_, level, isl.dim_type.out, level))
                        if apart.is_empty():
                            continue
                        if loop.kind in ("vector", "block") and _one_reduction(program, a, b, first.tensor):
                            reduction = a.statement.reduction
                            exact = reduction is None or reduction.exact(program.tensors[first.tensor].dtype)
                            relaxed |= set() if exact else {"reassociate"}
                        else:
                            text = f"iterations of {loop.index} run at once and touch one element of {first.tensor}"
                            raise failed("race", program, text)
    return relaxed


def _one_reduction(program: Program, a: LeafPoints, b: LeafPoints, tensor: str) -> bool:
    """Whether both are updates of one accumulator whose order is free: lanes of a vector then reduce."""
    statement = a.statement
    own = statement is b.statement and statement.tensor == tensor and statement.kind in ("update", "merge")
    return own and program.free_order(statement)


def _touching(program: Program, a: LeafPoints, b: LeafPoints, first: Access, second: Access) -> isl.Map | None:
    one, other = element_map(program, a, first), element_map(program, b, second)
    if one.get_tuple_name(isl.dim_type.out) != other.get_tuple_name(isl.dim_type.out):
        return None
    return one.apply_range(other.reverse())
