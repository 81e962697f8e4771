"""What `measure` runs on a GPU: kernels of Triton, timed by graphs."""

# Kernels of Triton are no functions that types can be given to.
# pyright: reportMissingParameterType=false, reportCallIssue=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from collections.abc import Callable

BLOCK = 4096


@triton.jit
def chased(chain, out, steps):
    """Follow a chain of positions; each read waits for the one before."""
    place = tl.load(out)
    for _ in range(steps):
        place = tl.load(chain + place)
    tl.store(out, place)


@triton.jit
def added(data, out, blocks, rounds, BLOCK: tl.constexpr):
    """Read all blocks of data again and again, each program in another order."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for turn in range(rounds):
        block = (tl.program_id(0) * 7 + turn * tl.num_programs(0)) % blocks
        total += tl.load(data + block.to(tl.int64) * BLOCK + lanes)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, total)


@triton.jit
def nothing(out):
    """Hardly anything."""
    tl.store(out, 1)


def seconds(run: Callable[[], object], calls: int = 1) -> float:
    """The least time of a call, by graphs of some calls."""
    run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            run()
    found: list[float] = []
    for _ in range(9):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        graph.replay()
        last.record()
        torch.cuda.synchronize()
        found.append(first.elapsed_time(last) / 1000 / calls)
    return min(found)


def latency(size: int) -> float:
    """Seconds of a read that waits for the one before, through so many bytes in strides of 256."""
    count, step = size // 8, 32
    places = torch.arange(0, count, step, device="cuda")
    mixed = places[torch.randperm(len(places), device="cuda")]
    chain = torch.zeros(count, dtype=torch.int64, device="cuda")
    chain[mixed] = torch.roll(mixed, -1)
    out = torch.zeros(1, dtype=torch.int64, device="cuda")
    steps = 20_000
    warm = min(len(places), 200_000)
    chased[(1,)](chain, out, warm, num_warps=1)
    return seconds(lambda: chased[(1,)](chain, out, steps, num_warps=1)) / steps


def read_bandwidth(size: int, rounds: int = 400) -> float:
    """Bytes a second that all multiprocessors read together of so many bytes."""
    blocks = size // 4 // BLOCK
    data = torch.zeros(blocks * BLOCK, dtype=torch.int32, device="cuda")
    programs = torch.cuda.get_device_properties(0).multi_processor_count * 4
    out = torch.empty(programs * BLOCK, dtype=torch.int32, device="cuda")
    taken = seconds(lambda: added[(programs,)](data, out, blocks, rounds, BLOCK, num_warps=8))
    return programs * rounds * BLOCK * 4 / taken


def launch_time() -> float:
    """Seconds from one kernel of a graph to the next, where they do hardly anything."""
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    return seconds(lambda: nothing[(1,)](out, num_warps=1), 200)
