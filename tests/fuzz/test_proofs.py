"""The proofs against enumeration: what is accepted holds at all small sizes, what is refused fails where it says.

Ranges, subscripts and conditions of the language are Python expressions, too; here Python evaluates them.
"""

from __future__ import annotations

import os
import random
import re
from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest
import tilewright as tw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CASES = int(os.environ.get("TILEWRIGHT_FUZZ", "500"))
SMALL = range(6)
# Beyond the first cases: two whose remedy was none, and one that isl itself stumbled over.
READS = sorted({*range(max(1, CASES // 2)), 616, 3308})
COVERS = sorted({*range(max(1, CASES // 2)), 3239})
PROMISES = ("", "N >= 2", "N == 2 * M", "M <= N", "N % 2 == 0", "N >= 1, M >= 3")
Names = dict[str, int]


def affine(rng: random.Random, names: Sequence[str]) -> str:
    """A quasi-affine expression of the names."""
    first, second = rng.choice(names), rng.choice(names)
    return rng.choice(
        (
            "{0}",
            "{0} + {2}",
            "{0} - {2}",
            "{2} * {0}",
            "{0} + {1}",
            "{0} - {1}",
            "{0} // {3}",
            "{0} % {3}",
            "({0} + {1}) // {3}",
            "{3} * ({0} // {3})",
            "{2} - {0}",
            "({0} + {2}) % {3} + {1}",
        )
    ).format(first, second, rng.randrange(4), rng.randrange(2, 4))


def condition(rng: random.Random, names: Sequence[str], depth: int = 2) -> str:
    if depth and rng.random() < 0.6:
        a, b = (condition(rng, names, depth - 1) for _ in range(2))
        return rng.choice((f"({a} and {b})", f"({a} or {b})", f"(not {a})"))
    return f"{affine(rng, names)} {rng.choice(('<', '<=', '==', '!=', '>', '>='))} {affine(rng, names)}"


def true(expression: str, names: Names) -> bool:
    return all(eval(part, {}, names) for part in expression.split(", ")) if expression else True


def number(expression: str, names: Names) -> int:
    return int(eval(expression, {}, names))


def sizes(promise: str, given: Names | None = None) -> Iterator[Names]:
    """The small sizes that the promise allows; those of *given*, which may be larger, are as they are there."""
    choices = [[given[s]] if given and s in given else (range(32) if given else SMALL) for s in "NM"]
    for n, m in product(*choices):
        if true(promise, {"N": n, "M": m}):
            yield {"N": n, "M": m}


def refusal(text: str) -> tw.Diagnostic | None:
    """The first error of a program, or None where it is accepted."""
    try:
        tw.parse(text)
    except tw.SourceError as error:
        return error.diagnostics[0]
    return None


def example(message: str) -> Names:
    """The values behind ` at ` in a message."""
    return {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", message.rpartition(" at ")[2])}


@pytest.mark.parametrize("seed", READS)
def test_reads(seed: int) -> None:
    rng = random.Random(seed)
    promise, extent = rng.choice(PROMISES), rng.choice(("N", "2 * N", "N + M", "N // 2 + 1", "3"))
    subscript, guard = affine(rng, "iijNM"), condition(rng, "ijNM")
    then, other = rng.choice((("X[{}]", "0"), ("0", "X[{}]")))
    value = f"{then.format(subscript)} if {guard} else {other.format(subscript)}"
    where = f" where {promise}" if promise else ""

    def program(where: str) -> str:
        header = f"kernel f(X: f32[{extent}], Z: f32[N], W: f32[M]) -> (Y: f32[N, M])"
        return f"{header}{where} {{\n    Y[i, j] = {value}\n}}\n"

    def bad(names: Names) -> bool:
        reads = true(guard, names) == (then != "0")
        inside = 0 <= number(subscript, names) < number(extent, names)
        return reads and not inside

    def points(at: Names) -> Iterator[Names]:
        return ({**at, "i": i, "j": j} for i, j in product(range(at["N"]), range(at["M"])))

    failing = [p for at in sizes(promise) for p in points(at) if bad(p)]
    found = refusal(program(where))
    if found is None:
        assert not failing, f"accepted, but wrong at {failing[0]}: {program(where)}"
        return
    assert "reads X outside its range at " in found.message, f"{found}\n{program(where)}"
    shown = example(found.message)
    least = min((p["N"] + p["M"] for p in failing if p["N"] and p["M"]), default=None)
    if set(shown) >= set("NMij"):
        assert bad(shown)
        assert true(promise, shown)
        assert least is None or shown["N"] + shown["M"] == least
    else:
        candidates = (p for at in sizes(promise, shown) for p in points(at) if shown.items() <= p.items())
        assert any(bad(p) for p in candidates), f"{found}\n{program(where)}"
    if found.hint and found.hint.startswith("where "):
        mended = f"{where}, {found.hint.removeprefix('where ')}" if where else f" {found.hint}"
        assert refusal(program(mended)) is None, f"{found}\n{program(where)}"


@pytest.mark.parametrize("seed", COVERS)
def test_coverage(seed: int) -> None:
    rng = random.Random(seed)
    promise = rng.choice(PROMISES)
    ends = ["0", *(affine(rng, "NM") for _ in range(rng.randrange(3))), "N"]
    if rng.random() < 0.3:
        ends[rng.randrange(len(ends))] = rng.choice(("1", "M", "N + 1"))
    where = f" where {promise}" if promise else ""
    lines = "".join(f"    Y[i in {low}..{high}] = f32(i)\n" for low, high in pairwise(ends))
    text = f"kernel f(Z: f32[M]) -> (Y: f32[N]){where} {{\n{lines}}}\n"

    def defined(at: Names) -> list[int]:
        return [i for low, high in pairwise(ends) for i in range(number(low, at), number(high, at))]

    wrong = [at for at in sizes(promise) if sorted(defined(at)) != list(range(at["N"]))]
    found = refusal(text)
    if found is None:
        assert not wrong, f"accepted, but wrong at {wrong[0]}: {text}"
        return
    kind = next(k for k in ("is defined twice", "is not defined everywhere", "outside its shape") if k in found.message)
    element = int(re.findall(r"Y\[(-?\d+)\]", found.message)[0])
    shown = example(found.message.removesuffix(" outside its shape"))

    def fails(at: Names) -> bool:
        count = defined(at).count(element)
        inside = 0 <= element < at["N"]
        return {
            "is defined twice": count > 1,
            "is not defined everywhere": inside and count == 0,
            "outside its shape": count > 0 and not inside,
        }[kind]

    assert any(fails(at) for at in sizes(promise, shown)), f"{found}\n{text}"
