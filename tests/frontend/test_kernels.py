"""The kernels of tests/kernels are accepted, with exactly the warnings named here."""

from __future__ import annotations

from pathlib import Path

import pytest
import tilewright as tw

KERNELS = sorted((Path(__file__).parent.parent / "kernels").glob("*.tx"))

# Words of each warning, in the order of the text; a file that is not named gives none.
WARNINGS: dict[str, tuple[str, ...]] = {}


def test_there_are_forty_kernels() -> None:
    assert len(KERNELS) == 40


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_is_accepted_without_unexpected_warnings(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    kernels = tw.load(str(path))
    warnings = [d for k in kernels.values() for d in k.warnings]
    expected = WARNINGS.get(path.stem, ())
    assert len(warnings) == len(expected), [d.message for d in warnings]
    for diagnostic, words in zip(warnings, expected, strict=True):
        assert words in diagnostic.message
        assert diagnostic.severity == "warning"
    assert [k.name for k in kernels.values()] == list(kernels)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("path", KERNELS, ids=lambda p: p.stem)
def test_is_accepted_with_other_line_ends_and_a_byte_order_mark(path: Path, tmp_path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name, data in (
        ("crlf.tx", text.replace("\n", "\r\n").encode()),
        ("bom.tx", b"\xef\xbb\xbf" + text.encode()),
        ("no_final_newline.tx", text.rstrip().encode()),
    ):
        (tmp_path / name).write_bytes(data)
        assert list(tw.load(str(tmp_path / name))) == list(tw.load(str(path)))
