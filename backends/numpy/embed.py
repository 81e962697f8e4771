"""Copies of the run-time functions, as text for emitted modules that stand alone."""

from __future__ import annotations

import ast
import inspect
from functools import cache

from . import runtime


@cache
def _functions() -> dict[str, tuple[str, frozenset[str]]]:
    """Name -> (source, names of the other functions it uses), in file order."""
    source = inspect.getsource(runtime)
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    known = {node.name for node in nodes}
    lines = source.splitlines()
    return {
        node.name: ("\n".join(lines[node.lineno - 1 : node.end_lineno]), _names(node) & known - {node.name})
        for node in nodes
    }


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def names_used(text: str) -> set[str]:
    """The run-time functions that the Python source *text* names."""
    return set(_names(ast.parse(text)) & _functions().keys())


def runtime_text(names: set[str]) -> str:
    """Source of the run-time functions *names* and all they call, in file order, two blank lines apart.

    It needs `ml_dtypes` and `numpy as np`, and is empty for no names.

    Raises:
        ValueError: a name is no function of the run time.
    """
    functions = _functions()
    unknown = sorted(names - functions.keys())
    if unknown:
        raise ValueError(f"no run-time function {', '.join(unknown)}")
    needed: set[str] = set()
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += sorted(functions[name][1])
    return "\n\n\n".join(source for name, (source, _) in functions.items() if name in needed)
