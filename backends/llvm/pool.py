"""Threads that share the iterations of parallel loops: started once, asleep while there is nothing to do.

A loop is a job: a function of a range of iterations, which all threads take in pieces until none is left. Who calls is
one of the threads. A job that finds the pool busy (with another Python thread's, or because it stands inside a parallel
loop) runs on the caller alone. Which thread runs what makes no difference to a result: iterations are independent.

The pool is LLVM text like everything else, compiled once for a process; it needs pthreads and nothing more.
"""

from __future__ import annotations

import os
import sys
from functools import cache

import numpy as np

from ...compiler.ir.errors import TilewrightError
from .jit import Linked, object_of
from .target import host

THREADS = "TILEWRIGHT_THREADS"
MOST = 1024
# How often a worker looks for a job before it sleeps, and the caller for the end of the others.
LOOKS = 20000
TEXT = f"""\
%mutex = type [64 x i8]
@mutex = internal global %mutex zeroinitializer, align 64
@signal = internal global %mutex zeroinitializer, align 64
@jobs = internal global i64 0, align 64
@busy = internal global i64 0, align 64
@active = internal global i64 0, align 64
@open = internal global i64 0, align 64
@next = internal global i64 0, align 64
@seats = internal global i64 0, align 64
@high = internal global i64 0
@piece = internal global i64 0
@function = internal global ptr null
@context = internal global ptr null
@threads = internal global i64 1
@started = internal global i64 0

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

define internal void @take_pieces() {{
entry:
  %function = load ptr, ptr @function
  %context = load ptr, ptr @context
  %high = load i64, ptr @high
  %piece = load i64, ptr @piece
  br label %more
more:
  %low = atomicrmw add ptr @next, i64 %piece seq_cst
  %left = icmp slt i64 %low, %high
  br i1 %left, label %run, label %done
run:
  %beyond = add i64 %low, %piece
  %end = call i64 @llvm.smin.i64(i64 %beyond, i64 %high)
  call void %function(ptr %context, i64 %low, i64 %end)
  br label %more
done:
  ret void
}}

define internal ptr @worker(ptr %jobs) {{
entry:
  %first = ptrtoint ptr %jobs to i64
  br label %wait
wait:
  %seen = phi i64 [ %first, %entry ], [ %number, %leave ]
  br label %look
look:
  %looks = phi i64 [ 0, %wait ], [ %again, %pause ]
  %number.look = load atomic i64, ptr @jobs seq_cst, align 8
  %new = icmp ne i64 %number.look, %seen
  br i1 %new, label %join, label %pause
pause:
  %again = add i64 %looks, 1
  %tired = icmp sge i64 %again, {LOOKS}
  br i1 %tired, label %lock, label %look
lock:
  call i32 @pthread_mutex_lock(ptr @mutex)
  br label %test
test:
  %number.test = load atomic i64, ptr @jobs seq_cst, align 8
  %come = icmp ne i64 %number.test, %seen
  br i1 %come, label %unlock, label %sleep
sleep:
  call i32 @pthread_cond_wait(ptr @signal, ptr @mutex)
  br label %test
unlock:
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %join
join:
  %number = phi i64 [ %number.look, %look ], [ %number.test, %unlock ]
  atomicrmw add ptr @active, i64 1 seq_cst
  %is_open = load atomic i64, ptr @open seq_cst, align 8
  %opened = icmp ne i64 %is_open, 0
  br i1 %opened, label %sit, label %leave
sit:
  %seat = atomicrmw sub ptr @seats, i64 1 seq_cst
  %room = icmp sgt i64 %seat, 0
  br i1 %room, label %work, label %leave
work:
  call void @take_pieces()
  br label %leave
leave:
  atomicrmw sub ptr @active, i64 1 seq_cst
  br label %wait
}}

define void @parallel(ptr %function, ptr %context, i64 %low, i64 %high) {{
entry:
  %threads = load i64, ptr @threads
  %several = icmp sgt i64 %threads, 1
  br i1 %several, label %ask, label %alone
ask:
  %pair = cmpxchg ptr @busy, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %mine, label %share, label %alone
alone:
  call void %function(ptr %context, i64 %low, i64 %high)
  ret void
share:
  %count = sub i64 %high, %low
  %pieces = mul i64 %threads, 4
  %size = sdiv i64 %count, %pieces
  %piece = call i64 @llvm.smax.i64(i64 %size, i64 1)
  store ptr %function, ptr @function
  store ptr %context, ptr @context
  store i64 %high, ptr @high
  store i64 %piece, ptr @piece
  %others = sub i64 %threads, 1
  store atomic i64 %others, ptr @seats seq_cst, align 8
  store atomic i64 %low, ptr @next seq_cst, align 8
  store atomic i64 1, ptr @open seq_cst, align 8
  call i32 @pthread_mutex_lock(ptr @mutex)
  atomicrmw add ptr @jobs, i64 1 seq_cst
  call i32 @pthread_cond_broadcast(ptr @signal)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @take_pieces()
  store atomic i64 0, ptr @open seq_cst, align 8
  br label %wait
wait:
  %looks = phi i64 [ 0, %share ], [ %again, %look ], [ 0, %give_way ]
  %others.active = load atomic i64, ptr @active seq_cst, align 8
  %ended = icmp eq i64 %others.active, 0
  br i1 %ended, label %done, label %look
look:
  %again = add i64 %looks, 1
  %tired = icmp sge i64 %again, {LOOKS}
  br i1 %tired, label %give_way, label %wait
give_way:
  call i32 @sched_yield()
  br label %wait
done:
  store atomic i64 0, ptr @busy seq_cst, align 8
  ret void
}}

define i64 @kernel(ptr %frame) {{
entry:
  %wanted = ptrtoint ptr %frame to i64
  store i64 %wanted, ptr @threads
  %thread = alloca i64
  br label %test
test:
  %now = load i64, ptr @started
  %next = add i64 %now, 1
  %few = icmp slt i64 %next, %wanted
  br i1 %few, label %start, label %done
start:
  %jobs = load i64, ptr @jobs
  %given = inttoptr i64 %jobs to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %given)
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %another, label %done
another:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  store i64 %next, ptr @started
  br label %test
done:
  ret i64 0
}}

define void @release() {{
entry:
  store %mutex zeroinitializer, ptr @mutex
  store %mutex zeroinitializer, ptr @signal
  store i64 0, ptr @busy
  store i64 0, ptr @active
  store i64 0, ptr @open
  store i64 0, ptr @started
  store i64 1, ptr @threads
  ret void
}}
"""
_wanted: list[int] = []
# What `runner` said last, for those who cannot ask; -1: it is to be asked.
cell = np.full(1, -1, np.int64)


def threads() -> int:
    """How many threads share parallel loops: as `set_threads` or the variable TILEWRIGHT_THREADS say, else as many as
    there are processors for this process.

    Raises:
        ThreadsError: the variable is no such number.
    """
    if _wanted:
        return _wanted[-1]
    given = os.environ.get(THREADS)
    if given:
        if not (given.isascii() and given.isdecimal() and 1 <= int(given) <= MOST):
            raise ThreadsError(f"{THREADS} is {given!r}; it is a number from 1 to {MOST}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(count: int) -> None:
    """Share parallel loops among so many threads from now on.

    Raises:
        ValueError: it is no number from 1 to 1024.
    """
    if type(count) is not int or not 1 <= count <= MOST:
        raise ValueError(f"a number of threads is from 1 to {MOST}, and {count!r} is not")
    _wanted[:] = [count]
    cell[0] = -1


class ThreadsError(TilewrightError):
    """The environment asks for a number of threads that is none."""


class _Pool:
    """The threads of this process. *size*: how many there are, the caller counted."""

    def __init__(self) -> None:
        self.linked = Linked(object_of(TEXT, host()), "parallel")
        self.size = 0
        os.register_at_fork(after_in_child=self.forked)

    def forked(self) -> None:
        """A child process has no threads but its own."""
        self.linked.release()
        self.size = 0
        cell[0] = -1

    def sized(self, count: int) -> int:
        """The address of the function that runs a job, with so many threads."""
        if count != self.size:
            self.linked.function(count)
            self.size = count
        return self.linked.addresses["parallel"]


@cache
def _pool() -> _Pool:
    return _Pool()


def runner() -> int:
    """The address of the function that shares a loop; 0: loops run on the caller."""
    before = list(_wanted)
    count = threads()
    alone = count == 1 or not sys.platform.startswith("linux")
    found = 0 if alone else _pool().sized(count)
    if before == _wanted:
        cell[0] = found
    return found
