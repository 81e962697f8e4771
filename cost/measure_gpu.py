"""What `measure` runs on a GPU: kernels of Triton, timed by graphs."""

# Kernels of Triton are no functions that types can be given to.
# pyright: reportMissingParameterType=false, reportCallIssue=false, reportUnknownParameterType=false

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

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
def short_runs(data, out, stride, RUN: tl.constexpr, ROWS: tl.constexpr):
    """Read one run of each row."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    found = tl.load(data + rows.to(tl.int64)[:, None] * stride + tl.arange(0, RUN)[None, :])
    tl.store(out + rows, tl.sum(found, axis=1))


@triton.jit
def product(blocks, b, out, depth, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """A product of a few rows, in a pipeline of three stages, with rows that a descriptor fetches."""
    rows, terms = tl.arange(0, ROWS), tl.arange(0, DEPTH)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    width = tl.num_programs(0) * COLUMNS
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in tl.range(0, depth, DEPTH, num_stages=3):
        x = blocks.load([0, start])
        y = tl.load(b + (start + terms).to(tl.int64)[:, None] * width + columns[None, :])
        total = tl.dot(x, y, total)
    tl.store(out + rows[:, None] * width + columns[None, :], total)


@triton.jit
def clock_of(none):
    """The clocks of a multiprocessor until now, behind whatever *none* comes of."""
    return tl.inline_asm_elementwise("mov.u64 $0, %clock64;", "=l,r", [none], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def time_of(none):
    """The nanoseconds until now, behind whatever *none* comes of."""
    return tl.inline_asm_elementwise("mov.u64 $0, %globaltimer;", "=l,r", [none], dtype=tl.int64, is_pure=False, pack=1)


@triton.jit
def clocks(out, steps):
    """How many clocks, and how many nanoseconds, a chain of additions takes."""
    total = tl.program_id(0)
    clock, timer = clock_of(total), time_of(total)
    for step in range(steps):
        total = total * 3 + step
    tl.store(out + 2, total)  # what nobody asks for is not computed
    tl.store(out, clock_of(total) - clock)
    tl.store(out + 1, time_of(total) - timer)


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


def granule() -> int:
    """The bytes of the longest run that takes memory no longer to read than one of 16 bytes."""
    stride, rows = 256, 1 << 20
    data = torch.zeros(rows * stride, dtype=torch.int32, device="cuda")
    out = torch.empty(rows, dtype=torch.int32, device="cuda")
    times: dict[int, float] = {}
    for size in (16, 32, 64, 128, 256):
        times[size] = seconds(lambda n=size: short_runs[(rows // 64,)](data, out, stride, n // 4, 64, num_warps=4))
    return max(size for size, taken in times.items() if taken <= 1.1 * times[16])


def round_trip() -> float:
    """Seconds from the asking for a block to its use, in a product whose blocks come from memory: three are on their
    way or in use."""
    programs, rows, columns, terms, depth = 32, 16, 128, 64, 1 << 14
    a = torch.zeros(rows, depth, dtype=torch.bfloat16, device="cuda")
    b = torch.zeros(depth, programs * columns, dtype=torch.bfloat16, device="cuda")
    out = torch.empty(rows, programs * columns, dtype=torch.float32, device="cuda")
    blocks = TensorDescriptor.from_tensor(a, [rows, terms])
    taken = seconds(lambda: product[(programs,)](blocks, b, out, depth, rows, columns, terms, num_warps=4))
    return 3 * taken / (depth // terms)


def clock(loaded: bool) -> float:
    """Clocks a second, at once, or behind a second and a half of products."""
    out = torch.zeros(3, dtype=torch.int64, device="cuda")
    clocks[(1,)](out, 100, num_warps=1)
    found: list[float] = []
    a = torch.randn(8192, 8192, device="cuda").to(torch.bfloat16)
    for _ in range(5):
        for _ in range(1000 if loaded and not found else 20 if loaded else 0):
            torch.mm(a, a)
        clocks[(1,)](out, 20_000, num_warps=1)
        count, nanoseconds, _ = out.tolist()
        found.append(1e9 * count / nanoseconds)
    return min(found) if loaded else max(found)


def attribute(number: int) -> int:
    """What the driver says of the first GPU, by the number of the question."""
    driver = ctypes.CDLL("libcuda.so.1")
    found, device = ctypes.c_int(), ctypes.c_int()
    wrong = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
    if wrong or driver.cuDeviceGetAttribute(ctypes.byref(found), number, device):
        raise RuntimeError(f"the driver does not answer question {number}")
    return found.value
