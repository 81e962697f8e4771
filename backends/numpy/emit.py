"""The NumPy reference: a program as a Python module that needs numpy and ml_dtypes alone.

What it computes is the definition, bit for bit: sums in ascending order, one rounding an operation. It is
vectorised over the independent indices; reduced indices, and those that carry a recurrence, are Python loops.
"""

from __future__ import annotations

import re

from ...compiler.ir.dtype import DTYPES
from ...compiler.ir.elementary import SEQUENCES, sequence
from ...compiler.ir.expr import Read, postorder
from ...compiler.ir.nest import loop_variable
from ...compiler.ir.program import Nested, Program, Shared, Stage, stages_of
from ...compiler.ir.quasiaffine import Range
from ..embed import helper_names, names_used, runtime_text
from ..naming import Names, Writer
from ..signature import signature_text, size_lines
from .axes import Axes
from .elementary import function_text
from .reductions import StageEmitter
from .stages import Carried, allocate, emit_stage
from .text import constant_text, type_text


def emit(program: Program) -> str:
    """The text of a module with one function, named for the kernel.

    Its arguments are the inputs in the order of the declaration, then, by keyword, the sizes that no input
    fixes; it returns the outputs.

    Raises:
        IllegalTransformError: a reduction has an order that this target does not have (rule target).
    """
    names = Names(program, helper_names("numpy"))
    body = Writer(indent=1)
    bind_arguments(program, names, body)
    _emit_order(program, program.order, names, body, {}, set())
    outputs = [names[o] for o in program.outputs]
    body.line("")
    body.line(f"return {', '.join(outputs)}")
    return module_text(program, names, "\n".join(body.lines))


def bind_arguments(program: Program, names: Names, body: Writer) -> None:
    """The lines that name the sizes, the scalars in their types, and the constant tables."""
    for line in size_lines(program, names):
        body.line(line)
    for parameter in program.parameters:
        if parameter in program.scalars:
            kind = type_text(program.scalars[parameter])
            body.line(f"{names[parameter]} = {kind}({names[parameter]})")
    for name, tensor in program.tensors.items():
        if tensor.role == "constant":
            values = ", ".join(constant_text(v, tensor.dtype) for v in tensor.values)
            shape = ", ".join(str(e.upper[0].constant) for e in tensor.extents)
            body.line(f"{names[name]} = np.array([{values}]).reshape({shape})")


def _emit_order(
    program: Program,
    order: tuple[Nested, ...],
    names: Names,
    body: Writer,
    loops: dict[int, tuple[str, Range]],
    ready: set[str],
) -> None:
    count: dict[str, int] = {}
    for stage in program.stages:
        count[stage.tensor] = count.get(stage.tensor, 0) + 1
    for item in order:
        if isinstance(item, Shared):
            _emit_shared(program, item, names, body, loops, ready)
            continue
        stage = program.stage(item)
        alone = count[stage.tensor] == 1 and not loops
        if not loops:
            body.line("")
        for line in stage.text.splitlines():
            body.line(f"# {line.strip()}")
        for tensor in _waiting(program, stage, ready, alone):
            emitter = StageEmitter(program, names, Axes(program, ()), body)
            allocate(emitter, tensor)
            ready.add(tensor)
        emit_stage(program, stage, names, body, Carried(loops), alone)
        ready.add(stage.tensor)


def _waiting(program: Program, stage: Stage, ready: set[str], alone: bool) -> list[str]:
    """The tensors to allocate before a stage: its own, and any that it reads under a guard that never holds."""
    wanted = [] if alone else [stage.tensor]
    for node in postorder(stage.value):
        if isinstance(node, Read) and program.tensors[node.tensor].role not in ("input", "constant"):
            wanted.append(node.tensor)
    return [t for t in dict.fromkeys(wanted) if t not in ready]


def _emit_shared(
    program: Program,
    item: Shared,
    names: Names,
    body: Writer,
    loops: dict[int, tuple[str, Range]],
    ready: set[str],
) -> None:
    stages = [program.stage(name) for name in stages_of((item,))]
    if not loops:
        body.line("")
        for tensor in dict.fromkeys(s.tensor for s in stages):
            if tensor not in ready:
                allocate(StageEmitter(program, names, Axes(program, ()), body), tensor)
                ready.add(tensor)
    variable = loop_variable(stages, item.position, [name for name, _ in loops.values()])
    assert item.extent is not None
    emitter = StageEmitter(program, names, Axes(program, ()), body)
    low, high = emitter.ends("min", item.extent.lower), emitter.ends("max", item.extent.upper)
    span = f"range({high if low == '0' else f'{low}, {high}'})"
    body.line(f"for {names[variable]} in {f'reversed({span})' if item.descending else span}:")
    body.indent += 1
    # Several lower ends bound the loop from below only together, so none of them may stand for it.
    lower = item.extent.lower if len(item.extent.lower) == 1 else ()
    upper = item.extent.upper if len(item.extent.upper) == 1 else ()
    inner = {**loops, item.position: (variable, Range(variable, lower, upper))}
    _emit_order(program, item.members, names, body, inner, ready)
    body.indent -= 1


def module_text(program: Program, names: Names, body: str) -> str:
    elementary = [sequence(f, DTYPES[t]) for f, t in SEQUENCES if re.search(rf"\b{f}_{t}\(", body)]
    functions = "\n\n\n".join(function_text(s) for s in elementary)
    used = names_used("numpy", f"{functions}\n\n\ndef body():\n{body}\n")
    helpers = runtime_text("numpy", used)
    text = "\n\n\n".join(part for part in (helpers, functions) if part)
    signature = f'@np.errstate(all="ignore")\ndef {names.function}({signature_text(program, names)}):'
    summary = program.documentation or f"The kernel {program.name}, as it is defined."
    documentation = "    " + '"""' + summary.replace("\\", "\\\\").replace('"', "'").replace("\n", "\n    ") + '"""'
    main = f"{signature}\n{documentation}\n{body}"
    whole = f"{text}\n\n\n{main}\n" if text else main + "\n"
    imports = [f"import {m}" for m in ("re",) if re.search(rf"\b{m}\.", whole)]
    imports += [""] if imports else []
    imports += ["import ml_dtypes"] if "ml_dtypes." in whole else []
    imports.append("import numpy as np")
    head = f'"""The kernel {program.name} in NumPy: bit for bit what its equations define."""\n\n'
    return head + "\n".join(imports) + "\n\n\n" + whole
