"""The evidence of a refusal: the two instances that clash at the smallest sizes, and an input that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import islpy as isl
import numpy as np

from ..compiler.ir.affine import least_point
from ..compiler.ir.interpret import OutsideError, interpret
from ..compiler.ir.quasiaffine import holds
from ..compiler.ir.show import element_text
from ..compiler.ir.span import Source, Span
from .legality import Violation, examine
from .refusal import Place, Refusal, Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..compiler.ir.program import Program, Statement, Tensor
    from ..compiler.ir.tree import Placed
    from .state import State

Array = np.ndarray[Any, Any]
# Beyond this many statement instances a witness would take too long to run twice.
WORK = 3000


@dataclass(frozen=True)
class Clash:
    """The smallest case of a violation: sizes, and the two points by loop index."""

    sizes: dict[str, int]
    first: dict[str, int]
    second: dict[str, int]

    @property
    def extent(self) -> int:
        return sum(self.sizes.values())


def smallest(program: Program, violation: Violation) -> Clash | None:
    """The least sizes, and the first pair at them."""
    pairs = violation.pairs
    ins = pairs.dim(isl.dim_type.in_)
    outs = pairs.dim(isl.dim_type.out)
    flat = pairs.wrap().flatten()
    names = [f"a{i}" for i in range(ins)] + [f"b{i}" for i in range(outs)]
    for position, name in enumerate(names):
        flat = flat.set_dim_name(isl.dim_type.set, position, name)
    point = least_point(flat)
    if point is None:
        return None
    sizes = {n: point[n] for n in program.sizes if n in point}
    first = dict(zip(_first_names(violation), (point[f"a{i}"] for i in range(ins)), strict=True))
    second = dict(zip(violation.target.leaf.indices, (point[f"b{i}"] for i in range(outs)), strict=True))
    return Clash({n: sizes.get(n, 1) for n in program.sizes}, first, second)


def _first_names(violation: Violation) -> tuple[str, ...]:
    if violation.why == "missing":
        return tuple(f"it{i}" for i in range(violation.pairs.dim(isl.dim_type.in_)))
    return violation.source.leaf.indices


def with_evidence(
    refusal: Refusal, asked: State, violation: Violation, smaller: Callable[[int], State | None]
) -> Refusal:
    """The refusal with its smallest case, spans and witness.

    *smaller(limit)*: the asked-for state with every tile size cut to the limit, or None.
    """
    from dataclasses import replace

    program = asked.program
    best: tuple[State, Violation, Clash, int] | None = None
    for limit in (1, 2, 3, 0):
        state = asked if limit == 0 else smaller(limit)
        found = violation if limit == 0 else _same_violation(state, violation)
        clash = smallest(program, found) if state is not None and found is not None else None
        if (
            state is not None
            and found is not None
            and clash is not None
            and (best is None or clash.extent < best[2].extent)
        ):
            best = state, found, clash, limit
    if best is None:
        return replace(refusal, places=places(program, violation))
    state, found, clash, limit = best
    case = " ".join(f"{n}={v}" for n, v in clash.sizes.items()) + (
        f", tiles of at most {limit}" if limit and smaller(0) else ""
    )
    return replace(
        refusal,
        places=places(program, violation),
        case=case,
        instances=_instances(program, found, clash),
        witness=_witness(state, clash.sizes),
    )


def _same_violation(state: State | None, violation: Violation) -> Violation | None:
    """A violation of the same dependence in another state."""
    if state is None:
        return None
    wanted = violation.dependence
    for found in examine(state).violations:
        if found.dependence is wanted and found.why == violation.why:
            return found
    # A race shows as a carried dependence.
    return None


def statement_of(program: Program, name: str) -> Statement:
    return next(s for s in program.statements if s.name == name)


def _instances(program: Program, violation: Violation, clash: Clash) -> str:
    target = instance_text(program, violation.target, clash.second, clash.sizes)
    if violation.why == "missing":
        statement = statement_of(program, violation.dependence.source)
        values = dict(zip(statement.iterators, clash.first.values(), strict=True))
        position = [str(a.evaluate({**clash.sizes, **values})) for a in statement.position]
        element = f"{statement.tensor}[{', '.join(position)}]" if position else statement.tensor
        return f"{target}  reads {element}, which this iteration does not compute"
    source = instance_text(program, violation.source, clash.first, clash.sizes)
    return f"{target}  comes before  {source}"


def instance_text(program: Program, item: Placed, point: Mapping[str, int], sizes: Mapping[str, int]) -> str:
    """`C[0, 0] += .. at (C.k=1)`."""
    statement = statement_of(program, item.leaf.statement)
    where = {**sizes, **point}
    values = dict(zip(statement.iterators, (a.evaluate(where) for a in item.leaf.instance), strict=True))
    position = [str(a.evaluate({**sizes, **values})) for a in statement.position]
    element = f"{statement.tensor}[{', '.join(position)}]" if position else statement.tensor
    verb = {"init": "= start", "update": "= update", "merge": "= merge"}.get(statement.kind, "")
    at = ", ".join(f"{n}={v}" for n, v in point.items())
    return f"{element}{f' {verb}' if verb else ''} at ({at})" if at else element


def places(program: Program, violation: Violation) -> tuple[Place, ...]:
    """The source of both ends: the write, and the access that it clashes with."""
    source = Source("", program.source)
    dependence = violation.dependence
    first, second = statement_of(program, dependence.source), statement_of(program, dependence.target)
    found: list[Place] = []
    note = {"flow": "written here", "anti": "read here", "output": "written here"}[dependence.kind]
    if first.kind == "update":
        note = "updated here"
    _add_place(found, source, _access_span(first, dependence.tensor, dependence.kind == "anti") or first.span, note)
    note = "read here" if dependence.kind == "flow" else "written here"
    if dependence.source != dependence.target:
        _add_place(
            found, source, _access_span(second, dependence.tensor, dependence.kind == "flow") or second.span, note
        )
    return tuple(found)


def _access_span(statement: Statement, tensor: str, reading: bool) -> Span | None:
    for access in statement.accesses:
        if access.tensor == tensor and (access.kind == "read") == reading and access.span is not None:
            return access.span
    return None


def _add_place(found: list[Place], source: Source, span: Span | None, note: str) -> None:
    if span is not None and all(p.span != span for p in found):
        found.append(Place(span, source.line(span.line), note))


def message(program: Program, violation: Violation) -> str:
    """What would go wrong, in a sentence."""
    dependence = violation.dependence
    first, second = statement_of(program, dependence.source), statement_of(program, dependence.target)
    tensor = dependence.tensor
    reader = element_text(second.tensor, second.position)
    writer = element_text(first.tensor, first.position)
    if dependence.reduction:
        return f"the updates of {writer} would run in another order, which rounds differently."
    if violation.why == "missing":
        return f"{reader} would read elements of {tensor} that are not computed where it looks for them."
    if dependence.kind == "flow":
        early = (
            "its last update"
            if first.kind == "update"
            else "it is started"
            if first.kind == "init"
            else "it is written"
        )
        return f"{reader} would read {writer} before {early}."
    if dependence.kind == "anti":
        return f"{reader} would be written while {writer} still has to read the old {tensor}."
    return f"{writer} would be overwritten: two writes of {tensor} would change places."


# ---- witnesses


def _witness(asked: State, sizes: Mapping[str, int]) -> Witness | None:
    """The first of the crafted inputs on which the asked-for tree gives another answer than the definition."""
    program = asked.program
    if not holds(program.context, sizes):
        return None
    work = 1
    for size in sizes.values():
        work *= max(size, 1)
    if work * len(program.statements) > WORK:
        return None
    scalars = {n: True if d.is_bool else 1 if d.is_int else 1.0 for n, d in program.scalars.items()}
    for arrays in _candidates(program, sizes):
        try:
            defined = interpret(program, arrays, sizes, scalars)
        except OutsideError:
            continue
        try:
            got = interpret(program, arrays, sizes, scalars, asked.tree)
        except OutsideError as error:
            name = program.outputs[0]
            inputs = tuple((n, array_text(a)) for n, a in arrays.items())
            return Witness(inputs, name, array_text(defined[name]), f"nothing: {error}")
        for name in program.outputs:
            differing = np.argwhere(~_equal(defined[name], got[name]))
            if len(differing):
                at = tuple(int(i) for i in differing[0])
                element = f"{name}[{', '.join(map(str, at))}]" if at else name
                inputs = tuple((n, array_text(a)) for n, a in arrays.items())
                return Witness(inputs, element, number(defined[name][at]), number(got[name][at]))
    return None


def _equal(a: Array, b: Array) -> Array:
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same_zero = (wide_a != 0) | (np.signbit(wide_a) == np.signbit(wide_b))
    return ((wide_a == wide_b) & same_zero) | (np.isnan(wide_a) & np.isnan(wide_b))


def _candidates(program: Program, sizes: Mapping[str, int]) -> Iterator[dict[str, Array]]:
    """Inputs worth trying: alternating signs, chains of halves of an ulp, small distinct numbers, large and small."""
    inputs = [program.tensors[n] for n in program.parameters if n in program.tensors]
    tiny = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
    patterns: list[Callable[[int, int, Tensor], float]] = [
        lambda i, t, x: (1.0 if i % 2 == 0 else -1.0) if t == 0 else 1.0,
        lambda i, t, x: (1.0 if i == 0 else tiny.get(_narrow(program), 2.0**-24)) if t == 0 else 1.0,
        lambda i, t, x: float(i + 1 + t),
        lambda i, t, x: (1e8, 1.0, -1e8, 1.0)[i % 4] if t == 0 else 1.0,
        lambda i, t, x: float((7 * i + 3 * t) % 11 - 5),
        lambda i, t, x: 0.1 * (i + 1) + 0.01 * t,
    ]
    for pattern in patterns:
        yield {x.name: _filled(x, t, sizes, pattern) for t, x in enumerate(inputs)}


def _narrow(program: Program) -> str:
    """The type in which the program's reductions accumulate."""
    found = [t.dtype.name for t in program.tensors.values() if t.role == "accumulator"]
    return found[0] if found else "f32"


def _filled(
    tensor: Tensor, number_: int, sizes: Mapping[str, int], pattern: Callable[[int, int, Tensor], float]
) -> Array:
    shape = tuple(count for _, count in (e.interval(sizes) for e in tensor.extents))
    count = int(np.prod(shape, dtype=np.int64))
    values = np.array([pattern(i, number_, tensor) for i in range(count)], np.float64)
    if tensor.dtype.is_int:
        values = np.clip(np.abs(values), 0, 2) if tensor.dtype.bits < 32 else np.clip(values, -100, 100)
    if tensor.dtype.is_bool:
        values = values > 0
    return (
        values.reshape(shape)
        .astype(np.float32 if tensor.dtype.is_float and tensor.dtype.bits < 64 else np.float64)
        .astype(tensor.dtype.numpy)
    )


def array_text(array: Array) -> str:
    """A small array as nested lists."""
    if array.ndim == 0:
        return number(array[()])
    if array.size > 24:
        return f"an array {list(array.shape)}"
    return "[" + ", ".join(array_text(part) for part in array) + "]"


def number(value: Any) -> str:
    """A number with the digits that tell it from its neighbours."""
    if isinstance(value, (np.bool_, bool)):
        return str(bool(value))
    if isinstance(value, np.integer):
        return str(int(value))
    digits = {8: 17, 4: 9}.get(value.dtype.itemsize, 6)
    return f"{float(value):.{digits}g}"
