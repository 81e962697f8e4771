"""How long tiles live: what a loop carries, and tiles that something may read before they are made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .tile import For, Full, If, Let, Number, Ref, Stmt, Store, Value, operands, statements_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...compiler.ir.dtype import DType


def with_carried(body: Sequence[Stmt], outside: frozenset[str] = frozenset()) -> tuple[Stmt, ...]:
    """The statements with each loop's carried tiles: bound before it and rebound inside."""
    bound = set(outside)
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Let():
                bound.add(stmt.name)
                result.append(stmt)
            case For():
                inside = with_carried(stmt.body, frozenset(bound))
                rebound = tuple(sorted({let.name for let in lets(inside)} & bound))
                result.append(replace(stmt, body=inside, carried=rebound))
            case If():
                result.append(replace(stmt, body=with_carried(stmt.body, frozenset(bound))))
            case Store():
                result.append(stmt)
    return tuple(result)


def with_starts(body: Sequence[Stmt], outside: frozenset[str] = frozenset()) -> tuple[Stmt, ...]:
    """The statements with a start for each tile that is read where it may not have been made.

    Such a read does not matter: it stands in a branch not taken, or behind a loop without iterations. But the name has
    to stand for something.
    """
    sure = set(outside)
    result: list[Stmt] = []
    for number, stmt in enumerate(body):
        inner = {let.name: let for let in lets((stmt,))} if isinstance(stmt, (For, If)) else {}
        later = {ref.name for after in body[number + 1 :] for ref in refs(after)}
        first = {n: (let.axes, let.value.dtype) for n, let in inner.items() if n in later}
        own = refs(stmt) if isinstance(stmt, (Let, Store)) else ()
        first |= {ref.name: (ref.axes, ref.dtype) for ref in own}
        for name, (axes, dtype) in first.items():
            if name not in sure:
                result.append(Let(name, Full(anything(dtype), (), dtype), axes))
                sure.add(name)
        if isinstance(stmt, (For, If)):
            stmt = replace(stmt, body=with_starts(stmt.body, frozenset(sure)))
        elif isinstance(stmt, Let):
            sure.add(stmt.name)
        result.append(stmt)
    return tuple(result)


def anything(dtype: DType) -> Number:
    """A number that shows where it is used by mistake."""
    return float("nan") if dtype.is_float else dtype.greatest if dtype.is_int else True


def lets(body: Sequence[Stmt]) -> Iterator[Let]:
    """Every naming of a tile, nested ones too."""
    return (stmt for stmt in statements_of(body) if isinstance(stmt, Let))


def refs(stmt: Stmt) -> Iterator[Ref]:
    """Every tile that a statement reads, nested ones too; one that it changes in part it reads as well."""
    match stmt:
        case Let():
            yield from _refs(stmt.value)
            if stmt.keep:
                yield Ref(stmt.name, stmt.axes, stmt.value.dtype)
        case Store():
            yield from _refs(stmt.value)
        case For() | If():
            for inner in stmt.body:
                yield from refs(inner)


def _refs(value: Value) -> Iterator[Ref]:
    if isinstance(value, Ref):
        yield value
    for inner in operands(value):
        yield from _refs(inner)
