"""Ranked schedules run: those that the model cannot tell apart, by turns, each held against the definition first."""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from statistics import median
from typing import TYPE_CHECKING, Any

from ..backends.signature import free_sizes
from ..backends.triton.types import torch_type
from ..passes.refusal import IllegalTransformError
from .compile import compile
from .inputs import default_scalars, random_inputs
from .ranking import Measurement
from .tile_check import check_tiles, each

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .compiled import CompiledKernel
    from .ranking import Ranked
    from .schedule import Schedule
    from .tile_check import Compared

# At least so many are run, and all whose reckoned time is within this share of the least.
FEW, NEAR = 5, 0.1
# Seconds for each contestant, and the fewest turns; how long one sample is at least.
TIME, TURNS, SAMPLE = 1.0, 5, 1e-3
# Calls that a GPU makes of itself, one after the other, so that it does not wait for the host.
TOGETHER = 20


def measured(
    ranked: Sequence[Ranked],
    sizes: Mapping[str, int],
    target: str = "llvm",
    few: int = FEW,
    near: float = NEAR,
) -> tuple[Ranked, ...]:
    """What `rank` returned, the first of it in the order of their measured times.

    The first *few* are run on this machine, and whatever is reckoned within the share *near* of the first. Each is held
    against the kernel first, at sizes that `Measurement.compared` lists: one that gives another result (beyond its
    computed bound, where a permission is used) is not timed, and goes to the end with the reason.

    Raises:
        ImportError: the target is triton, and torch or Triton is not there.
    """
    runnable = [one for one in ranked if one.estimate is not None]
    limit = (1 + near) * runnable[0].seconds if runnable else inf
    chosen = [one for n, one in enumerate(runnable) if n < few or one.seconds <= limit]
    calls: dict[str, Callable[[], Any]] = {}
    held: dict[str, Compared] = {}
    dropped: list[Ranked] = []
    for one in chosen:
        assert one.schedule is not None
        try:
            held[one.name] = _compared(one.schedule, target, sizes)
            calls[one.name] = _call(compile(one.schedule.kernel, one.schedule, target), sizes)
        except IllegalTransformError as error:
            dropped.append(replace(one, reason=error.refusal.message))
    of_gpu = target == "triton"
    times = by_turns(calls, _synchronize if of_gpu else None)
    done: list[Ranked] = []
    for one in chosen:
        if one.name in calls:
            seconds, own = median(times[one.name]) / (TOGETHER if of_gpu else 1), held[one.name]
            done.append(replace(one, measurement=Measurement(seconds, own.sizes, own.error, own.same)))
    done.sort(key=lambda one: one.measurement.seconds if one.measurement is not None else inf)
    rest = [one for one in ranked if one not in chosen]
    return (*done, *(one for one in rest if not one.reason), *dropped, *(one for one in rest if one.reason))


def by_turns(
    calls: Mapping[str, Callable[[], Any]], synchronize: Callable[[], None] | None = None
) -> dict[str, list[float]]:
    """Seconds of a call, for each turn: what disturbs a turn disturbs all. The first call of each is not counted, short
    ones are repeated, and each turn begins with another."""
    wait = synchronize or (lambda: None)

    def sample(call: Callable[[], Any], count: int) -> float:
        wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        return (time.perf_counter() - start) / count

    repeats = {name: max(1, round(SAMPLE / min(sample(call, 1), sample(call, 1)))) for name, call in calls.items()}
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    end = time.perf_counter() + TIME * len(names)
    turn = 0
    while names and (turn < TURNS or time.perf_counter() < end):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            times[name].append(sample(calls[name], repeats[name]))
        turn += 1
    return times


def _compared(schedule: Schedule, target: str, sizes: Mapping[str, int]) -> Compared:
    """A schedule's results beside those of the definition. What a GPU is given is run in NumPy.

    Raises:
        IllegalTransformError: they are others, or the target cannot say the schedule.
    """
    found = compile(schedule.kernel, schedule, "tiles" if target == "triton" else target)
    return check_tiles(found, schedule, also=sizes)


def _call(compiled: CompiledKernel, sizes: Mapping[str, int]) -> Callable[[], Any]:
    """A call with random inputs of this machine's memory, or a graph of TOGETHER calls with those of its GPU's."""
    program = compiled.kernel.program
    given: dict[str, Any] = {**random_inputs(program, sizes, 0), **default_scalars(program, {}), **sizes}
    free = {n: sizes[n] for n in free_sizes(program)}
    if compiled.target != "triton":
        arguments = [given[n] for n in program.parameters]
        out = each(compiled(*arguments, **free))
        return lambda: compiled.function(*arguments, out=out, **free)
    import torch

    for name, tensor in program.tensors.items():
        if name in given:
            kind = getattr(torch, torch_type(tensor.dtype).removeprefix("torch."))
            given[name] = torch.from_numpy(given[name].view(f"i{given[name].itemsize}")).view(kind).cuda()
    arguments = [given[n] for n in program.parameters]
    results = compiled(*arguments, **free)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(TOGETHER):
            compiled(*arguments, out=results, **free)
    return graph.replay


def _synchronize() -> None:
    import torch

    torch.cuda.synchronize()
