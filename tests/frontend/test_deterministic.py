"""What the front end says is a function of the text alone: the same words under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys, tomllib
import tilewright as tw

here = sys.argv[1]
for table in tomllib.load(open(here + "/malformed.toml", "rb"))["program"]:
    try:
        tw.parse(table["text"].replace("‸", ""), name="bad.tx")
    except tw.SourceError as error:
        print(error)
broken = ["Y[i] = X[i + 1] * P[i]", "Z[i] = epz + W[2 * i]", "T[j] = U[j]"]
try:
    tw.parse("kernel f(X: f32[N]) -> (Y: f32[N], Z: f32[N]) {\\n" + "\\n".join(broken) + "\\n}\\n")
except tw.SourceError as error:
    print(error)
"""


def said(seed: int) -> str:
    """Everything that the malformed programs are answered with, under one hash seed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT, str(Path(__file__).parent)],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    return done.stdout


def test_messages_do_not_depend_on_the_hash_seed() -> None:
    first = said(1)
    assert first.count("error: ") >= 78
    assert said(2) == first
