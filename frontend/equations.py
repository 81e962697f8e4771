"""Equations: what stands on the left, the ranges of its indices, the type of what it defines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ..compiler.ir.program import Stage
from ..compiler.ir.quasiaffine import Affine, Range
from ..compiler.ir.trampoline import run
from . import syntax as s
from .diagnostic import Fault
from .drafts import Draft, Pending, settled
from .elaborate import elaborate
from .literals import Literal
from .ranges import affine_of, index_range, merged_ends, written_range
from .reductions import check_index
from .scope import INDICES, Ends, Env, Scope, TensorInfo, Unwell, new_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..compiler.ir.expr import Expr


@dataclass
class Equations:
    """The equations of a kernel as they are checked; *faults* carry on with the next equation."""

    scope: Scope
    permissions: tuple[str, ...]
    faults: list[Fault] = field(default_factory=list[Fault])
    broken: set[str] = field(default_factory=set[str])
    stages: list[tuple[s.Equation, Stage]] = field(default_factory=list[tuple[s.Equation, Stage]])
    waiting: list[tuple[s.Equation, Stage, Draft]] = field(default_factory=list[tuple[s.Equation, Stage, Draft]])


# Whether the equations of a tensor overlap is asked for each pair of them.
SLICES = 100


def introduce(kernel: s.Kernel, state: Equations) -> None:
    """Make the tensors that equations define known, before any equation is looked into."""
    scope = state.scope
    count: dict[str, int] = {}
    for number, equation in enumerate(_equations(kernel)):
        name = equation.tensor.text
        count[name] = count.get(name, 0) + 1
        try:
            if count[name] == SLICES + 1:
                raise Fault(
                    equation.at,
                    f"'{name}' has more than {SLICES} equations",
                    "give it fewer and larger slices",
                )
            known = scope.tensors.get(name)
            rank = len(equation.lefts or ())
            if known is None:
                _new_tensor(equation, scope)
                scope.tensors[name] = TensorInfo(name, "intermediate", rank, None, equation.at, [None] * rank, number)
            elif known.role == "input":
                raise Fault(
                    equation.tensor.at,
                    f"'{name}' is an input; it cannot be defined",
                    "give the result another name",
                )
            elif known.role == "constant":
                raise Fault(
                    equation.tensor.at,
                    f"'{name}' is a const; it cannot be defined",
                    "give the result another name",
                )
            else:
                known.first = number if known.first is None else known.first
                if known.rank != rank:
                    shown = f"{known.rank} dimension{'s' if known.rank != 1 else ''}, {rank} positions here"
                    raise Fault(equation.at, f"'{name}' has {shown}")
        except Fault as fault:
            _break(state, name, fault)


def _equations(kernel: s.Kernel) -> Iterator[s.Equation]:
    return (e for e in kernel.statements if isinstance(e, s.Equation))


def _new_tensor(equation: s.Equation, scope: Scope) -> None:
    name = equation.tensor
    new_name(name, "tensor")
    for kind, names in (("a size", scope.sizes), ("a scalar", scope.scalars), ("a const", scope.constants)):
        if name.text in names:
            raise Fault(name.at, f"'{name.text}' is already taken: it is {kind}", "give the tensor its own name")


def check_equations(kernel: s.Kernel, state: Equations) -> None:
    """Check every equation on its own: left side, ranges, types."""
    for equation in _equations(kernel):
        name = equation.tensor.text
        try:
            stage, draft = _equation(equation, state)
            info = state.scope.tensors[name]
            if info.dtype is None and not isinstance(draft, (Literal, Pending)):
                info.dtype = draft.dtype
            if info.dtype is None:
                state.waiting.append((equation, stage, draft))
            else:
                state.stages.append((equation, _finished(equation, stage, draft, state.scope)))
        except Fault as fault:
            _break(state, name, None if _echoes(equation, state) else fault)
        except Unwell:
            state.broken.add(name)
    _settle_waiting(state)
    _check_assumptions(state)


def _break(state: Equations, name: str, fault: Fault | None) -> None:
    if fault is not None:
        state.faults.append(fault)
    state.broken.add(name)


def _echoes(equation: s.Equation, state: Equations) -> bool:
    """Whether an equation reads a tensor whose own definition had a fault, so that its fault may follow from that."""
    stack: list[s.Node] = [equation.value]
    while stack:
        node = stack.pop()
        name = node.tensor.text if isinstance(node, s.Access) else node.text if isinstance(node, s.Name) else ""
        if name in state.broken:
            return True
        stack.extend(s.parts(node))
    return False


def _equation(equation: s.Equation, state: Equations) -> tuple[Stage, Draft]:
    """The stage with a placeholder for its value, and the draft of the value."""
    scope = state.scope
    info = scope.tensors.get(equation.tensor.text)
    if info is None:
        raise Unwell  # its name was refused
    if info.role in ("input", "constant") or len(equation.lefts or ()) != info.rank:
        raise Unwell  # already reported
    ranges = _left_indices(equation, info, scope)
    env = Env(ranges, permissions=())
    lefts = tuple(_left(node, env, scope) for node in equation.lefts or ())
    draft = run(elaborate(equation.value, env, scope))
    for position, left in enumerate(lefts):
        if info.role == "intermediate":
            ends = _position_ends(left, ranges, scope)
            info.extents[position] = (
                ends
                if info.first is None or not _earlier(equation, state)
                else merged_ends(info.extents[position], ends, scope)
            )
    span = scope.span(equation.at)
    text = scope.source.text[equation.at[0] : equation.value.at[1]]
    placeholder = _Nothing()
    ranges_ = tuple(ranges.values())
    stage = Stage(info.name, info.name, lefts, ranges_, placeholder, state.permissions, span, text)  # type: ignore[arg-type]  # replaced below
    return stage, draft


class _Nothing:
    """Stands for a value that is not built yet."""


def _earlier(equation: s.Equation, state: Equations) -> bool:
    """Whether an equation above defines the same tensor."""
    name = equation.tensor.text
    return any(stage.tensor == name for _, stage in state.stages) or any(
        stage.tensor == name for _, stage, _ in state.waiting
    )


def _left_indices(equation: s.Equation, info: TensorInfo, scope: Scope) -> dict[str, Range]:
    """The indices that the left side binds, with their ranges, in the order of their positions."""
    ranges: dict[str, Range] = {}
    for position, node in enumerate(equation.lefts or ()):
        env = Env(ranges)
        if isinstance(node, s.Binder):
            check_index(node.name, ranges, scope)
            ranges[node.name.text] = written_range(node, env, scope)
        elif isinstance(node, s.Name) and _is_new(node, ranges, scope):
            check_index(node, ranges, scope)
            own = info.extents[position]
            bodies = [] if info.role != "intermediate" else [equation.value]
            ranges[node.text] = index_range(node, bodies, own, env, scope)
    if len(ranges) > INDICES:
        raise Fault(equation.at, f"an equation has at most {INDICES} indices")
    return ranges


def _is_new(node: s.Name, ranges: dict[str, Range], scope: Scope) -> bool:
    return node.text not in ranges and node.text not in scope.sizes and node.text not in scope.constants


def _left(node: s.Node, env: Env, scope: Scope) -> Affine:
    if isinstance(node, s.Binder):
        return Affine.name(node.name.text)
    stack: list[s.Node] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Name) and part.text not in (*env.indices, *scope.sizes, *scope.constants):
            hint = f"write Y[{part.text}] = ... if {part.text} % 2 == 0 else ..."
            raise Fault(node.at, "an index stands bare on the left", hint)
        stack.extend(s.parts(part))
    return affine_of(node, "a position on the left", env, scope)


def _position_ends(left: Affine, ranges: dict[str, Range], scope: Scope) -> Ends | None:
    """The ends of a position where sizes alone fix them."""
    name = left.bare
    if name in ranges:
        found = ranges[name]
        return (found.lower, found.upper) if all(n in scope.sizes for n in found.names()) else None
    if all(n in scope.sizes for n in left.names()):
        return (left,), (left + 1,)
    return None


def _finished(equation: s.Equation, stage: Stage, draft: Draft, scope: Scope) -> Stage:
    info = scope.tensors[stage.tensor]
    assert info.dtype is not None
    value: Expr = run(settled(draft, info.dtype, f"'{info.name}'", scope))
    if value.dtype is not info.dtype:
        hint = (
            f"write {info.dtype}(...)"
            if info.role in ("output", "declared")
            else f"the first equation of '{info.name}' gives {info.dtype}"
        )
        raise Fault(equation.value.at, f"'{info.name}' is {info.dtype}, the right side is {value.dtype}", hint)
    return replace(stage, value=value)


def _settle_waiting(state: Equations) -> None:
    """Build the values of equations whose tensor got its type further down."""
    for equation, stage, draft in state.waiting:
        info = state.scope.tensors[stage.tensor]
        if stage.tensor in state.broken:
            continue
        try:
            if info.dtype is None:
                raise Fault(
                    equation.at,
                    f"the type of '{info.name}' is not determined",
                    "declare it with let, or cast",
                )
            state.stages.append((equation, _finished(equation, stage, draft, state.scope)))
        except Fault as fault:
            _break(state, stage.tensor, None if _echoes(equation, state) else fault)
    state.stages.sort(key=lambda pair: pair[0].at)


def _check_assumptions(state: Equations) -> None:
    for name, dtype, at in state.scope.assumed:
        info = state.scope.tensors[name]
        if info.dtype is not None and info.dtype is not dtype and name not in state.broken:
            state.faults.append(
                Fault(
                    at,
                    f"'{name}' is {info.dtype}, and stands where {dtype} is expected",
                    f"cast it: {dtype}(...)",
                )
            )
