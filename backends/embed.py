"""Copies of the run-time functions, as text for emitted modules that stand alone."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def _functions(target: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Name -> (source, names of the other functions it uses), in file order, of a target's `runtime.py`."""
    source = (Path(__file__).parent / target / "runtime.py").read_text()
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    known = {node.name for node in nodes}
    lines = source.splitlines()
    return {
        node.name: ("\n".join(lines[_first(node) - 1 : node.end_lineno]), _names(node) & known - {node.name})
        for node in nodes
    }


def _first(node: ast.FunctionDef) -> int:
    """The line on which a function begins, its decorators included."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _names(tree: ast.AST) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def helper_names(target: str) -> list[str]:
    """The run-time functions of a target."""
    return list(_functions(target))


def names_used(target: str, text: str) -> set[str]:
    """The run-time functions of a target that the Python source *text* names."""
    return set(_names(ast.parse(text)) & _functions(target).keys())


def runtime_text(target: str, names: set[str]) -> str:
    """Source of the run-time functions *names* and all they call, in file order, two blank lines apart.

    It needs what `runtime.py` of the target imports, and is empty for no names.

    Raises:
        ValueError: a name is no function of the run time.
    """
    functions = _functions(target)
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
