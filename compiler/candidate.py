"""A candidate for tools: what its schedule is, whether it fits, what it is reckoned to cost, and what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..cost.count import most
from ..cost.explain import record
from ..cost.launches import launches
from ..cost.memory import run
from .ir.tree import Alloc, Loop, leaves, loops

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..cost.estimate import Estimate
    from ..cost.launches import Launch
    from .ir.program import Program
    from .ir.tree import Node
    from .ranking import Ranked


def candidate(one: Ranked) -> dict[str, Any]:
    """The record of a candidate, of numbers and text. *schedule*: its steps, and for each launch its stages, the order
    of its loops, the lanes of its tiles and its buffers; *feasible*: what a program takes of a multiprocessor and how
    many fit, the bytes of a row in one piece, and why the candidate is dropped, if it is; *estimate* and *measured*:
    None where there is none."""
    found: dict[str, Any] = {"name": one.name, "schedule": None, "feasible": {"reason": one.reason or None}}
    parts: Sequence[Launch] = ()
    if one.schedule is not None:
        state = one.schedule.state
        parts = launches(state.program, state.tree)
        found["schedule"] = {
            "steps": [str(step) for step in one.schedule.trace],
            "launches": [_launch(state.program, part) for part in parts],
        }
    if one.estimate is not None:
        found["feasible"]["launches"] = list(_feasible(one.estimate, parts))
    found["estimate"] = record(one.estimate) if one.estimate is not None else None
    measured = one.measurement
    found["measured"] = (
        {
            "seconds": measured.seconds,
            "compared_at": list(measured.compared),
            "greatest_error": measured.error,
            "same_bits": measured.same,
        }
        if measured is not None
        else None
    )
    return found


def _launch(program: Program, launch: Launch) -> dict[str, Any]:
    """The stages that are fused into a launch, and how."""
    stages: dict[str, dict[str, int | None]] = {}
    blocks = {loop.index for loop in loops((launch.node,)) if loop.kind == "block"}
    for leaf in leaves((launch.node,)):
        lanes = stages.setdefault(program.statement(leaf.statement).stage, {})
        lanes |= {index: most(leaf.domain, n) for n, index in enumerate(leaf.indices) if index in blocks}
    return {
        "stages": list(stages),
        "tiles": {name: lanes for name, lanes in stages.items() if lanes},
        "loops": [f"{loop.index} ({loop.kind})" for loop in loops((launch.node,))],
        "buffers": [{"tensor": b.tensor, "inside": inside, "versions": n} for b, inside, n in _buffers((launch.node,))],
    }


def _feasible(estimate: Estimate, parts: Sequence[Launch]) -> Iterator[dict[str, Any]]:
    """What a program of each launch takes."""
    for launch in estimate.launches:
        room = launch.residency
        taken: dict[str, Any] = (
            {
                "threads": room.threads,
                "registers": room.registers,
                "shared_memory": room.shared,
                "programs": room.blocks,
                "bound_by": list(room.binding),
            }
            if room is not None
            else {"threads": launch.waves.slots}
        )
        yield {
            **taken,
            "contiguous": {
                f"{m.tensor} {m.kind}": run(estimate.program, parts[launch.number], m) for m in launch.moved
            },
            "dependences": "checked",
        }


def _buffers(nodes: Sequence[Node], inside: str = "", versions: int = 1) -> Iterator[tuple[Alloc, str, int]]:
    for node in nodes:
        if isinstance(node, Alloc):
            yield node, inside, versions
            yield from _buffers(node.body, inside, versions)
        elif isinstance(node, Loop):
            yield from _buffers(node.body, node.index, node.stages)
