"""The evidence of a refusal: the two instances that clash at the smallest sizes, and an input that shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import islpy as isl
import numpy as np

from ..compiler.ir.affine import least_point
from ..compiler.ir.interpret import OutsideError, interpret
from ..compiler.ir.quasiaffine import holds
from ..compiler.ir.show import element_text, expression_text
from ..compiler.ir.span import Source, Span
from .legality import Violation, examine
from .refusal import Place, Refusal, Witness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ..compiler.ir.program import Access, Program, Statement, Tensor
    from ..compiler.ir.tree import Placed
    from .state import State

Array = np.ndarray[Any, Any]
# Beyond this many statement instances a witness would take too long to run twice.
WORK = 3000
# And at larger sizes than the smallest, together.
TOTAL = 6000


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
    program = asked.program
    own = smallest(program, violation)
    refusal = replace(refusal, message=message(program, violation, own), places=places(program, violation, own))
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
        return refusal
    state, found, clash, limit = best
    parts = [sizes_text(clash.sizes)] if clash.sizes else []
    parts += [f"tiles of at most {limit}"] if limit and smaller(0) else []
    return replace(
        refusal,
        case=", ".join(parts) or None,
        searched=True,
        instances=_instances(program, found, clash),
        witness=_larger_witness(state, clash.sizes, violation),
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
    verb = _verb(statement)
    at = ", ".join(f"{n}={v}" for n, v in point.items())
    return f"{element}{f' {verb}' if verb else ''} at ({at})" if at else element


def places(program: Program, violation: Violation, clash: Clash | None) -> tuple[Place, ...]:
    """The source of both ends: the write, and the access that it clashes with."""
    source = Source("", program.source)
    dependence = violation.dependence
    first, second = _ends(program, violation, clash)
    notes = {"flow": ("written here", "read here"), "anti": ("read here", "written here")}
    before, after = notes.get(dependence.kind, ("written here", "written again here"))
    statement = statement_of(program, dependence.source)
    before = "updated here" if statement.kind == "update" else before
    found: list[Place] = []
    if dependence.reduction:
        _add_place(found, source, statement.span, before)
        return tuple(found)
    _add_place(found, source, first.span if first else statement.span, before)
    _add_place(found, source, second.span if second else statement_of(program, dependence.target).span, after)
    return tuple(found)


def _ends(program: Program, violation: Violation, clash: Clash | None) -> tuple[Access | None, Access | None]:
    """The two accesses that meet: of the dependence's tensor, and at the smallest case on one element."""
    dependence = violation.dependence
    kinds = {"flow": ("write", "read"), "anti": ("read", "write"), "output": ("write", "write")}[dependence.kind]
    first, second = statement_of(program, dependence.source), statement_of(program, dependence.target)
    one = [a for a in first.accesses if a.tensor == dependence.tensor and a.kind == kinds[0]]
    other = [a for a in second.accesses if a.tensor == dependence.tensor and a.kind == kinds[1]]
    if clash is not None:
        if violation.why == "missing":
            left = dict(zip(first.iterators, clash.first.values(), strict=True))
        else:
            left = _values(violation.source, first, clash.first, clash.sizes)
        right = _values(violation.target, second, clash.second, clash.sizes)
        for a in one:
            for b in other:
                if _position(a, {**clash.sizes, **left}) == _position(b, {**clash.sizes, **right}):
                    return a, b
    return (one[0] if one else None), (other[0] if other else None)


def _values(item: Placed, statement: Statement, point: Mapping[str, int], sizes: Mapping[str, int]) -> dict[str, int]:
    where = {**sizes, **point}
    return dict(zip(statement.iterators, (a.evaluate(where) for a in item.leaf.instance), strict=True))


def _position(access: Access, values: Mapping[str, int]) -> tuple[int | None, ...]:
    known = not access.free
    return tuple(a.evaluate(values) if a is not None and known else None for a in access.affine)


def _add_place(found: list[Place], source: Source, span: Span | None, note: str) -> None:
    if span is not None and all(p.span != span for p in found):
        found.append(Place(span, source.line(span.line), note))


def message(program: Program, violation: Violation, clash: Clash | None = None) -> str:
    """What would go wrong, in a sentence."""
    dependence = violation.dependence
    first, second = statement_of(program, dependence.source), statement_of(program, dependence.target)
    one, other = _ends(program, violation, clash)
    target = element_text(second.tensor, second.position)
    source = element_text(first.tensor, first.position)
    if dependence.reduction:
        return f"the updates of {source} would run in another order, which rounds differently."
    if violation.why == "missing":
        return f"{target} would read {_shown(other, dependence.tensor)}, which is not computed where it looks for it."
    if dependence.kind == "flow":
        early = {"update": "its last update", "init": "it is started"}.get(first.kind, "it is written")
        return f"{target} would read {_shown(other, dependence.tensor)} before {early}."
    if dependence.kind == "anti":
        return f"{target} would be written before {source} has read the old {_shown(one, dependence.tensor)}."
    return f"{source} would be overwritten: two writes of {dependence.tensor} would change places."


def _shown(access: Access | None, tensor: str) -> str:
    """An element as the source names it."""
    if access is None or any(a is None for a in access.affine) or access.free:
        return f"an element of {tensor}"
    return element_text(tensor, [a for a in access.affine if a is not None])


# ---- witnesses


def _verb(statement: Statement) -> str:
    """How an instance is told apart from others that write the same element."""
    if statement.kind == "init":
        return f"= {expression_text(statement.value)}"
    if statement.kind in ("update", "merge") and statement.reduction:
        return {"sum": "+= ..", "prod": "*= .."}.get(statement.reduction.op, f"= {statement.reduction.op}(..)")
    return ""


def _larger_witness(asked: State, sizes: Mapping[str, int], violation: Violation) -> Witness | None:
    """A witness at these sizes; for a sum, also where its range is longer: two terms have one order only."""
    found = witness(asked, sizes)
    statement = statement_of(asked.program, violation.dependence.source)
    if found is not None or not violation.dependence.reduction or statement.reduction is None:
        return found
    stage = asked.program.stage(statement.stage)
    own = {n for r in statement.ranges[len(stage.ranges) :] for n in r.names()} & set(asked.program.sizes)
    step = statement.reduction.order.size or 1
    spent = 0
    for more in dict.fromkeys((1, 2, step, 2 * step, 3 * step)):
        # A range that names no size itself hangs on indices that do.
        for name in sorted(own or sizes):
            larger = {**sizes, name: sizes[name] + more}
            spent += _work(asked.program, larger)
            found = witness(asked, larger) if spent <= TOTAL else None
            if found is not None:
                return replace(found, sizes=sizes_text(larger))
    return None


def sizes_text(sizes: Mapping[str, int]) -> str:
    """`M=2 K=1`."""
    return " ".join(f"{name}={value}" for name, value in sizes.items())


def _work(program: Program, sizes: Mapping[str, int]) -> int:
    """About how many statement instances run at these sizes."""
    work = len(program.statements)
    for size in sizes.values():
        work *= max(size, 1)
    return work


def witness(asked: State, sizes: Mapping[str, int], definition: Program | None = None) -> Witness | None:
    """The first of the crafted inputs on which the asked-for tree gives another answer than the definition.

    *definition*: where a step has rewritten the program, the one that it started from.
    """
    program = asked.program
    if not holds(program.context, sizes):
        return None
    if _work(program, sizes) > WORK:
        return None
    # What the fold of a matrix unit gives is the machine's to say, not the interpreter's.
    if any(s.reduction is not None and s.reduction.order.kind == "mma" for s in program.statements):
        return None
    scalars = {n: True if d.is_bool else 1 if d.is_int else 1.0 for n, d in program.scalars.items()}
    for arrays in _candidates(program, sizes):
        try:
            defined = interpret(definition or program, arrays, sizes, scalars)
        except OutsideError:
            continue
        try:
            got = interpret(program, arrays, sizes, scalars, asked.tree)
        except OutsideError as error:
            name = error.output or program.outputs[0]
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
    """Inputs worth trying: signs in turn, halves of an ulp, small distinct numbers, large and small, scattered ones."""
    inputs = [program.tensors[n] for n in program.parameters if n in program.tensors]
    tiny = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
    patterns: list[Callable[[int, int, Tensor], float]] = [
        lambda i, t, x: (1.0 if i % 2 == 0 else -1.0) if t == 0 else 1.0,
        lambda i, t, x: (1.0 if i == 0 else tiny.get(_narrow(program), 2.0**-24)) if t == 0 else 1.0,
        lambda i, t, x: float(i + 1 + t),
        lambda i, t, x: (1e8, 1.0, -1e8, 1.0)[i % 4] if t == 0 else 1.0,
        lambda i, t, x: float((7 * i + 3 * t) % 11 - 5),
        lambda i, t, x: 0.1 * (i + 1) + 0.01 * t,
        lambda i, t, x: 1.0,
        lambda i, t, x: (7919 * i + 6007 * t + 13) % 997 / 1000 + 0.25,
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
    if tensor.dtype.is_float:
        values = np.clip(values, -tensor.dtype.largest, tensor.dtype.largest)
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
