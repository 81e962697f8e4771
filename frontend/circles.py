"""Why a recurrence has no order: the smallest circle of elements that need one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import islpy as isl

from ..compiler.ir.affine import least_point
from .diagnostic import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..compiler.ir.program import Stage
    from .syntax import Equation

CIRCLE = 3


@dataclass(frozen=True)
class Edge:
    """`relation`: { element of the reader -> element of the producer that it reads }, by the read at *at*."""

    reader: str
    producer: str
    relation: isl.Map
    at: tuple[int, int]


def no_order(edges: list[Edge], by_name: Mapping[str, Stage], equations: Mapping[str, Equation]) -> Fault:
    """The smallest circle of elements, or the statement that no order was found."""
    hint = "read an element that is computed earlier, or write to another tensor"
    paths: list[tuple[Edge, ...]] = [(e,) for e in edges]
    for length in range(1, CIRCLE + 1):
        closed = [path for path in paths if path[0].reader == path[-1].producer]
        found = [(*circle, path[0].at) for path in closed[:64] if (circle := _circle(path, by_name))]
        if found:
            _, text, at = min(found)
            return Fault(at, text, hint)
        if length < CIRCLE:
            paths = [(*path, e) for path in paths for e in edges if path[-1].producer == e.reader][:4096]
    at = next(iter(equations.values())).at
    hint = "read only elements that come earlier (or later) along one index"
    return Fault(at, "no order, index by index, computes this recurrence", hint)


def _circle(path: tuple[Edge, ...], by_name: Mapping[str, Stage]) -> tuple[list[int], str] | None:
    """`U[0, 1] needs U[0, 2], which needs U[0, 1]: a circle, at N=4` for a path of reads that closes.

    With it comes the key by which the least of several circles is chosen: sizes, then the element.
    """
    whole: Any = path[0].relation
    for edge in path[1:]:
        whole = whole.apply_range(edge.relation)
    closed = whole.intersect(isl.Map.identity(whole.get_space()))
    if closed.is_empty():
        return None
    start = closed.domain()
    count = start.dim(isl.dim_type.set)
    for i in range(count):
        start = start.set_dim_name(isl.dim_type.set, i, f"position{i}")
    point = least_point(start) or {}
    sizes = {n: v for n, v in point.items() if not n.startswith("position")}
    element = origin = [point[f"position{i}"] for i in range(count)]
    shown = [_element(by_name[path[0].reader].tensor, element)]
    for i, edge in enumerate(path[:-1]):
        element = _next_element(path, i, sizes, element, origin)
        shown.append(_element(by_name[edge.producer].tensor, element))
    where = ", ".join(f"{n}={v}" for n, v in sizes.items())
    at = f" at {where}" if where else ""
    key = [sum(sizes.values()), *origin]
    if len(path) == 1:
        return key, f"{shown[0]} reads itself{at}"
    chain = ", which needs ".join([*shown[1:], shown[0]])
    return key, f"{shown[0]} needs {chain}: a circle,{at}"


def _next_element(
    path: tuple[Edge, ...], i: int, sizes: Mapping[str, int], element: list[int], origin: list[int]
) -> list[int]:
    """The element that *element* reads by edge i, from which the rest of the path leads back to *origin*."""
    back: Any = path[i + 1].relation
    for edge in path[i + 2 :]:
        back = back.apply_range(edge.relation)
    here: Any = path[i].relation
    for position, value in enumerate(element):
        here = here.fix_val(isl.dim_type.in_, position, isl.Val(value))
    for position, value in enumerate(origin):
        back = back.fix_val(isl.dim_type.out, position, isl.Val(value))
    candidates = here.range().intersect(back.domain())
    for name, value in sizes.items():
        found = candidates.find_dim_by_name(isl.dim_type.param, name)
        if found >= 0:
            candidates = candidates.fix_val(isl.dim_type.param, found, isl.Val(value))
    point = candidates.lexmin().sample_point()
    count = candidates.dim(isl.dim_type.set)
    return [int(point.get_coordinate_val(isl.dim_type.set, p).to_python()) for p in range(count)]


def _element(tensor: str, element: Sequence[int]) -> str:
    return f"{tensor}[{', '.join(map(str, element))}]" if element else tensor
