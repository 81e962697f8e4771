"""What an input may end in: a mapping of kernels, or an error whose diagnostics are well formed.

Run as a program, `python outcome.py FILE` loads FILE in a process of its own and prints one line of JSON:
the outcome, the processor seconds as a multiple of those of a plain file, and the peak memory in KiB.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tilewright as tw

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

PLAIN = 500  # equations of the file that others are measured against
TIMES_PLAIN = 12  # as much processor time as a plain file's may an input take: a slow machine judges as a fast one
HANG = 60  # of wall time: only an endless loop takes so long
INNER_NAMES = re.compile(
    r"\$END|Token\(|\b(DSLASH|STAR|LPAR|RPAR|LSQB|RSQB|LBRACE|RBRACE|NL|CMP|UPDATE)\b|"
    r"Traceback|lark|isl_|object at 0x"
)


@contextmanager
def no_hang() -> Generator[None, None, None]:
    """Turn an endless loop into a failure."""

    def stop(_signal: int, _frame: object) -> None:
        raise AssertionError(f"not done after {HANG} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def plain_seconds() -> float:
    """The processor seconds that a well-formed file of PLAIN equations takes here, the less of two tries."""
    equations = "".join(f"    Y{k}[i] = X[i] * {k} + 1\n" for k in range(PLAIN))
    outputs = ", ".join(f"Y{k}: f32[N]" for k in range(PLAIN))
    text = f"kernel f(X: f32[N]) -> ({outputs}) {{\n{equations}}}\n"
    seconds = []
    for _ in range(2):
        start = time.process_time()
        tw.parse(text)
        seconds.append(time.process_time() - start)
    return min(seconds)


def check(run: Callable[[], Mapping[str, object]], path: str, text: str) -> tuple[str, float]:
    """Hold the end of *run* against the rules: "accepted" or the first message, and its time by a plain file's."""
    plain = plain_seconds()
    start = time.process_time()
    with no_hang():
        try:
            kernels = run()
        except tw.SourceError as error:
            ended = error.diagnostics[0].message
            seconds = time.process_time() - start
            check_diagnostics(error, path, text)
        else:
            seconds = time.process_time() - start
            assert kernels, "accepted, but there is no kernel"
            ended = "accepted"
    return ended, seconds / plain


def check_diagnostics(error: tw.SourceError, path: str, text: str) -> None:
    """Every diagnostic has words, a place inside *text*, and a line of its own in str(error)."""
    lines = re.split(r"\r?\n", text)
    shown = str(error)
    assert 1 <= len(error.diagnostics) <= 20
    assert any(d.severity == "error" for d in error.diagnostics)
    for d in error.diagnostics:
        assert d.severity in ("error", "warning")
        assert d.message.strip()
        assert d.message.isprintable(), repr(d.message)
        assert d.hint is None or d.hint.strip()
        assert not INNER_NAMES.search(d.message.replace(text, "")), d.message
        assert d.path == path
        assert 1 <= d.line <= len(lines)
        assert 1 <= d.column <= len(lines[d.line - 1]) + 1
        assert d.span.width >= 0
        assert f"{path}:{d.line}:{d.column}: {d.severity}: {d.message}" in shown
    assert len(shown) < 40_000, "the text of an error stays readable, whatever the input"


def peak_kib() -> int:
    """The greatest memory that this process held."""
    status = Path("/proc/self/status")
    if status.exists():
        found = re.search(r"VmHWM:\s*(\d+)", status.read_text())
        if found:
            return int(found.group(1))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(path: str) -> None:
    """Load the file at *path* and print what became of it."""
    text = Path(path).read_bytes().decode("utf-8-sig", errors="replace")
    ended, times = check(lambda: tw.load(path), path, text)
    print(json.dumps({"ended": ended, "times_plain": times, "peak_kib": peak_kib()}))


if __name__ == "__main__":
    main(sys.argv[1])
