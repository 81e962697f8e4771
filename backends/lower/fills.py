"""Copies that are filled where they are made, so that what reads them need not choose lane by lane."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from .lifetimes import lets
from .masks import normal, parts_of
from .tile import Dot, Elem, For, Full, If, Let, Load, Reduce, Ref, Store, Where, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .tile import Number, Stmt, Value


def with_fills(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The statements with a number in the lanes that a load leaves open, where the same number is put in their place
    wherever the tile is read in a sum or a product."""
    times = Counter(let.name for let in lets(body))
    once = {let.name: let for let in lets(body) if isinstance(let.value, Load) and times[let.name] == 1}
    fills: dict[str, Number] = {}
    for value in values_of(body):
        found = _choice(value)
        if found is None or found[0] not in once:
            continue
        name, number = found
        load = once[name].value
        assert isinstance(load, Load)
        open_ = load.fill is None and not once[name].keep and load.axes == tuple(once[name].axes)
        if open_ and _covers(load, value) and repr(fills.get(name, number)) == repr(number):
            fills[name] = number
    return tuple(_filled(stmt, fills, once) for stmt in body)


def _choice(value: Value) -> tuple[str, Number] | None:
    """(tile, number) where a value is a tile in some lanes and a number in the others."""
    if isinstance(value, Where) and isinstance(value.value, Ref) and isinstance(value.other, Full):
        return value.value.name, value.other.value
    return None


def _covers(load: Load, choice: Value) -> bool:
    """Whether lanes that are not chosen are not loaded either: each condition is one of the load's own."""
    assert isinstance(choice, Where)
    return {normal(c) for c in parts_of(choice.mask)} <= {normal(c) for c in parts_of(load.mask)}


def _filled(stmt: Stmt, fills: Mapping[str, Number], once: Mapping[str, Let]) -> Stmt:
    match stmt:
        case For() | If():
            return replace(stmt, body=tuple(_filled(inner, fills, once) for inner in stmt.body))
        case Let(name=name, value=Load() as load) if name in fills:
            return replace(stmt, value=replace(load, fill=fills[name]))
        case Let() | Store():
            return replace(stmt, value=_plain(stmt.value, fills, once))


def _plain(value: Value, fills: Mapping[str, Number], once: Mapping[str, Let]) -> Value:
    """The value without choices that a fill has made already."""
    found = _choice(value)
    if found is not None and isinstance(value, Where) and repr(fills.get(found[0])) == repr(found[1]):
        load = once[found[0]].value
        if isinstance(load, Load) and _covers(load, value):
            return value.value
    match value:
        case Elem():
            return replace(value, operands=tuple(_plain(v, fills, once) for v in value.operands))
        case Where():
            return replace(value, value=_plain(value.value, fills, once), other=_plain(value.other, fills, once))
        case Reduce():
            return replace(value, value=_plain(value.value, fills, once))
        case Dot():
            return replace(value, a=_plain(value.a, fills, once), b=_plain(value.b, fills, once))  # no choice to start
        case _:
            return value
