"""A stage as NumPy text, vectorised over its independent indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...compiler.ir.expr import Allow, Cast, Expr, Read
from ...compiler.ir.nest import bind_indices
from ...compiler.ir.quasiaffine import NEGATED, Affine, Comparison, Range
from ...compiler.ir.trampoline import run
from ..naming import Writer
from .axes import Axes
from .text import Value, type_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...compiler.ir.program import Extent, Program, Stage
    from ..naming import Names


from .reductions import StageEmitter, joined_tests


@dataclass(frozen=True)
class Carried:
    """The loops of a recurrence that run outside a stage: position -> (loop variable, its range)."""

    loops: Mapping[int, tuple[str, Range]]


def emit_stage(program: Program, stage: Stage, names: Names, writer: Writer, carried: Carried, alone: bool) -> None:
    """Write a stage. *alone*: it defines its whole tensor, once, outside recurrences."""
    mark = names.mark()
    binding = bind_indices(stage, {position: variable for position, (variable, _) in carried.loops.items()})
    bound = dict(binding.bound)
    vector = tuple(r.index for r in stage.ranges if r.index not in bound)
    axes = Axes(program, vector)
    for _, found in carried.loops.values():
        axes.enter(found, lambda a: a)
    inner = Writer(indent=writer.indent)
    emitter = StageEmitter(program, names, axes, inner, bound)
    ranges, conditions = _narrowed([r for r in stage.ranges if r.index not in bound], binding.conditions)
    exact = [(found, axes.enter(found, emitter.substituted)) for found in ranges]
    guards: list[str] = []
    masks: list[str] = []
    for condition in conditions:
        if axes.never(Comparison(NEGATED[condition.op], condition.left, condition.right)):
            continue
        text = f"{emitter.integer(condition.left).text} {condition.op} {emitter.integer(condition.right).text}"
        varies = any(n in vector for n in (*condition.left.names(), *condition.right.names()))
        (masks if varies else guards).append(f"({text})" if varies else text)
    for found, fine in exact:
        if not fine:
            masks += _range_tests(found, emitter)
    if guards:
        writer.line(f"if {' and '.join(guards)}:")
        inner.indent += 1
    emitter.prepare(stage.value)
    mask = joined_tests(masks)
    start = len(inner.lines)
    if mask is not None and (id(stage.value) in emitter.gathers or not alone):
        inner.line(f"{(name := names.fresh('defined'))} = {mask}")
        mask = name
    value = run(emitter.emit(stage.value, mask))
    _store(stage, emitter, value, mask, alone)
    arrays = ["    " * inner.indent + emitter.index_array(n) for n in vector if n in emitter.arrays]
    writer.lines += inner.lines[:start] + arrays + inner.lines[start:]
    names.release(mark)


def _narrowed(ranges: list[Range], conditions: Sequence[Comparison]) -> tuple[list[Range], list[Comparison]]:
    """Conditions on one vector index become ends of its range; the rest is returned."""
    ends = {r.index: ([*r.lower], [*r.upper]) for r in ranges}
    rest: list[Comparison] = []
    for condition in conditions:
        difference = condition.left - condition.right
        vector = [n for n in difference.names() if n in ends]
        factor = dict(difference.terms).get(vector[0], 0) if len(vector) == 1 else 0
        if abs(factor) != 1 or condition.op == "!=":
            rest.append(condition)
            continue
        other = (Affine.name(vector[0]).scaled(factor) - difference).scaled(factor)  # index op other
        op = condition.op if factor == 1 else {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}[condition.op]
        lower, upper = ends[vector[0]]
        if op in (">=", ">", "=="):
            lower.append(other + 1 if op == ">" else other)
        if op in ("<=", "<", "=="):
            upper.append(other if op == "<" else other + 1)
    return [Range(name, tuple(low), tuple(high)) for name, (low, high) in ends.items()], rest


def _range_tests(found: Range, emitter: StageEmitter) -> list[str]:
    """The ends of a range that vary along other vector indices, as tests."""
    vector = emitter.axes.vector
    index = emitter.integer(Affine.name(found.index)).text

    def varies(end: Affine) -> bool:
        return any(n in vector for n in emitter.substituted(end).names())

    tests = [f"({index} >= {emitter.integer(e).text})" for e in found.lower if varies(e)]
    return tests + [f"({index} < {emitter.integer(e).text})" for e in found.upper if varies(e)]


def _store(stage: Stage, emitter: StageEmitter, value: Value, mask: str | None, alone: bool) -> None:
    """Write the value to the tensor; a tensor defined whole at once becomes a new array where that reads well."""
    tensor = emitter.program.tensors[stage.tensor]
    name = emitter.names[stage.tensor]
    line = emitter.writer.line
    whole = (
        alone
        and stage.lefts
        and all(
            left.bare in emitter.axes.vector
            and emitter.axes.box[left.bare or ""] == (e.lower, e.upper)
            and e.lower == (Affine(),)
            for left, e in zip(stage.lefts, tensor.extents, strict=True)
        )
    )
    if (
        whole
        and len(set(stage.lefts)) == len(stage.lefts)
        and value.axes == frozenset(emitter.axes.vector)
        and not _is_view(stage.value)
    ):
        line(f"{name} = {value.text}")
        return
    if alone:
        allocate(emitter, stage.tensor)
    target = _target(stage, emitter)
    if target is None:
        # Beside the elements of the stage the box holds positions that the tensor does not have.
        line(f"scatter({name}, {mask or 'True'}, {value.text}, {', '.join(_index_texts(stage, emitter))})")
    elif mask is None or alone or not emitter.axes.vector:
        line(f"{name}[{target}] = {value.text}")
    else:
        line(f"{name}[{target}] = np.where({mask}, {value.text}, {name}[{target}])")


def _bare(expr: Expr) -> Expr:
    """The expression without what leaves its value as it is: permissions, casts to its own type."""
    while isinstance(expr, Allow) or (isinstance(expr, Cast) and expr.operand.dtype is expr.dtype):
        expr = expr.operand
    return expr


def _is_view(expr: Expr) -> bool:
    """Whether the text of an expression may be a view of another array."""
    return isinstance(_bare(expr), Read)


def allocate(emitter: StageEmitter, tensor: str) -> None:
    """The line that allocates a tensor."""
    found = emitter.program.tensors[tensor]
    sizes = [emitter.extent_text(e) for e in found.extents]
    shape = f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
    emitter.writer.line(f"{emitter.names[tensor]} = np.zeros({shape}, {type_text(found.dtype)})")


def _target(stage: Stage, emitter: StageEmitter) -> str | None:
    """The subscripts of a store by slices and index arrays; None where they are not proved to lie inside the tensor."""
    tensor = emitter.program.tensors[stage.tensor]
    if not stage.lefts:
        return "()"
    positions = [emitter.substituted(left) for left in stage.lefts]
    if not all(emitter.axes.within(p, e) for p, e in zip(positions, tensor.extents, strict=True)):
        return None
    parts: list[str] = []
    order: list[str] = []
    for affine, extent in zip(positions, tensor.extents, strict=True):
        placed = affine - extent.lower[0]
        vector = [n for n in placed.names() if n in emitter.axes.vector]
        text = emitter.slice_text(placed, vector, extent) if vector else emitter.integer(placed).text
        if text is None or (vector and vector[0] in order):
            break
        order += vector[:1]
        parts.append(text)
    if len(parts) == len(positions) and order == list(emitter.axes.vector):
        return ", ".join(parts)
    return ", ".join(_index_texts(stage, emitter))


def _index_texts(stage: Stage, emitter: StageEmitter) -> list[str]:
    """The positions of a store as integers and index arrays."""
    tensor = emitter.program.tensors[stage.tensor]
    texts = [emitter.integer(left).text for left in stage.lefts]
    return [t + _origin(e, emitter) for t, e in zip(texts, tensor.extents, strict=True)]


def _origin(extent: Extent, emitter: StageEmitter) -> str:
    return "" if extent.lower == (Affine(),) else f" - ({emitter.ends(extent.low_word, extent.lower)})"
