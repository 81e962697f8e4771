"""Quasi-affine expressions and conditions over named integers.

An `Affine` is c0 + c1*t1 + ... where each t is a name, a floor division `a // d` or a remainder
`a % d` of another Affine by a positive number. A `Formula` combines comparisons of them.
`affine.py` turns both into isl sets and maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Beyond this a coefficient is not worth proving anything with, and isl would only grow slow on it.
COEFFICIENT_LIMIT = 1 << 40
DEPTH_LIMIT = 12


@dataclass(frozen=True, slots=True)
class Division:
    """`numerator // divisor` or `numerator % divisor` (floor and its remainder; divisor > 0)."""

    kind: str
    numerator: Affine
    divisor: int

    def __str__(self) -> str:
        inner = str(self.numerator)
        if len(self.numerator.terms) + (self.numerator.constant != 0) > 1 or " " in inner:
            inner = f"({inner})"
        return f"{inner} {self.kind} {self.divisor}"


Term = str | Division


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + the sum of coefficient * term; terms in order of first appearance, coefficients not 0."""

    terms: tuple[tuple[Term, int], ...] = ()
    constant: int = 0

    @staticmethod
    def name(name: str) -> Affine:
        return Affine(((name, 1),))

    @staticmethod
    def number(value: int) -> Affine:
        return Affine((), value)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        merged = dict(self.terms)
        for term, factor in other.terms:
            merged[term] = merged.get(term, 0) + factor
        kept = tuple((t, c) for t, c in merged.items() if c != 0)
        return Affine(kept, self.constant + other.constant)

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other if isinstance(other, int) else other.scaled(-1))

    def scaled(self, factor: int) -> Affine:
        if factor == 0:
            return Affine()
        return Affine(tuple((t, c * factor) for t, c in self.terms), self.constant * factor)

    def divided(self, kind: str, divisor: int) -> Affine:
        """`self // divisor` or `self % divisor` (kind names the operator) by a positive number."""
        if divisor == 1:
            return self if kind == "//" else Affine()
        if not self.terms:
            value = self.constant // divisor if kind == "//" else self.constant % divisor
            return Affine.number(value)
        return Affine(((Division(kind, self, divisor), 1),))

    @property
    def is_number(self) -> bool:
        return not self.terms

    @property
    def bare(self) -> str | None:
        """The name, where the expression is nothing but a name."""
        if self.constant == 0 and len(self.terms) == 1:
            term, factor = self.terms[0]
            if factor == 1 and isinstance(term, str):
                return term
        return None

    def names(self) -> Iterator[str]:
        for term, _ in self.terms:
            if isinstance(term, str):
                yield term
            else:
                yield from term.numerator.names()

    def too_large(self) -> bool:
        """Whether a coefficient or the nesting of divisions is beyond what is treated as affine."""
        return self.depth() > DEPTH_LIMIT or any(
            abs(n) > COEFFICIENT_LIMIT for n in (self.constant, *(c for _, c in self.terms))
        )

    def depth(self) -> int:
        return max((t.numerator.depth() + 1 for t, _ in self.terms if isinstance(t, Division)), default=0)

    def evaluate(self, values: Mapping[str, int]) -> int:
        total = self.constant
        for term, factor in self.terms:
            if isinstance(term, str):
                total += factor * values[term]
            else:
                inner = term.numerator.evaluate(values)
                total += factor * (inner // term.divisor if term.kind == "//" else inner % term.divisor)
        return total

    def renamed(self, names: Mapping[str, str]) -> Affine:
        """The same expression over other names; names that are not mapped stay."""
        return self.substituted({old: Affine.name(new) for old, new in names.items()})

    def substituted(self, values: Mapping[str, Affine]) -> Affine:
        """The expression with each name in *values* replaced."""
        merged: dict[Term, int] = {}
        constant, same = self.constant, True
        for term, factor in self.terms:
            if isinstance(term, str):
                found = values.get(term)
            else:
                inner = term.numerator.substituted(values)
                found = None if inner is term.numerator else inner.divided(term.kind, term.divisor)
            if found is None:
                merged[term] = merged.get(term, 0) + factor
                continue
            same = False
            constant += factor * found.constant
            for inside, count in found.terms:
                merged[inside] = merged.get(inside, 0) + factor * count
        return self if same else Affine(tuple((t, c) for t, c in merged.items() if c != 0), constant)

    def __str__(self) -> str:
        """Source text, as the language and Python both read it."""
        # A positive term leads, so that `M - 1 - i` does not print as `-i + M - 1`.
        ordered = sorted(self.terms, key=lambda pair: pair[1] < 0)
        parts: list[str] = []
        for term, factor in ordered:
            size = abs(factor)
            text = str(term)
            if size != 1:
                text = f"{size} * ({text})" if isinstance(term, Division) else f"{size} * {text}"
            elif factor < 0 and isinstance(term, Division):
                text = f"({text})"
            sign = "-" if factor < 0 else "+"
            parts.append((f" {sign} {text}") if parts else (f"-{text}" if factor < 0 else text))
        if self.constant or not parts:
            sign = "-" if self.constant < 0 else "+"
            parts.append(f" {sign} {abs(self.constant)}" if parts else str(self.constant))
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`, op one of < <= == != >= >."""

    op: str
    left: Affine
    right: Affine

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds (true where there is none)."""

    parts: tuple[Formula, ...] = ()

    def __str__(self) -> str:
        return " and ".join(_wrapped(p) for p in self.parts) or "true"


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds (false where there is none)."""

    parts: tuple[Formula, ...] = ()

    def __str__(self) -> str:
        return " or ".join(_wrapped(p) for p in self.parts) or "false"


Formula = Comparison | All | Some
TRUE = All()
FALSE = Some()
NEGATED = {"<": ">=", "<=": ">", "==": "!=", "!=": "==", ">=": "<", ">": "<="}


def _wrapped(formula: Formula) -> str:
    return str(formula) if isinstance(formula, Comparison) else f"({formula})"


def conjunction(*formulas: Formula) -> Formula:
    """All of them, flattened and without repetitions."""
    parts: dict[Formula, None] = {}
    for formula in formulas:
        parts.update(dict.fromkeys(formula.parts if isinstance(formula, All) else (formula,)))
    return next(iter(parts)) if len(parts) == 1 else All(tuple(parts))


def disjunction(*formulas: Formula) -> Formula:
    """At least one of them, flattened; true as soon as one is."""
    if TRUE in formulas:
        return TRUE
    parts: dict[Formula, None] = {}
    for formula in formulas:
        parts.update(dict.fromkeys(formula.parts if isinstance(formula, Some) else (formula,)))
    return next(iter(parts)) if len(parts) == 1 else Some(tuple(parts))


def substituted(formula: Formula, values: Mapping[str, Affine]) -> Formula:
    """The formula with each name in *values* replaced."""
    if isinstance(formula, Comparison):
        return Comparison(formula.op, formula.left.substituted(values), formula.right.substituted(values))
    return type(formula)(tuple(substituted(part, values) for part in formula.parts))


def holds(formula: Formula, values: Mapping[str, int]) -> bool:
    """Whether the formula is true at these values."""
    match formula:
        case All(parts):
            return all(holds(p, values) for p in parts)
        case Some(parts):
            return any(holds(p, values) for p in parts)
        case Comparison(op, left, right):
            a, b = left.evaluate(values), right.evaluate(values)
            return {"<": a < b, "<=": a <= b, "==": a == b, "!=": a != b, ">=": a >= b, ">": a > b}[op]


@dataclass(frozen=True, slots=True)
class Range:
    """An index and its half-open range: from the largest of *lower* up to below the smallest of *upper*."""

    index: str
    lower: tuple[Affine, ...]
    upper: tuple[Affine, ...]

    def __str__(self) -> str:
        low, high = end_text("max", self.lower), end_text("min", self.upper)
        return f"{self.index} in {low}..{high}"

    def formula(self) -> Formula:
        """lower <= index < upper."""
        i = Affine.name(self.index)
        return All(tuple(Comparison("<=", a, i) for a in self.lower) + tuple(Comparison("<", i, b) for b in self.upper))

    def names(self) -> Iterator[str]:
        """Names that the ends mention."""
        for end in self.lower + self.upper:
            yield from end.names()


def end_text(function: str, ends: tuple[Affine, ...]) -> str:
    """`a` or `max(a, b)`: one end of a range as text."""
    return str(ends[0]) if len(ends) == 1 else f"{function}({', '.join(map(str, ends))})"
