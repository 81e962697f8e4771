"""Running an emitted NumPy module."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import Any


def load_function(source: str, name: str) -> Callable[..., Any]:
    """The kernel's function of an emitted module; its last top-level definition."""
    file = f"<tilewright {name}>"
    # Tracebacks and debuggers find the text of the module here.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {}
    exec(compile(source, file, "exec"), namespace)
    function = [value for key, value in namespace.items() if callable(value) and not key.startswith("__")][-1]
    return function


def call(function: Callable[..., Any], inputs: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The outputs of an emitted function, always as a tuple; *sizes* in the order of its keywords."""
    import inspect

    keywords = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    values = function(*inputs, **dict(zip(keywords, sizes, strict=True)))
    return values if isinstance(values, tuple) else (values,)
