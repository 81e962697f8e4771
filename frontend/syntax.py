"""The syntax tree of a .tx file. *at* is the (start, end) of a node in the text."""

from __future__ import annotations

from dataclasses import dataclass

At = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Number:
    text: str
    at: At


@dataclass(frozen=True, eq=False)
class Name:
    text: str
    at: At


@dataclass(frozen=True, eq=False)
class Access:
    """`tensor[subscripts]`."""

    tensor: Name
    subscripts: tuple[Node, ...]
    at: At


@dataclass(frozen=True, eq=False)
class Binder:
    """`name in low..high`."""

    name: Name
    low: Node
    high: Node
    at: At


@dataclass(frozen=True, eq=False)
class Option:
    """`name=value` among the arguments of a reduction."""

    name: Name
    value: Node
    at: At


@dataclass(frozen=True, eq=False)
class Call:
    function: Name
    arguments: tuple[Node, ...]
    at: At


@dataclass(frozen=True, eq=False)
class Reduction:
    """`call body`, e.g. `sum(k) A[i, k]`."""

    call: Call
    body: Node
    at: At


@dataclass(frozen=True, eq=False)
class Padded:
    """`access else fill`."""

    access: Access
    fill: Node
    at: At


@dataclass(frozen=True, eq=False)
class Granted:
    """`allow permissions in operand`."""

    permissions: tuple[Permission, ...]
    operand: Node
    at: At


@dataclass(frozen=True, eq=False)
class Unary:
    """`-operand` or `not operand`."""

    op: str
    operand: Node
    at: At


@dataclass(frozen=True, eq=False)
class Binary:
    """Arithmetic, a comparison, `and`, `or`."""

    op: str
    left: Node
    right: Node
    at: At


@dataclass(frozen=True, eq=False)
class Select:
    """`then if condition else other`."""

    then: Node
    condition: Node
    other: Node
    at: At


@dataclass(frozen=True, eq=False)
class Saturate:
    """`sat type(operand)`."""

    call: Call
    at: At


Node = (
    Number | Name | Access | Binder | Option | Call | Reduction | Padded | Granted | Unary | Binary | Select | Saturate
)


@dataclass(frozen=True, eq=False)
class Permission:
    name: Name
    number: Number | None


@dataclass(frozen=True, eq=False)
class Parameter:
    """`name: type[shape]`; *shape* is None for a scalar."""

    name: Name
    type: Name
    shape: tuple[Node, ...] | None
    at: At


@dataclass(frozen=True, eq=False)
class Constant:
    name: Name
    value: Node
    at: At


@dataclass(frozen=True, eq=False)
class Array:
    entries: tuple[Array | Node, ...]
    at: At


@dataclass(frozen=True, eq=False)
class Table:
    """`const name: type[shape] = [[..], ..]`."""

    name: Name
    type: Name
    shape: tuple[Node, ...]
    entries: Array
    at: At


@dataclass(frozen=True, eq=False)
class Function:
    name: Name
    parameters: tuple[Name, ...]
    body: Node
    at: At


@dataclass(frozen=True, eq=False)
class Grant:
    """A kernel-wide `allow`."""

    permissions: tuple[Permission, ...]
    at: At


@dataclass(frozen=True, eq=False)
class Let:
    parameter: Parameter
    at: At


@dataclass(frozen=True, eq=False)
class Equation:
    """`tensor[lefts] = value`; *lefts* is None for a tensor of rank 0."""

    tensor: Name
    lefts: tuple[Node, ...] | None
    value: Node
    at: At


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel. *missing* holds the left-hand names of equations that did not parse."""

    name: Name
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    promises: tuple[Node, ...]
    statements: tuple[Grant | Let | Equation, ...]
    at: At


@dataclass(frozen=True, eq=False)
class File:
    constants: tuple[Constant, ...]
    tables: tuple[Table, ...]
    functions: tuple[Function, ...]
    kernels: tuple[Kernel, ...]


def parts(node: Node) -> tuple[Node, ...]:
    """The nodes directly below an expression node, in the order of the text."""
    match node:
        case Number() | Name():
            return ()
        case Access():
            return node.subscripts
        case Binder():
            return (node.low, node.high)
        case Option():
            return (node.value,)
        case Call():
            return node.arguments
        case Reduction():
            return (node.call, node.body)
        case Padded():
            return (node.access, node.fill)
        case Granted() | Unary():
            return (node.operand,)
        case Binary():
            return (node.left, node.right)
        case Select():
            return (node.then, node.condition, node.other)
        case Saturate():
            return (node.call,)
