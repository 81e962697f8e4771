"""Names, and programs that are very deep or very long (OPEN-18, 19, 23)."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw

from .programs import Array, call, f32, hex_bits, kernel_of, refused, run

if TYPE_CHECKING:
    from pathlib import Path

FREE = [
    "lambda",
    "None",
    "restrict",
    "float",
    "int",
    "double",
    "while",
    "main",
    "tl",
    "np",
    "triton",
    "constexpr",
    "threadIdx",
    "blockIdx",
    "__x",
    "_",
    "for",
    "class",
    "return",
    "import",
    "True",
    "print",
    "numpy",
    "self",
    "range",
    "ml_dtypes",
    "acc",
    "tmp0",
    "Y",
    "np_",
    "lanes",
    "blocks",
    "is",
    "del",
    "yield",
    "float32",
    "zeros",
    "args",
    "kwargs",
]
WORDS = ["const", "def", "kernel", "where", "allow", "let", "in", "if", "else", "and", "or", "not", "sat"]
BUILT_IN = [
    "exp",
    "max",
    "sum",
    "argmax",
    "sqrt",
    "fma",
    "floor",
    "i32",
    "bool",
    "f8e4m3",
    "inf",
    "nan",
    "true",
    "false",
    "size",
]


@pytest.mark.parametrize("name", FREE)
def test_open_18_any_other_word_names_a_scalar_a_tensor_an_index_and_a_kernel(name: str) -> None:
    x = np.array([0, 1, 2], np.int32)
    scalar = f"kernel k({name}: i32, b: i32, x: i32[N]) -> (y: i32[N]) {{\n    y[i] = {name} * x[i] + b\n}}\n"
    assert run(scalar, **{name: 2}, b=1, x=x).tolist() == [1, 3, 5]
    size = f"kernel k(x: i32[{name}]) -> (y: i32[{name}]) {{\n    y[i] = 2 * x[i] + 1\n}}\n"
    assert run(size, x=x).tolist() == [1, 3, 5]
    tensor = f"""
kernel {name}({name}: i32[N]) -> (y: i32[N]) {{
    t[i] = 2 * {name}[i]
    y[i] = t[i] + 1
}}
"""
    assert kernel_of(tensor)(x).tolist() == [1, 3, 5]
    index = f"""
kernel k(x: i32[N]) -> (y: i32[N]) {{
    {name}_[{name}] = 2 * x[{name}]
    y[i] = {name}_[i] + 1
}}
"""
    assert run(index, x=x).tolist() == [1, 3, 5]


@pytest.mark.parametrize("name", WORDS)
def test_open_18_words_of_the_language_name_nothing(name: str) -> None:
    text = f"kernel k(^{name}: i32, x: i32[N]) -> (y: i32[N]) {{\n    y[i] = {name} * x[i]\n}}\n"
    refused(text, f"'{name}' is a word of the language and cannot name anything")


@pytest.mark.parametrize("name", BUILT_IN)
def test_open_18_built_in_names_are_not_redefined(name: str) -> None:
    refused(f"kernel k(^{name}: i32[N]) -> (y: i32[N]) {{\n    y[i] = 2 * {name}[i]\n}}\n", f"'{name}' is ")


def test_open_18_a_size_is_not_an_index() -> None:
    refused(
        "kernel k(X: f32[N]) -> (Y: f32[N]) {\n    Y[^N] = X[N]\n}\n",
        "'N' is a size, so Y[N] is one element, outside the shape",
        "its own name",
    )


def test_open_18_a_reduction_index_is_a_new_name() -> None:
    refused(
        "kernel k(X: i64[3]) -> (Y: i64[4]) {\n    Y[i] = sum(^i in 0..3) X[i] * i\n}\n",
        "'i' is already taken",
    )
    twin = "kernel k(X: i64[3]) -> (Y: i64[4]) {\n    Y[i] = sum(k in 0..3) X[k] * k\n}\n"
    assert run(twin, X=np.array([1, 2, 3])).tolist() == [8] * 4


@pytest.mark.parametrize(
    "text",
    [
        "kernel k(X: f32[N], ^X: f32[N]) -> (Y: f32[N]) {\n    Y[i] = X[i]\n}\n",
        "kernel k(X: f32[N]) -> (^X: f32[N]) {\n    X[i] = 1\n}\n",
        "kernel k(X: f32[^N], N: f32) -> (Y: f32[N]) {\n    Y[i] = X[i]\n}\n",
        "kernel k(X: f32) -> (Y: f32) {\n    Y = X\n}\nkernel ^k(X: f32) -> (Y: f32) {\n    Y = X\n}\n",
        "const C = 1\nconst ^C = 2\nkernel k(X: f32[N]) -> (Y: f32[N]) {\n    Y[i] = X[i] * C\n}\n",
        "def f(x) = x\ndef ^f(x) = x + 1\nkernel k(X: f32[N]) -> (Y: f32[N]) {\n    Y[i] = f(X[i])\n}\n",
    ],
)
def test_open_18_one_name_for_two_things_is_refused(text: str) -> None:
    (name,) = re.findall(r"\^(\w+)", text)
    refused(text, f"'{name}'")


def test_open_18_names_that_a_compiler_might_make_up() -> None:
    names = [
        "acc",
        "tmp0",
        "X_0",
        "X_1",
        "X_local",
        "X_shared",
        "X_rf",
        "C_init",
        "C_update",
        "k_o",
        "k_i",
        "t0",
    ]
    lines = [f"    {new}[i] = {old}[i] + 1" for old, new in zip(["X", *names], names, strict=False)]
    text = "kernel k(X: i32[N]) -> (C: i32[N]) {\n" + "\n".join(lines) + "\n    C[i] = t0[i] + acc[i]\n}\n"
    assert run(text, X=np.array([0, 5], np.int32)).tolist() == [13, 23]


def test_open_18_repeated_indices_and_operands() -> None:
    text = """
kernel k(A: i32[N, N]) -> (d: i32[N], y: i32[N]) {
    d[i] = A[i, i]
    y[i] = d[i] + d[i]
}
"""
    d, y = run(text, A=np.arange(9, dtype=np.int32).reshape(3, 3))
    assert (d.tolist(), y.tolist()) == ([0, 4, 8], [0, 8, 16])


def deep(dtype: str, expression: str) -> str:
    """y[i] = *expression* of x[i]."""
    return f"kernel deep(x: {dtype}[N]) -> (y: {dtype}[N]) {{\n    y[i] = {expression}\n}}\n"


def nested(shape: str, depth: int, literal: str = "1") -> str:
    """x[i] with *literal* added *depth* times."""
    match shape:
        case "flat":
            return "x[i]" + f" + {literal}" * depth
        case "left":
            return "(" * depth + "x[i]" + f" + {literal})" * depth
        case "right":
            return f"({literal} + " * depth + "x[i]" + ")" * depth
        case _:
            raise ValueError(shape)


@pytest.mark.parametrize("shape", ["flat", "left", "right"])
def test_open_19_five_thousand_additions(shape: str) -> None:
    expression = nested(shape, 5000)
    assert run(deep("i32", expression), x=np.array([1, 2, 3], np.int32)).tolist() == [5001, 5002, 5003]
    x = f32([0, 1e8])
    # From the right the additions are the same ones: the innermost comes first.
    assert run(deep("f32", expression), x=x).tolist() == [5000, 100000000]
    assert hex_bits(run(deep("f32", nested(shape, 5000, "0.1")), x=f32([0]))) == ["43fa02ba"]


def test_open_19_five_thousand_parentheses() -> None:
    y = run(deep("i32", "(" * 5000 + "x[i]" + ")" * 5000), x=np.array([1, 2, 3], np.int32))
    assert y.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-", ""),
        ("abs(", ")"),
        ("(", " if x[i] > 0 else 0)"),
        ("-(", ")"),
    ],
)
def test_open_19_other_deep_forms(before: str, after: str) -> None:
    depth = 2000 if "if" in after else 5000
    y = run(deep("i32", before * depth + "x[i]" + after * depth), x=np.array([1, 2, 3], np.int32))
    assert y.tolist() == [1, 2, 3]


def stages(dtype: str, count: int) -> str:
    """A chain of *count* equations, each adding 1."""
    lines = [f"    T{k}[i] = {f'T{k - 1}' if k else 'x'}[i] + 1" for k in range(count - 1)]
    body = "\n".join(lines)
    return f"kernel chain(x: {dtype}[N]) -> (y: {dtype}[N]) {{\n{body}\n    y[i] = T{count - 2}[i] + 1\n}}\n"


@pytest.mark.parametrize(
    ("dtype", "x", "want"),
    [
        ("i32", np.array([1, 2, 3], np.int32), [2001, 2002, 2003]),
        ("f32", f32([0, 1e8]), [2000, 100000000]),
    ],
)
def test_open_19_two_thousand_equations(dtype: str, x: Array, want: list[Any]) -> None:
    assert call(kernel_of(stages(dtype, 2000)), x=x).tolist() == want


@pytest.mark.parametrize("shape", ["flat", "left", "right"])
def test_open_19_a_million_additions_meet_the_limit(shape: str) -> None:
    text = deep("f32", nested(shape, 1_000_000))
    start = time.perf_counter()
    with pytest.raises(tw.SourceError, match="256 KiB"):
        tw.parse(text)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (deep("i32", "(" * 10_001 + "x[i]" + ")" * 10_001), "10,000"),
        (deep("i32", nested("flat", 20_001)), "40,000"),
    ],
)
def test_open_19_limits_on_depth_and_tokens(text: str, words: str) -> None:
    with pytest.raises(tw.SourceError, match=words):
        tw.parse(text)


def test_open_23_an_edited_file_gives_the_edited_kernel(tmp_path: Path) -> None:
    text = "const K = 2\ndef g(v) = v * 3\nkernel k(x: i32[N]) -> (y: i32[N]) {\n    y[i] = g(x[i]) + K\n}\n"
    file, x = tmp_path / "k.tx", np.array([1, 2], np.int32)
    times_four = text.replace("v * 3", "v * 4")
    plus_five = times_four.replace("K = 2", "K = 5")
    kept = None
    for version, want in ((text, [5, 8]), (times_four, [6, 10]), (plus_five, [9, 13]), (text, [5, 8])):
        file.write_text(version)
        kernel = tw.load(file)["k"]
        kept = kept or kernel
        assert kernel(x).tolist() == want
        assert kernel(np.tile(x, 5)[::2]).tolist() == [want[0]] * 5
        assert kept(x).tolist() == [5, 8]
    wide = tw.parse(text.replace("i32", "f64"))["k"]
    assert wide(x.astype(np.float64)).tolist() == [5.0, 8.0]
