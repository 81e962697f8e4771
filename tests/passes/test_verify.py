"""The final check accepts what the schedule steps make, and catches planted bugs, each by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.compiler.ir.affine import make_set
from tilewright.compiler.ir.nest import definition_tree
from tilewright.compiler.ir.quasiaffine import Affine, All, Comparison, conjunction
from tilewright.compiler.ir.tree import Alloc, Leaf, Loop, Roles, map_leaves
from tilewright.passes.verify import verify

ROOT = Path(__file__).parents[2]
SUM = "kernel s(X: f32[N, K]) -> (Y: f32[N]) { Y[i] = sum(k) X[i, k] }"
CHAIN = "kernel c(X: f32[N]) -> (Y: f32[N]) { T[i] = X[i] * 2\n Y[i] = T[i] + 1 }"
STENCIL = """kernel b(X: f32[N]) -> (Y: f32[N]) where N >= 4 {
    B[i in 1..N - 1] = X[i - 1] + X[i] + X[i + 1]
    Y[i] = (B[i - 1] + B[i + 1]) if i >= 2 and i < N - 2 else 0
}"""

FIRST = "kernel f(X: f32[R, C]) -> (I: i64[R]) where C >= 1 { I[r] = argmax(c) X[r, c] }"
STEPS = """kernel t(A: f32[N], steps: size) -> (R: f32[N]) where N >= 2 {
    U[0, i] = A[i]
    U[t in 1..steps + 1, i in 0..N - 1] = U[t - 1, i] + U[t - 1, i + 1]
    U[t in 1..steps + 1, N - 1] = A[N - 1]
    R[i] = U[steps, i]
}"""


def kernel(text):
    return next(iter(tw.parse(text).values()))


def tiled():
    """matmul_silu, tiled, C computed in the tile."""
    found = tw.load(ROOT / "examples" / "matmul_silu.tx")["matmul_silu"]
    schedule = tw.Schedule(found)
    schedule.tile("Y.i", "Y.j", 4, 4)
    schedule.compute_at("C", "Y.jo")
    ko, ki = schedule.split("C.k", 3)
    schedule.reorder(ko, "C.i", "C.j", ki)
    return found, schedule.state.tree


def halo():
    """A stencil whose producer is computed in the reader's tile."""
    found = kernel(STENCIL)
    schedule = tw.Schedule(found)
    schedule.split("Y.i", 4)
    schedule.compute_at("B", "Y.io")
    return found, schedule.state.tree


def changed(tree, statement, change):
    """The tree with the leaves of a statement changed."""
    return map_leaves(tree, lambda leaf: change(leaf) if leaf.statement == statement else leaf)


def narrowed(program, leaf, *conditions):
    extra = make_set(program.sizes, leaf.indices, conjunction(*conditions))
    return replace(leaf, domain=leaf.domain.intersect(extra))


def opened(tree, tensor):
    """The tree without the private buffer of a tensor: its accesses share one."""
    result = []
    for node in tree:
        if isinstance(node, Leaf):
            result.append(node)
        elif isinstance(node, Alloc) and node.tensor == tensor:
            result += opened(node.body, tensor)
        else:
            result.append(replace(node, body=opened(node.body, tensor)))
    return tuple(result)


def on_loop(tree, index, **change):
    """The tree with fields of a loop changed."""
    result = []
    for node in tree:
        if not isinstance(node, Leaf):
            node = replace(node, body=on_loop(node.body, index, **change))
            node = replace(node, **change) if isinstance(node, Loop) and node.index == index else node
        result.append(node)
    return tuple(result)


def marked(tree, index, kind):
    return on_loop(tree, index, kind=kind)


def reversed_loop(tree, index):
    return on_loop(tree, index, descending=True)


def name(index):
    return Affine.name(index)


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.tx")), ids=lambda p: p.stem)
def test_the_definition_is_accepted(path):
    for found in tw.load(path).values():
        assert len(verify(found.program, definition_tree(found.program)).proved) == 6


@pytest.mark.parametrize("build", [tiled, halo])
def test_a_schedule_is_accepted(build):
    found, tree = build()
    assert "at all" not in verify(found.program, tree).sizes


def test_a_reordered_sum_leans_on_its_permission():
    found = tw.load(ROOT / "examples" / "matmul_silu.tx")["matmul_silu"]
    schedule = tw.Schedule(found)
    schedule.reverse("C.k")
    assert verify(found.program, schedule.state.tree).permissions == ("reassociate",)
    exact = kernel("kernel m(X: i32[N, K]) -> (Y: i32[N]) { Y[i] = sum(k) X[i, k] }")
    assert verify(exact.program, reversed_loop(definition_tree(exact.program), "Y.k")).permissions == ()


# Each mutant: (what went wrong, the rule that must catch it, a function that gives program and tree).
MUTANTS = []


def mutant(what, *rules):
    def note(build):
        MUTANTS.append(pytest.param(build, rules, id=what))
        return build

    return note


@mutant("the tail of a split is lost", "dependence")
def _tail():
    found, tree = tiled()
    whole = Comparison("<", name("Y.io").scaled(4) + 3, name("M"))
    return found, changed(tree, "S_Y", lambda leaf: narrowed(found.program, leaf, whole))


@mutant("the region of a producer is one too small", "dependence")
def _region():
    found, tree = halo()
    short = Comparison("<", name("B.i"), name("Y.io").scaled(4) + 4)
    return found, changed(tree, "S_B", lambda leaf: narrowed(found.program, leaf, short))


@mutant("a private buffer is shared", "race")
def _shared():
    found, tree = halo()
    return found, marked(opened(tree, "B"), "Y.io", "parallel")


@mutant("an update is dropped", "dependence", "rounding", "coverage")
def _dropped():
    found, tree = tiled()
    return found, changed(
        tree, "S_C_update", lambda leaf: narrowed(found.program, leaf, Comparison(">=", name("C.ki"), Affine.number(1)))
    )


@mutant("an update runs twice", "coverage", "dependence", "rounding")
def _doubled():
    found = kernel(SUM.replace("{", "{ allow reassociate\n", 1))
    loop = definition_tree(found.program)[0]
    start, inner, finish = loop.body
    again = replace(
        inner,
        index="Y.k again",
        body=tuple(
            replace(leaf, indices=("Y.i", "Y.k again"), instance=(name("Y.i"), name("Y.k again")))
            for leaf in inner.body
        ),
    )
    return found, (replace(loop, body=(start, inner, again, finish)),)


@mutant("an ascending sum runs downwards", "rounding")
def _descending():
    found = kernel(SUM)
    return found, reversed_loop(definition_tree(found.program), "Y.k")


@mutant("the start stands inside the sum", "dependence", "coverage", "rounding")
def _start_inside():
    found = kernel(SUM.replace("{", "{ allow reassociate\n", 1))
    loop = definition_tree(found.program)[0]
    start, inner, finish = loop.body
    moved = replace(start, indices=("Y.i", "Y.k"), domain=inner.body[0].domain)
    return found, (replace(loop, body=(replace(inner, body=(moved, *inner.body)), finish)),)


@mutant("the end stands before the sum", "dependence", "rounding")
def _end_first():
    found = kernel(SUM)
    loop = definition_tree(found.program)[0]
    start, inner, finish = loop.body
    return found, (replace(loop, body=(start, finish, inner)),)


@mutant("the reader stands before the producer", "dependence")
def _swapped():
    found = kernel(CHAIN)
    first, second = definition_tree(found.program)
    return found, (second, first)


@mutant("the producer is gone", "dependence")
def _gone():
    found = kernel(CHAIN)
    return found, definition_tree(found.program)[1:]


@mutant("the reader is gone", "dependence")
def _reader_gone():
    found = kernel(CHAIN)
    return found, definition_tree(found.program)[:1]


@mutant("an element is computed from its neighbour", "coverage", "dependence")
def _shifted():
    found = kernel(CHAIN)
    tree = definition_tree(found.program)
    return found, changed(tree, "S_Y", lambda leaf: replace(leaf, instance=(name("Y.i") - 1,)))


@mutant("two instances are confused", "dependence")
def _confused():
    found = kernel(CHAIN)
    tree = definition_tree(found.program)
    back = name("N") - 1 - name("Y.i")
    return found, changed(
        tree,
        "S_Y",
        lambda leaf: narrowed(
            found.program, replace(leaf, instance=(back,)), Comparison("<", name("Y.i").scaled(2), name("N"))
        ),
    )


@mutant("a recurrence runs in parallel", "race")
def _parallel_scan():
    found = tw.load(ROOT / "examples" / "prefix_sum.tx")["prefix_sum"]
    return found, marked(definition_tree(found.program), "S.i", "parallel")


@mutant("a sum runs in parallel", "race")
def _parallel_sum():
    found, tree = tiled()
    return found, marked(tree, "C.ko", "parallel")


@mutant("a float sum runs in lanes without permission", "race")
def _lanes():
    found = kernel(SUM)
    return found, marked(definition_tree(found.program), "Y.k", "vector")


@mutant("a recurrence runs backwards", "dependence")
def _backwards():
    found = tw.load(ROOT / "examples" / "wavefront.tx")["wavefront"]
    return found, reversed_loop(definition_tree(found.program), "D.j")


@mutant("time steps change places with space", "dependence")
def _interchanged():
    found = kernel(STEPS)
    program = found.program
    tree = list(definition_tree(program))
    at = next(i for i, n in enumerate(tree) if isinstance(n, Loop) and n.index == "U#2.t")
    outer = tree[at]
    inner = outer.body[0]
    leaf = inner.body[0]
    domain = make_set(program.sizes, ("U#2.i", "U#2.t"), conjunction(program.context, All((
        Comparison("<=", Affine.number(1), name("U#2.t")), Comparison("<=", name("U#2.t"), name("steps")),
        Comparison("<=", Affine.number(0), name("U#2.i")), Comparison("<", name("U#2.i"), name("N") - 1),
    ))))  # fmt: skip
    moved = Leaf(leaf.statement, ("U#2.i", "U#2.t"), domain, leaf.instance)
    tree[at] = replace(inner, body=(replace(outer, body=(moved,)),))
    return found, tuple(tree)


@mutant("a slice is computed before the one that it needs", "dependence")
def _slices():
    found = tw.load(ROOT / "examples" / "stencil_time.tx")["stencil_time"]
    tree = definition_tree(found.program)
    return found, (*tree[1:], tree[0])


@mutant("the maximum is read before it is final", "dependence", "rounding")
def _early_maximum():
    found = tw.load(ROOT / "examples" / "softmax.tx")["softmax"]
    tree = definition_tree(found.program)
    first = tree[0]
    start, inner, finish = first.body
    early = replace(finish, indices=("m.r", "m.c"), domain=inner.body[0].domain)
    return found, (replace(first, body=(start, replace(inner, body=(early, *inner.body)))), *tree[1:])


@mutant("a buffer is made inside the sum", "dependence", "coverage", "rounding")
def _buffer_inside():
    found = kernel(SUM.replace("{", "{ allow reassociate\n", 1))
    loop = definition_tree(found.program)[0]
    start, inner, finish = loop.body
    return found, (replace(loop, body=(start, replace(inner, body=(Alloc("Y.acc", inner.body),)), finish)),)


@mutant("the index of an argmax moves in a loop before that of its best value", "dependence")
def _parted():
    found = kernel(FIRST)
    loop = definition_tree(found.program)[0]
    best, index, inner, finish = loop.body
    parts = tuple(replace(inner, body=(leaf,)) for leaf in inner.body)
    return found, (replace(loop, body=(best, index, *parts, finish)),)


@mutant("the index of an argmax moves for all lanes before the best value does", "dependence")
def _blocked():
    found = kernel(FIRST)
    return found, marked(definition_tree(found.program), "I.c", "block")


@mutant("the index of an argmax moves down and its best value up", "dependence")
def _crossed():
    found = kernel(FIRST)
    loop = definition_tree(found.program)[0]
    best, index, inner, finish = loop.body
    down, up = (replace(inner, body=(leaf,)) for leaf in inner.body)
    return found, (replace(loop, body=(best, index, replace(down, descending=True), up, finish)),)


def parted():
    """A product whose tiles are loaded, multiplied and finished at once."""
    found = tw.load(ROOT / "examples" / "matmul_silu.tx")["matmul_silu"]
    schedule = tw.Schedule(found)
    schedule.tile("Y.i", "Y.j", 4, 4)
    schedule.compute_at("C", "Y.jo")
    ko, ki = schedule.split("C.k", 3)
    schedule.reorder(ko, "C.i", "C.j", ki)
    schedule.cache_read("A", ko)
    schedule.pipeline(ko, 2)
    schedule.parallel("Y.io")
    schedule.parallel("Y.jo")
    schedule.roles(ko, 2, "Y")
    return schedule.state


@mutant("what one part hands on has no buffer of its own", "race")
def _not_private():
    state = parted()
    return state, opened(state.tree, "C")


@mutant("the epilogue starts the sums that the consumers add to", "race")
def _early_epilogue():
    state = parted()
    return state, on_loop(state.tree, "C.ko", roles=Roles(2, frozenset(("S_Y", "S_C_init"))))


@mutant("the parts of a tile run at several tiles of a loop in order", "race")
def _parts_in_order():
    state = parted()
    return state, marked(state.tree, "Y.jo", "serial")


@mutant("the epilogue loads what the consumers multiply", "race")
def _late_loads():
    state = parted()
    (copy,) = (s.name for s in state.program.statements if s.tensor == "A_cache")
    return state, on_loop(state.tree, "C.ko", roles=Roles(2, frozenset((copy,))), ahead=frozenset())


@mutant("a leaf of a statement that does not exist", "coverage")
def _unknown_statement():
    found = kernel(CHAIN)
    tree = definition_tree(found.program)
    return found, changed(tree, "S_T", lambda leaf: replace(leaf, statement="S_Q"))


def test_a_pipeline_in_strides_that_a_skew_makes_is_accepted():
    found = kernel(
        """kernel f(X: i8[N]) -> (Y: i8[N]) where N >= 1 {
            T[i] = X[i] + (X[i + 1] else 0)
            Y[i] = (T[i - 1] else 0) + T[i] * (T[i + 2] else 1)
        }"""
    )
    s = tw.Schedule(found)
    s.shift("Y.i", 3)
    s.split("T.i", 4)
    s.reorder("T.ii", "T.io")
    s.reverse_compute_at("Y", "T.ii")
    s.cache_read("T", "Y.i", layout="(d0) -> (d0 // 4, d0 % 4)")
    s.skew("T.io", "T.ii", 1)
    s.reverse("Y.i")
    s.split("T.io", 2)
    s.pipeline("Y.i", 2)
    verify(s.state.program, s.state.tree, found.program)


def test_parts_that_hand_on_are_accepted():
    state = parted()
    proved = verify(state.program, state.tree, tw.load(ROOT / "examples" / "matmul_silu.tx")["matmul_silu"].program)
    assert "the parts of C.ko meet in buffers that they hand on, and nowhere else" in proved.proved


def test_there_are_twenty_mutants():
    assert len(MUTANTS) >= 20


@pytest.mark.parametrize(("build", "rules"), MUTANTS)
def test_a_planted_bug_is_caught(build, rules):
    found, tree = build()
    with pytest.raises(tw.IllegalTransformError) as caught:
        verify(found.program, tree)
    assert caught.value.refusal.rule in rules, str(caught.value)
    assert caught.value.refusal.step == "final check"
