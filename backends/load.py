"""Running an emitted module of Python."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def load_module(source: str, name: str) -> dict[str, Any]:
    """The names that an emitted module defines."""
    # One file for each text: Triton compiles a kernel from what stands in its file when it is first run.
    file = f"<tilewright {name} {hashlib.sha256(source.encode()).hexdigest()[:8]}>"
    # Tracebacks and debuggers find the text of the module here.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": f"tilewright_{name}"}
    exec(compile(source, file, "exec"), namespace)
    return namespace


def load_function(source: str, name: str) -> Callable[..., Any]:
    """The kernel's function of an emitted module: its last definition."""
    last = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)][-1]
    return load_module(source, name)[last.name]


def call(function: Callable[..., Any], inputs: Sequence[Any], sizes: Sequence[int]) -> tuple[Any, ...]:
    """The outputs of an emitted function, always as a tuple; *sizes* in the order of its keywords."""
    keywords = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    values = function(*inputs, **dict(zip(keywords, sizes, strict=True)))
    return values if isinstance(values, tuple) else (values,)
