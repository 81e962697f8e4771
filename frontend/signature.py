"""The header of a kernel: parameters, sizes, shapes, and what `where` promises."""

from __future__ import annotations

from dataclasses import dataclass

from ..compiler.ir.affine import decide, make_set
from ..compiler.ir.dtype import BOOL
from ..compiler.ir.expr import Read, postorder
from ..compiler.ir.program import Condition, Extent, Tensor
from ..compiler.ir.quasiaffine import Affine, All, Comparison, conjunction
from ..compiler.ir.trampoline import run
from . import syntax as s
from .constants import Globals, element_type
from .diagnostic import Fault
from .drafts import Pending, implied
from .elaborate import elaborate
from .example import least_example, remedy
from .literals import Literal
from .ranges import affine_of
from .scope import RANK, Env, Scope, TensorInfo, new_name


@dataclass(frozen=True)
class Signature:
    """What the header declares: tensors by name, and the promises of `where`."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: dict[str, Tensor]
    promises: tuple[Condition, ...]


def check_signature(kernel: s.Kernel, globals_: Globals, scope: Scope) -> Signature:
    """Declare sizes, scalars and tensors in *scope*.

    Raises:
        Fault: a name is taken, a type unknown, a shape not affine, an extent possibly negative.
    """
    _declare_sizes(kernel, scope)
    tensors = dict(globals_.tables)
    for table in globals_.tables.values():
        extents = [(e.lower, e.upper) for e in table.extents]
        scope.tensors[table.name] = TensorInfo(
            table.name, "constant", table.rank, table.dtype, (0, 0), list(extents), 0
        )
    for role, parameters in (("input", kernel.inputs), ("output", kernel.outputs)):
        for parameter in parameters:
            if parameter.type.text == "size":
                continue
            _unused_name(parameter.name, scope)
            if role == "input" and parameter.shape is None:
                scope.scalars[parameter.name.text] = element_type(parameter.type)
            else:
                tensors[parameter.name.text] = declare(parameter, role, scope)
    promises = tuple(_promise(node, scope) for node in kernel.promises)
    sizes = All(tuple(Comparison(">=", Affine.name(n), Affine()) for n in scope.sizes))
    scope.context = conjunction(sizes, *(implied(p.value) for p in promises))
    for parameter in (*kernel.inputs, *kernel.outputs):
        if parameter.shape is not None:
            check_extents(parameter, tensors[parameter.name.text], scope)
    inputs = tuple(p.name.text for p in kernel.inputs)
    return Signature(inputs, tuple(p.name.text for p in kernel.outputs), tensors, promises)


def _declare_sizes(kernel: s.Kernel, scope: Scope) -> None:
    for parameter in (*kernel.inputs, *kernel.outputs):
        if parameter.type.text == "size":
            new_name(parameter.name, "size")
            if parameter in kernel.outputs:
                raise Fault(parameter.at, "a size is an input", "move it to the inputs, or return an i64 tensor")
            if parameter.shape is not None:
                raise Fault(parameter.at, "a size has no shape", f"write {parameter.name.text}: size")
            if parameter.name.text in scope.constants:
                raise Fault(parameter.name.at, f"'{parameter.name.text}' is already taken: it is a const")
            if parameter.name.text not in scope.sizes:
                scope.sizes.append(parameter.name.text)
    names = {p.name.text: p for p in (*kernel.inputs, *kernel.outputs) if p.type.text != "size"}
    for parameter in (*kernel.inputs, *kernel.outputs):
        stack: list[s.Node] = list(reversed(parameter.shape or ()))
        while stack:
            node = stack.pop()
            if isinstance(node, s.Name) and node.text not in scope.constants and node.text not in scope.sizes:
                new_name(node, "size")
                if node.text in names:
                    raise Fault(
                        node.at,
                        f"'{node.text}' is a size here, and the name of a parameter",
                        "give one of them another name",
                    )
                if node.text in scope.missing:
                    continue
                scope.sizes.append(node.text)
            stack.extend(reversed(s.parts(node)))


def _unused_name(name: s.Name, scope: Scope) -> None:
    new_name(name, "parameter")
    for kind, names in (
        ("a parameter", (*scope.scalars, *scope.tensors)),
        ("a size", scope.sizes),
        ("a const", scope.constants),
    ):
        if name.text in names:
            if kind == "a parameter" and name.text in scope.tensors and scope.tensors[name.text].role == "constant":
                kind = "a const"
            raise Fault(name.at, f"'{name.text}' is already taken: it is {kind}", "give one of them another name")


def declare(parameter: s.Parameter, role: str, scope: Scope) -> Tensor:
    """The tensor that a parameter or a `let` declares, made known in *scope*."""
    dtype = element_type(parameter.type)
    shape = parameter.shape or ()
    if len(shape) > RANK:
        raise Fault(parameter.at, f"a tensor has at most {RANK} dimensions")
    sizes = tuple(affine_of(node, "an extent", Env({}), scope) for node in shape)
    extents = tuple(Extent.of(size) for size in sizes)
    name = parameter.name.text
    ends = [(e.lower, e.upper) for e in extents]
    first = 0 if role == "input" else None
    scope.tensors[name] = TensorInfo(name, role, len(shape), dtype, parameter.at, list(ends), first)
    kind = {"input": "input", "output": "output", "declared": "declared"}[role]
    return Tensor(name, dtype, extents, kind, scope.span(parameter.name.at))  # type: ignore[arg-type]  # a Role


def check_extents(parameter: s.Parameter, tensor: Tensor, scope: Scope) -> None:
    """Refuse a shape that can be negative."""
    for node, extent in zip(parameter.shape or (), tensor.extents, strict=True):
        size = extent.upper[0]
        if size.bare or (size.is_number and size.constant >= 0):
            continue
        bad = make_set(scope.sizes, (), conjunction(scope.context, Comparison("<", size, Affine())))
        if decide(bad.is_empty):
            continue
        shown = least_example(bad, tuple(size.names()))
        where = f": {shown}" if shown else ""
        raise Fault(node.at, f"this extent of '{tensor.name}' can be negative{where}", remedy(bad, scope))


def _promise(node: s.Node, scope: Scope) -> Condition:
    draft = run(elaborate(node, Env({}), scope))
    text = scope.source.text[node.at[0] : node.at[1]]
    text = " ".join(text.split())
    if isinstance(draft, (Literal, Pending)) or draft.dtype is not BOOL:
        raise Fault(node.at, "'where' holds conditions", "compare: where M % 16 == 0")
    if any(isinstance(part, Read) for part in postorder(draft)):
        raise Fault(node.at, "'where' speaks of sizes and scalars, not of elements")
    return Condition(text, draft, scope.span(node.at))
