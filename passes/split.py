"""split: one loop as two, the inner of a fixed extent."""

from __future__ import annotations

from dataclasses import replace

from ..compiler.ir.quasiaffine import Affine, All, Comparison
from ..compiler.ir.tree import Loop, Node, fresh
from .state import State, find_loop, reindexed, replace_loop, shape


def split(state: State, loop: str, factor: int, names: tuple[str, str] | None = None) -> tuple[State, tuple[str, str]]:
    """Split *loop* into an outer loop over blocks of *factor* and an inner one inside a block.

    Rewrite::

        for i: S[i]   ->   for io: for ii in 0..factor: S[factor * io + ii]   (where that is an i)

    Always legal: the order of the iterations stays. Returns the new state and the names of the two loops.

    Raises:
        IllegalTransformError: no such loop, a factor that is not a positive number, a name that is taken (rule shape).
    """
    step = f"split({loop}, {factor})"
    found = find_loop(state, loop, step)
    if type(factor) is not int:
        raise shape(step, f"a split is by a whole number; this is {factor!r}")
    if factor < 1:
        raise shape(step, f"a split is by a positive number; this is {factor}")
    if found.fused:
        raise shape(step, f"{loop} is fused with the loop inside it", "split before fusing")
    outer, inner = new_names(state, loop, names, step)
    value = Affine.name(outer).scaled(factor) + Affine.name(inner)
    low, high = (
        Comparison("<=", Affine(), Affine.name(inner)),
        Comparison("<", Affine.name(inner), Affine.number(factor)),
    )

    def change(node: Loop) -> list[Node]:
        body = reindexed(state.program, node.body, loop, (outer, inner), value, All((low, high)))
        # One of the two goes on running as the loop did: the outer where work is spread, the inner where it is small.
        spread = node.kind in ("parallel", "bind")
        serial = replace(node, kind="serial", target="")
        around, within = (node, serial) if spread else (serial, node)
        return [replace(around, index=outer, body=(replace(within, index=inner, body=body),))]

    return State(state.program, replace_loop(state.tree, loop, change)), (outer, inner)


def new_names(state: State, loop: str, names: tuple[str, str] | None, step: str) -> tuple[str, str]:
    """The names of the two loops of a split: as wished, or the loop's name with o and i."""
    taken = set(state.loop_names)
    if names is None:
        outer = fresh(f"{loop}o", taken)
        return outer, fresh(f"{loop}i", {*taken, outer})
    stage = loop.split(".")[0]
    wished = [n if "." in n else f"{stage}.{n}" for n in names]
    for name in wished:
        word = name.split(".")[-1]
        if not word.isidentifier() or name.split(".")[0] != stage:
            raise shape(step, f"{name} is no name for a loop of {stage}", f"a word, such as {stage}.io")
        if name in taken - {loop} or wished.count(name) > 1:
            raise shape(step, f"the name {name} is taken", "choose other names=")
    return wished[0], wished[1]
