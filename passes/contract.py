"""contract and widen: fewer roundings, where the kernel permits it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..compiler.ir.dtype import DTYPES
from ..compiler.ir.expr import Allow, Binary, Call, Cast, Read, Reduce, Unary, children, postorder
from ..compiler.ir.rebuild import with_children
from .compute_at import find_stage
from .rewrite import in_order, with_stages
from .state import Need, State, shape

if TYPE_CHECKING:
    from ..compiler.ir.dtype import DType
    from ..compiler.ir.expr import Expr
    from ..compiler.ir.program import Program, Stage


def contract(state: State, stage: str) -> State:
    """Compute `a * b + c` with one rounding, by `fma`, everywhere in an equation: in the steps of its sums too.

    Needs `contract`, in the kernel or round each such expression.

    Raises:
        IllegalTransformError: no such equation, or it multiplies and adds nowhere (rule shape).
    """
    step = f"contract({stage})"
    find_stage(state.program, stage, step)
    found = state.program.stage(stage)
    granted = _granted(state.program, found)
    done: dict[int, Expr] = {}
    needs: list[Need] = []
    for node in postorder(found.value):
        inner = with_children(node, tuple(done[id(c)] for c in children(node)))
        fused = _fused(inner)
        done[id(node)] = fused or inner
        if fused is not None and "contract" not in granted[id(node)]:
            needs.append(Need("contract", stage, node.span, "the product would not be rounded before it is added"))
    value = done[id(found.value)]
    if value is found.value:
        raise shape(step, f"{stage} adds no product of floats", "contract turns a * b + c into fma(a, b, c)")
    stages = [replace(s, value=value) if s is found else s for s in in_order(state.program)]
    return State(with_stages(state.program, stages, state.program.tensors), state.tree, tuple(needs))


def _fused(node: Expr) -> Expr | None:
    """A sum with a product in it as one operation."""
    if isinstance(node, Reduce):
        body = node.body
        product = isinstance(body, Binary) and body.op == "*" and node.op == "sum" and node.dtype.is_float
        return replace(node, fused=True) if product and node.order.kind != "mma" and not node.fused else None
    if not isinstance(node, Binary) or node.op not in ("+", "-") or not node.dtype.is_float:
        return None
    left, right = node.left, node.right
    if isinstance(left, Binary) and left.op == "*":
        other = right if node.op == "+" else Unary("-", right, node.dtype, node.span)
        return Call("fma", (left.left, left.right, other), node.dtype, node.span)
    if isinstance(right, Binary) and right.op == "*":
        first = right.left if node.op == "+" else Unary("-", right.left, node.dtype, node.span)
        return Call("fma", (first, right.right, left), node.dtype, node.span)
    return None


def _granted(program: Program, stage: Stage) -> dict[int, frozenset[str]]:
    """For each node of an equation, what is permitted there."""
    found: dict[int, frozenset[str]] = {}
    stack: list[tuple[Expr, frozenset[str]]] = [(stage.value, frozenset(program.permissions))]
    while stack:
        node, allowed = stack.pop()
        if isinstance(node, Reduce):
            allowed = allowed | set(node.permissions)
        if isinstance(node, Allow):
            allowed = allowed | set(node.permissions)
        # A node that two expressions share is permitted what both are.
        known = found.get(id(node))
        if known is not None and known <= allowed:
            continue
        found[id(node)] = allowed if known is None else known & allowed
        stack += [(c, found[id(node)]) for c in children(node)]
    return found


def widen(state: State, stage: str, name: str) -> State:
    """Keep a tensor in a wider type, without the rounding to its own.

    Needs `elide`, in the kernel or round the cast, where the equation ends in a cast; where it computes in its own
    type, the wider one holds the same values, and nothing changes.

    Raises:
        IllegalTransformError: no such equation or type, the tensor is an output, or the type does not hold every value
            of the old one (rule shape).
    """
    step = f"widen({stage}, {name})"
    program = state.program
    find_stage(program, stage, step)
    tensor = program.tensors[program.stage(stage).tensor]
    wide = DTYPES.get(name)
    if wide is None:
        raise shape(step, f"there is no type {name}", f"the types are {', '.join(DTYPES)}")
    if tensor.name in program.outputs:
        raise shape(step, f"{tensor.name} is an output: its type is the kernel's", "widen an intermediate")
    if wide == tensor.dtype or not holds_all(wide, tensor.dtype):
        raise shape(step, f"{wide} is not wider than {tensor.dtype}", "a type that holds every value of the old one")
    for other in program.stages:
        if other.copies and isinstance(other.value, Read) and tensor.name in (other.tensor, other.value.tensor):
            raise shape(
                step, f"{other.name} copies it, and a copy has the type of what it copies", "widen before caching"
            )
    needs: list[Need] = []
    stages: list[Stage] = []
    for other in in_order(program):
        value = _read_wide(other.value, tensor.name, wide)
        if other.tensor == tensor.name:
            granted = _granted(program, other)
            value, dropped = _kept_wide(value, tensor.dtype, wide)
            if dropped is not None and "elide" not in _where(granted, other.value):
                text = f"the rounding of {tensor.name} to {tensor.dtype} would be dropped"
                needs.append(Need("elide", other.name, dropped.span, text))
        stages.append(other if value is other.value else replace(other, value=value))
    tensors = {**program.tensors, tensor.name: replace(tensor, dtype=wide)}
    return State(with_stages(program, stages, tensors), state.tree, tuple(needs))


def _where(granted: dict[int, frozenset[str]], value: Expr) -> frozenset[str]:
    """What is permitted at the outermost operation of an equation."""
    while isinstance(value, Allow):
        value = value.operand
    return granted[id(value)]


def _kept_wide(value: Expr, narrow: DType, wide: DType) -> tuple[Expr, Cast | None]:
    """A value in the wider type, and the rounding that this drops."""
    if isinstance(value, Allow):
        inner, dropped = _kept_wide(value.operand, narrow, wide)
        return replace(value, operand=inner, dtype=wide), dropped
    if isinstance(value, Cast) and not value.saturating and value.operand.dtype.is_float:
        operand = value.operand
        rounds = not holds_all(narrow, operand.dtype)
        kept = operand if operand.dtype == wide else replace(value, operand=operand, dtype=wide)
        return kept, value if rounds else None
    return Cast(value, wide, span=value.span), None


def _read_wide(value: Expr, tensor: str, wide: DType) -> Expr:
    """An expression that reads the tensor in the wider type: casts of it start from there, the rest rounds first."""
    done: dict[int, Expr] = {}
    for node in postorder(value):
        inner = with_children(node, tuple(done[id(c)] for c in children(node)))
        if isinstance(inner, Read) and inner.tensor == tensor:
            fill = None if inner.fill is None else Cast(inner.fill, wide)
            inner = Cast(replace(inner, dtype=wide, fill=fill), inner.dtype, span=inner.span)
        elif isinstance(node, Cast) and isinstance(node.operand, Read) and node.operand.tensor == tensor:
            cast = done[id(node.operand)]
            assert isinstance(cast, Cast)
            inner = cast.operand if node.dtype == wide else replace(node, operand=cast.operand)
        done[id(node)] = inner
    return done[id(value)]


def holds_all(wide: DType, narrow: DType) -> bool:
    """Whether every value of one float type is one of another."""
    if not (wide.is_float and narrow.is_float):
        return wide == narrow
    reach = wide.largest >= narrow.largest and wide.emin <= narrow.emin
    return reach and wide.precision >= narrow.precision and (wide.overflow == "inf" or narrow.overflow == "nan")
