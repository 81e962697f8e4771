"""Elements that a program writes to memory and reads again: it has them still, as a tile.

What a loop adds to in memory, always at the same elements, it adds to in a tile, which is written behind the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine, substituted
from .masks import names_in, normal, parts_of
from .tile import Dot, Elem, For, If, Let, Load, Reduce, Ref, Store, Where, statements_of, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .tile import Axis, Stmt, Value


def with_forwarded(body: Sequence[Stmt], axes: Mapping[str, Axis]) -> tuple[Stmt, ...]:
    """The statements with what was just written in place of loads of the same elements.

    Each outermost statement is a launch of its own: no tile lives on from one to the next.
    """
    work = _Work(axes)
    moved = [made for stmt in body for made in _moved(work, (stmt,), {})]
    return tuple(_named(work, moved))


@dataclass
class _Work:
    axes: Mapping[str, Axis]
    # The stores of which a tile is read, by identity, and the names of those tiles; which of them need not be made.
    names: dict[int, str] = field(default_factory=dict[int, str])
    needless: set[int] = field(default_factory=set[int])

    def name(self, store: Store) -> str:
        """The name of the tile that a store writes."""
        return self.names.setdefault(id(store), f"{store.tensor}.tile{len(self.names) or ''}")


def _moved(work: _Work, body: Sequence[Stmt], known: Mapping[str, Store]) -> list[Stmt]:
    """The statements with loads replaced. *known*: for each tensor, what holds of it: the last store to it."""
    known = dict(known)
    result: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For() | If():
                after: list[Store] = []
                if isinstance(stmt, For):
                    stmt, after = _in_tiles(work, stmt, known, result)
                written = {s.tensor for s in statements_of((stmt, *after)) if isinstance(s, Store)}
                known = {n: s for n, s in known.items() if n not in written}
                result.append(replace(stmt, body=tuple(_moved(work, stmt.body, known))))
                result += after
                known |= {s.tensor: s for s in after}
            case Let():
                result.append(replace(stmt, value=_read(work, stmt.value, known)))
            case Store():
                made = replace(stmt, value=_read(work, stmt.value, known))
                known[stmt.tensor] = made
                result.append(made)
    return result


def _in_tiles(work: _Work, loop: For, known: Mapping[str, Store], before: Sequence[Stmt]) -> tuple[For, list[Store]]:
    """A loop that keeps in tiles what it writes to the same elements over and over, and the stores behind it."""
    inner = {loop.index, *(s.index for s in statements_of(loop.body) if isinstance(s, For))}
    after: list[Store] = []
    for tensor, start in known.items():
        stores = [s for s in statements_of(loop.body) if isinstance(s, Store) and s.tensor == tensor]
        loads = [v for v in values_of(loop.body) if isinstance(v, Load) and v.tensor == tensor]
        moves = any(n in inner for place in start.index for n in place.names()) or names_in(start.mask) & inner
        alike = all(_alike(work, start, s) for s in stores)
        if not stores or moves or not alike or any(_same_elements(work, start, v) is None for v in loads):
            continue
        name = work.name(start)
        place = next((n for n, s in enumerate(before) if s is start), None)
        between = [] if place is None else before[place + 1 :]
        if place is not None and not any(isinstance(v, Load) and v.tensor == tensor for v in values_of(between)):
            work.needless.add(id(start))
        loop = replace(loop, body=tuple(_kept(work, loop.body, start, name)))
        after.append(replace(start, value=Ref(name, start.axes, start.value.dtype), comment=""))
    return loop, after


def _kept(work: _Work, body: Sequence[Stmt], start: Store, name: str) -> Iterator[Stmt]:
    """The statements of a loop with a tile for what they write to the elements of a store."""
    known = {start.tensor: start}
    for stmt in body:
        match stmt:
            case For() | If():
                yield replace(stmt, body=tuple(_kept(work, stmt.body, start, name)))
            case Store() if stmt.tensor == start.tensor:
                yield Let(name, _read(work, stmt.value, known), stmt.axes, comment=stmt.comment)
            case Let() | Store():
                yield replace(stmt, value=_read(work, stmt.value, known))


def _named(work: _Work, body: Sequence[Stmt]) -> list[Stmt]:
    """The statements with a name for each tile that is read again."""
    result: list[Stmt] = []
    for stmt in body:
        if isinstance(stmt, (For, If)):
            result.append(replace(stmt, body=tuple(_named(work, stmt.body))))
        elif isinstance(stmt, Store) and id(stmt) in work.names:
            name = work.names[id(stmt)]
            result.append(Let(name, stmt.value, stmt.axes, comment=stmt.comment))
            if id(stmt) not in work.needless:
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
            return Ref(work.name(store), axes, value.dtype)
        case Elem():
            return replace(value, operands=tuple(_read(work, v, known) for v in value.operands))
        case Where():
            return replace(value, value=_read(work, value.value, known), other=_read(work, value.other, known))
        case Reduce():
            return replace(value, value=_read(work, value.value, known))
        case Dot():
            fold = value.fold and replace(value.fold, start=_read(work, value.fold.start, known))
            return replace(value, a=_read(work, value.a, known), b=_read(work, value.b, known), fold=fold)
        case _:
            return value


def _same_elements(work: _Work, store: Store, load: Load) -> tuple[str, ...] | None:
    """The axes of the stored tile by the names of a load of the same elements; None where they are others."""
    if load.fill is not None:
        return None
    found = _renamed(work, store, load)
    if found is None:
        return None
    names, stored = found
    return names if stored <= {normal(c) for c in parts_of(load.mask)} else None


def _alike(work: _Work, first: Store, second: Store) -> bool:
    """Whether two stores write the same elements."""
    found = _renamed(work, first, second)
    return found is not None and found[0] == second.axes and found[1] == {normal(c) for c in parts_of(second.mask)}


def _renamed(work: _Work, store: Store, other: Store | Load) -> tuple[tuple[str, ...], set[object]] | None:
    """The axes and the conditions of a store by the names of the axes of another access to the same place, or None."""
    renamed: dict[str, str] = {}
    for mine, place in zip(store.index, other.index, strict=True):
        if not isinstance(place, Affine):
            return None
        own, theirs = ([n for n in i.names() if n in a] for i, a in ((mine, store.axes), (place, other.axes)))
        if len(own) != len(theirs) or len(own) > 1:
            return None
        renamed |= dict(zip(own, theirs, strict=True))
    alike = all(work.axes[a].extent == work.axes[b].extent for a, b in renamed.items())
    if set(renamed) != set(store.axes) or len(other.axes) != len(store.axes) or not alike:
        return None
    if [i.renamed(renamed) for i in store.index] != list(other.index):
        return None
    mask = substituted(store.mask, {a: Affine.name(b) for a, b in renamed.items()})
    return tuple(renamed[a] for a in store.axes), {normal(c) for c in parts_of(mask)}
