"""The final check of programs that steps rewrote, and of buffers that elements share: each planted bug is caught."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import tilewright as tw
from tilewright.compiler.ir.expr import Binary, Cast, Const, Index, Read, postorder
from tilewright.compiler.ir.quasiaffine import Affine, Comparison
from tilewright.compiler.ir.rebuild import rebuilt
from tilewright.compiler.ir.statements import lower_stage
from tilewright.compiler.ir.storage import Storage
from tilewright.compiler.ir.tree import Alloc, Leaf, Loop
from tilewright.compiler.ir.words import layout_of_text
from tilewright.passes.agreement import Difference
from tilewright.passes.rewritten import differences
from tilewright.passes.verify import verify

PRODUCT = """kernel p(A: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) {
    C[i, j] = bf16(sum(k) f32(A[i, k]) * f32(W[k, j]))
    Y[i, j] = bf16(f32(C[i, j]) * 0.5 - 1)
}"""
FREE = PRODUCT.replace("{\n", "{\n    allow reassociate, contract, elide\n", 1)
ROWS = """kernel r(X: f32[H, W]) -> (Y: f32[H, W]) {
    B[y, x] = X[y, x] * 2
    Y[y, x] = B[y, x] - (B[y - 1, x] else 0)
}"""


def kernel(text):
    return next(iter(tw.parse(text).values()))


def relowered(program, name, change):
    """The program with the value of an equation changed, and its statements with it."""
    from tilewright.passes.rewrite import with_stages

    stages = [replace(s, value=change(s.value)) if s.name == name else s for s in program.stages]
    return with_stages(program, stages, program.tensors)


def every(value, kind, change):
    """The expression with every node of a kind replaced."""
    return rebuilt(value, {id(n): change(n) for n in postorder(value) if isinstance(n, kind) and change(n) is not n})


def shortened(program, first):
    """The program whose copy of B begins at another row."""
    copy = program.stage("B_cache")
    short = replace(copy, ranges=(replace(copy.ranges[0], lower=(Affine.number(first),)), copy.ranges[1]))
    statements, _ = lower_stage(short, lambda r, p: ())
    kept = [s for s in program.statements if s.stage != "B_cache"]
    stages = tuple(short if s.name == "B_cache" else s for s in program.stages)
    return replace(program, stages=stages, statements=(*statements, *kept))


def scheduled(text, *steps):
    found = kernel(text)
    schedule = tw.Schedule(found)
    for name, *arguments in steps:
        getattr(schedule, name)(*arguments)
    verify(schedule.state.program, schedule.state.tree, found.program)
    return found, schedule.state


def strict(schedule):
    """The kernel of a schedule without its permissions."""
    return SimpleNamespace(program=replace(schedule.kernel.program, permissions=()))


# Each mutant: (what went wrong, the rules of which one must catch it, a function that gives kernel, program and tree).
MUTANTS = []


def mutant(what, *rules):
    def note(build):
        MUTANTS.append(pytest.param(build, rules, id=what))
        return build

    return note


CACHED = ("cache_read", "W", "C.j"), ("cache_read", "A", "C.j")


@mutant("a copy takes its neighbour", "dependence")
def _():
    found, state = scheduled(ROWS, ("cache_read", "X", "B.y"))
    shifted = lambda v: replace(v, subscripts=(v.subscripts[0], Index(v.subscripts[1].affine - 1)), fill=None)  # noqa: E731
    return found, relowered(state.program, "X_cache", shifted), state.tree


@mutant("one copy is read for the other", "rounding")
def _():
    found, state = scheduled(ROWS, ("cache_read", "X", "B.y"), ("cache_read", "B", "Y.y"))
    wrong = lambda v: every(v, Read, lambda n: replace(n, tensor="X_cache"))  # noqa: E731
    return found, relowered(state.program, "Y", wrong), state.tree


PADDED = ("cache_read", "B", "Y.y", "", "", True)


@mutant("a copy has another number beyond the edges", "rounding")
def _():
    found, state = scheduled(ROWS, PADDED)
    other = lambda v: every(v, Const, lambda n: replace(n, value=1.0))  # noqa: E731
    return found, relowered(state.program, "B_cache", other), state.tree


@mutant("a copy has a zero of another sign beyond the edges", "rounding")
def _():
    found, state = scheduled(ROWS, PADDED)
    other = lambda v: every(v, Const, lambda n: replace(n, value=-0.0))  # noqa: E731
    return found, relowered(state.program, "B_cache", other), state.tree


@mutant("a copy has what it copies beyond the edges", "dependence")
def _():
    found, state = scheduled(ROWS, PADDED)
    own = Read("X", (Index(Affine.number(0)), Index(Affine.number(0))), state.program.tensors["X"].dtype)
    return found, relowered(state.program, "B_cache", lambda v: replace(v, fill=own)), state.tree


@mutant("a copy has nothing beyond the edges", "bounds", "dependence")
def _():
    found, state = scheduled(ROWS, PADDED)
    return found, relowered(state.program, "B_cache", lambda v: replace(v, fill=None)), state.tree


@mutant("a padded copy ends where what it copies does", "coverage", "bounds")
def _():
    found, state = scheduled(ROWS, PADDED)
    return found, shortened(state.program, 0), state.tree


@mutant("a read that is not padded finds what a copy has beyond the edges", "rounding")
def _():
    found, state = scheduled(ROWS, PADDED)
    moved = lambda v: every(  # noqa: E731
        v, Read, lambda n: replace(n, subscripts=(Index(Affine.name("y") - 1), n.subscripts[1]))
    )
    return found, relowered(state.program, "Y", moved), state.tree


@mutant("a copy is read that holds less", "coverage")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    return found, shortened(state.program, 1), state.tree


@mutant("a copy is made after it is read", "dependence")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    return found, replace(state.program, order=("B", "Y", "B_cache")), state.tree


@mutant("a copy is made before what it copies", "dependence")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    return found, replace(state.program, order=("B_cache", "B", "Y")), state.tree


@mutant("a result is not copied out", "coverage", "dependence")
def _():
    found, state = scheduled(ROWS, ("cache_write", "Y", "Y.y"))
    program = state.program
    stages = tuple(s for s in program.stages if s.name != "Y_write")
    statements = tuple(s for s in program.statements if s.stage != "Y_write")
    return found, replace(program, stages=stages, statements=statements, order=("B", "Y")), state.tree


@mutant("a written-in equation lost its rounding", "rounding")
def _():
    found, state = scheduled(
        PRODUCT.replace("sum(k) f32(A[i, k]) * f32(W[k, j])", "f32(A[i, 0]) * f32(W[0, j])").replace(
            "{\n", "where K >= 1 {\n", 1
        ),
        ("inline", "C"),
    )
    bare = lambda v: every(v, Cast, lambda n: n.operand.operand if isinstance(n.operand, Cast) else n)  # noqa: E731
    return found, relowered(state.program, "Y", bare), state.tree


@mutant("a written-in equation is of the neighbour", "rounding")
def _():
    found, state = scheduled(ROWS.replace("(B[y - 1, x] else 0)", "1"), ("inline", "B"))
    moved = lambda v: every(v, Read, lambda n: replace(n, subscripts=(Index(Affine.number(0)), n.subscripts[1])))  # noqa: E731
    return found, relowered(state.program, "Y", moved), state.tree


@mutant("operands are swapped", "rounding")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    swapped = lambda v: every(v, Binary, lambda n: replace(n, left=n.right, right=n.left))  # noqa: E731
    return found, relowered(state.program, "Y", swapped), state.tree


@mutant("a constant differs by its sign of zero", "rounding")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    signed = lambda v: every(v, Const, lambda n: replace(n, value=-0.0) if n.value == 0 else n)  # noqa: E731
    return found, relowered(state.program, "Y", signed), state.tree


@mutant("a product is fused without permission", "rounding")
def _():
    other = tw.Schedule(kernel(FREE))
    other.contract("C")
    return strict(other), replace(other.state.program, permissions=()), other.state.tree


@mutant("a rounding is dropped without permission", "rounding")
def _():
    other = tw.Schedule(kernel(FREE))
    other.widen("C", "f32")
    return strict(other), replace(other.state.program, permissions=()), other.state.tree


@mutant("a tensor is kept narrower where it may be kept wider", "rounding")
def _():
    from tilewright.compiler.ir.dtype import DTYPES

    found, state = scheduled(FREE, ("widen", "C", "f32"))
    small = DTYPES["f8e5m2"]
    tensors = {**state.program.tensors, "C": replace(state.program.tensors["C"], dtype=small)}
    narrow = replace(state.program, tensors=tensors)
    program = relowered(narrow, "C", lambda v: Cast(v, small))
    wide = lambda v: every(v, Read, lambda n: Cast(replace(n, dtype=small), n.dtype) if n.tensor == "C" else n)  # noqa: E731
    return found, relowered(program, "Y", wide), state.tree


@mutant("more is permitted than the kernel permits", "rounding")
def _():
    found, state = scheduled(PRODUCT, ("cache_read", "A", "C.i"))
    return found, replace(state.program, permissions=("reassociate",)), state.tree


@mutant("a guard hides a read", "rounding")
def _():
    found, state = scheduled(ROWS, ("cache_read", "B", "Y.y"))
    never = Comparison("<", Affine.name("y"), Affine.number(0))
    hidden = lambda v: every(v, Read, lambda n: replace(n, guard=never))  # noqa: E731
    return found, relowered(state.program, "Y", hidden), state.tree


@mutant("an input has another type", "dependence", "bounds")
def _():
    from tilewright.compiler.ir.dtype import F64

    found, state = scheduled(ROWS, ("cache_read", "X", "B.y"))
    tensors = {**state.program.tensors, "X": replace(state.program.tensors["X"], dtype=F64)}
    return found, replace(state.program, tensors=tensors), state.tree


# ---- trees


def altered(nodes, change):
    """The tree with every loop and buffer as a function makes it (None: left out)."""
    result = []
    for node in nodes:
        if isinstance(node, Leaf):
            result.append(node)
            continue
        made = change(replace(node, body=altered(node.body, change)))
        result += [] if made is None else [made]
    return tuple(result)


@mutant("a circular buffer is a row too small", "dependence")
def _():
    found, state = scheduled(ROWS, ("merge", "B.y", "Y.y"), ("store", "B", "", "", None, 0, 0, {0: 2}))
    small = Storage(fold=((0, 1),))
    return found, state.program, altered(state.tree, lambda n: replace(n, storage=small) if isinstance(n, Alloc) else n)


@mutant("a circular buffer turns along the wrong dimension", "dependence")
def _():
    found, state = scheduled(ROWS, ("merge", "B.y", "Y.y"), ("store", "B", "", "", None, 0, 0, {0: 2}))
    wrong = Storage(fold=((1, 2),))
    return found, state.program, altered(state.tree, lambda n: replace(n, storage=wrong) if isinstance(n, Alloc) else n)


PIPELINE = ("split", "C.k", 2), ("cache_read", "A", "C.ko"), ("pipeline", "C.ko", 3)


@mutant("what runs ahead reads a version that is not filled yet", "dependence", "rounding")
def _():
    found, state = scheduled(PRODUCT, *PIPELINE)
    wrong = lambda n: replace(n, ahead=frozenset({"S_C_update"})) if getattr(n, "stages", 1) > 1 else n  # noqa: E731
    return found, state.program, altered(state.tree, wrong)


@mutant("a pipeline has one version too few", "dependence", "rounding")
def _():
    # Two iterations of two columns each, where three are in flight.
    found, state = scheduled(PRODUCT, *PIPELINE)
    out = lambda n: replace(n, body=tuple(m for b in n.body for m in (b.body if isinstance(b, Alloc) else (b,))))  # noqa: E731
    shared = altered(state.tree, lambda n: out(n) if isinstance(n, Loop) and n.stages > 1 else n)
    return found, state.program, (Alloc("A_cache", shared, Storage(fold=((1, 4),))),)


@mutant("a layout gives two elements one place", "coverage")
def _():
    found, state = scheduled(ROWS, ("store", "B", ""))
    names, layout = layout_of_text("(y, x) -> (y + x, x // 2)")
    bad = Storage(names=names, layout=layout)
    return found, state.program, altered(state.tree, lambda n: replace(n, storage=bad) if isinstance(n, Alloc) else n)


@mutant("the edge of a peeled loop is lost", "dependence")
def _():
    found, state = scheduled(ROWS, ("split", "B.y", 4), ("peel", "B.yo"))
    lost = lambda n: None if isinstance(n, Loop) and n.index == "B.yo_edge" else n  # noqa: E731
    return found, state.program, altered(state.tree, lost)


@mutant("the general copy is lost", "dependence")
def _():
    found, state = scheduled(ROWS, ("specialise", "H % 4 == 0"))
    lost = lambda n: None if isinstance(n, Loop) and n.index == "Y.y_general" else n  # noqa: E731
    return found, state.program, altered(state.tree, lost)


@mutant("a tile lies along a recurrence", "race", "dependence")
def _():
    text = "kernel s(X: f32[N]) -> (S: f32[N]) { S[i] = X[i] + (S[i - 1] if i > 0 else 0) }"
    found, state = scheduled(text)
    return found, state.program, altered(state.tree, lambda n: replace(n, kind="block"))


@mutant("a tile runs its leaves lane by lane", "dependence")
def _():
    # Y[y] reads B[y + 1]: right row by row behind it, wrong where both run for all rows of a tile in turn.
    found, state = scheduled(ROWS.replace("B[y - 1, x]", "B[y + 1, x]"))
    return found, state.program, tuple(reversed(altered(state.tree, lambda n: replace(n, kind="block"))))


def test_there_are_mutants_enough():
    assert len(MUTANTS) >= 24


@pytest.mark.parametrize(("build", "rules"), MUTANTS)
def test_a_planted_bug_is_caught(build, rules):
    found, program, tree = build()
    with pytest.raises(tw.IllegalTransformError) as caught:
        verify(program, tree, found.program)
    assert caught.value.refusal.rule in rules, caught.value


def test_what_is_permitted_is_named():
    found, other = kernel(FREE), tw.Schedule(kernel(FREE))
    other = tw.Schedule(found)
    other.contract("C")
    other.widen("C", "f32")
    noted = differences(found.program, other.state.program)
    assert noted == (
        Difference("C: not rounded to bf16, but kept as f32", "elide"),
        Difference("C: each product is added by fma", "contract"),
    )
