"""A machine's file, measured on the machine: its processor by NumPy, a GPU by torch and Triton."""

from __future__ import annotations

import datetime
import os
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .machine import UNITS, MachineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROUNDS = 9
MiB = 1 << 20
# Bytes between lines that are read alone.
APART = 256
# The driver's number for a question, and the lanes of architectures that have not 128.
MOST_BLOCKS, LANES = 106, {6: 64, 7: 64}


def best(run: Callable[[], object], amount: float, rounds: int = ROUNDS) -> float:
    """The most of an amount a second, over some rounds; the first run is not counted."""
    run()
    found: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        found.append(time.perf_counter() - start)
    return amount / min(found)


@dataclass(frozen=True)
class Core:
    """What was measured of one core: *vector*: bytes of a register; *registers*: how many there are; *fused*:
    operations a second on f32, two for a product with a sum; *latency*: seconds until the next of these; *reading*:
    bytes a second of a block that is read again and again, by its size and how far what is read lies apart (0: all of
    it is read)."""

    vector: int
    registers: int
    fused: float
    latency: float
    reading: Callable[[int, int], float]


def processor(core: Core) -> str:
    """The file of the processor that this runs on: its caches, what a core computes and is given by each of them, and
    what NumPy copies and multiplies a second with as many threads as it takes of itself."""
    source, target = np.ones(256 * MiB // 4, np.float32), np.empty(256 * MiB // 4, np.float32)
    copied = best(lambda: np.copyto(target, source), 2 * source.nbytes)
    a, b = np.ones((1024, 1024), np.float32), np.ones((1024, 1024), np.float32)
    multiplied = best(lambda: a @ b, 2 * 1024**3)
    caches = dict(_caches())
    again = "read again and again by one core"
    figures = {
        "memory_bandwidth": (round(copied / 1e9, 1), "GB/s", f"a copy of 256 MiB, read and written, best of {ROUNDS}"),
        "core_memory_bandwidth": (round(core.reading(512 * MiB, 0) / 1e9, 1), "GB/s", f"512 MiB {again}"),
        "core_memory_alone": (
            round(core.reading(512 * MiB, APART) / 1e9, 1),
            "GB/s",
            f"lines {APART} bytes apart in 512 MiB, by one core",
        ),
        "cores": (os.cpu_count() or 1, "", "as the system says"),
        "vector_bytes": (core.vector, "B", "a register of the instructions that are used"),
        "vector_registers": (core.registers, "", "of those instructions"),
        "sum_latency": (round(core.latency * 1e9, 2), "ns", "products with sums in one chain"),
    }
    inner = 0
    for name, (value, unit, said) in caches.items():
        size = int(value * UNITS[unit])
        block = max(inner + (size - inner) // 2, 16 << 10)
        figures[name] = (value, unit, said)
        # Of a cache that is shared, a block that is much larger than the one before it.
        block = min(block, 8 * inner) if inner else block
        figures[f"{name}_bandwidth"] = (round(core.reading(block, 0) / 1e9, 1), "GB/s", f"{block >> 10} KiB {again}")
        if inner:
            alone = f"lines {APART} bytes apart in {block >> 10} KiB, by one core"
            figures[f"{name}_alone"] = (round(core.reading(block, APART) / 1e9, 1), "GB/s", alone)
        inner = size
    rates = [
        ("f32", "f32", "vector", round(multiplied / 1e9, 1), "GFLOP/s", f"NumPy's product of 1024, best of {ROUNDS}"),
        ("f32", "f32", "core", round(core.fused / 1e9, 1), "GFLOP/s", "products with sums in 16 chains, on one core"),
    ]
    name = _cpu_name()
    return text(name, name.split()[0] if name else "unknown", "CPU", platform.machine(), figures, rates)


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _caches() -> Iterator[tuple[str, tuple[float, str, str]]]:
    """The sizes of the data caches, where Linux says them."""
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, level, size = ((folder / n).read_text().strip() for n in ("type", "level", "size"))
        if kind != "Instruction":
            yield (
                f"cache_level_{level}",
                (float(size.rstrip("KM")), "MiB" if size.endswith("M") else "KiB", "as Linux says"),
            )


def gpu() -> str:
    """The file of the first GPU.

    Raises:
        MachineError: there is no torch, no Triton or no GPU.
    """
    try:
        import torch

        from . import measure_gpu as of
    except ImportError as error:
        raise MachineError(f"measuring a GPU needs torch and triton: {error}") from None
    if not torch.cuda.is_available():
        raise MachineError("there is no GPU to measure")
    found = torch.cuda.get_device_properties(0)
    source = torch.ones(256 * MiB, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copied = statistics.median(_times(lambda: target.copy_(source)))
    read = of.read_bandwidth(1 << 30, 20)
    cache = int(found.L2_cache_size)
    said = "as the driver says"
    figures = {
        "memory_bandwidth": (round(max(read, 2 * source.nbytes / copied) / 1e9), "GB/s", "1 GiB copied, or read"),
        "memory_capacity": (found.total_memory // MiB, "MiB", said),
        "memory_latency": (round(of.latency(1 << 30) * 1e9), "ns", "a chain of reads through 1 GiB"),
        "cache": (cache // MiB, "MiB", said),
        "cache_bandwidth": (round(of.read_bandwidth(cache // 4) / 1e9), "GB/s", "a quarter of it read again and again"),
        "cache_latency": (round(of.latency(cache // 4) * 1e9), "ns", "a chain of reads through a quarter of it"),
        "multiprocessors": (found.multi_processor_count, "", said),
        "shared_memory": (found.shared_memory_per_multiprocessor, "B", said),
        "shared_memory_of_block": (found.shared_memory_per_block_optin, "B", said),
        "shared_memory_reserve_of_block": (
            found.shared_memory_per_multiprocessor - found.shared_memory_per_block_optin, "B", "their difference",
        ),
        "registers": (found.regs_per_multiprocessor, "", said),
        "threads": (found.max_threads_per_multi_processor, "", said),
        "warps": (found.max_threads_per_multi_processor // found.warp_size, "", said),
        "warp_size": (found.warp_size, "", said),
        "blocks": (of.attribute(MOST_BLOCKS), "", said),
        "lanes": (LANES.get(found.major, 128), "", "f32 lanes of a multiprocessor, by the architecture's description"),
        "shared_memory_width": (128, "B", "of a multiprocessor in a clock: 32 banks of 4 bytes, by their description"),
        "memory_granule": (of.granule(), "B", "the longest run that takes as long as one of 16 bytes"),
        "round_trip": (round(of.round_trip() * 1e9), "ns", "from a load to its use in a product of 16 rows"),
        "clock": (round(of.clock(loaded=False) / 1e6), "MHz", "clocks and nanoseconds of a short run"),
        "sustained_clock": (round(of.clock(loaded=True) / 1e6), "MHz", "the same behind a second of products"),
        "launch": (round(of.launch_time() * 1e6, 2), "us", "from kernel to kernel of a graph"),
    }  # fmt: skip
    rates: list[tuple[str, str, str, float, str, str]] = []
    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        a = torch.randn(8192, 8192, device="cuda").to(dtype)
        seconds = statistics.median(_times(lambda a=a: a @ a))
        rates.append(
            (name, "f32", "matrix", round(2 * 8192**3 / seconds / 1e12), "TFLOP/s", "the library's product of 8192")
        )
    return text(found.name, "NVIDIA", "GPU", f"{found.major}.{found.minor}", figures, rates)


def _times(run: Callable[[], object]) -> list[float]:
    """Seconds of a run on a GPU, with pauses in which it cools."""
    import torch

    run()
    found: list[float] = []
    for _ in range(ROUNDS):
        time.sleep(0.05)
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        run()
        last.record()
        torch.cuda.synchronize()
        found.append(first.elapsed_time(last) / 1000)
    return found


def text(
    name: str,
    vendor: str,
    kind: str,
    architecture: str,
    figures: Mapping[str, tuple[float, str, str]],
    rates: list[tuple[str, str, str, float, str, str]],
) -> str:
    """The file of a machine; figures: (value, unit, source), rates: (input, accumulator, unit, value, per, source)."""
    day = datetime.date.today().isoformat()
    lines = [f'name = "{name}"', f'vendor = "{vendor}"', f'kind = "{kind}"', f'architecture = "{architecture}"']
    lines += [f'notes = "Measured on {day}."', "", "[figures]"]
    lines += [f'{n} = {{ value = {v:g}, unit = "{u}", source = "{s}" }}' for n, (v, u, s) in figures.items()]
    for taken, accumulator, unit, value, per, source in rates:
        lines += ["", "[[rates]]", f'input = "{taken}"', f'accumulator = "{accumulator}"', f'unit = "{unit}"']
        lines += [f"value = {value:g}", f'per = "{per}"', f'source = "{source}"']
    return "\n".join(lines) + "\n"
