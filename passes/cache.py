"""cache_read and cache_write: a copy of a tensor, or of its part that a loop works on, close to the work."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ..compiler.ir.expr import Index, Read, Reduce, postorder, same_fill
from ..compiler.ir.hulls import hull, joined
from ..compiler.ir.nest import definition_tree
from ..compiler.ir.program import Stage, stages_of
from ..compiler.ir.storage import PLAIN, Storage
from ..compiler.ir.tree import Alloc, Leaf, Node, fresh, leaves, loops
from .compute_at import compute_at, distinct, find_stage, without_buffers
from .reverse_compute_at import reverse_compute_at
from .rewrite import beside, copy_of, in_order, item_of, redirected, taken_names, with_stages
from .state import State, find_loop, path_to, replace_loop, shape, stages_below
from .store import laid_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Extent, Program, Tensor


def cache_read(
    state: State, tensor: str, loop: str, storage: Storage = PLAIN, *, pad: bool = False
) -> tuple[State, str]:
    """Copy what a loop's iteration reads of a tensor into a buffer, and read it there.

    Rewrite::

        for io: for ii: .. X[16*io + ii, k] ..
            ->   for io: for i, k: X_cache[i, k] = X[i, k]; for ii: .. X_cache[16*io + ii, k] ..

    The copy is an equation of its own, whose loops can be scheduled; every equation that reads the tensor inside the
    loop reads the copy. With *pad* the copy has the elements beyond the edges too that padded reads ask for, each of
    the value that they are to have, and reading it needs no test::

        .. X[i + r - 1] else 0 ..   ->   X_cache[i] = X[i] else 0  for i in -1..N + 1;  .. X_cache[i + r - 1] ..

    Returns the state and the name of the copy.

    Raises:
        IllegalTransformError: no such tensor or loop, nothing inside reads it, or an equation reads it outside too; or
            with *pad*, no read is padded, or they are not all padded with one number (rule shape).
    """
    step = f"cache_read({tensor}, {loop})"
    program = state.program
    found = _find_tensor(program, tensor, step)
    find_loop(state, loop, step)
    inside = list(leaves(path_to(state.tree, loop)[-1].body))
    readers = [name for name in _readers(program, tensor) if any(_of(program, leaf) == name for leaf in inside)]
    if not readers:
        raise shape(step, f"nothing inside {loop} reads {tensor}", _where_read(state, tensor))
    _require_inside(state, tensor, readers, inside, loop, step)
    at = min(item_of(program.order, name) for name in readers)
    if any(s.tensor == tensor and item_of(program.order, s.name) >= at for s in program.stages):
        raise shape(
            step, f"{tensor} is computed in one recurrence with {readers[0]}", "a recurrence reads its own storage"
        )
    name = fresh(f"{tensor}_cache", taken_names(program))
    fill = None
    _require_box(found, step)
    if pad:
        fill = _fill(program, tensor, readers, step)
        found = replace(found, extents=_asked(program, tensor, readers, step))
    copy = copy_of(found, name, _indices(program, tensor, readers), tensor, fill)
    order = beside(program.order, name, at)
    stages = [
        replace(s, value=redirected(s.value, tensor, name, padded=pad)) if s.name in readers else s
        for s in in_order(program)
    ]
    first = next(i for i, s in enumerate(stages) if s.name in stages_of((program.order[at],)))
    tensors = {**program.tensors, name: replace(found, name=name, role="intermediate", values=())}
    other = replace(with_stages(program, [*stages[:first], copy, *stages[first:]], tensors), order=order)
    nest = distinct(_nest(other, name), set(state.loop_names))
    placed = compute_at(State(other, (*nest, *state.tree)), name, loop)
    return State(other, laid_out(placed.tree, name, storage)), name


def cache_write(state: State, stage: str, loop: str, storage: Storage = PLAIN) -> tuple[State, str]:
    """Compute an equation into a buffer that is private to an iteration of a loop, and copy it out at the end of that.

    Rewrite::

        for io: .. Y[i] = e   ->   for io: .. Y_cache[i] = e; for i: Y[i] = Y_cache[i]

    Returns the state and the name of the equation that copies.

    Raises:
        IllegalTransformError: no such equation or loop, the tensor has several equations or is computed from itself,
            or the equation is not computed inside the loop (rule shape).
    """
    step = f"cache_write({stage}, {loop})"
    program = state.program
    find_stage(program, stage, step)
    find_loop(state, loop, step)
    found = program.stage(stage)
    tensor = program.tensors[found.tensor]
    if sum(s.tensor == tensor.name for s in program.stages) > 1:
        raise shape(step, f"{tensor.name} has several equations", "cache_write takes a tensor with one equation")
    if any(isinstance(n, Read) and n.tensor == tensor.name for n in postorder(found.value)):
        raise shape(step, f"{tensor.name} is computed from itself", "a recurrence keeps its storage")
    inside = list(leaves(path_to(state.tree, loop)[-1].body))
    outside = [leaf for leaf in leaves(state.tree) if _of(program, leaf) == stage and leaf not in inside]
    if outside or not any(_of(program, leaf) == stage for leaf in inside):
        own = dict.fromkeys(n for leaf in leaves(state.tree) if _of(program, leaf) == stage for n in leaf.indices)
        raise shape(step, f"{stage} is not computed inside {loop}", f"its loops are {', '.join(own)}")
    taken = taken_names(program)
    cached = fresh(f"{tensor.name}_cache", taken)
    name = fresh(f"{tensor.name}_write", taken)
    copied = Read(cached, tuple(Index(a) for a in found.lefts), tensor.dtype, found.span)
    positions = f"[{', '.join(map(str, found.lefts))}]" if found.lefts else ""
    text = f"{tensor.name}{positions} = {cached}{positions}"
    copy = Stage(name, tensor.name, found.lefts, found.ranges, copied, span=found.span, text=text, copies=True)
    stages: list[Stage] = []
    for other in in_order(program):
        stages += [replace(other, tensor=cached), copy] if other is found else [other]
    tensors = {**program.tensors, cached: replace(tensor, name=cached, role="intermediate")}
    order = beside(program.order, name, item_of(program.order, stage) + 1)
    changed = replace(with_stages(program, stages, tensors), order=order)
    at = next(i for i, node in enumerate(state.tree) if any(found.index == loop for found in loops((node,)))) + 1
    nest = distinct(_nest(changed, name), set(state.loop_names))
    tree = without_buffers(state.tree, {tensor.name})
    moved = reverse_compute_at(State(changed, (*tree[:at], *nest, *tree[at:])), name, loop)

    def private(node: Node) -> list[Node]:
        assert not isinstance(node, Leaf)
        return [replace(node, body=(Alloc(cached, node.body, storage),))]

    return State(changed, replace_loop(moved.tree, loop, private)), name


def _find_tensor(program: Program, tensor: str, step: str) -> Tensor:
    known = [n for n, t in program.tensors.items() if t.role != "accumulator"]
    if tensor in known:
        return program.tensors[tensor]
    near = get_close_matches(tensor, known, 2, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"the tensors are {', '.join(known)}"
    raise shape(step, f"there is no tensor {tensor}", hint)


def _require_box(tensor: Tensor, step: str) -> None:
    if not all(_one_box(extent) for extent in tensor.extents):
        text = f"the shape of {tensor.name} is the hull of several equations: not every element of it exists"
        raise shape(step, text, "declare its shape")


def _fill(program: Program, tensor: str, readers: Sequence[str], step: str) -> Expr:
    """The number that all padded reads of a tensor are to have beyond its edges."""
    reads = [read for name in readers for read in _reads(program.stage(name), tensor)]
    fills = [read.fill for read in reads if read.fill is not None]
    if not fills:
        raise shape(step, f"no read of {tensor} is padded", "leave pad out")
    first = fills[0]
    if any(read.gathers for read in reads):
        raise shape(step, f"data say where {tensor} is read", "leave pad out: reads test where they are")
    if not all(same_fill(fill, first) for fill in fills):
        text = f"reads of {tensor} are not all padded with one number"
        raise shape(step, text, "leave pad out: reads test where they are")
    return first


def _asked(program: Program, tensor: str, readers: Sequence[str], step: str) -> tuple[Extent, ...]:
    """The box of all positions at which a tensor is read, its own or not."""
    boxes: list[tuple[Extent, ...]] = []
    for name in readers:
        stage = program.stage(name)
        inner = [r for node in postorder(stage.value) if isinstance(node, Reduce) for r in node.ranges]
        for read in _reads(stage, tensor):
            places = tuple(s.affine for s in read.subscripts if isinstance(s, Index))
            boxes.append(hull((*stage.ranges, *inner), places, program))
    found = tuple(joined(column, program) for column in zip(*boxes, strict=True))
    if not all(_one_box(extent) for extent in found):
        text = f"which position of {tensor} is the first or the last to be read hangs on the sizes"
        raise shape(step, text, "leave pad out: reads test where they are")
    return found


def _one_box(extent: Extent) -> bool:
    """Whether a dimension has one end on each side, or the innermost of several."""
    return extent.meet or len(extent.lower) == len(extent.upper) == 1


def _of(program: Program, leaf: Leaf) -> str:
    """The equation that a leaf is of."""
    return program.statement(leaf.statement).stage


def _reads(stage: Stage, tensor: str) -> list[Read]:
    return [n for n in postorder(stage.value) if isinstance(n, Read) and n.tensor == tensor]


def _readers(program: Program, tensor: str) -> list[str]:
    return [s.name for s in program.stages if _reads(s, tensor)]


def _where_read(state: State, tensor: str) -> str | None:
    readers = _readers(state.program, tensor)
    around = dict.fromkeys(
        n for leaf in leaves(state.tree) if _of(state.program, leaf) in readers for n in leaf.indices
    )
    return f"it is read inside {', '.join(around)}" if around else None


def _require_inside(
    state: State, tensor: str, readers: Sequence[str], inside: Sequence[Leaf], loop: str, step: str
) -> None:
    """Every leaf that reads the tensor, of an equation that does so inside the loop, lies inside it."""
    kept = {id(leaf) for leaf in inside}
    for leaf in leaves(state.tree):
        statement = state.program.statement(leaf.statement)
        reads = any(a.kind == "read" and a.tensor == tensor for a in statement.accesses)
        if statement.stage in readers and reads and id(leaf) not in kept:
            text = f"{statement.stage} reads {tensor} outside {loop} too"
            raise shape(step, text, "cache at a loop around every place where it is read")


def _indices(program: Program, tensor: str, readers: Sequence[str]) -> list[str]:
    """Names for the indices of a copy: those that its readers put there, where they are words."""
    reads = [read for name in readers for read in _reads(program.stage(name), tensor)]
    taken = {*program.sizes, *program.scalars}
    names: list[str] = []
    for position in range(program.tensors[tensor].rank):
        subscripts = [read.subscripts[position] for read in reads]
        words = [s.affine.bare for s in subscripts if isinstance(s, Index)]
        word = next((w for w in words if w is not None and w not in taken), f"at{position}")
        name = fresh(word, taken)
        taken.add(name)
        names.append(name)
    return names


def _nest(program: Program, stage: str) -> tuple[Node, ...]:
    """The nest of the definition that computes an equation alone."""
    return tuple(node for node in definition_tree(program) if stages_below(program, (node,)) == {stage})
