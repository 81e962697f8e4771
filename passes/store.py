"""store: where the elements of a tensor lie, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..compiler.ir.expr import Partial, postorder
from ..compiler.ir.storage import PLAIN, Storage, injective
from ..compiler.ir.tree import Alloc, Leaf, Node, allocs, leaves
from ..compiler.ir.words import layout_of_text
from .compute_at import without_buffers
from .state import State, find_loop, path_to, replace_loop, shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Beyond this a padding, a swizzle or a fold is a slip.
LARGEST = 1 << 20
SPACES = ("", "global", "shared", "local", "register")


def store(state: State, tensor: str, at: str | None = None, storage: Storage | None = None) -> State:
    """Say how the buffer of an intermediate is laid out, and in which loop it lies.

    *at*: the loop whose iterations have a buffer each ("root": outside every loop; None: where it is). *storage*: the
    layout (None: as it is). Legal when no element is overwritten, in the buffer, before its last read.

    Raises:
        IllegalTransformError: no such tensor or loop, it is an input or an output, or it is used outside the loop
            (rule shape).
    """
    step = f"store({tensor})" if at is None else f"store({tensor}, at={at or 'root'})"
    known = [n for n, t in state.program.tensors.items() if t.role in ("intermediate", "accumulator", "declared")]
    known = [n for n in known if n not in state.program.outputs]
    if tensor in state.program.tensors and tensor not in known:
        role = "an output" if tensor in state.program.outputs else "an input"
        raise shape(step, f"{tensor} is {role}: its storage is the caller's", f"cache_read or cache_write {tensor}")
    if tensor not in known:
        raise shape(step, f"there is no intermediate {tensor}", f"they are {', '.join(known)}" if known else None)
    before = next((a for a in allocs(state.tree) if a.tensor == tensor), None)
    kept = storage or (before.storage if before else PLAIN)
    _require_rank(state, tensor, kept, step)
    if at is None and before is not None:
        return State(state.program, laid_out(state.tree, tensor, kept))
    bare = without_buffers(state.tree, {tensor})
    if at in (None, "", "root"):
        return State(state.program, (Alloc(tensor, bare, kept),))
    find_loop(state, at, step)
    inside = {id(leaf) for leaf in leaves(path_to(bare, at)[-1].body)}
    for leaf in leaves(bare):
        statement = state.program.statement(leaf.statement)
        if id(leaf) not in inside and any(a.tensor == tensor for a in statement.accesses):
            around = f"store({tensor}) at a loop around every place where it is used"
            raise shape(step, f"{statement.name} uses {tensor} outside {at}", around)

    def private(node: Node) -> list[Node]:
        assert not isinstance(node, Leaf)
        return [replace(node, body=(Alloc(tensor, node.body, kept),))]

    return State(state.program, replace_loop(bare, at, private))


def storage_of(
    step: str,
    space: str = "",
    layout: str | None = None,
    pad: int = 0,
    swizzle: int = 0,
    fold: Mapping[int, int] | Sequence[Sequence[int]] = (),
) -> Storage:
    """A layout as a caller writes it.

    Raises:
        IllegalTransformError: it is none (rule shape), or two elements would share a place (rule coverage).
    """
    if space not in SPACES:
        raise shape(step, f"there is no space {space!r}", f"one of {', '.join(s for s in SPACES if s)}")
    if type(pad) is not int or not 0 <= pad <= LARGEST:
        raise shape(step, "a row is padded by a number of elements, 0 or more, and a million at most")
    if type(swizzle) is not int or not 0 <= swizzle <= LARGEST or swizzle & (swizzle - 1):
        raise shape(step, f"a swizzle is by a power of two; this is {swizzle!r}")
    pairs = _pairs(fold)
    if not all(len(p) == 2 and all(type(n) is int for n in p) and p[0] >= 0 and 1 <= p[1] <= LARGEST for p in pairs):
        raise shape(step, "fold= maps dimensions to how many positions of each there are places for", "fold={0: 3}")
    try:
        names, places = layout_of_text(layout) if layout else ((), ())
    except ValueError as error:
        raise shape(step, str(error)) from None
    found = Storage(space, names, places, pad, swizzle, tuple(sorted((int(d), int(n)) for d, n in pairs)))
    if layout and not injective(found):
        raise shape(
            step,
            "two elements would share a place in this layout, or lie before its start",
            "a permutation or a tiling",
        )
    return found


def _pairs(fold: Any) -> tuple[tuple[Any, ...], ...]:
    """What is folded, as pairs; anything else as what is none."""
    if isinstance(fold, dict):
        fold = list(fold.items())
    listed = isinstance(fold, (list, tuple)) and all(isinstance(p, (list, tuple)) for p in fold)
    return tuple(tuple(p) for p in fold) if listed else ((fold,),)


def _require_rank(state: State, tensor: str, storage: Storage, step: str) -> None:
    rank = state.program.tensors[tensor].rank
    if storage.layout and len(storage.names) != rank:
        raise shape(step, f"{tensor} has {rank} dimensions, the layout is of {len(storage.names)}")
    if any(d >= rank for d, _ in storage.fold):
        raise shape(step, f"{tensor} has {rank} dimensions, counted from 0")
    moved = storage.layout or storage.swizzle or storage.fold or storage.pad
    statements = state.program.statements
    if moved and any(isinstance(n, Partial) and n.tensor == tensor for s in statements for n in postorder(s.value)):
        raise shape(step, f"the lanes of {tensor} are merged as they lie, side by side")
    if rank == 0 and moved:
        raise shape(step, f"{tensor} is a single element: there is nothing to lay out")
    if storage.swizzle and len(storage.layout or range(rank)) < 2:
        raise shape(step, f"a swizzle moves places within rows: {tensor} has none")


def laid_out(nodes: Sequence[Node], tensor: str, storage: Storage) -> tuple[Node, ...]:
    """The tree with the buffer of a tensor laid out in another way."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Leaf):
            result.append(node)
        elif isinstance(node, Alloc):
            inner = laid_out(node.body, tensor, storage)
            result.append(Alloc(node.tensor, inner, storage if node.tensor == tensor else node.storage))
        else:
            result.append(replace(node, body=laid_out(node.body, tensor, storage)))
    return tuple(result)
