"""The function that runs a module's kernels on torch tensors: checks, allocations, launches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...compiler.ir.program import index_expressions
from ...compiler.ir.quasiaffine import Affine, All, Comparison, Some
from ..naming import Writer
from ..signature import signature_text, size_lines
from .gluon_launch import layout_name
from .launch import Launch, passed_by_pointer
from .layout import broken
from .types import number_text, torch_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.program import Extent, Program, Tensor
    from ...compiler.ir.quasiaffine import Formula
    from ..naming import Names
    from .gluon_launch import RoleLaunch

# Names that the function itself uses.
HOST_NAMES = (
    *("functools", "out", "device", "grid", "wide", "pid", "WIDE", "TALL", "check", "check_apart", "constant"),
    *("tma", "TMA", "has_tma", "copies_blocks", "processors", "TensorDescriptor"),
    *("num_warps", "num_stages", "enable_fp_fusion"),
)

CHECK = '''def check(name, tensor, dtype, shape, device):
    """Raise ValueError for a tensor that is not as the kernel has it: its elements row by row, on one device."""
    if tensor.dtype != dtype:
        raise ValueError(f"{name} is {dtype}, and the tensor is {tensor.dtype}")
    if tensor.shape != shape:
        raise ValueError(f"{name} has the shape {shape}, and the tensor has {tuple(tensor.shape)}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} does not lie row by row in memory; {name}.contiguous() does")
    if tensor.get_device() != device.index and tensor.device != device:
        raise ValueError(f"{name} is on {tensor.device}, and not on {device}")'''

HAS_TMA = '''@functools.cache
def has_tma(device):
    """Whether a device has the engine that copies blocks of tensors."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


def copies_blocks(tensor):
    """Whether the engine can copy blocks of a tensor: its rows begin at multiples of 16 bytes."""
    return tensor.numel() > 0 and tensor.data_ptr() % 16 == 0 and tensor.shape[-1] * tensor.element_size() % 16 == 0'''

PROCESSORS = '''@functools.cache
def processors(device):
    """How many programs a device runs side by side at least."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2'''

HAS_WGMMA = '''@functools.cache
def has_wgmma(device):
    """Whether a device multiplies by groups of four warps."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9'''

CHECK_APART = '''def check_apart(name, tensor, others):
    """Raise ValueError where a tensor to write to shares memory with another one."""
    first, last = tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes
    for other, found in others:
        if first < found.data_ptr() + found.nbytes and found.data_ptr() < last:
            raise ValueError(f"{name} to write to shares memory with {other}")'''


def host_text(
    program: Program,
    names: Names,
    arrays: Sequence[str],
    launches: Sequence[Launch],
    heading: str,
    tests: Sequence[str],
) -> str:
    """The checks as functions, then the module's own function. *tests*: lines that test the device."""
    body = Writer(indent=1)
    tensors = [p for p in program.parameters if p in program.tensors]
    keywords = ["out=None"] if tensors else ["out=None", 'device="cuda"']
    for line in heading.splitlines():
        body.line(f"# {line}".rstrip())
    for line in size_lines(program, names):
        body.line(line)
    if tensors:
        body.line(f"device = {names[tensors[0]]}.device")
    for name in tensors:
        body.line(_check(program, names, name))
    for line in tests:
        body.line(line)
    for condition in _conditions(program.context):
        if condition.op == ">=" and condition.left.bare and condition.right == Affine() and tensors:
            continue  # a size by a shape, or checked as one
        text = _comparison(condition, names)
        body.line(f"if not {text}:")
        body.line(f'    raise ValueError("where {condition}")')
    _outputs(program, names, tensors, body)
    for name in arrays:
        body.line(f"{names[name]} = {_empty(program, names, name)}")
    constants = [n for n, t in program.tensors.items() if t.role == "constant"]
    for name in constants:
        body.line(f"{names[name]} = constant_{names[name]}(device)")
    counts = list(dict.fromkeys(_elements(program, names, n) for n in (*tensors, *program.outputs, *arrays)))
    reach = _reach(program, names)
    # Half of 31 bits, for what lanes beyond an edge add.
    far = f" or {_greatest(reach)} >= 2**30" if reach else ""
    body.line(f"wide = {_greatest(counts)} >= 2**31{far}")
    for name, dtype in program.scalars.items():
        if dtype.is_bool:
            body.line(f"{names[name]} = int({names[name]})")
        if passed_by_pointer(dtype):
            body.line(f"{names[name]} = torch.full((), {names[name]}, dtype=torch.float64, device=device)")
    for launch in launches:
        _launch(launch, names, body)
    body.line(f"return {', '.join(names[o] for o in program.outputs)}")
    summary = program.documentation or f"The kernel {program.name}, as its equations define it."
    quoted = summary.replace("\\", "\\\\").replace('"', "'").replace("\n", "\n    ")
    signature = f"def {names.function}({_signature(program, names, keywords)}):"
    lines = [piece for line in body.lines for piece in broken(line)]
    main = "\n".join([*broken(signature), f'    """{quoted}"""', *lines])
    tables = [_constant(program.tensors[n], names[n]) for n in constants]
    helpers = [CHECK, *([CHECK_APART] if "check_apart(" in main else []), *([HAS_TMA] if "has_tma(" in main else [])]
    helpers += [PROCESSORS] if "processors(" in main else []
    helpers += [HAS_WGMMA] if "has_wgmma(" in main else []
    return "\n\n\n".join([*helpers, *tables, main])


def _signature(program: Program, names: Names, keywords: Sequence[str]) -> str:
    text = signature_text(program, names, *keywords)
    return text if "*" in text else ", ".join([text, "*", *keywords]) if text else f"*, {', '.join(keywords)}"


def _outputs(program: Program, names: Names, tensors: Sequence[str], body: Writer) -> None:
    """The tensors to write to: made, or given as `out`."""
    outputs = program.outputs
    targets = ", ".join(names[o] for o in outputs)
    body.line("if out is None:")
    for name in outputs:
        body.line(f"    {names[name]} = {_empty(program, names, name)}")
    body.line("else:")
    body.line(f"    {targets} = out")
    others = [f'("{n}", {names[n]})' for n in tensors]
    for position, name in enumerate(outputs):
        body.line(f"    {_check(program, names, name)}")
        apart = [*others, *(f'("{n}", {names[n]})' for n in outputs[:position])]
        if apart:
            body.line(f'    check_apart("{name}", {names[name]}, [{", ".join(apart)}])')


def _launch(launch: Launch, names: Names, body: Writer) -> None:
    words = [name for name, _ in launch.arguments]
    flags = ""
    if launch.descriptors:
        tensors = dict.fromkeys(names[d.tensor] for d in launch.descriptors)
        able = " and ".join(f"copies_blocks({t})" for t in tensors)
        body.line(f"tma = has_tma(device) and not wide and {able}")
        for found in launch.descriptors:
            made = f"TensorDescriptor.from_tensor({names[found.tensor]}, {list(found.shape)})"
            body.line(f"{found.name} = {made} if tma else None")
        flags = "TMA=tma, "
    if launch.grid.tall:
        flags += f"TALL={launch.grid.tall}, "
    options = [f"{flags}WIDE=wide, num_warps={launch.warps}, num_stages={launch.stages}, enable_fp_fusion=False"]
    for line in launch.grid.host(names):
        body.line(line)
    call = f"{launch.name}[{launch.grid.programs}]({', '.join([*words, *options])})"
    if launch.grid.counts:
        # No program at all is no launch.
        body.line(f"if {launch.grid.total}:")
        body.indent += 1
    if launch.roles is None:
        body.line(call)
    else:
        _roles(launch.roles, launch.grid.programs, names, body, call)
    body.indent = 1


def _roles(found: RoleLaunch, programs: str, names: Names, body: Writer, plain: str) -> None:
    """The launch by parts with warps of their own where the device and Triton can, or the plain one."""
    body.line("if tma and GLUON and has_wgmma(device):")
    for box in found.boxes:
        made = f"GluonDescriptor.from_tensor({names[box.tensor]}, {list(box.shape)}, {layout_name(box)})"
        body.line(f"    {box.name} = {made}")
    words = [*(box.name for box in found.boxes), *(name for name, _ in found.arguments)]
    options = f"num_warps=4, maxnreg={found.registers}, enable_fp_fusion=False"
    body.line(f"    {found.name}[{programs}]({', '.join(words)}, {options})")
    body.line("else:")
    body.line(f"    {plain}")


def _check(program: Program, names: Names, name: str) -> str:
    kind = torch_type(program.tensors[name].dtype)
    return f'check("{name}", {names[name]}, {kind}, {_shape(program, names, name)}, device)'


def _shape(program: Program, names: Names, name: str) -> str:
    texts = [_count(e, names) for e in program.tensors[name].extents]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _reach(program: Program, names: Names) -> list[str]:
    """How far index expressions can be from 0, in sizes: those that are more than a size or an index."""
    found: dict[str, None] = {}
    for stage in program.stages:
        ends: dict[str, Affine] = {}
        for ranges, expressions in index_expressions(stage):
            for r in ranges:
                ends[r.index] = _bound(Affine(), ends, *r.lower, *r.upper)
            for expression in expressions:
                bound = _bound(expression, ends)
                if expression.bare is None and not bound.is_number and sum(c for _, c in bound.terms) > 1:
                    found[str(bound.renamed({n: names[n] for n in bound.names()}))] = None
    return list(found)


def _bound(first: Affine, ends: Mapping[str, Affine], *more: Affine) -> Affine:
    """A sum of sizes, with factors above 0, that none of some expressions exceeds in absolute value."""
    total = Affine()
    for affine in (first, *more):
        total += abs(affine.constant)
        for term, factor in affine.terms:
            inner = ends.get(term, Affine.name(term)) if isinstance(term, str) else _bound(term.numerator, ends)
            total += inner.scaled(abs(factor))
    return total


def _greatest(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"


def _elements(program: Program, names: Names, name: str) -> str:
    """How many elements a tensor has: numbers cost a call less than asking the tensor."""
    counts = [_count(e, names) for e in program.tensors[name].extents]
    return " * ".join(c if re.fullmatch(r"\w+|max\(.*\)", c) else f"({c})" for c in counts) or "1"


def _empty(program: Program, names: Names, name: str) -> str:
    kind, shape = program.tensors[name].dtype, _shape(program, names, name)
    beside = next((n for n in program.parameters if n in program.tensors), None)
    if beside is None:
        return f"torch.empty({shape}, dtype={torch_type(kind)}, device=device)"
    # A tensor on the device of another costs a call half of one on a device by name, and numbers less than a tuple.
    own = "" if program.tensors[beside].dtype == kind else f", dtype={torch_type(kind)}"
    counts = ", ".join(_count(e, names) for e in program.tensors[name].extents)
    return f"{names[beside]}.new_empty({counts or '()'}{own})"


def _count(extent: Extent, names: Names) -> str:
    """The number of positions of a dimension."""
    low = _extreme(extent.low_word, extent.lower, names)
    high = _extreme(extent.high_word, extent.upper, names)
    if low == "0" and (extent.size is None or extent.size.bare or extent.size.is_number):
        return high
    return f"max(0, {high})" if low == "0" else f"max(0, {high} - ({low}))"


def _extreme(word: str, ends: Sequence[Affine], names: Names) -> str:
    texts = [str(a.renamed({n: names[n] for n in a.names()})) for a in ends]
    return texts[0] if len(texts) == 1 else f"{word}({', '.join(texts)})"


def _conditions(formula: Formula) -> list[Comparison]:
    """The comparisons all of which a condition asks for; a choice is left to what the caller checks."""
    match formula:
        case Comparison():
            return [formula]
        case All(parts):
            return [c for part in parts for c in _conditions(part)]
        case Some():
            return []


def _comparison(found: Comparison, names: Names) -> str:
    words = {n: names[n] for n in (*found.left.names(), *found.right.names())}
    return f"{found.left.renamed(words)} {found.op} {found.right.renamed(words)}"


def _constant(tensor: Tensor, name: str) -> str:
    values = ", ".join(number_text(v) for v in tensor.values)
    shape = ", ".join(str(e.upper[0].constant) for e in tensor.extents)
    kind = torch_type(tensor.dtype)
    # Every float of the table is an f64 exactly.
    first, then = ("torch.float64", f".to({kind})") if tensor.dtype.is_float else (kind, "")
    made = f"    return torch.tensor([{values}], dtype={first}, device=device){then}.reshape({shape})"
    lines = broken(made)
    return "\n".join(["@functools.cache", f"def constant_{name}(device):", *lines])
