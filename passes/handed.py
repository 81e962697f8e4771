"""Parts of a loop nest that run at once and hand buffers on, as the final check sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import islpy as isl

from .points import LeafPoints, failed, plain_map, scope_map

if TYPE_CHECKING:
    from ..compiler.ir.program import Access, Program
    from ..compiler.ir.tree import Loop

_OUT = isl.dim_type.out
PARTS = ("producer", "consumers", "epilogue")


def check_roles(program: Program, leaves: list[LeafPoints], loop: Loop) -> None:
    """Check that the parts of a pipelined loop's surroundings meet in buffers that are handed on, and nowhere else.

    A part waits for a full buffer before it reads it, and for an empty one before it fills it. So what two parts share
    must lie in a buffer of the iteration at which they are; the earlier part alone writes it, and in the order of the
    loops all it writes comes before what the later one reads.

    Raises:
        IllegalTransformError: they meet elsewhere, or iterations around run in order (rule race).
    """
    around = next(leaf.item.loops[: leaf.item.loops.index(loop)] for leaf in leaves if loop in leaf.item.loops)
    if any(outer.kind not in ("bind", "parallel") for outer in around):
        raise failed("race", program, f"the roles of {loop.index} are at several iterations of an ordered loop")
    inside = [leaf for leaf in leaves if leaf.item.loops[: len(around)] == around]
    for a in inside:
        for b in inside:
            first, second = _part(a, loop), _part(b, loop)
            if first >= second:
                continue
            for one in a.statement.accesses:
                for other in b.statement.accesses:
                    if one.tensor != other.tensor or "write" not in (one.kind, other.kind):
                        continue
                    _check_pair(program, (a, one), (b, other), len(around), f"{PARTS[first]} and {PARTS[second]}")


def _part(leaf: LeafPoints, loop: Loop) -> int:
    if loop in leaf.item.loops and leaf.statement.name in loop.ahead:
        return 0
    return 2 if loop.roles is not None and leaf.statement.name in loop.roles.epilogue else 1


def _check_pair(
    program: Program, first: tuple[LeafPoints, Access], second: tuple[LeafPoints, Access], depth: int, parts: str
) -> None:
    (a, one), (b, other) = first, second
    if len(a.item.scope(one.tensor)) != len(b.item.scope(one.tensor)):
        return
    met = _elements(program, a, one).apply_range(_elements(program, b, other).reverse())
    if met.is_empty():
        return
    if len(a.item.scope(one.tensor)) < depth:
        raise failed("race", program, f"{parts} run at once and share {one.tensor}, which is no buffer of an iteration")
    if one.kind != "write" or other.kind == "write":
        raise failed("race", program, f"{parts} run at once, and the later of them writes {one.tensor}")
    if not met.intersect(a.time.lex_ge_map(b.time)).is_empty():
        raise failed("race", program, f"{parts}: {one.tensor} is handed on before all of it is written")


def _elements(program: Program, leaf: LeafPoints, access: Access) -> isl.Map:
    """{ point -> iterations that have a buffer each, position }: every buffer by itself, however few there are."""
    scope = leaf.item.scope(access.tensor)
    relation = plain_map(program, leaf, access)
    whole = scope_map(program, leaf, scope).flat_range_product(relation) if scope else relation
    return whole.reset_tuple_id(_OUT)
