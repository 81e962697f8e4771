"""The final check of a program that steps rewrote: it says what the kernel says, but for what the kernel permits.

Its equations are those of the kernel in which copies may stand for tensors, equations may be written into their
readers, and orders and roundings may differ as far as permissions go. The statements are derived from them afresh.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from ..compiler.ir.affine import make_map, make_set
from ..compiler.ir.expr import Const, Expr, Index, Read, Scalar, children, postorder
from ..compiler.ir.hulls import hull
from ..compiler.ir.program import Shared, stages_of
from ..compiler.ir.quasiaffine import TRUE, conjunction
from ..compiler.ir.statements import lower_stage
from .agreement import Agreement, Difference
from .points import failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.program import Nested, Program, Stage, Statement


def differences(original: Program, program: Program) -> tuple[Difference, ...]:
    """What a program computes otherwise than the kernel, all of it permitted.

    Raises:
        IllegalTransformError: it says something else (rule dependence or bounds), or leans on a permission that the
            kernel does not grant (rule rounding).
    """
    if program is original:
        return ()
    own = {s.name: s for s in original.stages}
    copies = {s.name: s for s in program.stages if s.name not in own}
    for copy in copies.values():
        _require_copy(original, program, copy)
    source = {c.tensor: c.value.tensor for c in copies.values() if isinstance(c.value, Read)}
    lost = {s.tensor: s for s in original.stages if s.name not in {x.name for x in program.stages}}
    standing: dict[str, str] = {}
    for stage in program.stages:
        if stage.name in own and standing.setdefault(own[stage.name].tensor, stage.tensor) != stage.tensor:
            raise failed("coverage", original, f"{own[stage.name].tensor} is computed into two tensors")
    fills = {c.tensor: c.value.fill for c in copies.values() if isinstance(c.value, Read)}
    walk = Agreement(original, program, source, standing, lost, fills)
    _require_standing(original, program, walk)
    _require_tensors(original, program, walk)
    _require_order(original, program, copies, set(lost))
    for stage in program.stages:
        if stage.name in own:
            _require_same(walk, stage, own[stage.name])
        _require_statements(original, program, stage)
    for copy in copies.values():
        _require_covered(program, copy)
    return tuple(dict.fromkeys(walk.found))


def _require_copy(original: Program, program: Program, copy: Stage) -> None:
    """An equation that the kernel does not have copies a tensor, element by element, and nothing else defines it.

    It may give a number to positions that the tensor does not have: then it has a box of its own.
    """
    value = copy.value
    filled = isinstance(value, Read) and isinstance(value.fill, (Const, Scalar))
    plain = isinstance(value, Read) and (value.fill is None or filled) and value.guard == TRUE
    lefts = tuple(s.affine for s in value.subscripts if isinstance(s, Index)) if isinstance(value, Read) else ()
    if not isinstance(value, Read) or not plain or lefts != copy.lefts or len(lefts) != len(value.subscripts):
        raise failed("dependence", original, f"the equation of {copy.name} is not the kernel's, and no copy")
    one, other = program.tensors[copy.tensor], program.tensors[value.tensor]
    if one.dtype != other.dtype or (one.extents != other.extents and not filled):
        raise failed("bounds", original, f"{copy.tensor} is no copy of {value.tensor}: its type or shape differs")
    if sum(s.tensor == copy.tensor for s in program.stages) != 1:
        raise failed("dependence", original, f"{copy.tensor} is defined twice")


def _require_standing(original: Program, program: Program, walk: Agreement) -> None:
    """Every output is what stands for it; nothing that is lost is one; no tensor has two meanings."""
    for name in original.outputs:
        if name in walk.lost or walk.canonical(name) != walk.standing[name]:
            raise failed("coverage", original, f"the output {name} is not written")
    if program.outputs != original.outputs or program.parameters != original.parameters:
        raise failed("dependence", original, "the arguments are not the kernel's")
    if program.sizes != original.sizes or program.context != original.context:
        raise failed("dependence", original, "the sizes are not the kernel's")
    if set(program.permissions) - set(original.permissions):
        raise failed("rounding", original, "more is permitted than the kernel permits")
    held = list(walk.standing.values())
    for tensor, stage in walk.lost.items():
        if sum(s.tensor == tensor for s in original.stages) != 1 or tensor in program.tensors:
            raise failed("dependence", original, f"an equation of {stage.tensor} is missing")
    for own in original.stages:
        if (
            own.tensor in walk.standing
            and walk.standing[own.tensor] != own.tensor
            and held.count(walk.standing[own.tensor]) > 1
        ):
            raise failed("dependence", original, f"{walk.standing[own.tensor]} holds two tensors")


def _require_tensors(original: Program, program: Program, walk: Agreement) -> None:
    for name, tensor in original.tensors.items():
        if tensor.role == "accumulator" or name in walk.lost:
            continue
        other = program.tensors.get(walk.standing.get(name, name))
        held = program.tensors.get(name)
        if other is None or held is None or other.extents != tensor.extents or held.extents != tensor.extents:
            raise failed("bounds", original, f"{name} has another shape")
        if (tensor.role in ("input", "constant") or name in original.outputs) and held != tensor:
            raise failed("dependence", original, f"{name} is not the kernel's")


def _require_order(original: Program, program: Program, copies: dict[str, Stage], lost: set[str]) -> None:
    """The definition computes the kernel's equations in the kernel's order, and copies in time."""
    own = {s.name: s.tensor for s in original.stages}
    if _shape(program.order, set(copies)) != _shape(original.order, {n for n, t in own.items() if t in lost}):
        raise failed("dependence", original, "the equations are not computed in the kernel's order")
    place = {name: i for i, item in enumerate(program.order) for name in stages_of((item,))}
    for copy in copies.values():
        assert isinstance(copy.value, Read)
        late = [s.name for s in program.stages if s.tensor == copy.value.tensor and place[s.name] >= place[copy.name]]
        early = [s.name for s in program.stages if _reads(s, copy.tensor) and place[s.name] <= place[copy.name]]
        if late or early:
            raise failed("dependence", original, f"{copy.tensor} is copied too early or too late")


def _shape(order: Sequence[Nested], left_out: set[str]) -> list[Any]:
    """An order of computation without some equations, for comparison."""
    found: list[Any] = []
    for item in order:
        if isinstance(item, Shared):
            inner = _shape(item.members, left_out)
            found += [(item.position, item.descending, item.extent, inner)] if inner else []
        elif item not in left_out:
            found.append(item)
    return found


def _reads(stage: Stage, tensor: str) -> bool:
    return any(isinstance(n, Read) and n.tensor == tensor for n in postorder(stage.value))


def _require_same(walk: Agreement, stage: Stage, own: Stage) -> None:
    if stage is own:
        return
    rest = [f.name for f in fields(own) if f.name not in ("value", "tensor")]
    if not all(getattr(own, name) == getattr(stage, name) for name in rest):
        raise failed("dependence", walk.original, f"the equation of {stage.name} is not the kernel's")
    if not walk.same(stage, own):
        text = f"the equation of {stage.name} is not the kernel's, or its roundings and order are not free"
        raise failed("rounding", walk.original, text)


def _require_statements(original: Program, program: Program, stage: Stage) -> None:
    """The statements of an equation are those that it comes to."""
    expected, partial = lower_stage(stage, lambda ranges, position: hull(ranges, position, program))
    if any(program.tensors.get(t.name) != t for t in partial):
        raise failed("bounds", original, f"the partial results of {stage.name} have other extents")
    if not _same_statements(expected, program.statements_of(stage.name)):
        raise failed("dependence", original, f"the statements of {stage.name} are not those of its equation")


def _same_statements(a: list[Statement], b: tuple[Statement, ...]) -> bool:
    if len(a) != len(b):
        return False
    rest = [f.name for f in fields(b[0]) if f.name != "value"]
    return all(
        all(getattr(x, name) == getattr(y, name) for name in rest) and _same(x.value, y.value)
        for x, y in zip(a, b, strict=True)
    )


def _same(a: Expr, b: Expr) -> bool:
    """Whether two expressions are one, node for node."""
    first, second = list(postorder(a)), list(postorder(b))
    if len(first) != len(second):
        return False
    at = {id(node): i for i, node in enumerate(first)}
    other = {id(node): i for i, node in enumerate(second)}
    for x, y in zip(first, second, strict=True):
        if type(x) is not type(y) or [at[id(c)] for c in children(x)] != [other[id(c)] for c in children(y)]:
            return False
        below = {id(c) for c in (*children(x), *children(y))}
        for name in (f.name for f in fields(x)):
            left, right = getattr(x, name), getattr(y, name)
            if not (_equal(left, right) or (_all_in(left, below) and _all_in(right, below))):
                return False
    return True


def _equal(left: Any, right: Any) -> bool:
    """Numbers with their signs of zero and type; a NaN is itself."""
    if isinstance(left, (int, float)):
        return repr(left) == repr(right)
    return left == right


def _all_in(value: Any, below: set[int]) -> bool:
    """Whether a field holds nothing but children, which are compared by their places."""
    return id(value) in below or (isinstance(value, tuple) and all(id(v) in below for v in value))


def _require_covered(program: Program, copy: Stage) -> None:
    """Every element of a copy that is read, and of an output, is one that is copied."""
    condition = conjunction(program.context, *(r.formula() for r in copy.ranges))
    names = [r.index for r in copy.ranges]
    written = make_map(program.sizes, names, copy.lefts, condition, target=copy.tensor).range()
    for statement in program.statements:
        for access in statement.accesses:
            if access.tensor == copy.tensor and access.kind == "read":
                read = program.relation(statement, access).range()
                if not read.is_subset(written):
                    raise failed("coverage", program, f"{statement.name} reads of {copy.tensor} what is not copied")
    if copy.tensor in program.outputs:
        box = program.tensors[copy.tensor].box(places := tuple(f"at{d}" for d in range(len(copy.lefts))))
        whole = make_set(program.sizes, places, conjunction(program.context, box), copy.tensor)
        if not whole.is_subset(written):
            raise failed("coverage", program, f"not all of {copy.tensor} is written")
