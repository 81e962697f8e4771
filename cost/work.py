"""What a schedule computes: operations by the unit that carries them out, with what is computed again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import islpy as isl

from ..compiler.ir.dtype import DTYPES
from ..compiler.ir.elementary import SEQUENCES, sequence
from ..compiler.ir.expr import Binary, Call, Cast, Compare, Logic, Partial, Select, Unary, postorder
from ..compiler.ir.tree import instance_map, placed
from ..passes.groups import contraction
from .count import count, most
from .traffic import Amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    import sympy

    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Program, Statement
    from ..compiler.ir.tree import Node, Placed

# Instructions of a lane for an operation on f32, where they are more than one, as Triton compiles them for sm_90.
INSTRUCTIONS = {"/": 11, "sqrt": 9, "//": 20, "%": 20, "min": 1, "max": 1}


@dataclass(frozen=True, eq=False)
class Work:
    """What one statement of a launch does. *times*: how often it runs; *flops*: additions and multiplications of a run;
    *instructions*: of a vector lane, for a run; *matrix*: the types of the factors and of the sum, where matrix units
    carry it out (None: vector units do); *lanes*: how often it would run if every tile were full."""

    launch: int
    statement: str
    times: Amount
    flops: int
    instructions: int
    matrix: tuple[str, str] | None = None
    lanes: sympy.Expr | None = None


def work(program: Program, tree: Sequence[Node]) -> tuple[Work, ...]:
    """What each leaf does, in their order."""
    found: list[Work] = []
    for item in placed(tree):
        statement = program.statement(item.leaf.statement)
        points = instance_map(program, item.leaf).wrap().flatten()
        times = Amount(count(points), (points,), 1, program.sizes)
        flops, instructions = _weights(statement.value)
        matrix = _matrix(program, statement, item)
        lanes = _full(item) if matrix else None
        found.append(Work(item.places[0], statement.name, times, flops, instructions, matrix, lanes))
    return tuple(found)


def _full(item: Placed) -> sympy.Expr | None:
    """How often a leaf would run if every tile had as many lanes as the fullest: matrix units take whole tiles."""
    domain, sides = item.leaf.domain.reset_tuple_id(), 1
    for place in reversed(range(len(item.loops))):
        if item.loops[place].kind == "block":
            sides *= most(domain, place) or 1
            domain = domain.project_out(isl.dim_type.set, place, 1)
    tiles = count(domain)
    return None if tiles is None else sides * tiles


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


def _weights(value: Expr) -> tuple[int, int]:
    """The additions and multiplications of an expression, and the instructions of a lane for it."""
    flops = instructions = 0
    for node in postorder(value):
        match node:
            case Binary() if node.op in ("+", "-", "*", "/"):
                flops += node.dtype.is_float
                instructions += INSTRUCTIONS.get(node.op, 1) if node.dtype.is_float else 1
            case Binary():
                instructions += INSTRUCTIONS.get(node.op, 1)
            case Unary():
                instructions += INSTRUCTIONS.get(node.op, 1)
            case Call(function="fma"):
                flops, instructions = flops + 2, instructions + 1
            case Call():
                instructions += _called(node)
            case Cast() | Compare() | Logic() | Select():
                instructions += 1
            case Partial():
                flops, instructions = flops + node.count - 1, instructions + node.count - 1
            case _:
                pass
    return flops, instructions


def _called(node: Call) -> int:
    """The operations of the sequence that defines an elementary function."""
    key = (node.function, node.dtype.wide.name)
    return sequence(node.function, node.dtype.wide).cost if key in SEQUENCES else INSTRUCTIONS["/"]
