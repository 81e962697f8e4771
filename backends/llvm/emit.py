"""A scheduled kernel as a module of LLVM text: one function, which takes a frame of addresses and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...compiler.ir.expr import Read, postorder
from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.storage import PLAIN
from ...compiler.ir.tree import Node, allocs, at_root, loops
from ..lower.extents import greatest
from ..lower.origins import from_zero
from .ahead import read_again
from .builder import Builder, Value, number
from .call import Code
from .floats import register_type
from .memory import Buffer
from .nest import Nest
from .parts import RUNNER
from .positions import LoopBounds, Positions
from .workspace import release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Extent, Program, Tensor
    from .target import Processor


def emit_llvm(program: Program, tree: Sequence[Node], heading: str, processor: Processor) -> Code:
    """A loop tree as LLVM text for a processor; *heading*: comments above the function."""
    tree = from_zero(program, tree, ("unroll", "vector"))
    # The tensors with buffers inside loops, or of a layout of their own.
    scopes = allocs(tree)
    inner = {s.tensor for s in scopes} - {s.tensor for s in scopes if s.tensor in at_root(tree) and s.storage == PLAIN}
    tensors = tuple(n for n, t in program.tensors.items() if t.role != "constant" and n not in inner)
    b = Builder(halves=processor.halves)
    p = Positions(b, {n: Value(f"%{_word(n)}", "i64") for n in program.sizes}, wide=processor.lanes)
    p.names[RUNNER] = Value(f"%{_word(RUNNER)}", "ptr")
    scalars = {n: Value(f"%{_word(n)}", register_type(d)) for n, d in program.scalars.items()}
    failed = b.slot("i1", "failed")
    bounds = LoopBounds(program, p)
    for loop in loops(tree):
        last = greatest(program, loop)
        if last is not None:
            p.reach[loop.index] = max(p.reach.get(loop.index, 0), last + 1)
    b.types |= {f"%{_word(n)}": t for t, n in _parameters(program, tensors)}
    nest = Nest(program, p, bounds, {}, scalars, failed, read_again(program, tree))
    for name, tensor in program.tensors.items():
        if name in inner:
            # A read outside its buffers, in a branch not taken, has no element to find.
            b.tables["@nothing"] = "@nothing = private constant [64 x i8] zeroinitializer, align 64"
            lows, counts, pointer = [Affine() for _ in tensor.extents], [number(0, "i64")] * tensor.rank, "@nothing"
        else:
            lows, counts = _shape(p, tensor)
            pointer = f'@"const {name}"' if tensor.role == "constant" else f"%{_word(name)}"
        if tensor.role == "constant":
            b.tables[pointer] = _table(pointer, tensor)
        _, strides = nest.strides(counts, PLAIN)
        nest.buffers[name] = Buffer(name, tensor.dtype, pointer, lows, counts, strides)
    b.line(f"store i1 false, ptr {failed}")
    nest.walk(tree, (), bounds.start())
    bad = b.made(f"load i1, ptr {failed}", "i1")
    b.line(f"ret i64 {b.converted('zext', bad, 'i64').text}")
    return Code(program, _text(program, processor, tensors, b, heading), tensors, processor, _gathers(program))


def _gathers(program: Program) -> bool:
    """Whether data give a position anywhere that nothing stands in for where it is outside."""
    found = (n for s in program.statements for n in postorder(s.value) if isinstance(n, Read))
    return any(read.gathers and read.fill is None for read in found)


def _parameters(program: Program, tensors: tuple[str, ...]) -> list[tuple[str, str]]:
    """(type, name) of what the function gets."""
    sizes = (("i64", n) for n in program.sizes)
    scalars = ((register_type(d), n) for n, d in program.scalars.items())
    return [*(("ptr", n) for n in tensors), *sizes, *scalars, ("ptr", RUNNER)]


def _text(program: Program, processor: Processor, tensors: tuple[str, ...], b: Builder, heading: str) -> str:
    parameters = _parameters(program, tensors)
    typed = ", ".join(f"{t} {'noalias ' if t == 'ptr' else ''}%{_word(n)}" for t, n in parameters)
    entry: list[str] = []
    given: list[str] = []
    for place, (type, name) in enumerate(parameters):
        entry.append(f"  %.at{place} = getelementptr inbounds i64, ptr %.frame, i64 {place}")
        loaded = "i8" if type == "i1" else type
        entry.append(f"  %{_word(name)} = load {loaded}, ptr %.at{place}, align 8")
        text = f"%{_word(name)}"
        if type == "i1":
            entry.append(f"  %.bool{place} = trunc i8 {text} to i1")
            text = f"%.bool{place}"
        given.append(f"{type} {text}")
    width = f'"min-legal-vector-width"="{processor.bits}" "prefer-vector-width"="{processor.bits}"'
    lines = [
        f"; The kernel {program.name}, for {processor.name}.",
        *(f"; {line}".rstrip() for line in heading.splitlines()),
        f'target triple = "{processor.triple}"',
        "",
        *sorted(b.tables.values()),
        *sorted(b.declared.values()),
        "",
        *b.functions.values(),
        release([n for n in b.tables if n.startswith("@kept")]),
        "",
        f"define internal i64 @.body({typed}) #0 {{",
        *b.text(),
        "}",
        "",
        "define i64 @kernel(ptr %.frame) #0 {",
        *entry,
        f"  %.found = call i64 @.body({', '.join(given)})",
        "  ret i64 %.found",
        "}",
        "",
        f"attributes #0 = {{ nounwind {width} }}",
        "!0 = !{i32 1}",
        "",
    ]
    return "\n".join(lines)


def _shape(p: Positions, tensor: Tensor) -> tuple[list[Affine], list[Value]]:
    """The first position and the number of positions in each dimension of a tensor."""
    lows: list[Affine] = []
    counts: list[Value] = []
    for dimension, extent in enumerate(tensor.extents):
        low = _low(p, tensor, dimension, extent)
        lows.append(low)
        if extent.size is not None:
            counts.append(p.b.called("smax", p.scalar(extent.size), number(0, "i64")))
            continue
        high = p.ends(extent.high_word, extent.upper)
        counts.append(p.b.called("smax", p.b.binary("sub", high, p.scalar(low)), number(0, "i64")))
    return lows, counts


def _low(p: Positions, tensor: Tensor, dimension: int, extent: Extent) -> Affine:
    if len(extent.lower) == 1:
        return extent.lower[0]
    name = f"{tensor.name} low {dimension}"
    p.names[name] = p.ends(extent.low_word, extent.lower)
    return Affine.name(name)


def _table(pointer: str, tensor: Tensor) -> str:
    """A constant table of the kernel, byte by byte."""
    data = np.array(tensor.values).astype(tensor.dtype.numpy).tobytes()
    text = "".join(f"\\{byte:02X}" for byte in data)
    return f'{pointer} = private constant [{len(data)} x i8] c"{text}", align 64'


def _word(name: str) -> str:
    """A name as LLVM takes it."""
    return f'"{name}"'
