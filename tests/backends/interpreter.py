"""Emitted Triton modules in Triton's interpreter, in a process of its own."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

WORKER = Path(__file__).parent / "interpreted" / "worker.py"
# A kernel that does not come back is a failure, not a reason to wait.
PATIENCE = 60


class Interpreter:
    """Runs modules of torch tensors on arrays."""

    def __init__(self) -> None:
        self._process = _started()

    def run(
        self, source: str, name: str, arguments: Mapping[str, Any], *, tma: bool = False
    ) -> tuple[np.ndarray[Any, Any], ...]:
        """The outputs of a module's function; *tma*: as if there were an engine that copies blocks.

        Raises:
            RuntimeError: it failed; with the text of the error.
            EOFError: the process ended, or did not answer in time.
        """
        if self._process.poll() is not None:
            self._process = _started()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        timer = Timer(PATIENCE, self._process.kill)
        timer.start()
        try:
            pickle.dump((source, name, dict(arguments), tma), self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        finally:
            timer.cancel()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return tuple(_typed(kind, array) for kind, array in answer)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.communicate(timeout=10)


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _typed(kind: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.view(np.dtype(getattr(ml_dtypes, kind))) if kind else array
