"""Schedule files: a Python file that defines `schedule(s)` and takes its steps on the schedule that it is given."""

from __future__ import annotations

import runpy
import traceback
from typing import TYPE_CHECKING, Any

import click

from ...passes.refusal import IllegalTransformError
from ..schedule import Schedule

if TYPE_CHECKING:
    from ..kernel import Kernel


def scheduled(kernel: Kernel, path: str) -> Schedule:
    """The schedule that a file builds for a kernel.

    Raises:
        IllegalTransformError: a step of it is illegal.
        click.UsageError: the file cannot be run, or defines no `schedule`.
    """
    try:
        names = runpy.run_path(path)
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror or error}") from None
    except Exception:
        raise click.UsageError(f"{path} failed:\n{_last_lines()}") from None
    build: Any = names.get("schedule")
    if not callable(build):
        raise click.UsageError(f"{path} defines no function schedule(s)")
    schedule = Schedule(kernel)
    try:
        build(schedule)
    except IllegalTransformError:
        raise
    except Exception:
        raise click.UsageError(f"schedule(s) of {path} failed:\n{_last_lines()}") from None
    return schedule


def _last_lines() -> str:
    """The end of the traceback of somebody's own file."""
    return "".join(traceback.format_exc(limit=-2).splitlines(keepends=True)[-6:]).rstrip()
