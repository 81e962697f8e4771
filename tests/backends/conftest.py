"""What the tests of the back ends share: an interpreter of Triton modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .interpreter import Interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Interpreter]:
    made = Interpreter()
    yield made
    made.close()
