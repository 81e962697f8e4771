"""txc check: is it a program?"""

from __future__ import annotations

import json
import sys

import click

from ...frontend.diagnostic import Diagnostic, SourceError
from .common import read_kernels


@click.command(epilog="Example: txc check examples/*.tx")
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print diagnostics as JSON.")
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Check FILES: types, ranges, bounds, completeness. Every error of a file is reported."""
    found: list[Diagnostic] = []
    for path in files:
        try:
            kernels = read_kernels(path)
        except SourceError as error:
            found += error.diagnostics
            if not as_json:
                click.echo(str(error), err=True)
            continue
        for kernel in kernels.values():
            found += kernel.warnings
            if not as_json:
                for warning in kernel.warnings:
                    click.echo(str(warning), err=True)
                click.echo(f"{path}: {kernel.signature}")
    if as_json:
        click.echo(json.dumps([_record(d) for d in found], indent=2))
    sys.exit(1 if any(d.severity == "error" for d in found) else 0)


def _record(found: Diagnostic) -> dict[str, object]:
    return {
        "path": found.path,
        "line": found.line,
        "column": found.column,
        "width": found.span.width,
        "severity": found.severity,
        "message": found.message,
        "hint": found.hint,
    }
