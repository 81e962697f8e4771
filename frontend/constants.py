"""What a file defines outside its kernels: constants, tables and functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import DTYPES, DType
from ..compiler.ir.expr import Const
from ..compiler.ir.program import Extent, Tensor
from ..compiler.ir.quasiaffine import Affine
from ..compiler.ir.span import Source
from ..compiler.ir.trampoline import run
from . import syntax as s
from .diagnostic import Diagnostic, Fault, diagnostic
from .elaborate import elaborate
from .explain import REDUCTIONS
from .literals import Literal, typed
from .scope import FUNCTIONS, RANK, Env, Scope, Unwell, new_name, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass
class Globals:
    """The constants, tables and functions of a file; *broken* names had an error."""

    constants: dict[str, Literal] = field(default_factory=dict[str, Literal])
    tables: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    functions: dict[str, s.Function] = field(default_factory=dict[str, s.Function])
    broken: set[str] = field(default_factory=set[str])
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])


@lru_cache(maxsize=1)
def prelude() -> Mapping[str, s.Function]:
    """The functions that every file may use."""
    from .parse import parse_source

    text = resources.files(__package__ or "").joinpath("prelude.tx").read_text()
    file = parse_source(Source("prelude.tx", text)).file
    return {f.name.text: f for f in file.functions}


def file_globals(source: Source, file: s.File, missing: frozenset[str]) -> Globals:
    """Check everything outside kernels."""
    found = Globals(broken=set(missing))

    def attempt(name: s.Name, what: str, action: Callable[[], None]) -> None:
        def define() -> None:
            new_name(name, what)
            if name.text in (*found.constants, *found.tables, *found.functions):
                raise Fault(name.at, f"'{name.text}' is defined twice", "give one of them another name")
            action()

        _guarded(source, found, name, define)

    def scope() -> Scope:
        return Scope(source, found.constants, {}, {}, frozenset(found.broken))

    for constant in _in_order(file.constants):
        define = partial(_define_constant, constant, found, scope)
        attempt(constant.name, "const", define)
    for table in file.tables:
        attempt(table.name, "const", lambda t=table: found.tables.update({t.name.text: _table(t, scope())}))
    for function in file.functions:
        attempt(function.name, "def", lambda f=function: found.functions.update({f.name.text: f}))
    cyclic = _cyclic(found.functions)
    for function in file.functions:
        if found.functions.get(function.name.text) is function:
            action = partial(_check_function, function, found, frozenset(found.broken), cyclic)
            _guarded(source, found, function.name, action)
    for name in found.broken:
        found.functions.pop(name, None)
    return found


def _guarded(source: Source, found: Globals, name: s.Name, action: Callable[[], None]) -> None:
    """Run a check; a fault becomes a diagnostic, and the name counts as broken."""
    try:
        action()
    except Fault as fault:
        found.broken.add(name.text)
        found.diagnostics.append(diagnostic(source, *fault.at, fault.message, fault.hint))
    except Unwell:
        found.broken.add(name.text)


def _literal(node: s.Node, scope: Scope) -> Literal:
    draft = run(elaborate(node, Env({}), scope))
    if not isinstance(draft, Literal):
        raise Fault(
            node.at,
            "a const is a number",
            "write const WIN = 4 * 64, or a typed table: const G: f32[2] = [1, 2]",
        )
    return draft


def _define_constant(constant: s.Constant, found: Globals, scope: Callable[[], Scope]) -> None:
    found.constants[constant.name.text] = _literal(constant.value, scope())


def _in_order(constants: Sequence[s.Constant]) -> list[s.Constant]:
    """Constants after those that they name; where they name each other in a circle, in the order of the text."""
    by_name = {c.name.text: c for c in constants}
    needs = {
        n: [w.text for w in _walk(c.value) if isinstance(w, s.Name) and w.text in by_name] for n, c in by_name.items()
    }
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError:
        return list(constants)
    position = {name: i for i, name in enumerate(order)}
    return sorted(constants, key=lambda c: position[c.name.text])


def _table(table: s.Table, scope: Scope) -> Tensor:
    dtype = element_type(table.type)
    shape: list[int] = []
    for node in table.shape:
        extent = _literal(node, scope).integer
        if extent is None or extent < 0:
            raise Fault(node.at, "the shape of a const table is made of whole numbers")
        shape.append(extent)
    if len(shape) > RANK:
        raise Fault(table.at, f"a tensor has at most {RANK} dimensions")
    values = tuple(_entries(table.entries, shape, 0, dtype, scope))
    extents = tuple(Extent.of(Affine.number(n)) for n in shape)
    return Tensor(table.name.text, dtype, extents, "constant", scope.span(table.name.at), values)


def _entries(array: s.Array, shape: list[int], depth: int, dtype: DType, scope: Scope) -> list[float | int | bool]:
    if depth >= len(shape) or len(array.entries) != shape[depth]:
        expected = shape[depth] if depth < len(shape) else "no"
        raise Fault(array.at, f"{expected} entries are declared here, {len(array.entries)} are written")
    values: list[float | int | bool] = []
    for entry in array.entries:
        if isinstance(entry, s.Array):
            values += _entries(entry, shape, depth + 1, dtype, scope)
            continue
        if depth + 1 != len(shape):
            raise Fault(entry.at, f"the table has {len(shape)} dimensions: an entry here is a list [ ]")
        draft = run(elaborate(entry, Env({}), scope))
        if isinstance(draft, Const) and dtype.is_bool:
            values.append(draft.value)
        elif isinstance(draft, Literal):
            values.append(typed(draft, dtype, "the table")[0].value)
        else:
            raise Fault(entry.at, "a table holds numbers")
    return values


def element_type(name: s.Name) -> DType:
    """The type of that name."""
    if name.text not in DTYPES:
        from difflib import get_close_matches

        short = name.text.replace("float", "f").replace("uint", "u").replace("int", "i").replace("bfloat", "bf")
        near = [short] if short in DTYPES else get_close_matches(name.text, DTYPES, 1)
        hint = f"write {near[0]}" if near else f"one of {', '.join(DTYPES)}"
        raise Fault(name.at, f"unknown type '{name.text}'", hint)
    return DTYPES[name.text]


def _check_function(
    function: s.Function, found: Globals, broken: frozenset[str], cyclic: Mapping[str, list[str]]
) -> None:
    """Names of a body are known, and following its calls never leads back to it."""
    if function.name.text in cyclic:
        path = cyclic[function.name.text]
        through = f" through {', '.join(path[:4])}" if path else ""
        raise Fault(
            function.name.at,
            f"'{function.name.text}' calls itself{through}",
            "write the repetition as an equation",
        )
    names = [p.text for p in function.parameters]
    for i, parameter in enumerate(function.parameters):
        new_name(parameter, "parameter")
        if parameter.text in names[:i]:
            raise Fault(parameter.at, f"'{parameter.text}' is already taken", "give this parameter another name")
    known = {*names, *found.constants, "inf", "nan", "true", "false"}
    callable_ = {*DTYPES, *FUNCTIONS, *REDUCTIONS, *prelude()}
    for node in _walk(function.body):
        if isinstance(node, s.Name) and node.text not in known:
            if node.text in broken:
                raise Unwell
            raise unknown("name", node, known, Scope(Source("", ""), {}, {}, {}, broken))
        if isinstance(node, s.Call):
            name = node.function.text
            if name in broken:
                raise Unwell
            if name not in callable_ and name not in found.functions:
                raise unknown(
                    "function",
                    node.function,
                    {*callable_, *found.functions},
                    Scope(Source("", ""), {}, {}, {}, broken),
                )
        if isinstance(node, (s.Access, s.Padded)):
            raise Fault(node.at, "a def takes scalars: it reads no tensors", "pass the element as an argument")
        if isinstance(node, s.Reduction):
            raise Fault(node.at, "a def holds no reductions", "write the reduction in the equation")


def _walk(root: s.Node) -> list[s.Node]:
    found: list[s.Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(reversed(s.parts(node)))
    return found


def _cyclic(functions: Mapping[str, s.Function]) -> dict[str, list[str]]:
    """The functions that call themselves, each with the calls that lead back to it (none for a direct call)."""
    calls = {name: list(dict.fromkeys(_callees(f, functions))) for name, f in functions.items()}
    found: dict[str, list[str]] = {}
    done: set[str] = set()
    for root in functions:
        path: list[str] = []
        work: list[tuple[str, int]] = [(root, 0)] if root not in done else []
        on_path: set[str] = set()
        while work:
            name, i = work.pop()
            if i == 0:
                path.append(name)
                on_path.add(name)
                done.add(name)
            if i == len(calls[name]):
                path.pop()
                on_path.discard(name)
                continue
            work.append((name, i + 1))
            callee = calls[name][i]
            if callee in on_path:
                found.setdefault(callee, path[path.index(callee) + 1 :])
            elif callee not in done:
                work.append((callee, 0))
    return found


def _callees(function: s.Function, functions: Mapping[str, s.Function]) -> list[str]:
    return [n.function.text for n in _walk(function.body) if isinstance(n, s.Call) and n.function.text in functions]
