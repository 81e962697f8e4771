"""Recursion without the interpreter's stack.

Programs may nest thousands of levels deep. A recursive function is written as a generator that
yields the generator of each recursive call and receives its result; `run` drives them with a list.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Deep = Generator["Deep[Any]", Any, T]


def run(call: Deep[T]) -> T:
    """Run a generator-style recursive call to its result; an exception passes through its callers."""
    stack: list[Deep[Any]] = [call]
    value: Any = None
    error: Exception | None = None
    while stack:
        try:
            child = stack[-1].send(value) if error is None else stack[-1].throw(error)
        except StopIteration as done:
            stack.pop()
            value, error = done.value, None
        except Exception as raised:  # handed on to the caller's generator, and at last out of here
            stack.pop()
            error = raised
        else:
            stack.append(child)
            value, error = None, None
    if error is not None:
        raise error
    return value
