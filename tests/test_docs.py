"""Every example of docs/language.md does what the page says.

Fenced blocks: `tx` is accepted; `tx-error` ends in comments `#! line:column words` and perhaps
`#? words of the hint`, and is refused with exactly that; `tx-run` is followed by `#> call:` lines (inputs
by name, in JSON), each with its `#> gives:` (the output, or several by name) or `#> refuses:` (words of the
error).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw

PAGE = Path(__file__).parent.parent / "docs" / "language.md"
TYPES: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u8": np.uint8,
    "bool": np.bool_,
}


@dataclass(frozen=True)
class Block:
    """A fenced block: its kind, its text, and the line of the page on which the text begins."""

    kind: str
    text: str
    line: int

    def program(self, mark: str) -> str:
        """The text without the comments that begin with *mark* (`#!`, `#?` or `#>`)."""
        return "".join(line for line in self.text.splitlines(keepends=True) if not re.match(mark, line))

    def notes(self, mark: str) -> list[str]:
        """What stands behind *mark* on the lines that begin with it."""
        return [line[len(mark) :].strip() for line in self.text.splitlines() if line.startswith(mark)]


def read_blocks() -> list[Block]:
    """All fenced blocks of the page whose kind begins with tx."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.finditer(r"^```(tx[a-z-]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m.group(1), m.group(2), text.count("\n", 0, m.start(2)) + 1) for m in found]


BLOCKS = read_blocks()


def of_kind(kind: str) -> pytest.MarkDecorator:
    chosen = [b for b in BLOCKS if b.kind == kind]
    return pytest.mark.parametrize("block", chosen, ids=[f"line {b.line}" for b in chosen])


def test_every_rule_has_an_example_and_no_number_is_left_out() -> None:
    sections = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert [s.split(" ", 1)[0] for s in sections] == [f"R{n}" for n in range(1, 50)]
    assert [s.split("\n", 1)[0] for s in sections if "```tx" not in s] == []


def test_every_block_is_of_a_known_kind() -> None:
    assert {b.kind for b in BLOCKS} == {"tx", "tx-error", "tx-run"}


@of_kind("tx")
def test_is_accepted(block: Block) -> None:
    assert tw.parse(block.text, name="language.tx")


@of_kind("tx-error")
def test_is_refused_at_the_place_and_with_the_words(block: Block) -> None:
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(block.program("#[!?]"), name="language.tx")
    (note,) = block.notes("#!")
    place, words = note.split(" ", 1)
    (first,) = caught.value.diagnostics
    assert words in first.message
    assert f"{first.line}:{first.column}" == place
    for hint in block.notes("#?"):
        assert hint in (first.hint or "")


def declared(names: str) -> dict[str, str]:
    """Name to type of a list of parameters or results, in its order."""
    return dict(re.findall(r"(\w+): (\w+)", names))


def array(value: Any, dtype: str) -> np.ndarray[Any, Any]:
    """A JSON value as an array; "inf", "-inf" and "nan" stand for these."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return np.stack([array(row, dtype) for row in value])
    if isinstance(value, list):
        return np.array([array(entry, dtype) for entry in value], TYPES[dtype])
    return np.array(float(value) if isinstance(value, str) else value).astype(TYPES[dtype])


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> bool:
    """Equal type, shape and elements; NaN equals NaN, -0 does not equal 0."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    g, w = got.astype(np.float64), want.astype(np.float64)
    return bool(np.all((np.isnan(g) & np.isnan(w)) | ((g == w) & (np.signbit(g) == np.signbit(w)))))


def check_call(kernel: Any, header: re.Match[str], call: str, expected: str) -> None:
    """Run *kernel* on the JSON inputs *call* and compare with the note *expected*."""
    inputs, outputs = declared(header.group(1)), declared(header.group(2))
    arguments: dict[str, Any] = {}
    for name, value in json.loads(call).items():
        known = inputs.get(name, "size")
        arguments[name] = value if known == "size" or not isinstance(value, list) else array(value, known)
    verb, _, words = expected.partition(":")
    if verb == "refuses":
        with pytest.raises(tw.ArgumentError) as caught:
            kernel(**arguments)
        assert words.strip() in str(caught.value)
        return
    assert verb == "gives"
    want = json.loads(words)
    wanted = want if len(outputs) > 1 else {next(iter(outputs)): want}
    got = kernel(**arguments)
    results = got if len(outputs) > 1 else (got,)
    assert list(wanted) == list(outputs)
    for result, (name, dtype) in zip(results, outputs.items(), strict=True):
        assert isinstance(result, np.ndarray)
        assert same(result, array(wanted[name], dtype)), f"{name}: {result} instead of {wanted[name]}"


@of_kind("tx-run")
def test_runs_to_the_values_shown(block: Block) -> None:
    program = block.program("#>")
    header = re.search(r"kernel \w+\((.*?)\)\s*-> \((.*?)\)\s*(?:where|\{)", program, re.DOTALL)
    assert header
    (kernel,) = tw.parse(program, name="language.tx").values()
    notes = block.notes("#>")
    assert notes
    assert len(notes) % 2 == 0
    for call, expected in zip(notes[::2], notes[1::2], strict=True):
        check_call(kernel, header, call.removeprefix("call:"), expected)
