"""Kernels and schedules that several tests of costs read bytes, storage and work off."""

from __future__ import annotations

import tilewright as tw
from tilewright.cost.held import Held, held
from tilewright.cost.launches import launches
from tilewright.cost.traffic import moved
from tilewright.cost.work import Work, work

KiB, MiB = 2**10, 2**20
FFN = {"M": 1024, "K": 4096, "N": 12288}
PROJECTION = """kernel p(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) { allow reassociate
    C[i, j] = sum(k) f32(X[i, k]) * f32(W[k, j])
    Y[i, j] = bf16(C[i, j])
}"""
ATTENTION = """kernel attention(Q: bf16[L, D], K: bf16[L, D], V: bf16[L, D]) -> (O: bf16[L, D]) { allow reassociate
    S[i, j] = sum(d) f32(Q[i, d]) * f32(K[j, d])
    P[i, j] = exp(S[i, j])
    O[i, d] = bf16(sum(j) P[i, j] * f32(V[j, d]))
}"""


def kernel(text: str) -> tw.Kernel:
    (found,) = tw.parse(text).values()
    return found


def product(of: tw.Kernel, m: int, n: int, k: int, stages: int = 2) -> tw.Schedule:
    """A product in tiles, its sums kept in a program, its factors loaded ahead."""
    schedule = tw.Schedule(of)
    row, column, _, _ = schedule.tile("Y.i", "Y.j", m, n)
    schedule.compute_at("C", column)
    ko, ki = schedule.split("C.k", k)
    schedule.reorder(ko, "C.i", "C.j", ki)
    copies = [schedule.cache_read(tensor, ko) for tensor in "XW"]
    schedule.pipeline(ko, stages)
    for stage in (*copies, "C", "Y"):
        schedule.block(*(loop for loop in schedule[stage].loops if loop not in (row, column, ko)))
    schedule.parallel(row)
    schedule.parallel(column)
    return schedule


def asked(schedule: tw.Schedule, **sizes: int) -> dict[str, int]:
    """The bytes that a schedule asks for, by tensor."""
    found: dict[str, int] = {}
    for m in moved(schedule.state.program, schedule.state.tree):
        found[m.tensor] = found.get(m.tensor, 0) + m.asked.at(sizes)
    return found


def tiles_of(schedule: tw.Schedule) -> Held:
    """What a program of the only launch holds."""
    (launch,) = launches(schedule.state.program, schedule.state.tree)
    return held(schedule.state.program, launch)


def sums(schedule: tw.Schedule) -> Work:
    """The work of the only statement that matrix units carry out."""
    (found,) = (w for w in work(schedule.state.program, schedule.state.tree) if w.matrix)
    return found
