"""Random kernels, built to be accepted: ranges, guards, gathers, slices, recurrences, orders, types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

HEADER = "kernel f(X: f32[N], A: f32[M, N], L: i32[N], Q: u8[M], B: i8[N], a: f32, c: i32, s: size)"
SHAPES = {"X": "N", "A": "MN", "L": "N", "Q": "M", "B": "N"}
TYPES = {"X": "f32", "A": "f32", "L": "i32", "Q": "u8", "B": "i8"}
LITERALS = {
    "f32": ("0", "1", "-0.5", "3", "0.1"),
    "i32": ("0", "1", "-2", "7"),
    "i8": ("0", "1", "100"),
    "u8": ("0", "1", "200"),
}


@dataclass
class Writer:
    """Writes one kernel; *tensors* are those that may be read, *known* the extent letters of each."""

    rng: random.Random
    known: dict[str, str] = field(default_factory=lambda: dict(SHAPES))
    types: dict[str, str] = field(default_factory=lambda: dict(TYPES))
    names: int = 0

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def value(self, dtype: str, scope: dict[str, str], depth: int) -> str:
        """An expression of a type; *scope* maps indices to the letter of their extent (or `?`)."""
        rng = self.rng
        if depth <= 0 or rng.random() < 0.15:
            return self.atom(dtype, scope)
        a, b = (self.value(dtype, scope, depth - 1) for _ in range(2))
        form = rng.randrange(9)
        if form < 3:
            operator = rng.choice(("+", "-", "*") if dtype == "f32" else ("+", "-", "*", "//", "%"))
            return f"({a} {operator} {b})"
        if form == 3:
            return f"{rng.choice(('min', 'max'))}({a}, {b})"
        if form == 4:
            return f"({a} if {self.condition(scope, depth - 1)} else {b})"
        if form == 5:
            other = rng.choice([t for t in LITERALS if t != dtype])
            sat = "sat " if dtype != "f32" and rng.random() < 0.3 else ""
            return f"{sat}{dtype}({self.value(other, scope, depth - 1)})"
        if form < 8 and len(scope) < 4:
            return self.reduction(dtype, scope, depth)
        return f"{rng.choice(('abs', '-', 'sq'))}({a})"

    def atom(self, dtype: str, scope: dict[str, str]) -> str:
        rng = self.rng
        readable = [n for n, t in self.types.items() if t == dtype]
        if readable and rng.random() < 0.75:
            return self.read(rng.choice(readable), scope)
        if dtype in ("f32", "i32") and rng.random() < 0.3:
            return "a" if dtype == "f32" else "c"
        if scope and rng.random() < 0.2:
            return f"{dtype}({rng.choice(list(scope))})"
        return f"{dtype}({rng.choice(LITERALS[dtype])})"

    def read(self, name: str, scope: dict[str, str]) -> str:
        """An element: plain, guarded, padded or gathered."""
        rng, literal = self.rng, self.rng.choice(LITERALS[self.types[name]])
        subscripts, guards, padded = [], [], False
        for letter in self.known[name]:
            fitting = [i for i, extent in scope.items() if extent == letter]
            index = rng.choice(fitting or list(scope) or ["0"])
            form = rng.randrange(8)
            if form < 4 and fitting:
                subscripts.append(index)
            elif form == 4 and fitting:
                subscripts.append(f"{letter} - 1 - {index}")
            elif form == 5 and self.known.get("L") and [i for i in scope if scope[i] == "N"]:
                inner = rng.choice([i for i in scope if scope[i] == "N"])
                clamped = f"min(max(i64(L[{inner}]), 0), {letter} - 1)"
                subscripts.append(rng.choice((f"L[{inner}]", clamped, f"{clamped} // 2")))
            else:
                shift = rng.choice(("{} - 1", "{} + 1", "2 * {}", "{} // 2", "{} + s", "{}")).format(index)
                subscripts.append(shift)
                guards.append(f"{shift} >= 0 and {shift} < {letter}")
                padded = padded or rng.random() < 0.4
        element = f"{name}[{', '.join(subscripts)}]"
        if padded:
            return f"({element} else {literal})"
        return f"({element} if {' and '.join(guards)} else {literal})" if guards else element

    def condition(self, scope: dict[str, str], depth: int) -> str:
        rng = self.rng
        compare = rng.choice(("<", "<=", "==", "!=", ">", ">="))
        if scope and rng.random() < 0.6:
            left = rng.choice(list(scope))
            right = rng.choice(("1", "0", "N", "M - 1", *scope))
            return f"{left} {rng.choice(('% 2', '+ 1', '// 2'))} {compare} {right}"
        dtype = rng.choice(("f32", "i32"))
        first = f"{self.value(dtype, scope, depth - 1)} {compare} {self.value(dtype, scope, 0)}"
        return rng.choice((first, f"not ({first})", f"({first}) or {rng.choice(list(scope) or ['N'])} > 0"))

    def reduction(self, dtype: str, scope: dict[str, str], depth: int) -> str:
        rng = self.rng
        inner, heads = dict(scope), []
        for _ in range(rng.choice((1, 1, 2))):
            index = self.fresh("k")
            outer = rng.choice(list(inner) or ["0"])
            low, high = rng.choice(
                (
                    ("0", "N"),
                    ("0", "M"),
                    ("1", "N"),
                    ("0", f"{outer} + 1"),
                    (outer, "N"),
                    ("0", "3"),
                    (f"max(0, {outer} - 1)", f"min({outer} + 2, M)"),
                )
            )
            heads.append(f"{index} in {low}..{high}")
            inner[index] = high if low == "0" and high in ("N", "M") else "?"
        op = rng.choice(("sum", "sum", "sum", "prod", "max", "min"))
        order = rng.choice(("", "", ", lanes=2", ", lanes=4", ", blocks=2", ", blocks=3"))
        return f"({op}({', '.join(heads)}{order}) ({self.value(dtype, inner, depth - 1)}))"

    def equations(self, name: str, dtype: str, shape: str) -> list[str]:
        """Equations that define a tensor everywhere, in one of several manners."""
        rng = self.rng
        indices = [f"{'ijt'[p]}" for p in range(len(shape))]
        scope = dict(zip(indices, shape, strict=True))
        plain = [f"{i} in 0..{letter}" for i, letter in scope.items()]
        literal = rng.choice(LITERALS[dtype])
        form = rng.randrange(6) if shape else 0
        if form == 4 and len(shape) == 2:  # an edge, and the rest from the line before
            ranges = (f"0..min({shape[0]}, 1)", f"1..{shape[0]}")
            first, rest = (f"{name}[i in {r}, {plain[1]}]" for r in ranges)
            before = f"({name}[i - 1, j] if j % 2 == 0 else {name}[i - 1, {shape[1]} - 1 - j])"
            return [
                f"{first} = {dtype}({self.value(dtype, scope, 2)})",
                f"{rest} = {dtype}({before} * {self.value(dtype, scope, 2)})",
            ]
        if form == 1:  # two slices
            cut = rng.choice((f"{shape[0]} // 2", f"({shape[0]} + 1) // 3"))
            rest = plain[1:]
            halves = ([f"i in 0..{cut}", *rest], [f"i in {cut}..{shape[0]}", *rest])
            return [f"{name}[{', '.join(h)}] = {dtype}({self.value(dtype, scope, 2)})" for h in halves]
        if form in (2, 3):  # a recurrence along one index, up or down
            p = rng.randrange(len(shape))
            step, guard = rng.choice(
                (
                    (f"{indices[p]} - 1", f"{indices[p]} > 0"),
                    (f"{indices[p]} + 1", f"{indices[p]} + 1 < {shape[p]}"),
                )
            )
            previous = f"{name}[{', '.join(step if q == p else i for q, i in enumerate(indices))}]"
            carried = f"({previous} if {guard} else {literal})"
            return [f"{name}[{', '.join(plain)}] = {dtype}({self.value(dtype, scope, 2)} + {carried})"]
        left = f"{name}[{', '.join(plain)}]" if shape else name
        return [f"{left} = {dtype}({self.value(dtype, scope, 3)})"]


def write(rng: random.Random) -> str:
    """A kernel with two to four tensors of its own, the last two being its outputs."""
    writer = Writer(rng)
    lines: list[str] = []
    for name in ("T", "U", "Y", "Z")[rng.randrange(3) :]:
        dtype = rng.choice(("f32", "f32", "f32", "i32", "i8", "u8"))
        shape = rng.choice(("N", "N", "M", "MN", "NM", "NN", "Ns") if name != "Z" else ("N", "M", ""))
        lines += writer.equations(name, dtype, shape)
        writer.known[name], writer.types[name] = shape, dtype
    shapes = {n: f"[{', '.join(writer.known[n])}]" if writer.known[n] else "" for n in ("Y", "Z")}
    outputs = ", ".join(f"{n}: {writer.types[n]}{shape}" for n, shape in shapes.items())
    body = "".join(f"    {line}\n" for line in lines)
    promise = rng.choice(("", " where N >= 1, M >= 1", " where M == N"))
    return f"{HEADER} -> ({outputs}){promise} {{\n{body}}}\n"
