"""A scalar interpreter: statements one instance at a time, in the order of a loop tree.

Slow and plain. It shares the program with the back ends, but neither their code nor NumPy's arithmetic:
values are Python floats, ints and bools, and every operation is one of `scalar.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .elementary import sequence
from .elementary.evaluate import evaluate as evaluate_sequence
from .expr import (
    Allow,
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Index,
    Logic,
    Partial,
    Read,
    Scalar,
    Select,
    Unary,
)
from .fold import Folding, added, factors_of, folded, unit_of
from .nest import definition_tree
from .scalar import binary, cast, compare, fma, round_to, unary
from .trampoline import Deep, run
from .tree import Node, distributed, loops, placed
from .walk import walker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from .program import Program, Statement, Tensor
    from .storage import Storage

Number = float | int | bool
Pair = tuple[float, float]


class OutsideError(Exception):
    """A read outside a tensor, or of what nothing has written. *output*: the output that it spoils, once known."""

    output: str = ""


@dataclass
class Store:
    """The elements of every tensor by position, and the values of sizes and scalars."""

    program: Program
    sizes: Mapping[str, int]
    scalars: Mapping[str, Number]
    elements: dict[str, dict[tuple[int, ...], Number]] = field(default_factory=dict)  # pyright: ignore
    # Elements whose computation read outside a tensor, or what nothing had written.
    faults: dict[tuple[str, tuple[int, ...]], OutsideError] = field(default_factory=dict)  # pyright: ignore
    # For private tensors, the iterations of the loops around that have a buffer of their own.
    scopes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # pyright: ignore
    # How the buffers of those are laid out: elements may share a place.
    layouts: Mapping[str, Storage] = field(default_factory=dict)  # pyright: ignore
    # Accumulators of matrix units, in the middle of their sums.
    foldings: dict[tuple[str, tuple[int, ...]], Folding] = field(default_factory=dict)  # pyright: ignore

    def _key(self, tensor: str, position: tuple[int, ...]) -> tuple[int, ...]:
        layout = self.layouts.get(tensor)
        return (*self.scopes.get(tensor, ()), *(position if layout is None else layout.slot(position)))

    def element(self, tensor: str, position: tuple[int, ...]) -> Number:
        """An element that has been computed."""
        key = self._key(tensor, position)
        fault = self.faults.get((tensor, key))
        if fault is not None:
            raise fault
        if key not in self.elements[tensor]:
            shown = f"{tensor}[{', '.join(map(str, position))}]" if position else tensor
            raise OutsideError(f"{shown} is read before it is written")
        return self.elements[tensor][key]

    def write(self, tensor: str, position: tuple[int, ...], value: Number) -> None:
        key = self._key(tensor, position)
        self.faults.pop((tensor, key), None)
        self.foldings.pop((tensor, key), None)
        self.elements[tensor][key] = value

    def fold(self, statement: Statement, values: Mapping[str, int], position: tuple[int, ...], pair: Pair) -> None:
        """One element more in the sum of a matrix unit."""
        assert statement.reduction is not None
        order, unit = statement.reduction.order, unit_of(statement.reduction.order, added(statement.value))
        key = (statement.tensor, self._key(statement.tensor, position))
        kept = {n for a in statement.position for n in a.names()}
        point = [values[n] for n in statement.iterators if n not in kept]
        value = float(self.element(statement.tensor, position))
        state, value = folded(self.foldings.get(key), value, point, pair, unit, order.promote)
        self.write(statement.tensor, position, value)
        self.foldings[key] = state

    def fail(self, tensor: str, position: tuple[int, ...], error: OutsideError) -> None:
        key = self._key(tensor, position)
        self.elements[tensor].pop(key, None)
        self.faults[tensor, key] = error

    def box(self, tensor: Tensor) -> list[tuple[int, int]]:
        """(first position, number of positions) of each dimension."""
        return [e.interval(self.sizes) for e in tensor.extents]


def interpret(
    program: Program,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    sizes: Mapping[str, int],
    scalars: Mapping[str, Number],
    tree: Sequence[Node] | None = None,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run a program on arrays that fit it; the outputs as new arrays.

    *tree* is the order to run in (None: that of the definition).

    Raises:
        OutsideError: a gather reads outside its tensor.
    """
    import numpy as np

    store = Store(program, sizes, scalars)
    for name, tensor in program.tensors.items():
        store.elements[name] = {}
        if tensor.role == "input":
            array = arrays[name]
            store.elements[name] = {i: _number(array[i], tensor) for i in np.ndindex(array.shape)}
        elif tensor.role == "constant":
            shape = tuple(e.upper[0].constant for e in tensor.extents)
            store.elements[name] = dict(zip(np.ndindex(shape), tensor.values, strict=True))
    run_tree(store, definition_tree(program) if tree is None else tree)
    for (tensor, _), fault in store.faults.items():
        if tensor in program.outputs:
            fault.output = tensor
            raise fault
    return {name: _array(store, program.tensors[name]) for name in program.outputs}


def _number(value: Any, tensor: Tensor) -> Number:
    return float(value) if tensor.dtype.is_float else bool(value) if tensor.dtype.is_bool else int(value)


def _array(store: Store, tensor: Tensor) -> np.ndarray[Any, Any]:
    import numpy as np

    shape = tuple(count for _, count in store.box(tensor))
    result = np.zeros(shape, tensor.dtype.numpy)
    for position, value in store.elements[tensor.name].items():
        result[position] = value
    if len(store.elements[tensor.name]) < result.size:
        position = next(i for i in np.ndindex(shape) if i not in store.elements[tensor.name])
        shown = f"{tensor.name}[{', '.join(map(str, position))}]" if position else tensor.name
        error = OutsideError(f"{shown} is never written")
        error.output = tensor.name
        raise error
    return result


def run_tree(store: Store, tree: Sequence[Node]) -> None:
    """Run every leaf instance of a tree in order."""
    statements = {s.name: s for s in store.program.statements}
    tree = distributed(tree) if any(loop.kind == "block" for loop in loops(tree)) else tree
    leaves = [
        (statements[p.leaf.statement], p, [(t, p.versions(t)) for t, _ in p.scopes], dict(p.storages))
        for p in placed(tree)
    ]

    def visit(number: int, *indices: int) -> None:
        statement, item, scopes, layouts = leaves[number]
        loops = dict(zip(item.leaf.indices, indices, strict=True))
        point = {**store.sizes, **loops}
        values = {
            **store.sizes,
            **dict(zip(statement.iterators, (a.evaluate(point) for a in item.leaf.instance), strict=True)),
        }
        store.scopes = {
            tensor: tuple(i % v if v else i for i, v in zip(indices, versions, strict=False))
            for tensor, versions in scopes
        }
        store.layouts = layouts
        position = tuple(a.evaluate(values) for a in statement.position)
        try:
            if statement.folds:
                left, right = (float(run(_value(f, values, store))) for f in factors_of(added(statement.value)))
                store.fold(statement, values, position, (left, right))
                return
            value = run(_value(statement.value, values, store))
        except OutsideError as error:
            # It matters only if something that matters reads this element: a branch not taken does not.
            store.fail(statement.tensor, position, error)
        else:
            store.write(statement.tensor, position, value)

    walker(store.program, tuple(tree))(store.sizes, visit)


def evaluate(expr: Expr, values: Mapping[str, int], scalars: Mapping[str, Number], program: Program) -> Number:
    """The value of an expression that reads no tensor, such as a condition of `where`."""
    return run(_value(expr, values, Store(program, values, scalars)))


def _value(node: Expr, values: Mapping[str, int], store: Store) -> Deep[Number]:
    match node:
        case Const():
            return node.value
        case Index():
            return _wrapped(node.affine.evaluate(values))
        case Scalar():
            return store.scalars[node.name]
        case Read():
            result = yield _read(node, values, store)
        case Unary():
            x = yield _value(node.operand, values, store)
            result = unary(node.op, x, node.dtype)
        case Binary():
            a = yield _value(node.left, values, store)
            b = yield _value(node.right, values, store)
            result = binary(node.op, a, b, node.dtype)
        case Compare():
            a = yield _value(node.left, values, store)
            b = yield _value(node.right, values, store)
            result = compare(node.op, a, b)
        case Logic(op, operands):
            result = yield _value(operands[0], values, store)
            if op == "not":
                return not result
            if bool(result) != (op == "or"):
                result = yield _value(operands[1], values, store)
        case Select():
            chosen = yield _value(node.condition, values, store)
            result = yield _value(node.then if chosen else node.other, values, store)
        case Cast():
            x = yield _value(node.operand, values, store)
            result = cast(x, node.operand.dtype, node.dtype, node.saturating)
        case Call():
            result = yield _call(node, values, store)
        case Allow():
            result = yield _value(node.operand, values, store)
        case Partial():
            prefix = tuple(s.affine.evaluate(values) for s in node.prefix)
            result = _merged(node, [store.element(node.tensor, (*prefix, lane)) for lane in range(node.count)])
        case _:
            raise TypeError(f"{type(node).__name__} does not stand in a statement")
    return result


def _wrapped(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _read(node: Read, values: Mapping[str, int], store: Store) -> Deep[Number]:
    position: list[int] = []
    for sub in node.subscripts:
        position.append(int((yield _value(sub, values, store))))
    box = store.box(store.program.tensors[node.tensor])
    if any(not low <= p < low + count for p, (low, count) in zip(position, box, strict=True)):
        if node.fill is None:
            raise OutsideError(f"{node.tensor}[{', '.join(map(str, position))}] is outside its shape")
        result = yield _value(node.fill, values, store)
        return result
    return store.element(node.tensor, tuple(position))


def _call(node: Call, values: Mapping[str, int], store: Store) -> Deep[Number]:
    arguments: list[Number] = []
    for argument in node.arguments:
        arguments.append((yield _value(argument, values, store)))
    if node.function == "fma":
        return fma(arguments[0], arguments[1], arguments[2], node.dtype)
    wide = evaluate_sequence(sequence(node.function, node.dtype.wide), arguments[0])
    return round_to(node.dtype, wide)


def _merged(node: Partial, lanes: list[Number]) -> Number:
    """Adjacent lanes combined until one is left."""
    op = {"sum": "+", "prod": "*"}[node.op]
    while len(lanes) > 1:
        lanes = [binary(op, a, b, node.dtype) for a, b in zip(lanes[0::2], lanes[1::2], strict=True)]
    return lanes[0]
