"""Running txc inside the tests' process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.cli import main

if TYPE_CHECKING:
    from click.testing import Result

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.tx"))
KERNELS = [(file, name) for file in FILES for name in tw.load(file)]
MATMUL = str(EXAMPLES / "matmul_silu.tx")

GOOD = """kernel f(X: f32[N], a: f32) -> (Y: f32[N]) {
    Y[i] = a * X[i] + 1
}
"""
BAD = """kernel f(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = X[i + 1]
    Z[i] = 1
}
"""
BAD_LINES = ["2:12", "3:7"]


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def whole(words: tuple[str, ...]) -> None:
    """main() as a click command, so that its output can be caught."""
    main(words)


def txc(*words: str | Path) -> Result:
    """Run txc in this process; whatever escapes it fails the test."""
    result = CliRunner().invoke(whole, [str(w) for w in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result
