"""Memory for large private tensors, kept from call to call: fresh pages cost more than what is done with them.

Each buffer of a module has cells that hold the blocks of memory that served it and that nobody uses. Taking and giving
back exchange what is in a cell in one step, so that threads may use the same code at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .builder import Builder, Value

# Before a block, in 64 bytes, stand its address as malloc gave it and how many bytes it has for use.
# So many blocks of a buffer are kept, for threads that use it at once.
CELLS = 64
HUGE = 2 << 20
LINUX = sys.platform.startswith("linux")
ADVICE = "  %advised = call i32 @madvise(ptr %made, i64 %bytes, i32 14)\n" if LINUX else ""
FUNCTIONS = f"""\
define internal ptr @take(ptr %place, i64 %bytes) {{
entry:
  br label %try
try:
  %cell = phi i64 [ 0, %entry ], [ %following, %next ]
  %at = getelementptr ptr, ptr %place, i64 %cell
  %there = load atomic ptr, ptr %at monotonic, align 8
  %some = icmp ne ptr %there, null
  br i1 %some, label %get, label %next
get:
  %old = atomicrmw xchg ptr %at, ptr null acq_rel
  %mine = icmp ne ptr %old, null
  br i1 %mine, label %look, label %next
look:
  %size = getelementptr i8, ptr %old, i64 -56
  %has = load i64, ptr %size
  %fits = icmp uge i64 %has, %bytes
  br i1 %fits, label %keep, label %drop
keep:
  ret ptr %old
drop:
  call void @let_go(ptr %old)
  br label %next
next:
  %following = add i64 %cell, 1
  %more = icmp slt i64 %following, {CELLS}
  br i1 %more, label %try, label %new
new:
  ; A large block begins a large page, and asks for such: a page is looked up for all of it, and not for 4 KiB.
  %large = icmp uge i64 %bytes, {HUGE}
  %unit = select i1 %large, i64 {HUGE}, i64 64
  %beside = shl i64 %unit, 1
  %whole = add i64 %bytes, %beside
  %block = call ptr @malloc(i64 %whole)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %nothing, label %some_memory
nothing:
  ret ptr null
some_memory:
  %raw = ptrtoint ptr %block to i64
  %room = add i64 %unit, 63
  %past = add i64 %raw, %room
  %mask = sub i64 0, %unit
  %even = and i64 %past, %mask
  %made = inttoptr i64 %even to ptr
  br i1 %large, label %ask, label %ready
ask:
{ADVICE}  br label %ready
ready:
  %first = getelementptr i8, ptr %made, i64 -64
  store ptr %block, ptr %first
  %second = getelementptr i8, ptr %made, i64 -56
  store i64 %bytes, ptr %second
  ret ptr %made
}}

define internal void @let_go(ptr %made) {{
  %first = getelementptr i8, ptr %made, i64 -64
  %block = load ptr, ptr %first
  call void @free(ptr %block)
  ret void
}}

define internal void @give(ptr %place, ptr %made) {{
entry:
  br label %try
try:
  %cell = phi i64 [ 0, %entry ], [ %following, %next ]
  %at = getelementptr ptr, ptr %place, i64 %cell
  %pair = cmpxchg ptr %at, ptr null, ptr %made acq_rel monotonic
  %put = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %put, label %done, label %next
next:
  %following = add i64 %cell, 1
  %more = icmp slt i64 %following, {CELLS}
  br i1 %more, label %try, label %full
full:
  call void @let_go(ptr %made)
  br label %done
done:
  ret void
}}
"""


def taken(b: Builder, size: Value) -> tuple[str, str]:
    """A block of so many bytes, 64 of which begin a line of the cache, and the place to give it back to."""
    b.declared["malloc"] = "declare noalias ptr @malloc(i64)"
    if LINUX:
        b.declared["madvise"] = "declare i32 @madvise(ptr, i64, i32)"
    b.declared["free"] = "declare void @free(ptr)"
    b.functions["take"] = FUNCTIONS
    place = f"@kept{len([n for n in b.tables if n.startswith('@kept')])}"
    b.tables[place] = f"{place} = internal global [{CELLS} x ptr] zeroinitializer, align 64"
    made = b.made(f"call ptr @take(ptr {place}, {size})", "ptr")
    none, there = b.label("none"), b.label("there")
    b.branch(b.made(f"icmp eq ptr {made.text}, null", "i1"), none, there)
    b.start(none)
    for line in b.gives_up:
        b.line(line)
    b.start(there)
    return made.text, place


def given_back(b: Builder, pointer: str, place: str) -> None:
    """The block is free for the next call."""
    b.line(f"call void @give(ptr {place}, ptr {pointer})")


def release(places: list[str]) -> str:
    """The function that frees what a module has kept."""
    lines = ["define void @release() {", "entry:"]
    for number, place in enumerate(places):
        before = f"next{number - 1}" if number else "entry"
        lines += [
            f"  br label %again{number}",
            f"again{number}:",
            f"  %cell{number} = phi i64 [ 0, %{before} ], [ %up{number}, %on{number} ]",
            f"  %at{number} = getelementptr ptr, ptr {place}, i64 %cell{number}",
            f"  %old{number} = atomicrmw xchg ptr %at{number}, ptr null acq_rel",
            f"  %none{number} = icmp eq ptr %old{number}, null",
            f"  br i1 %none{number}, label %on{number}, label %drop{number}",
            f"drop{number}:",
            f"  call void @let_go(ptr %old{number})",
            f"  br label %on{number}",
            f"on{number}:",
            f"  %up{number} = add i64 %cell{number}, 1",
            f"  %more{number} = icmp slt i64 %up{number}, {CELLS}",
            f"  br i1 %more{number}, label %again{number}, label %next{number}",
            f"next{number}:",
        ]
    return "\n".join([*lines, "  ret void", "}"])
