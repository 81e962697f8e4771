"""Ranges of indices: written ones, and those that the uses of an index imply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compiler.ir.hulls import proved
from ..compiler.ir.quasiaffine import Affine, Range, end_text
from ..compiler.ir.trampoline import run
from . import syntax as s
from .diagnostic import Fault
from .drafts import as_index
from .scope import unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .scope import Ends, Env, Scope

ENDS_HINT = "write a..b with sums of sizes, consts and outer indices"


def written_range(binder: s.Binder, env: Env, scope: Scope) -> Range:
    """The range of `name in low..high`; low may be max(..), high min(..)."""
    return Range(binder.name.text, _ends(binder.low, "max", env, scope), _ends(binder.high, "min", env, scope))


def _ends(node: s.Node, function: str, env: Env, scope: Scope) -> tuple[Affine, ...]:
    if isinstance(node, s.Call) and node.function.text in ("min", "max"):
        if node.function.text != function:
            side = "lower" if function == "max" else "upper"
            raise Fault(node.at, f"the {side} end may be a {function}, not a {node.function.text}", ENDS_HINT)
        return tuple(affine_of(a, "a range end", env, scope) for a in node.arguments)
    return (affine_of(node, "a range end", env, scope),)


def affine_of(node: s.Node, what: str, env: Env, scope: Scope) -> Affine:
    """An expression that must be affine in sizes and the indices in scope."""
    from .elaborate import elaborate, subscript

    hint = ENDS_HINT if what == "a range end" else "write a sum of sizes and numbers"
    draft = run(elaborate(node, env, scope))
    affine = as_index(draft)
    if affine is None:
        affine = as_index(run(subscript(node, env, scope)))  # says why it is not affine, where it is no data
    if affine is None:
        among = "sizes and outer indices" if what == "a range end" else "sizes"
        raise Fault(node.at, f"{what} is affine in {among}", hint)
    return affine


def index_range(index: s.Name, bodies: Sequence[s.Node], own: Ends | None, env: Env, scope: Scope) -> Range:
    """The range that the plain uses of an index imply; *own* is further evidence (None: there is none).

    Raises:
        Fault: no use gives a range, or two uses give different ones.
    """
    found = own
    where = ""
    agreed: set[Ends] = {own} if own is not None else set()
    for access, position in _plain_uses(index.text, bodies):
        tensor = scope.tensors.get(access.tensor.text)
        if tensor is None:
            raise unknown("tensor", access.tensor, scope.tensors, scope)
        if position >= tensor.rank:
            continue  # an error of its own, reported when the access is checked
        ends = tensor.extents[position]
        if ends is None:
            continue
        if found is None:
            found, where = ends, tensor.name
            agreed.add(ends)
        elif ends not in agreed and not _agree(found, ends, scope):
            first = f"over {_ends_text(found)}" + (f" in {where}" if where else " on the left")
            message = f"'{index.text}' runs {first} and over {_ends_text(ends)} in {tensor.name}"
            raise Fault(access.at, message, "write the range, or promise equality with where")
        agreed.add(ends)
    if found is None:
        message = f"the range of '{index.text}' is not given by a plain use as a subscript"
        raise Fault(index.at, message, f"write it: {index.text} in 0..N")
    return Range(index.text, *found)


def _ends_text(ends: Ends) -> str:
    return f"{end_text('max', ends[0])}..{end_text('min', ends[1])}"


def _agree(a: Ends, b: Ends, scope: Scope) -> bool:
    if a == b:
        return True
    if any(len(ends) != 1 for ends in (*a, *b)):
        return False
    return proved(scope, "==", a[0][0], b[0][0]) and proved(scope, "==", a[1][0], b[1][0])


def _plain_uses(index: str, bodies: Sequence[s.Node]) -> Iterator[tuple[s.Access, int]]:
    """Accesses with the bare index as a subscript, outside padded reads and branches whose condition mentions it."""
    mentioning = _mentioning(index, bodies)
    stack: list[s.Node] = list(reversed(bodies))
    while stack:
        node = stack.pop()
        if id(node) not in mentioning:
            continue
        match node:
            case s.Access():
                for position, sub in enumerate(node.subscripts):
                    if isinstance(sub, s.Name) and sub.text == index:
                        yield node, position
                stack.extend(reversed(node.subscripts))
            case s.Padded():
                stack.extend(reversed(node.access.subscripts))
            case s.Select():
                if id(node.condition) not in mentioning:
                    stack += [node.other, node.then]
                stack.append(node.condition)
            case _:
                stack.extend(reversed(s.parts(node)))


def _mentioning(name: str, bodies: Sequence[s.Node]) -> set[int]:
    """The nodes (by identity) that a name stands in."""
    found: set[int] = set()
    stack: list[tuple[s.Node, bool]] = [(body, False) for body in bodies]
    while stack:
        node, ready = stack.pop()
        if ready:
            if any(id(part) in found for part in s.parts(node)):
                found.add(id(node))
        elif isinstance(node, s.Name):
            if node.text == name:
                found.add(id(node))
        else:
            stack.append((node, True))
            stack.extend((part, False) for part in s.parts(node))
    return found


def merged_ends(first: Ends | None, second: Ends | None, scope: Scope) -> Ends | None:
    """The hull of two equations' ranges of one position, where one end is proved to be the outer one."""
    if first is None or second is None:
        return None
    if first == second:
        return first
    low = _outer(first[0], second[0], "<=", scope)
    high = _outer(first[1], second[1], ">=", scope)
    return (low, high) if low and high else None


def _outer(a: tuple[Affine, ...], b: tuple[Affine, ...], op: str, scope: Scope) -> tuple[Affine, ...] | None:
    if a == b:
        return a
    if len(a) != 1 or len(b) != 1:
        return None
    if proved(scope, op, a[0], b[0]):
        return a
    return b if proved(scope, op, b[0], a[0]) else None
