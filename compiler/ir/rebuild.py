"""Expressions with parts of them replaced."""

from __future__ import annotations

from dataclasses import replace

from .expr import Allow, Binary, Call, Cast, Compare, Expr, Logic, Read, Reduce, Select, Unary, children


def rebuilt(root: Expr, replaced: dict[int, Expr]) -> Expr:
    """The expression with nodes (by identity) replaced; parts without a replacement are kept as they are."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if id(node) in done:
            continue
        if id(node) in replaced:
            done[id(node)] = replaced[id(node)]
        elif ready:
            done[id(node)] = with_children(node, tuple(done[id(c)] for c in children(node)))
        else:
            stack.append((node, True))
            stack.extend((c, False) for c in children(node))
    return done[id(root)]


def with_children(node: Expr, new: tuple[Expr, ...]) -> Expr:
    """The node over other operands (in the order of `children`); itself where they are the same."""
    if all(a is b for a, b in zip(children(node), new, strict=True)):
        return node
    match node:
        case Read():
            count = len(node.subscripts)
            return replace(node, subscripts=new[:count], fill=new[count] if node.fill is not None else None)
        case Allow(operand=Reduce()) if isinstance(new[0], Read):
            return new[0]  # what was granted to the reduction is noted in its statements
        case Unary() | Cast() | Allow():
            return replace(node, operand=new[0])
        case Binary() | Compare():
            return replace(node, left=new[0], right=new[1])
        case Logic():
            return replace(node, operands=new)
        case Select():
            return replace(node, then=new[0], condition=new[1], other=new[2])
        case Call():
            return replace(node, arguments=new)
        case Reduce():
            return replace(node, body=new[0])
        case _:
            return node
