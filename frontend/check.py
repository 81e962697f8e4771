"""Checking a file: every kernel becomes a program, or its faults are reported together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..compiler.ir.affine import UndecidedError
from ..compiler.ir.program import Program, Stage, Tensor
from . import syntax as s
from .bounds import UNDECIDED, check_reads
from .constants import Globals, file_globals, prelude
from .coverage import check_nonempty, check_once
from .diagnostic import Diagnostic, Fault, SourceError, diagnostic
from .equations import Equations, check_equations, introduce
from .lower import build_program, stage_names
from .parse import ERRORS, parse_source
from .recurrence import computation_order
from .reductions import permission_names
from .scope import Scope, Unwell, new_name
from .signature import Signature, check_extents, check_signature, declare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.span import Source


@dataclass(frozen=True)
class Checked:
    """A kernel's program and the warnings about it."""

    program: Program
    warnings: tuple[Diagnostic, ...]


def check_source(source: Source) -> dict[str, Checked]:
    """The kernels of a text by name, in the order of the text.

    Raises:
        SourceError: with every error of the text that could be told apart, at most 20.
    """
    parsed = parse_source(source)
    globals_ = file_globals(source, parsed.file, parsed.missing)
    errors = [*parsed.diagnostics, *globals_.diagnostics]
    kernels: dict[str, Checked] = {}
    names: set[str] = set()
    for kernel in parsed.file.kernels:
        scope = Scope(source, globals_.constants, globals_.functions, prelude(), frozenset(globals_.broken))
        try:
            faults, program = _check_kernel(kernel, globals_, scope, kernel.name.text in names, parsed.incomplete)
        except UndecidedError:
            message = "the shapes and ranges of this kernel could not be decided"
            faults, program = [Fault(kernel.at, message, "simplify the conditions of where, or write the ranges")], None
        names.add(kernel.name.text)
        errors += [diagnostic(source, *f.at, f.message, f.hint) for f in faults]
        if program is not None:
            kernels[program.name] = Checked(program, tuple(sorted(scope.warnings, key=_position)))
    if not parsed.file.kernels and not errors:
        errors.append(
            diagnostic(source, 0, 1, "no kernel in this file", "kernel f(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] }")
        )
    if errors:
        raise SourceError(sorted(dict.fromkeys(errors), key=_position)[:ERRORS])
    return kernels


def _position(item: Diagnostic) -> tuple[int, int]:
    return item.line, item.column


def _check_kernel(
    kernel: s.Kernel, globals_: Globals, scope: Scope, repeated: bool, incomplete: bool
) -> tuple[list[Fault], Program | None]:
    state = Equations(scope, ())
    try:
        new_name(kernel.name, "kernel")
        if repeated:
            raise Fault(kernel.name.at, f"a kernel '{kernel.name.text}' stands above", "give one of them another name")
        signature = check_signature(kernel, globals_, scope)
    except Fault as fault:
        return [fault], None
    except Unwell:
        return [], None
    permissions = state.permissions = _permissions(kernel, state)
    declared = _declarations(kernel, state)
    introduce(kernel, state)
    check_equations(kernel, state)
    tensors = {**signature.tensors, **declared}
    if not incomplete:
        _check_definitions(kernel, state)
    _check_proofs(state, tensors, incomplete)
    if state.faults or state.broken:
        return state.faults, None
    stages = stage_names(state.stages)
    try:
        order = computation_order(stages, scope)
        documentation = _documentation(scope.source, kernel)
        program = build_program(kernel, signature, declared, stages, order, permissions, scope, documentation)
    except Fault as fault:
        return [fault], None
    _warn_unused(kernel, signature, scope)
    return [], program


def _permissions(kernel: s.Kernel, state: Equations) -> tuple[str, ...]:
    names: list[str] = []
    for grant in kernel.statements:
        if isinstance(grant, s.Grant):
            try:
                names += permission_names(grant.permissions)
            except Fault as fault:
                state.faults.append(fault)
    return tuple(dict.fromkeys(names))


def _declarations(kernel: s.Kernel, state: Equations) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for let in kernel.statements:
        if isinstance(let, s.Let):
            name = let.parameter.name.text
            try:
                found[name] = _declaration(let.parameter, state.scope)
            except Fault as fault:
                state.faults.append(fault)
                state.broken.add(name)
    return found


def _declaration(parameter: s.Parameter, scope: Scope) -> Tensor:
    name = parameter.name.text
    new_name(parameter.name, "tensor")
    if name in scope.tensors or name in scope.sizes or name in scope.scalars or name in scope.constants:
        raise Fault(parameter.name.at, f"'{name}' is already taken", "give the tensor its own name")
    tensor = declare(parameter, "declared", scope)
    check_extents(parameter, tensor, scope)
    return tensor


def _check_definitions(kernel: s.Kernel, state: Equations) -> None:
    """Outputs and declared tensors have equations."""
    names = {e.tensor.text for e in kernel.statements if isinstance(e, s.Equation)} | state.scope.missing
    for parameter in kernel.outputs:
        if parameter.name.text not in names:
            at = parameter.name.at
            state.faults.append(
                Fault(
                    at,
                    f"output '{parameter.name.text}' is never defined",
                    f"add {parameter.name.text}[..] = ...",
                )
            )
    for let in kernel.statements:
        if isinstance(let, s.Let) and let.parameter.name.text not in names:
            name = let.parameter.name
            state.faults.append(
                Fault(name.at, f"'{name.text}' is declared and never defined", f"add {name.text}[..] = ...")
            )


def _check_proofs(state: Equations, declared: dict[str, Tensor], incomplete: bool) -> None:
    scope = state.scope
    by_tensor: dict[str, list[tuple[s.Equation, Stage]]] = {}
    for equation, stage in state.stages:
        by_tensor.setdefault(stage.tensor, []).append((equation, stage))
    whole = {n: pairs for n, pairs in by_tensor.items() if n not in state.broken}
    tensors = dict(declared)
    doubtful: set[str] = set()
    for name, pairs in whole.items():
        info = scope.tensors[name]
        if name not in tensors and info.dtype is not None:
            tensors[name] = Tensor(name, info.dtype, (), "intermediate", scope.span(pairs[0][0].at))
        if not incomplete:
            faults = list(check_once(tensors[name], pairs, scope))
            state.faults += faults
            doubtful |= {name} if faults else set()
    defining: dict[str, Sequence[Stage]] = {n: [stage for _, stage in pairs] for n, pairs in whole.items()}
    readable = {n: t for n, t in tensors.items() if t.role != "intermediate" or n in defining}
    for _, stage in state.stages:
        if stage.tensor in state.broken or stage.tensor in doubtful:
            continue
        for fault in (*check_reads(stage, readable, defining, scope), *check_nonempty(stage, scope)):
            state.faults.append(fault)
            if fault.hint == UNDECIDED or len(state.faults) >= ERRORS:
                return  # each further question may take as long


def _warn_unused(kernel: s.Kernel, signature: Signature, scope: Scope) -> None:
    for parameter in kernel.inputs:
        name = parameter.name.text
        if (name in scope.tensors and not scope.tensors[name].used) or (
            name in scope.scalars and name not in scope.used
        ):
            scope.warn(parameter.name.at, f"input '{name}' is never used")
    for info in scope.tensors.values():
        if info.role in ("intermediate", "declared") and not info.used:
            scope.warn(info.at, f"'{info.name}' is never used")


def _documentation(source: Source, kernel: s.Kernel) -> str:
    """The comment block right above a kernel."""
    line = source.span(*kernel.at).line - 1
    found: list[str] = []
    while line >= 1 and source.line(line).lstrip().startswith("#"):
        found.insert(0, source.line(line).strip().lstrip("#").strip())
        line -= 1
    return "\n".join(found)
