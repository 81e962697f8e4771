"""txc check: is it a program?"""

from __future__ import annotations

import json
import sys

import click

from ...frontend.diagnostic import Diagnostic, SourceError
from ...passes.refusal import IllegalTransformError
from ...passes.verify import verify
from .common import read_kernel, read_kernels
from .schedules import scheduled


@click.command(epilog="Example: txc check examples/*.tx")
@click.argument("files", nargs=-1, required=True)
@click.option("--schedule", "script", help="A Python file that defines schedule(s): check its steps, and the result.")
@click.option("--json", "as_json", is_flag=True, help="Print diagnostics (and with --schedule a refusal) as JSON.")
def check(files: tuple[str, ...], script: str | None, as_json: bool) -> None:
    """Check FILES: types, ranges, bounds, completeness. Every error of a file is reported."""
    if script is not None:
        sys.exit(_check_schedule(files, script, as_json))
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


def _check_schedule(files: tuple[str, ...], script: str, as_json: bool) -> int:
    """Check a schedule of the only kernel of the only file; the exit status."""
    if len(files) != 1:
        raise click.UsageError("--schedule takes one file")
    kernel = read_kernel(files[0], None)
    try:
        schedule = scheduled(kernel, script)
        certificate = verify(schedule.state.program, schedule.state.tree, kernel.program)
    except IllegalTransformError as error:
        click.echo(json.dumps(error.refusal.to_json(), indent=2) if as_json else str(error), err=not as_json)
        return 1
    if as_json:
        click.echo(json.dumps({"steps": [str(s) for s in schedule.trace], "proved": certificate.proved}, indent=2))
    else:
        click.echo(
            f"{files[0]}: {kernel.signature}\n{len(schedule.trace)} steps, all legal; the final check proved that"
        )
        click.echo("\n".join(f"  {line}" for line in certificate.proved))
    return 0


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
