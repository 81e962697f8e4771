"""The package as others get it: what the wheel holds, what an import costs, and that output is a function of input."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import random_inputs
from tilewright.compiler.ir.bits import digest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = ("backends", "compiler", "cost", "frontend", "passes")

SIZES = {"M": 5, "K": 7, "N": 3}


def packages() -> set[str]:
    """Every folder of the package that holds an __init__.py, as a module name."""
    folders = {ROOT} | {p.parent for room in ROOMS for p in (ROOT / room).rglob("__init__.py")}
    return {".".join(["tilewright", *f.relative_to(ROOT).parts]) for f in folders}


def run(code: str, *words: str, **environment: str) -> str:
    """What Python prints."""
    command = [sys.executable, "-W", "error", "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# What belongs to it.


def test_the_package_list_names_every_folder_with_code() -> None:
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages()
    strays = {p.parent for room in ROOMS for p in (ROOT / room).rglob("*.py")}
    assert {".".join(["tilewright", *f.relative_to(ROOT).parts]) for f in strays} <= packages()


def test_the_version_is_said_once_and_the_same() -> None:
    assert PROJECT["project"]["version"] == tw.__version__


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the tree."""
    copy, target = tmp_path_factory.mktemp("source") / "checkout", tmp_path_factory.mktemp("wheel")
    left_out = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "tests", "benchmarks")
    shutil.copytree(ROOT, copy, ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", str(copy), "--no-deps", "--no-build-isolation", "--no-index"]
    command += ["--quiet", "--disable-pip-version-check", "--wheel-dir", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = target.iterdir()
    return found


def test_the_wheel_holds_all_modules_and_data_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"tilewright-{tw.__version__}-py3-none-any.whl"
    names = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    files = [ROOT / "__init__.py", ROOT / "py.typed"]
    files += [p for room in ROOMS for kind in ("*.py", "*.lark", "*.tx", "*.toml") for p in (ROOT / room).rglob(kind)]
    assert names == {f"tilewright/{p.relative_to(ROOT).as_posix()}" for p in files}
    assert {"tilewright/frontend/grammar.lark", "tilewright/frontend/prelude.tx", "tilewright/py.typed"} <= names


INSTALLED = """
import sys, pathlib
import numpy as np
import tilewright as tw
from tilewright.compiler.ir.bits import digest
from tilewright.compiler.inputs import random_inputs
assert pathlib.Path(tw.__file__).is_relative_to(sys.prefix), tw.__file__
kernel = tw.load("matmul_silu.tx")["matmul_silu"]
print(digest(kernel(**random_inputs(kernel.program, {"M": 5, "K": 7, "N": 3}, 1))))
"""


def test_an_installed_wheel_computes_the_same_bits_anywhere(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    site = Path(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", str(wheel)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # The dependencies come from the environment of the tests, without the files that make this checkout importable.
    borrowed = Path(np.__file__).parents[1]
    (site / "borrowed.pth").write_text(f"{borrowed}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(ROOT / "examples/matmul_silu.tx", elsewhere)
    kernel = tw.load(ROOT / "examples/matmul_silu.tx")["matmul_silu"]
    wanted = digest(kernel(**random_inputs(kernel.program, SIZES, 1)))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [str(python), "-P", "-c", INSTALLED]
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, env=clean, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, wanted), done.stderr
    command = [str(python.with_name("txc")), "check", "matmul_silu.tx"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere, env=clean, check=False)
    assert (done.returncode, done.stdout) == (0, f"matmul_silu.tx: {kernel.signature}\n"), done.stderr


def test_txc_is_the_command_line() -> None:
    assert PROJECT["project"]["scripts"] == {"txc": "tilewright.compiler.cli:main"}


# Importing.


def test_an_import_alone_loads_no_dependency() -> None:
    needed = [re.split(r"[<>=]", d)[0] for d in PROJECT["project"]["dependencies"]]
    code = "import sys, tilewright; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv[1:])))"
    assert run(code, *needed) == "[]\n"


def test_every_public_name_is_there_and_every_other_is_not() -> None:
    for name in tw.__all__:
        assert getattr(tw, name).__name__ == name
        assert name in dir(tw)
    with pytest.raises(AttributeError, match=r"module 'tilewright' has no attribute 'nothing'"):
        _ = tw.nothing  # type: ignore[attr-defined]


# Output is a function of the input.

SHOWN = """
import sys, tilewright as tw
from tilewright.compiler.cli import main
for path in sys.argv[1:]:
    for kernel in tw.load(path).values():
        print(kernel.numpy_source)
main(["show", "--json", sys.argv[1]])
"""


def test_output_does_not_depend_on_hashes() -> None:
    names = ["lu", "gotoh", "bilinear", "attention_paged", "moe_gate"]
    paths = [str(ROOT / f"tests/kernels/{n}.tx") for n in names]
    first, second = (run(SHOWN, *paths, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert first.count("in NumPy: bit for bit") == len(names)
    assert first.rstrip().endswith("]")


FAULTS = """kernel f(X: f32[N], Y: f32[M]) -> (Z: f32[N], W: f32[K]) {
    A[i] = X[i + 1] * q
    B[i in 0..M] = Y[i - 1] + u(3)
    Z[i] = A[i] + B[i] + C[i]
}
"""


def test_messages_do_not_depend_on_hashes() -> None:
    code = "import sys, tilewright as tw\ntry: tw.parse(sys.argv[1])\nexcept tw.SourceError as error: print(error)"
    first, second = (run(code, FAULTS, PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first == second
    assert first.count("error:") == 3
