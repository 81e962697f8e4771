"""Syntax nodes, built while the parser reduces (so that no depth of nesting recurses)."""

# The methods are named for the rules of the grammar and take what lark hands them.
# pyright: basic
from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Transformer

from . import syntax as s
from .diagnostic import Fault
from .scan import Token

BODY = "what follows the body of a reduction is ambiguous"
BODY_HINT = "write (sum(k) a * b) + c or sum(k) (a * b + c)"


def _at(first: Any, last: Any) -> s.At:
    """The extent from one token or node to another."""
    start = first.start if isinstance(first, Token) else first.at[0]
    return start, last.end if isinstance(last, Token) else last.at[1]


def _name(token: Token) -> s.Name:
    return s.Name(token.text, (token.start, token.end))


def _nodes(children: list[Any]) -> tuple[Any, ...]:
    return tuple(c for c in children if not isinstance(c, Token))


class Build(Transformer):
    """One method for each rule of grammar.lark."""

    def start(self, items):
        kinds = (s.Constant, s.Table, s.Function, s.Kernel)
        constants, tables, functions, kernels = (tuple(i for i in items if isinstance(i, kind)) for kind in kinds)
        return s.File(constants, tables, functions, kernels)  # pyright: ignore[reportArgumentType]  # sorted just above

    def constant(self, c):
        return s.Constant(_name(c[1]), c[3], _at(c[0], c[3]))

    def table(self, c):
        return s.Table(_name(c[1]), _name(c[3]), c[5], c[8], _at(c[0], c[8]))

    def array(self, c):
        return s.Array(_nodes(c), _at(c[0], c[-1]))

    def function(self, c):
        names = [t for t in c if isinstance(t, Token) and t.type == "NAME"]
        return s.Function(_name(names[0]), tuple(_name(t) for t in names[1:]), c[-2], _at(c[0], c[-2]))

    def kernel(self, c):
        _, name, _, inputs, _, _, _, outputs, _, promises, _, *statements, _, _ = c
        found = _nodes(statements)
        return s.Kernel(_name(name), inputs or (), outputs, promises or (), found, _at(c[0], name))

    def params(self, c):
        return _nodes(c)

    def param(self, c):
        name, _, type_, _, shape, _ = c
        return s.Parameter(_name(name), _name(type_), shape, _at(name, c[-1] or type_))

    def promises(self, c):
        return _nodes(c)

    def allow(self, c):
        return s.Grant(c[1], _at(c[0], c[2]))

    def permissions(self, c):
        return _nodes(c)

    def permission(self, c):
        number = s.Number(c[2].text, (c[2].start, c[2].end)) if c[2] else None
        return s.Permission(_name(c[0]), number)

    def let(self, c):
        _, name, _, type_, _, shape, _, _ = c
        parameter = s.Parameter(_name(name), _name(type_), shape, _at(name, c[-2] or type_))
        return s.Let(parameter, _at(c[0], c[-2] or type_))

    def equation(self, c):
        name, opened, lefts, closed, _, value, _ = c
        return s.Equation(_name(name), lefts if opened else None, value, _at(name, closed or name))

    def lefts(self, c):
        return _nodes(c)

    def binder(self, c):
        return s.Binder(_name(c[0]), c[2], c[4], _at(c[0], c[4]))

    def granted(self, c):
        return s.Granted(c[1], c[3], _at(c[0], c[3]))

    def reduction(self, c):
        return s.Reduction(c[0], c[1], _at(c[0], c[1]))

    def padded(self, c):
        return s.Padded(c[0], c[2], _at(c[0], c[2]))

    def bad_body(self, c):
        raise Fault(_at(c[0], c[2]), BODY, BODY_HINT)

    def badop(self, c):
        return c[0]

    def select(self, c):
        return s.Select(c[0], c[2], c[4], _at(c[0], c[4]))

    def binary(self, c):
        return s.Binary(c[1].text, c[0], c[2], _at(c[0], c[2]))

    def logic(self, c):
        return s.Binary(c[1].text, c[0], c[2], _at(c[0], c[2]))

    def invert(self, c):
        return s.Unary("not", c[1], _at(c[0], c[1]))

    def negate(self, c):
        return s.Unary("-", c[1], _at(c[0], c[1]))

    def bad_chain(self, c):
        raise Fault(_at(c[0], c[4]), "comparisons do not chain", "write a < b and b < c")

    def number(self, c):
        return s.Number(c[0].text, (c[0].start, c[0].end))

    def name(self, c):
        return _name(c[0])

    def saturate(self, c):
        return s.Saturate(c[1], _at(c[0], c[1]))

    def group(self, c):
        return replace(c[1], at=(c[0].start, c[2].end))

    def access(self, c):
        return s.Access(_name(c[0]), c[2], _at(c[0], c[3]))

    def list(self, c):
        return _nodes(c)

    def call(self, c):
        return s.Call(_name(c[0]), c[2] or (), _at(c[0], c[3]))

    def arguments(self, c):
        return _nodes(c)

    def option(self, c):
        return s.Option(_name(c[0]), c[2], _at(c[0], c[2]))
