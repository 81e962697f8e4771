"""Elements that a program writes to memory and reads again: it has them still, as a tile."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, substituted
from .masks import normal, parts_of
from .tile import Elem, For, If, Let, Load, Reduce, Ref, Store, Where, statements_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .tile import Axis, Stmt, Value


def with_forwarded(body: Sequence[Stmt], axes: Mapping[str, Axis]) -> tuple[Stmt, ...]:
    """The statements with what was just written in place of loads of the same elements."""
    work = _Work(axes)
    moved = _moved(work, body, {})
    return tuple(_named(work, moved))


@dataclass
class _Work:
    axes: Mapping[str, Axis]
    # The stores of which a tile is read, by identity, and the names of those tiles.
    names: dict[int, str] = field(default_factory=dict[int, str])


def _moved(work: _Work, body: Sequence[Stmt], known: Mapping[str, Store]) -> list[Stmt]:
    """The statements with loads replaced. *known*: for each tensor, what holds of it: the last store to it."""
    known = dict(known)
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For() | If():
                written = {s.tensor for s in statements_of(stmt.body) if isinstance(s, Store)}
                known = {n: s for n, s in known.items() if n not in written}
                result.append(replace(stmt, body=tuple(_moved(work, stmt.body, known))))
            case Let():
                result.append(replace(stmt, value=_read(work, stmt.value, known)))
            case Store():
                made = replace(stmt, value=_read(work, stmt.value, known))
                known[stmt.tensor] = made
                result.append(made)
    return result


def _named(work: _Work, body: Sequence[Stmt]) -> list[Stmt]:
    """The statements with a name for each tile that is read again."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, (For, If)):
            result.append(replace(stmt, body=tuple(_named(work, stmt.body))))
        elif isinstance(stmt, Store) and id(stmt) in work.names:
            name = work.names[id(stmt)]
            result.append(Let(name, stmt.value, stmt.axes, comment=stmt.comment))
            result.append(replace(stmt, value=Ref(name, stmt.axes, stmt.value.dtype), comment=""))
        else:
            result.append(stmt)
    return result


def _read(work: _Work, value: Value, known: Mapping[str, Store]) -> Value:
    match value:
        case Load():
            store = known.get(value.tensor)
            axes = _same_elements(work, store, value) if store is not None else None
            if store is None or axes is None:
                return value
            name = work.names.setdefault(id(store), f"{store.tensor}.tile{len(work.names) or ''}")
            return Ref(name, axes, value.dtype)
        case Elem():
            return replace(value, operands=tuple(_read(work, v, known) for v in value.operands))
        case Where():
            return replace(value, value=_read(work, value.value, known), other=_read(work, value.other, known))
        case Reduce():
            return replace(value, value=_read(work, value.value, known))
        case _:
            return value


def _same_elements(work: _Work, store: Store, load: Load) -> tuple[str, ...] | None:
    """The axes of the stored tile by the names of a load of the same elements; None where they are others."""
    if load.fill is not None or len(load.axes) != len(store.axes):
        return None
    renamed: dict[str, str] = {}
    for mine, other in zip(store.index, load.index, strict=True):
        if not isinstance(other, Affine):
            return None
        own, theirs = ([n for n in i.names() if n in a] for i, a in ((mine, store.axes), (other, load.axes)))
        if len(own) != len(theirs) or len(own) > 1:
            return None
        renamed |= dict(zip(own, theirs, strict=True))
    alike = all(work.axes[a].extent == work.axes[b].extent for a, b in renamed.items())
    if set(renamed) != set(store.axes) or not alike:
        return None
    if [i.renamed(renamed) for i in store.index] != list(load.index):
        return None
    mask = substituted(store.mask, {a: Affine.name(b) for a, b in renamed.items()})
    stored = {normal(c) for c in parts_of(mask)}
    return tuple(renamed[a] for a in store.axes) if stored <= {normal(c) for c in parts_of(load.mask)} else None
