"""What all tests share: comparison with recorded text."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).with_name("golden")


# Compiled code of a run of the tests is kept for that run alone.
os.environ.setdefault("TILEWRIGHT_CACHE", tempfile.mkdtemp(prefix="tilewright-"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="record the texts of tests/golden anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("show/matmul", text)`: that the text is that of tests/golden/show/matmul.txt."""

    def compare(name: str, text: str) -> None:
        path = FOLDER / f"{name}.txt"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no tests/golden/{name}.txt: record it with --update-golden"
        wanted = path.read_text(encoding="utf-8")
        assert text == wanted, f"not as in tests/golden/{name}.txt; --update-golden records it, read the difference"

    return compare
