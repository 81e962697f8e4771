"""What a schedule computes: operations by the unit that carries them out, with what is computed again."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, prod
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.dtype import DTYPES, F32
from ..compiler.ir.elementary import NONPOSITIVE, SEQUENCES, sequence
from ..compiler.ir.expr import Binary, Call, Cast, Compare, Index, Logic, Partial, Select, Unary, children, postorder
from ..compiler.ir.tree import instance_map, placed
from ..passes.groups import contraction
from ..passes.ranges import Ranges
from .count import count, most
from .traffic import Amount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import sympy

    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Program, Statement
    from ..compiler.ir.tree import Node, Placed

# Instructions of a lane for an operation on f32, where they are more than one, as Triton compiles them for sm_90.
INSTRUCTIONS = {"/": 11, "reciprocal": 5, "sqrt": 9, "//": 20, "%": 20}


@dataclass(frozen=True, eq=False)
class Work:
    """What one statement of a launch does. *times*: how often it runs; *flops*: additions and multiplications of a run;
    *instructions*: of a vector lane, for a run; *matrix*: the types of the factors and of the sum, where matrix units
    carry it out (None: vector units do); *lanes*: how often it would run if every tile were full; *tile*: the rows,
    columns and terms of such a tile; *rounds*: how many steps, each of which waits for the one before, take the lanes
    of a tile to one number. What is the same for several lanes of a tile, and computed once for them, has entries of
    its own, of no flops."""

    launch: int
    statement: str
    times: Amount
    flops: int
    instructions: int
    matrix: tuple[str, str] | None = None
    lanes: sympy.Expr | None = None
    tile: tuple[int, int, int] | None = None
    rounds: int = 0


def work(program: Program, tree: Sequence[Node], costs: Mapping[str, int] = INSTRUCTIONS) -> tuple[Work, ...]:
    """What each leaf does, in their order. *costs*: the instructions of operations that are more than one."""
    found: list[Work] = []
    ranges = Ranges(program)
    for item in placed(tree):
        statement = program.statement(item.leaf.statement)
        points = instance_map(program, item.leaf).wrap().flatten()
        times = Amount(count(points), (points,), 1, program.sizes)
        matrix = _matrix(program, statement, item)
        lanes = _full(item) if matrix else None
        tile = _sides(program, statement, item) if matrix else None
        every = _axes(item)
        weights = _weights(statement.value, ranges, item, statement, every, costs)
        flops = _flops(statement.value)
        own, rounds = weights.pop(every, 0), 0 if matrix else _rounds(statement, item, every)
        found.append(Work(item.places[0], statement.name, times, flops, own, matrix, lanes, tile, rounds))
        if matrix:
            continue  # vector units have no part in it
        for shared, instructions in weights.items():
            fewer = _fewer(program, item, every - shared)
            found.append(Work(item.places[0], statement.name, fewer, 0, instructions))
    return tuple(found)


def _axes(item: Placed) -> frozenset[str]:
    """The block loops around a leaf that have more than one lane."""
    domain = item.leaf.domain
    blocks = ((place, loop.index) for place, loop in enumerate(item.loops) if loop.kind == "block")
    return frozenset(index for place, index in blocks if most(domain, place) != 1)


def _rounds(statement: Statement, item: Placed, axes: frozenset[str]) -> int:
    """The depth of the tree by which a leaf takes lanes to one number: pairs, pairs of those, and so on."""
    if statement.kind == "merge":
        count = max((n.count for n in postorder(statement.value) if isinstance(n, Partial)), default=1)
    elif statement.kind == "update":
        instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
        kept = {n for place in statement.position for i in place.names() if i in instance for n in instance[i].names()}
        places = [k for k, loop in enumerate(item.loops) if loop.index in axes - kept]
        count = prod(most(item.leaf.domain, place) or 1 for place in places)
    else:
        count = 1
    return ceil(log2(count))


def _fewer(program: Program, item: Placed, dropped: frozenset[str]) -> Amount:
    """How often a leaf runs, the lanes of some axes together counted once."""
    points = item.leaf.domain.reset_tuple_id()
    for place in reversed(range(len(item.loops))):
        if item.loops[place].index in dropped:
            points = points.project_out(isl.dim_type.set, place, 1)
    return Amount(count(points), (points,), 1, program.sizes)


def _full(item: Placed) -> sympy.Expr | None:
    """How often a leaf would run if every tile had as many lanes as the fullest: matrix units take whole tiles."""
    domain, sides = item.leaf.domain.reset_tuple_id(), 1
    for place in reversed(range(len(item.loops))):
        if item.loops[place].kind == "block":
            sides *= most(domain, place) or 1
            domain = domain.project_out(isl.dim_type.set, place, 1)
    tiles = count(domain)
    return None if tiles is None else sides * tiles


def _sides(program: Program, statement: Statement, item: Placed) -> tuple[int, int, int]:
    """The lanes of a product along its rows, its columns, and what it sums over."""
    product = contraction(program, program.stage(statement.stage))
    assert product is not None
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    found: list[int] = []
    for side in (product.rows, product.columns, product.summed):
        names = {n for index in side for n in instance[index].names()}
        places = [k for k, loop in enumerate(item.loops) if loop.kind == "block" and loop.index in names]
        found.append(prod(most(item.leaf.domain, place) or 1 for place in places))
    return found[0], found[1], found[2]


def _matrix(program: Program, statement: Statement, item: Placed) -> tuple[str, str] | None:
    """The types of a product that matrix units carry out: an update whose rows, columns and terms are lanes."""
    stage = program.stage(statement.stage)
    product = contraction(program, stage) if statement.kind == "update" else None
    if product is None:
        return None
    lanes = {loop.index for loop in item.loops if loop.kind == "block"}
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    sides = (product.rows, product.columns, product.summed)
    if not all(any(set(instance[n].names()) & lanes for n in side) for side in sides):
        return None
    factors = {program.tensors[t].dtype.name for t in product.factors}
    return min(factors, key=lambda n: -DTYPES[n].bits), program.tensors[statement.tensor].dtype.name


def _flops(value: Expr) -> int:
    """The additions and multiplications of an expression."""
    total = 0
    for node in postorder(value):
        match node:
            case Binary(op="+" | "-" | "*" | "/"):
                total += node.dtype.is_float
            case Call(function="fma"):
                total += 2
            case Partial():
                total += node.count - 1
            case _:
                pass
    return total


def _weights(
    value: Expr, ranges: Ranges, item: Placed, statement: Statement, axes: frozenset[str], costs: Mapping[str, int]
) -> dict[frozenset[str], int]:
    """The instructions of a lane for an expression, by the axes whose lanes compute something of their own."""
    instance = dict(zip(statement.iterators, item.leaf.instance, strict=True))
    on: dict[int, frozenset[str]] = {}
    found: dict[frozenset[str], int] = {}
    for node in postorder(value):
        places = node.affine.names() if isinstance(node, Index) else ()
        own = {n for name in places if name in instance for n in instance[name].names()}
        on[id(node)] = frozenset(own & axes).union(*(on[id(child)] for child in children(node)))
        cost = _instructions(node, ranges, {id(c): on[id(c)] for c in children(node)}, costs)
        if cost:
            found[on[id(node)]] = found.get(on[id(node)], 0) + cost
    return found


def _instructions(node: Expr, ranges: Ranges, on: Mapping[int, frozenset[str]], costs: Mapping[str, int]) -> int:
    """The instructions of a lane for one operation. *on*: the axes that its operands differ along."""
    match node:
        case Binary(op="/") if node.dtype.is_float and not on[id(node.right)] and ranges.within_one(node.left):
            return costs["reciprocal"]
        case Binary(op="+" | "-" | "*"):
            return 1
        case Binary() | Unary():
            return costs.get(node.op, 1)
        case Call(function="fma"):
            return 1
        case Call():
            return _called(node, ranges, costs)
        case Cast() if node.dtype.is_float and node.dtype.bits < 32:
            return costs.get("narrow", 1)
        case Cast() | Compare() | Logic() | Select():
            return 1
        case Partial():
            return node.count - 1
        case _:
            return 0


def _called(node: Call, ranges: Ranges, costs: Mapping[str, int]) -> int:
    """The operations of the sequence that defines an elementary function, or of a shorter one."""
    key = (node.function, node.dtype.wide.name)
    if key in SEQUENCES and node.dtype.wide == F32 and ranges.nonpositive(node.arguments[0]):
        return sequence(NONPOSITIVE.get(node.function, node.function), F32).cost
    return sequence(node.function, node.dtype.wide).cost if key in SEQUENCES else costs["/"]
