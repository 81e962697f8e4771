"""How few bytes can pass between a fast memory and a slow one, whatever the order: what no tiles bring it below.

A computation of |D| steps of one statement is cut into pieces in each of which T bytes pass. A piece has at most S
bytes of the tensors' elements in the fast memory when it begins and T more later on, and therefore, by the inequality
of Loomis and Whitney as Brascamp and Lieb extended it, at most U(S + T) steps: with weights s_j that cover every index
of the statement,

    U(B) = max prod x_j^s_j  with  sum w_j x_j <= B  =  (B / s)^s prod (s_j / w_j)^s_j,   s = sum s_j,

w_j bytes an element. T = S / (s - 1) makes the most of it. That sums are begun in fast memory, not read, is taken off;
if they may be added in any order, parts of them may begin in every piece, and 2 S stands for S. For a product of
matrices in order it is 2 M N K / sqrt(S) elements (Hong and Kung 1981; Smith, Lowery, Langou and van de Geijn, arXiv
1702.02017); in this form for any statement: Christ, Demmel, Knight, Scanlon and Yelick, arXiv 1308.0068; Olivry,
Langou, Pouchet, Sadayappan and Rastello, PLDI 2020.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ..compiler.ir.expr import Logic, Read, Select, postorder
from ..compiler.ir.quasiaffine import TRUE, Affine
from .count import count, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..compiler.ir.program import Program, Statement


@dataclass(frozen=True, eq=False)
class Bound:
    """*once*: the bytes of every input and output, each moved once; *capacity*: those that have to pass between a fast
    memory of so many bytes and the rest; *statement*: the one that they are counted for ("": none asks for more)."""

    once: int
    capacity: float
    statement: str

    @property
    def least(self) -> float:
        """The bytes that have to be moved."""
        return max(float(self.once), self.capacity)


def bound(program: Program, sizes: Mapping[str, int], capacity: float, parts: int = 1) -> Bound:
    """The least bytes that any schedule of a kernel moves through fast memories of *capacity* bytes, *parts* of them
    that share the work, fused or not.

    Elements that no statement touches count for nothing; inputs that data say how to read are not counted.

    Raises:
        KeyError: a size is missing.
        ValueError: there is no room at all.
    """
    if capacity <= 0:
        raise ValueError("a fast memory has some bytes")
    found = [(_statement(program, s, sizes, capacity, parts), s.name) for s in program.statements if s.kind == "update"]
    most, name = max(found, default=(0.0, ""))
    once = _once(program, sizes)
    return Bound(once, most, name if most > once else "")


def _once(program: Program, sizes: Mapping[str, int]) -> int:
    """The bytes of the elements of inputs and outputs that statements touch."""
    total = 0
    for name, tensor in program.tensors.items():
        if tensor.role not in ("input", "output"):
            continue
        touched = None
        for statement in program.statements:
            for access in statement.accesses:
                if access.tensor != name or None in access.affine:
                    continue
                own = program.relation(statement, access).range().reset_tuple_id()
                touched = own if touched is None else touched.union(own).coalesce()
        formula = count(touched) if touched is not None else None
        total += tensor.dtype.bits * number(formula, sizes) // 8 if formula is not None else 0
    return total


def _statement(program: Program, statement: Statement, sizes: Mapping[str, int], capacity: float, parts: int) -> float:
    """The bound for one statement by the inputs that it reads in every step, and its own sums; 0 where that says
    nothing. What other equations compute need not be in memory at all, and what a branch or an edge may spare counts
    for nothing."""
    if any(isinstance(node, (Select, Logic)) for node in postorder(statement.value)):
        return 0.0
    own: dict[tuple[str, frozenset[str]], int] = {}
    for access in statement.accesses:
        tensor, places = program.tensors[_copied(program, access.tensor)], access.affine
        if tensor.role != "input" and access.tensor != statement.tensor:
            continue
        plain = all(p is not None and (p.is_number or p == Affine.name(next(p.names()))) for p in places)
        if plain and access.guard == TRUE and not access.padded:
            names = frozenset(n for p in places if p is not None for n in p.names() if n in statement.iterators)
            own[tensor.name, names] = tensor.dtype.bits // 8
    weights = _cover(statement.iterators, [names for _, names in own])
    whole = sum(weights)
    steps = count(program.domain(statement).reset_tuple_id())
    if whole <= 1 or steps is None:
        return 0.0
    # Elements that are read in two ways may be the same ones.
    often = Counter(tensor for tensor, _ in own)
    shares = [(s, w / often[t]) for s, ((t, _), w) in zip(weights, own.items(), strict=True) if s > 0]
    # Sums in an order of their own begin once, which is taken off; others may begin anew in every piece.
    free = program.free_order(statement)
    held = 2 * capacity if free else capacity
    piece = held / (whole - 1)
    most = ((held + piece) / whole) ** whole * prod((s / w) ** s for s, w in shares)
    begun = 0 if free else _once_written(program, statement, sizes)
    return max(0.0, piece * (number(steps, sizes) / most - parts) - begun)


def _copied(program: Program, tensor: str) -> str:
    """The tensor that a step has made a copy of, element for element, or the tensor itself."""
    stages = [s for s in program.stages if s.tensor == tensor and s.copies and isinstance(s.value, Read)]
    return _copied(program, stages[0].value.tensor) if stages and isinstance(stages[0].value, Read) else tensor


def _once_written(program: Program, statement: Statement, sizes: Mapping[str, int]) -> int:
    """The bytes of what a statement writes."""
    written = program.relation(statement, statement.accesses[0]).range().reset_tuple_id()
    formula = count(written)
    return number(formula, sizes) * program.tensors[statement.tensor].dtype.bits // 8 if formula is not None else 0


def _cover(indices: tuple[str, ...], accesses: list[frozenset[str]]) -> list[float]:
    """The least weights of accesses with which every index has a weight of 1 or more; none where one is in no access.

    The best weights are at a corner, where as many rules hold with equality as there are weights.
    """
    count_ = len(accesses)
    rules = [([int(i in names) for names in accesses], 1) for i in indices]
    if not all(any(row) for row, _ in rules):
        return []
    rules += [([int(k == n) for k in range(count_)], 0) for n in range(count_)]
    best: list[float] = []
    for chosen in combinations(rules, count_):
        rows = np.array([row for row, _ in chosen], float)
        if abs(np.linalg.det(rows)) < 0.5:  # of whole numbers: 0
            continue
        corner = np.linalg.solve(rows, np.array([least for _, least in chosen], float))
        if all(np.dot(row, corner) >= least - 1e-9 for row, least in rules) and (not best or sum(corner) < sum(best)):
            best = [float(x) for x in corner]
    return best
