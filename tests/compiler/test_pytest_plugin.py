"""The table of refusals that closes a run, in one process and shared out."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import pytest
import tilewright as tw

KERNEL = "kernel s(X: f32[N, K]) -> (Y: f32[N]) { Y[i] = sum(k) X[i, k] }"

@pytest.mark.parametrize("loop", ["Y.k", "Y.q"])
def test_refused(loop):
    with pytest.raises(tw.IllegalTransformError):
        tw.Schedule(tw.parse(KERNEL)["s"]).reverse(loop)
"""


@pytest.mark.parametrize("shared", [[], ["-n", "2"]], ids=["one process", "two"])
def test_a_run_ends_with_what_was_refused(shared: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *shared, str(tmp_path)]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == 0, found.stdout
    assert "2 different refusals" in found.stdout
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [line[:3] for line in lines if line[:1] == ["rounding"]] == [["rounding", "reverse(Y.k)", "s"]]
    assert [line[:2] for line in lines if line[:1] == ["shape"]] == [["shape", "reverse(Y.q)"]]
