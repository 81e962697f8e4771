"""Hostile inputs: far too large, far too deep, or small texts whose meaning grows out of all bounds."""

from __future__ import annotations

import random

HEAD = "kernel f(X: f32[N], a: f32) -> (Y: f32[N]) {\n    Y[i] = "
TAIL = "\n}\n"


def kernel(expression: str) -> bytes:
    """A kernel whose one output is *expression*."""
    return f"{HEAD}{expression}{TAIL}".encode()


def nested(left: str, right: str, depth: int, inner: str = "X[i]") -> bytes:
    """*inner* within *depth* pairs of *left* and *right*."""
    return kernel(left * depth + inner + right * depth)


def doubling_functions(depth: int) -> bytes:
    """Functions each of which calls the one before twice: 2**depth additions when written out."""
    lines = ["def d0(x) = x + 1"]
    lines += [f"def d{i}(x) = d{i - 1}(x) + d{i - 1}(x + 1)" for i in range(1, depth)]
    return "\n".join(lines).encode() + b"\n" + kernel(f"d{depth - 1}(X[i])")


def doubled(argument: str, depth: int) -> bytes:
    """One function, which names its argument twice, applied *depth* times."""
    return b"def d(x) = x + x\n" + kernel("X[i] + " + "d(" * depth + argument + ")" * depth)


def squaring_constants(depth: int) -> bytes:
    """Constants each of which is the square of the one before: 2**depth digits."""
    lines = ["const c0 = 1234567890.123456789"]
    lines += [f"const c{i} = c{i - 1} * c{i - 1}" for i in range(1, depth)]
    return "\n".join(lines).encode() + b"\n" + kernel(f"X[i] * (c{depth - 1} / c{depth - 1})")


def chained_intermediates(count: int) -> bytes:
    """*count* equations, each reading the one before."""
    lines = [f"    T{i}[i] = T{i - 1}[i] + 1" for i in range(1, count)]
    body = "\n".join(["    T0[i] = X[i]", *lines, f"    Y[i] = T{count - 1}[i]"])
    return f"kernel f(X: f32[N]) -> (Y: f32[N]) {{\n{body}\n}}\n".encode()


def wrong_equations(count: int) -> bytes:
    """*count* equations, each with a mistake of its own."""
    lines = [f"    T{i}[i] = X[i + {i}] + n{i}" for i in range(1, count)]
    return "\n".join(["kernel f(X: f32[N]) -> (Y: f32[N]) {", *lines, "    Y[i] = X[i]", "}"]).encode()


def slices(count: int) -> bytes:
    """One output in *count* equations, each for one element."""
    lines = [f"    Y[{i}] = X[{i}]" for i in range(count)]
    return "\n".join([f"kernel f(X: f32[{count}]) -> (Y: f32[{count}]) {{", *lines, "}"]).encode()


def circle(count: int) -> bytes:
    """*count* tensors, each reading the next, the last one reading the first."""
    lines = [f"    T{i}[i in 0..N] = T{(i + 1) % count}[i] + X[i]" for i in range(count)]
    body = "\n".join([*lines, "    Y[i] = T0[i]"])
    return f"kernel f(X: f32[N]) -> (Y: f32[N]) {{\n{body}\n}}\n".encode()


def many_conditions(count: int) -> bytes:
    """A guarded read whose condition has *count* affine parts."""
    parts = " and ".join(f"i * {2 * p + 3} % {p + 2} != {p % 2}" for p in range(count))
    return kernel(f"X[i + 1] if {parts} and i + 1 < N else 0")


def chained_functions(count: int) -> bytes:
    """*count* functions, each calling the one before."""
    lines = ["def d0(x) = x", *(f"def d{i}(x) = d{i - 1}(x)" for i in range(1, count))]
    return "\n".join(lines).encode() + b"\n" + kernel(f"d{count - 1}(X[i])")


def equal_by_promise(count: int) -> bytes:
    """One index with *count* uses, in tensors whose extents agree only by a promise."""
    uses = " + ".join(("X[k]", "Z[k]")[p % 2] for p in range(count))
    header = "kernel f(X: f32[N], Z: f32[M]) -> (y: f32) where M == N"
    return f"{header} {{\n    y = sum(k) ({uses})\n}}\n".encode()


def many_subscripts(count: int) -> bytes:
    """A sum of *count* elements, each with another division in its subscript."""
    return kernel(" + ".join(f"X[i // {d}]" for d in range(2, count + 2)))


def many_indices(count: int) -> bytes:
    """A sum over *count* indices."""
    indices = ", ".join(f"k{i} in 0..N" for i in range(count))
    return kernel(f"sum({indices}) X[k0]")


def random_bytes(count: int) -> bytes:
    return random.Random(1).randbytes(count)


# name -> (input, words of the message; "accepted"; or None where either end will do)
INPUTS: dict[str, tuple[bytes, str | None]] = {
    "empty": (b"", "an empty file: no kernel"),
    "only a comment": (b"# nothing\n", "no kernel"),
    "10 MB of (": (b"(" * 10_000_000, "256 KiB"),
    "10 MB of random bytes": (random_bytes(10_000_000), None),
    "10 MB of NUL": (bytes(10_000_000), None),
    "10 MB of newlines": (b"\n" * 10_000_000, "256 KiB"),
    "a 10 MB comment": (b"# " + b"x" * 10_000_000 + b"\n" + kernel("X[i]"), "256 KiB"),
    "250 KB of (": (b"(" * 250_000, None),
    "250 KB of random bytes": (random_bytes(250_000), None),
    "250 KB of newlines": (b"\n" * 250_000, None),
    "250 KB of one name": (b"a" * 250_000, None),
    "250 KB of one number": (kernel("X[i] * " + "9" * 250_000), "100"),
    "50 KB of equations without an end": (b"Y[i] = X[i] + 1 " * 3_000, None),
    "100,000 nested parentheses": (nested("(", ")", 100_000), "40,000 tokens"),
    "10,001 nested parentheses": (nested("(", ")", 10_001), "nested deeper"),
    "5,000 nested parentheses": (nested("(", ")", 5_000), "accepted"),
    "5,000 sums in parentheses": (nested("(", " + 1)", 5_000), "accepted"),
    "5,000 terms": (kernel("X[i]" + " + X[i]" * 4_999), "accepted"),
    "5,000 unary minus": (kernel("- " * 5_000 + "X[i]"), "accepted"),
    "9,000 not": (kernel("1 if " + "not " * 9_000 + "X[i] > 0 else 0"), None),
    "3,000 conditional values": (kernel("X[i] if a > 0 else " * 3_000 + "0"), None),
    "3,000 nested calls": (nested("abs(", ")", 3_000), None),
    "3,000 nested gathers": (nested("L[", "]", 3_000, "i"), None),
    "50,000 opening brackets": (kernel("X[" * 50_000), None),
    "20,000 unknown names": (kernel(" + ".join(f"n{i}" for i in range(20_000))), None),
    "a name of 10,000 characters": (kernel("n" * 10_000), "200"),
    "a number of 10,000 digits": (kernel("X[i] * 0." + "3" * 10_000), "100"),
    "an exponent of nine digits": (kernel("X[i] * 1e999999999"), "exponent"),
    "an exponent of five digits": (kernel("X[i] * (1e99999 / 1e99998)"), None),
    "functions that double": (doubling_functions(40), None),
    "3,500 functions, each calling the one before": (chained_functions(3_500), None),
    "6,000 conditions, each within the next": (
        kernel("X[i] if " + "(true if " * 6_000 + "a > 0" + " else true)" * 6_000 + " else 0"),
        None,
    ),
    "5,000 uses that agree by a promise": (equal_by_promise(5_000), "accepted"),
    "1,000 different subscripts": (many_subscripts(1_000), "accepted"),
    "2,000 different subscripts": (many_subscripts(2_000), None),
    "a doubled element": (doubled("X[i]", 60), "accepted"),
    "a doubled choice of numbers": (doubled("(1 if a > 0 else 0)", 60), None),
    "a doubled number": (doubled("1", 60), None),
    "constants that square": (squaring_constants(40), None),
    "2,000 equations": (chained_intermediates(2_000), "accepted"),
    "2,500 wrong equations": (wrong_equations(2_500), None),
    "60 slices": (slices(60), "accepted"),
    "2,000 slices": (slices(2_000), None),
    "a circle of 300 tensors": (circle(300), None),
    "30 conditions": (many_conditions(30), None),
    "300 conditions": (many_conditions(300), None),
    "12 indices": (many_indices(11), "accepted"),
    "60 indices": (many_indices(60), "12"),
    "13,000 open brackets, each on a line, after a stray one": (kernel(")\n" + "Y[\n" * 13_000), None),
    "a size of 60 digits": (kernel("X[i] if i < " + "9" * 60 + " else 0"), None),
    "NUL inside": (kernel("X[i]\0"), "control character U+0000: this is not a text file"),
    "invalid UTF-8": (kernel("X[i]") + b"\xff\xfe\n", "UTF-8"),
    "UTF-16": (kernel("X[i]").decode().encode("utf-16"), None),
    "a byte order mark": (b"\xef\xbb\xbf" + kernel("X[i]"), "accepted"),
    "CRLF": (kernel("X[i] +\n  1").replace(b"\n", b"\r\n"), "accepted"),
    "CR alone": (kernel("X[i]").replace(b"\n", b"\r"), None),
    "tabs and form feeds": (kernel("\tX[i]\t+\t1 \f"), None),
    "surrogates": (b"kernel \xed\xa0\x80", None),
}
