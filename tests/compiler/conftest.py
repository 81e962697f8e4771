"""A place to run txc in."""

from __future__ import annotations

from pathlib import Path

import pytest

from .shell import BAD, GOOD


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a good file and a bad one."""
    monkeypatch.chdir(tmp_path)
    Path("good.tx").write_text(GOOD)
    Path("bad.tx").write_text(BAD)
    return tmp_path
