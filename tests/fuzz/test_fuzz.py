"""Any input whatever ends in kernels or in a proper error, soon and within bounded memory.

TILEWRIGHT_FUZZ sets the number of random cases (500 without it); the same number gives the same cases.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .inputs import KERNELS, TOKENS, mutate, soup
from .large import INPUTS
from .outcome import TIMES_PLAIN, check

if TYPE_CHECKING:
    from collections.abc import Callable

CASES = int(os.environ.get("TILEWRIGHT_FUZZ", "500"))
SHARE = max(1, CASES // 5)
PEAK_KIB = 1 << 20
drawn = settings(
    max_examples=SHARE,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def parses_or_refuses(text: str) -> str:
    """Hold tw.parse to its promise on *text*."""
    ended, times = check(lambda: tw.parse(text, name="fuzz.tx"), "fuzz.tx", text)
    assert times < TIMES_PLAIN, f"{times:.1f} times a plain file: {text[:200]!r}"
    return ended


@drawn
@given(st.text(max_size=200))
def test_random_text(text: str) -> None:
    parses_or_refuses(text)


@drawn
@given(st.lists(st.sampled_from(TOKENS), max_size=40), st.booleans())
def test_random_tokens(tokens: list[str], framed: bool) -> None:
    body = " ".join(tokens)
    if framed:
        body = f"kernel f(X: f32[N], L: i32[N]) -> (Y: f32[N]) {{\n    Y[i] = {body}\n}}\n"
    parses_or_refuses(body)


@drawn
@given(st.binary(max_size=300))
def test_random_bytes(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "fuzz.tx"
    path.write_bytes(data)
    text = data.decode("utf-8-sig", errors="replace")
    _, times = check(lambda: tw.load(str(path)), str(path), text)
    assert times < TIMES_PLAIN


@pytest.mark.parametrize("make", [soup, mutate], ids=["token soup", "mutated kernels"])
def test_seeded_cases(make: Callable[[random.Random], str]) -> None:
    ends = [parses_or_refuses(make(random.Random(seed))) for seed in range(SHARE)]
    refused = sum(end != "accepted" for end in ends)
    assert refused >= SHARE // 2, "most such inputs are wrong: a front end that takes them all is broken"


def test_some_mutated_kernels_are_accepted() -> None:
    ends = [parses_or_refuses(mutate(random.Random(seed))) for seed in range(10_000, 10_060)]
    assert "accepted" in ends


@pytest.mark.parametrize(
    "kernel", [k for k in KERNELS if "kernel lstm" in k or "kernel gotoh" in k], ids=["gotoh", "lstm"]
)
def test_truncated_at_every_seventh_byte(kernel: str) -> None:
    end = kernel.rindex("}")
    for cut in range(0, end, 7):
        assert parses_or_refuses(kernel[:cut]) != "accepted"


@pytest.mark.parametrize("name", INPUTS)
def test_hostile_input_in_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    data, words = INPUTS[name]
    path = tmp_path / "hostile.tx"
    path.write_bytes(data)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("outcome.py")), str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout)
    assert words is None or words in report["ended"]
    assert report["times_plain"] < TIMES_PLAIN
    assert report["peak_kib"] < PEAK_KIB
