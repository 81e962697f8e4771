"""What a processor does in a second, measured by loops of its own vector instructions: no library is in the way."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING

import numpy as np

from .jit import Linked, object_of
from .target import host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE, LINE = 4096, 64
# Chains that no unit waits for, and as many registers that are read into.
CHAINS, LOADS = 16, 8
ROUNDS = 15
# Seconds of one reading.
LONG = 0.02
# The bits of 0.5: x * 0.5 + 0.5 stays near 1.
HALF = 0x3F000000


def fused_rate() -> float:
    """Operations (two for a product with a sum) on f32 that one core does a second, in as many chains as it takes."""
    return 2 * host().lanes * CHAINS * _per_second(_chains(CHAINS), 0)


def fused_latency() -> float:
    """Seconds from one product with a sum to the next that needs it."""
    return 1 / (CHAINS * _per_second(_chains(1), 0))


def read_rate(size: int, apart: int = 0) -> float:
    """Bytes a second that one core reads of a block of *size* bytes again and again: all of them, or a line in each of
    pieces that lie so many bytes *apart*, where no line tells which is next."""
    block = np.ones((size + PAGE) // 4, np.float32)
    first = -(-block.ctypes.data // PAGE) * PAGE  # a load across two lines is two
    width = host().bits // 8
    step = LOADS * (apart or width)
    taken = LOADS * (LINE if apart else width)
    return (size // step) * taken * _per_second(_reads(size // step, apart or width), first)


def _per_second(text: str, address: int) -> float:
    """How often a second the body of a loop runs, at best; it is given a frame of an address, a count and 0.5."""
    run = Linked(object_of(text, host()))
    frame = (ctypes.c_int64 * 3)(address, 1, HALF)
    call: Callable[[], int] = lambda: run.function(ctypes.addressof(frame))  # noqa: E731
    while True:
        seconds = _seconds(call)
        if seconds > LONG / 4:
            break
        frame[1] *= 4
    return frame[1] / min(_seconds(call) for _ in range(ROUNDS))


def _seconds(call: Callable[[], int]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _chains(count: int) -> str:
    """CHAINS products with sums an iteration, in so many chains."""
    kind = f"<{host().lanes} x float>"
    names = [f"%v{n}" for n in range(count)]
    last = dict(zip(names, names, strict=True))
    body: list[str] = []
    for n in range(CHAINS):
        name = names[n % count]
        new = f"%f{n}"
        body.append(f"  {new} = call {kind} @llvm.fma({kind} {last[name]}, {kind} %by, {kind} %by)")
        last[name] = new
    phis = [f"  {n} = phi {kind} [ %by, %entry ], [ {last[n]}, %loop ]" for n in names]
    ends: list[str] = []
    for n, name in enumerate(names):
        before = f"%s{n - 1}" if n else "%by"
        ends.append(f"  %s{n} = fadd {kind} {before}, {last[name]}")
    # What is added up comes from memory, so that nobody knows it beforehand, and goes into the result.
    start = [
        "  %half = getelementptr i64, ptr %frame, i64 2",
        "  %first = load float, ptr %half",
        f"  %one = insertelement {kind} poison, float %first, i32 0",
        f"  %by = shufflevector {kind} %one, {kind} poison, <{host().lanes} x i32> zeroinitializer",
    ]
    final = [f"  %x = extractelement {kind} %s{count - 1}, i32 0", "  %r = fptosi float %x to i32"]
    return "\n".join(
        [f"declare {kind} @llvm.fma({kind}, {kind}, {kind})", *_around(start, phis, body, [*ends, *final])]
    )


def _reads(times: int, width: int) -> str:
    """A pass over a block: LOADS registers, *width* bytes apart, an iteration of an inner loop, *times* of them."""
    kind = f"<{host().lanes} x i32>"
    lines = ["  %base = inttoptr i64 %address to ptr", "  br label %inner", "inner:"]
    lines.append("  %k = phi i64 [ 0, %loop ], [ %k1, %inner ]")
    lines += [f"  %a{n} = phi {kind} [ zeroinitializer, %loop ], [ %b{n}, %inner ]" for n in range(LOADS)]
    for n in range(LOADS):
        lines += [
            f"  %m{n} = mul i64 %k, {LOADS * width}",
            f"  %q{n} = add i64 %m{n}, {n * width}",
            f"  %p{n} = getelementptr i8, ptr %base, i64 %q{n}",
            f"  %l{n} = load {kind}, ptr %p{n}, align 4",
            f"  %b{n} = xor {kind} %a{n}, %l{n}",
        ]
    lines += ["  %k1 = add i64 %k, 1", f"  %more = icmp ult i64 %k1, {times}"]
    lines += ["  br i1 %more, label %inner, label %done", "done:"]
    for n in range(LOADS):
        before = f"%s{n - 1}" if n else "zeroinitializer"
        lines.append(f"  %s{n} = xor {kind} {before}, %b{n}")
    lines += [f"  %x = extractelement {kind} %s{LOADS - 1}, i32 0", "  store volatile i32 %x, ptr %sink"]
    return "\n".join(_around(["  %sink = alloca i32"], [], lines, ["  %r = load i32, ptr %sink"], "done"))


def _around(start: list[str], phis: list[str], body: list[str], end: list[str], last: str = "loop") -> Iterator[str]:
    """The function round a loop that runs as often as its frame says, whose body ends in the block *last*."""
    yield "define void @release() { ret void }"
    yield "define i64 @kernel(ptr %frame) {"
    yield "entry:"
    yield "  %address = load i64, ptr %frame"
    yield "  %counts = getelementptr i64, ptr %frame, i64 1"
    yield "  %count = load i64, ptr %counts"
    yield from start
    yield "  br label %loop"
    yield "loop:"
    yield f"  %i = phi i64 [ 0, %entry ], [ %i1, %{last} ]"
    yield from phis
    yield from body
    yield "  %i1 = add i64 %i, 1"
    yield "  %again = icmp ult i64 %i1, %count"
    yield "  br i1 %again, label %loop, label %end"
    yield "end:"
    yield from end
    yield "  %wide = sext i32 %r to i64"
    yield "  ret i64 %wide"
    yield "}"
