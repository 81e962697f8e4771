"""Nanoseconds an element of the elementary functions, in the first level of the cache."""

from __future__ import annotations

import time
from functools import partial
from statistics import median

# Of f32, by a prototype of the same definitions on another processor (Zen 3 at AVX2).
KNOWN = {"exp": 0.35, "log": 0.60, "tanh": 0.59, "erf": 0.56}
SHORT, LONG, CALLS, ROUNDS = 2048, 4096, 200, 40


def rows() -> dict[str, float]:
    """By function. What a call takes by itself is not in it: two lengths differ by elements alone."""
    import numpy as np
    import tilewright as tw

    rng = np.random.default_rng(0)
    found: dict[str, float] = {}
    for name in KNOWN:
        (kernel,) = tw.parse(f"kernel one(X: f32[N]) -> (Y: f32[N]) {{ Y[i] = {name}(X[i]) }}").values()
        made = tw.compile(kernel)
        calls = []
        for count in (SHORT, LONG):
            x = rng.uniform(0.1, 4, count).astype(np.float32)
            calls.append(partial(made.function, x, out=np.empty_like(x)))
        taken = []
        for _ in range(ROUNDS):
            each = []
            for call in calls:
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                each.append(time.perf_counter() - start)
            taken.append((each[1] - each[0]) / CALLS / (LONG - SHORT) * 1e9)
        found[name] = median(taken)
    return found
