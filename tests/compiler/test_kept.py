"""Compilations on disk: what is found again is what was made, and whatever it depends on makes another one."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.backends.llvm import cache, pool
from tilewright.backends.llvm.target import host
from tilewright.compiler import compile as compiling
from tilewright.compiler import kept, version
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import same_bits

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """kernel f(X: bf16[M, K], W: bf16[K, N]) -> (Y: bf16[M, N]) { allow contract
    C[i, j] = sum(k) f32(X[i, k]) * f32(W[k, j])
    Y[i, j] = bf16(silu(C[i, j]))
}"""

# One that is compiled at once.
PLAIN = "kernel g(X: f32[N], W: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] + W[i] }"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    return tmp_path


def kernel(text: str = TEXT) -> tw.Kernel:
    (found,) = tw.parse(text).values()
    return found


def contracted(of: tw.Kernel) -> tw.Schedule:
    schedule = tw.Schedule(of)
    schedule.contract("C")
    schedule.split("C.j", 16)
    return schedule


def forbid(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing may be proved or emitted."""

    def never(*_: Any) -> Any:
        raise AssertionError("this was compiled before")

    for name in ("verify", "emit_llvm", "cpu_schedule"):
        monkeypatch.setattr(compiling, name, never)


@pytest.mark.parametrize(
    ("chosen", "at"),
    [(False, None), (True, None), (False, {"M": 2, "K": 40, "N": 37})],
    ids=["default", "by steps", "for sizes"],
)
def test_what_was_compiled_is_found(monkeypatch: pytest.MonkeyPatch, chosen: bool, at: dict[str, int] | None) -> None:
    first = kernel()
    made = tw.compile(first, contracted(first) if chosen else None, at=at)
    again = kernel()
    schedule = contracted(again) if chosen else None
    forbid(monkeypatch)
    found = tw.compile(again, schedule, at=at)
    assert (found.source, found.trace, found.certificate) == (made.source, made.trace, made.certificate)
    assert (found.numerics, found.permissions, found.assembly) == (made.numerics, made.permissions, made.assembly)
    assert found.numerics
    arguments = random_inputs(again.program, {"M": 5, "K": 40, "N": 37}, 1)
    for _ in range(2):  # the second call is the quick one
        assert same_bits(np.asarray(made(**arguments)), np.asarray(found(**arguments)))
        assert same_bits(np.asarray(made(*arguments.values())), np.asarray(found(*arguments.values())))


def test_another_text_or_machine_is_another_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    given, processor = kernel(), host()
    names = {kept.file_of(given, None, None, processor), kept.file_of(given, (), None, processor)}
    names |= {
        kept.file_of(given, contracted(given).trace, None, processor),
        kept.file_of(kernel(TEXT + "\n"), (), None, processor),
    }
    names |= {kept.file_of(given, None, {"M": m, "K": 1, "N": 1}, processor) for m in (1, 2)}
    monkeypatch.setattr(pool, "_wanted", [7])
    names.add(kept.file_of(given, None, None, processor))
    monkeypatch.setattr(kept, "LOADED", "another version")
    names.add(kept.file_of(given, None, None, processor))
    monkeypatch.setattr(kept.isl, "VERSION_TEXT", "another isl")
    names.add(kept.file_of(given, None, None, processor))
    assert len(names) == 9
    assert kept.file_of(tw.Kernel(given.program), None, None, processor) is None, "a program without a text has no name"


def test_the_package_is_known_by_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in version.ROOMS:
        (tmp_path / room / "inner").mkdir(parents=True)
        (tmp_path / room / "inner" / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(version, "PACKAGE", tmp_path)
    versions = [version.on_disk()]
    (tmp_path / "passes" / "inner" / "a.py").write_text("x = 12\n")
    versions.append(version.on_disk())
    (tmp_path / "backends" / "b.py").write_text("")
    versions.append(version.on_disk())
    (tmp_path / "backends" / "notes.txt").write_text("")
    assert len({*versions, version.on_disk()}) == 3


def test_nothing_is_kept_by_a_process_that_outlived_its_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs here is not what is on the disk: the next process must not take it for that."""
    monkeypatch.setattr(kept, "on_disk", lambda: "another version")
    tw.compile(kernel(PLAIN))
    assert not list(folder.glob("*.kernel"))


def test_a_changed_kernel_is_another_one() -> None:
    given, other = kernel(PLAIN), kernel(PLAIN.replace("+", "-"))
    changed = replace(given, program=other.program)
    tw.compile(given)
    arguments = random_inputs(given.program, {"N": 4}, 1)
    assert same_bits(np.asarray(tw.compile(changed)(**arguments)), np.asarray(tw.compile(other)(**arguments)))
    assert kept.file_of(changed, None, None, host()) is None


def test_a_damaged_compilation_is_made_again(folder: Path) -> None:
    made = tw.compile(kernel(PLAIN))
    (path,) = folder.glob("*.kernel")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="damaged"):
        again = tw.compile(kernel(PLAIN))
    assert again.source == made.source
    assert tw.compile(kernel(PLAIN)).source == made.source


def altered(**changes: Any) -> bytes:
    """A record of the kernel with other values."""
    made = tw.compile(kernel(PLAIN))
    assert made.certificate is not None
    assert made.code is not None
    record = {"trace": "[]", "proved": [], "sizes": "", "permissions": [], "differences": [], "reordered": False}
    record |= {"tensors": made.code.tensors, "fails": False, "object": 32 * "0f", **changes}
    return json.dumps(record).encode() + b"\n" + zlib.compress(b"text")


ALTERED: list[dict[str, Any]] = [
    {"tensors": ["X"]}, {"tensors": ["Q"]}, {"tensors": ["X", "W", "Y", "Y"]}, {"fails": "x"}, {"permissions": [["x"]]},
    {"differences": [[1, 2]]}, {"object": "a\0b"}, {"object": "../a"}, {"trace": "3"}, {"sizes": None},
]  # fmt: skip


@pytest.mark.parametrize("changes", ALTERED, ids=repr)
def test_a_record_of_something_else_is_made_again(folder: Path, changes: dict[str, Any]) -> None:
    content = altered(**changes)
    (path,) = folder.glob("*.kernel")
    cache.write(path.name, content)
    with pytest.warns(UserWarning, match="is no compilation"):
        tw.compile(kernel(PLAIN))


@pytest.mark.parametrize(
    "content", [b"", b"{}\n", b'{"trace": 3}\nx', b"no json", bytes(range(256)), b"[" * 200_000 + b"\n"]
)
def test_what_is_no_compilation_is_made_again(folder: Path, content: bytes) -> None:
    """A file with the right hash of what it holds, which is something else."""
    made = tw.compile(kernel(PLAIN))
    (path,) = folder.glob("*.kernel")
    cache.write(path.name, content)
    with pytest.warns(UserWarning, match="is no compilation"):
        again = tw.compile(kernel(PLAIN))
    assert again.source == made.source


def test_sizes_choose_a_schedule_or_one_is_given() -> None:
    given = kernel()
    for wrong in ({"M": 4, 3: 4}, [("M", 4)], {"M": 4.5}, {"Q": 1}):
        with pytest.raises(ValueError, match="the sizes are"):
            tw.compile(given, at=wrong)  # type: ignore[arg-type]
    for target, schedule in (("llvm", tw.Schedule(given)), ("numpy", None), ("tiles", None)):
        with pytest.raises(ValueError, match="give one of both"):
            tw.compile(given, schedule, target, at={"M": 1, "K": 1, "N": 1})


def test_an_object_that_is_gone_is_made_again(folder: Path) -> None:
    made = tw.compile(kernel(PLAIN))
    made.prepare()
    for path in folder.glob("*.o"):
        path.unlink()
    arguments = random_inputs(made.kernel.program, {"N": 5}, 1)
    assert same_bits(np.asarray(tw.compile(kernel(PLAIN))(**arguments)), np.asarray(made(**arguments)))


def test_only_what_the_kernel_itself_names_is_kept(folder: Path) -> None:
    """Parts of a sum that calls pass are a tensor which the kernel's text does not give."""
    text = "kernel g(X: f32[M, N]) -> (Y: f32[M]) { allow reassociate\n Y[i] = sum(j) X[i, j] }"
    given = kernel(text)
    schedule = tw.Schedule(given)
    outer, _ = schedule.split("Y.j", 4)
    schedule.rfactor(outer)
    arguments = random_inputs(given.program, {"M": 2, "N": 9}, 1)
    results: list[Any] = []
    for _ in range(2):
        made = tw.compile(given, schedule)
        assert made.code is not None
        assert not set(made.code.tensors) <= set(given.program.tensors)
        results.append(np.asarray(made(**arguments)))
    assert same_bits(*results)
    assert not list(folder.glob("*.kernel"))


def test_nothing_is_kept_where_the_cache_is_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "off")
    tw.compile(kernel(PLAIN))
    assert not list(folder.iterdir())
    assert cache.folder() is None
