"""Where tensors lie, and loads and stores of their elements: one, consecutive ones, or one for each lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...compiler.ir.quasiaffine import Affine
from ...compiler.ir.storage import PLAIN
from .builder import Value, is_constant, number
from .floats import loaded, memory_type, register_type, stored
from .positions import VariesError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ...compiler.ir.dtype import DType
    from ...compiler.ir.storage import Storage
    from .builder import Builder
    from .positions import Positions

# A place of an element in a dimension: an expression, or what data give.
Place = Affine | Value


@dataclass
class Buffer:
    """A tensor's memory. *lows*: the first position of each dimension; *counts*: how many it holds; *strides*: of its
    places, in elements. *slots*: of one that is kept in registers, the name and the lanes of each, by the place of its
    first lane; it has no pointer.
    """

    name: str
    dtype: DType
    pointer: str
    lows: list[Affine]
    counts: list[Value]
    strides: list[Value]
    storage: Storage = PLAIN
    slots: dict[tuple[int, ...], tuple[str, int]] | None = None
    # Which slot holds an element.
    holders: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict[tuple[int, ...], tuple[int, ...]])
    # The function whose registers they are.
    owner: Builder | None = None
    # Whether narrow floats lie in it as registers have them: as f32, so that nothing is converted on the way.
    wide: bool = False

    @property
    def type(self) -> str:
        """What an element is in memory."""
        return register_type(self.dtype) if self.wide else memory_type(self.dtype)

    @property
    def size(self) -> int:
        """The bytes of an element."""
        return 4 if self.wide else self.dtype.bits // 8


class HeldError(Exception):
    """A place of what is to be kept in registers is no number."""


def places_of(p: Positions, buffer: Buffer, position: Sequence[Place]) -> list[Place]:
    """The place of a position in each dimension of the memory."""
    relative = [_less(p, at, low) for at, low in zip(position, buffer.lows, strict=True)]
    storage = buffer.storage
    if not (storage.layout or storage.fold or storage.swizzle):
        return relative
    # What data decide stands in layouts as a name of its own.
    plain: dict[int, Affine] = {}
    folded = dict(storage.fold)
    for dimension, at in enumerate(position):
        # A folded place goes by the position itself, not from where the buffer starts.
        value = at if dimension in folded else relative[dimension]
        if isinstance(value, Value):
            if value.lanes > 1:
                raise VariesError
            name = f"{buffer.name} at {len(p.names)}"
            p.names[name] = value
            value = Affine.name(name)
        plain[dimension] = value
    places: list[Place] = list(storage.places(plain, len(position)))
    if storage.swizzle:
        row, column = (p.spread(a) for a in places[-2:] if isinstance(a, Affine))
        places[-1] = p.b.binary("xor", column, p.divided("%", row, storage.swizzle))
    return places


def _less(p: Positions, at: Place, low: Affine) -> Place:
    if isinstance(at, Affine):
        return at - low
    return at if low == Affine() else p.b.binary("sub", at, p.scalar(low))


@dataclass
class Where:
    """Where the lanes of an access are: *first*, in elements, and by how much the next one is further (None: *all* has
    every lane's)."""

    first: Value
    step: Value | None
    all: Value | None = None


def where(p: Positions, buffer: Buffer, places: Sequence[Place]) -> Where:
    """The elements at some places, in the order of the lanes."""
    b = p.b
    steps = [p.step(a) if isinstance(a, Affine) else (None if a.lanes > 1 else 0) for a in places]
    if None not in steps:
        first, step = number(0, "i64"), number(0, "i64")
        for place, grows, stride in zip(places, steps, buffer.strides, strict=True):
            at = p.scalar(place) if isinstance(place, Affine) else place
            first = p.plus(first, p.times(at, stride))
            if grows:
                step = p.plus(step, p.times(number(grows, "i64"), stride))
        return Where(first, step)
    total = number(0, "i64")
    for place, stride in zip(places, buffer.strides, strict=True):
        at = p.spread(place) if isinstance(place, Affine) else place
        total = b.binary("add", total, b.binary("mul", at, stride))
    return Where(total, None, total)


def load(
    p: Positions, buffer: Buffer, places: Sequence[Place], inside: Value | None = None, sure: Collection[int] = ()
) -> Value:
    """The elements at some places; *inside*: the lanes in which they are there to be read, others hold anything;
    *sure*: the dimensions in which they are in any case."""
    if buffer.slots is not None:
        slot, lanes = _slot(p, buffer, places)
        type = register_type(buffer.dtype)
        full = type if lanes == 1 else f"<{lanes} x {type}>"
        return p.b.made(f"load {full}, ptr {slot}", type, lanes)
    found = _raw(p, buffer, places, inside, sure)
    return found if buffer.wide else loaded(p.b, found, buffer.dtype)


def _raw(p: Positions, buffer: Buffer, places: Sequence[Place], inside: Value | None, sure: Collection[int]) -> Value:
    b, type = p.b, buffer.type
    found = where(p, buffer, places)
    if p.mask is not None and (found.step is None or found.step.text != "0"):
        inside = p.mask if inside is None else b.binary("and", inside, p.mask)
    one = found.step is not None and (found.step.text == "0" or p.lanes == 1)
    if one and inside is not None and inside.lanes == 1 and sure and buffer.storage == PLAIN:
        return b.made(f"load {type}, ptr {_nearby(p, buffer, places, inside, sure)}{_align(buffer)}", type)
    if one and (inside is None or inside.lanes == 1):
        return b.made(f"load {type}, ptr {_pointer(p, buffer, found.first, inside)}{_align(buffer)}", type)
    if found.step is not None and found.step.text == "1":
        full = f"<{p.lanes} x {type}>"
        if inside is None:
            pointer = _pointer(p, buffer, found.first, None)
            return b.made(f"load {full}, ptr {pointer}{_align(buffer)}", type, p.lanes)
        pointer = b.made(f"getelementptr {type}, ptr {buffer.pointer}, {found.first}", "ptr").text
        inside = b.spread(inside, p.lanes)
        name = f"llvm.masked.load.v{p.lanes}{_short(type)}.p0"
        b.declared[name] = f"declare {full} @{name}(ptr, i32, <{p.lanes} x i1>, {full})"
        text = f"ptr {pointer}, i32 {buffer.size}, {inside}, {full} zeroinitializer"
        return b.made(f"call {full} @{name}({text})", type, p.lanes)
    parts: list[Value] = []
    for lane, at in enumerate(_each(p, found)):
        pointer = _pointer(p, buffer, at, None if inside is None else b.lane(inside, lane))
        parts.append(b.made(f"load {type}, ptr {pointer}{_align(buffer)}", type))
    return b.joined(parts)


def store(p: Positions, buffer: Buffer, places: Sequence[Place], value: Value) -> None:
    """Write the elements at some places."""
    if buffer.slots is not None:
        slot, lanes = _slot(p, buffer, places)
        if value.lanes > lanes:
            raise VariesError
        value = p.b.spread(value, lanes)
        if p.mask is not None and lanes > 1:
            # Lanes that take no part keep what they hold.
            value = p.b.selected(p.mask, value, load(p, buffer, places))
        p.b.line(f"store {value}, ptr {slot}")
        return
    b = p.b
    value = value if buffer.wide else stored(b, value, buffer.dtype)
    found = where(p, buffer, places)
    if p.lanes == 1 or (found.step is not None and found.step.text == "0"):
        if value.lanes > 1:
            raise VariesError
        b.line(f"store {value}, ptr {_pointer(p, buffer, found.first, None)}{_align(buffer)}")
        return
    value = b.spread(value, p.lanes)
    if p.mask is not None:
        if found.step is None or found.step.text != "1":
            raise VariesError
        name = f"llvm.masked.store.v{p.lanes}{_short(value.type)}.p0"
        b.declared[name] = f"declare void @{name}({value.full}, ptr, i32, <{p.lanes} x i1>)"
        pointer = _pointer(p, buffer, found.first, None)
        b.line(f"call void @{name}({value}, ptr {pointer}, i32 {buffer.size}, {p.mask})")
        return
    if found.step is not None and found.step.text == "1":
        how = f", align {buffer.size * p.lanes}, !nontemporal !0" if p.streams else _align(buffer)
        b.line(f"store {value}, ptr {_pointer(p, buffer, found.first, None)}{how}")
        return
    for lane, at in enumerate(_each(p, found)):
        b.line(f"store {b.lane(value, lane)}, ptr {_pointer(p, buffer, at, None)}{_align(buffer)}")


def address(p: Positions, buffer: Buffer, places: Sequence[Place]) -> Value:
    """The address of an element, as a number."""
    pointer = _pointer(p, buffer, where(p, buffer, places).first, None)
    return p.b.made(f"ptrtoint ptr {pointer} to i64", "i64")


def _each(p: Positions, found: Where) -> list[Value]:
    """The element of each lane."""
    if found.step is None:
        assert found.all is not None
        return [p.b.lane(found.all, n) for n in range(p.lanes)]
    return [p.plus(found.first, p.times(number(n, "i64"), found.step)) for n in range(p.lanes)]


def _pointer(p: Positions, buffer: Buffer, at: Value, inside: Value | None) -> str:
    """The address of an element; of one that nobody may read, that of a few zeros."""
    b, type = p.b, buffer.type
    # The first lane of a vector may lie outside, if it takes no part.
    sure = " inbounds" if inside is None and p.mask is None else ""
    place = b.made(f"getelementptr{sure} {type}, ptr {buffer.pointer}, {at}", "ptr")
    if inside is None:
        return place.text
    b.tables["@nothing"] = "@nothing = private constant [64 x i8] zeroinitializer, align 64"
    return b.made(f"select {inside}, {place}, ptr @nothing", "ptr").text


def _nearby(p: Positions, buffer: Buffer, places: Sequence[Place], inside: Value, sure: Collection[int]) -> str:
    """The address of an element, or of the first one of those that it is among in the dimensions that are *sure*.

    What is chosen does not hang on the sure positions, so that a loop over them chooses once.
    """
    b, zero = p.b, number(0, "i64")
    chosen, rest, some = zero, zero, number(True, "i1")
    for dimension, (place, stride) in enumerate(zip(places, buffer.strides, strict=True)):
        step = p.times(p.scalar(place) if isinstance(place, Affine) else place, stride)
        if dimension in sure:
            rest = p.plus(rest, step)
            continue
        chosen = p.plus(chosen, step)
        there = b.compared("icmp sgt", buffer.counts[dimension], zero)
        some = there if is_constant(some) else b.binary("and", some, there)
    b.tables["@nothing"] = "@nothing = private constant [64 x i8] zeroinitializer, align 64"
    # Of an empty tensor there is no element.
    start = b.made(f"select {some}, ptr {buffer.pointer}, ptr @nothing", "ptr")
    first = b.made(f"getelementptr {buffer.type}, {start}, {b.selected(inside, chosen, zero)}", "ptr")
    return b.made(f"getelementptr {buffer.type}, {first}, {b.selected(some, rest, zero)}", "ptr").text


def _slot(p: Positions, buffer: Buffer, places: Sequence[Place]) -> tuple[str, int]:
    """The register of a place, made where it is new, and its lanes."""
    assert buffer.slots is not None
    if buffer.owner is not p.b:
        raise HeldError  # threads share what lies outside of their loop
    key: list[int] = []
    lanes, along = 1, 0
    for place in places:
        if isinstance(place, Value):
            raise HeldError
        at = p.resolved(place.substituted(p.repeated) if p.repeated else place)
        step = p.step(at) if p.vector else 0
        if step:
            if step != 1 or p.first is None or lanes > 1:
                raise HeldError
            lanes, along = p.lanes, len(key)
            at = at - Affine.name(p.vector) + p.first
        if not at.is_number:
            raise HeldError
        key.append(at.constant)
    covered = [(*key[:along], key[along] + n, *key[along + 1 :]) for n in range(lanes)] if key else [()]
    if tuple(key) not in buffer.slots:
        if any(element in buffer.holders for element in covered):
            raise HeldError  # lanes of another register
        buffer.holders |= dict.fromkeys(covered, tuple(key))
        type = register_type(buffer.dtype)
        made = p.b.slot(type if lanes == 1 else f"<{lanes} x {type}>", "held")
        buffer.slots[tuple(key)] = made, lanes
    found = buffer.slots[tuple(key)]
    if found[1] != lanes or any(buffer.holders.get(element) != tuple(key) for element in covered):
        raise HeldError
    return found


def _align(buffer: Buffer) -> str:
    return f", align {buffer.size}"


def _short(type: str) -> str:
    return {"float": "f32", "double": "f64"}.get(type, type)
