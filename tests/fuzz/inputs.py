"""Inputs for fuzzing the front end: token soup and mutated kernels, each a function of a seed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

KERNELS = tuple(
    path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent.parent / "kernels").glob("*.tx"))
)

LANGUAGE = """
const def kernel where allow let in if else and or not sat true false inf nan size
f64 f32 f16 bf16 f8e4m3 f8e5m2 i64 i32 i16 i8 u8 bool sum prod min max any all argmax argmin
exp log sqrt rsqrt abs floor round fma silu clamp lanes blocks mma promote reassociate contract
X Y T N M K i j k f g eps _ 0 1 2 7 256 0.5 1e-5 3e40 99999999999999999999
( ) [ ] { } , : = .. -> + - * / // % < <= > >= == != += . # ; ^ & ! @ ' " \\
"""
TOKENS = (*LANGUAGE.split(), " ", "\n", "\n", "\t", "\r\n", "# words\n")

PIECE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9.eE]+|\s+|[-=<>!/+*]+|.", re.DOTALL)


def soup(rng: random.Random) -> str:
    """A sequence of the language's own tokens; half of the time inside a kernel's frame."""
    body = " ".join(rng.choice(TOKENS) for _ in range(rng.randrange(1, 60)))
    if rng.random() < 0.5:
        return f"kernel f(X: f32[N], L: i32[N]) -> (Y: f32[N]) {{\n    Y[i] = {body}\n}}\n"
    return body


def mutate(rng: random.Random) -> str:
    """One of the kernels after one to four edits of its tokens."""
    pieces = PIECE.findall(rng.choice(KERNELS))
    for _ in range(rng.randrange(1, 5)):
        if not pieces:
            break
        edit = rng.choice((delete, duplicate, swap, replace, insert, rename, truncate, splice))
        pieces = edit(rng, pieces)
    return "".join(pieces)


ALIKE = (
    ("+", "-", "*"),
    ("//", "%"),
    ("<", "<=", ">", ">=", "==", "!="),
    ("and", "or"),
    ("sum", "prod", "max", "min", "argmax", "any"),
    ("0", "1", "2", "3"),
)


def tweak(rng: random.Random) -> str:
    """One of the kernels after one or two small changes: often still a program."""
    text = rng.choice(KERNELS)
    pieces = PIECE.findall(text)
    body = next(p for p, piece in enumerate(pieces) if piece == "kernel")
    changes = rng.randrange(1, 3)
    while changes:
        before = list(pieces)
        at = rng.randrange(body, len(pieces))
        choices = [kind for kind in ALIKE if pieces[at] in kind]
        if choices:
            pieces[at] = rng.choice(choices[0])
        elif pieces[at].isidentifier() and rng.random() < 0.5:
            pieces = rename(rng, pieces)
        elif pieces[at] == ")" and rng.random() < 0.3:
            pieces[at] = f", {rng.choice(('lanes', 'blocks'))}={rng.choice((1, 2, 4))})"
        changes -= pieces != before
    return "".join(pieces)


def delete(rng: random.Random, pieces: list[str]) -> list[str]:
    at = rng.randrange(len(pieces))
    return pieces[:at] + pieces[at + rng.randrange(1, 6) :]


def duplicate(rng: random.Random, pieces: list[str]) -> list[str]:
    at = rng.randrange(len(pieces))
    end = at + rng.randrange(1, 30)
    return pieces[:end] + pieces[at:end] + pieces[end:]


def swap(rng: random.Random, pieces: list[str]) -> list[str]:
    a, b = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    pieces = list(pieces)
    pieces[a], pieces[b] = pieces[b], pieces[a]
    return pieces


def replace(rng: random.Random, pieces: list[str]) -> list[str]:
    at = rng.randrange(len(pieces))
    return [*pieces[:at], rng.choice(TOKENS), *pieces[at + 1 :]]


def insert(rng: random.Random, pieces: list[str]) -> list[str]:
    at = rng.randrange(len(pieces) + 1)
    return [*pieces[:at], rng.choice(TOKENS), *pieces[at:]]


def rename(rng: random.Random, pieces: list[str]) -> list[str]:
    """Put one name of the text in the place of another, at one place."""
    places = [p for p, piece in enumerate(pieces) if piece[0].isalnum()]
    if not places:
        return pieces
    at, other = rng.choice(places), rng.choice(places)
    return [*pieces[:at], pieces[other], *pieces[at + 1 :]]


def truncate(rng: random.Random, pieces: list[str]) -> list[str]:
    return pieces[: rng.randrange(len(pieces))]


def splice(rng: random.Random, pieces: list[str]) -> list[str]:
    other = PIECE.findall(rng.choice(KERNELS))
    start = rng.randrange(len(other))
    return pieces[: rng.randrange(len(pieces))] + other[start:]
