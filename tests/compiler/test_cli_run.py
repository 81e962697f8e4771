"""The command line: emit and run; emitted files that run alone, arrays from and to files."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.inputs import default_scalars, default_sizes, random_inputs
from tilewright.compiler.ir.bits import same_bits

from .shell import EXAMPLES, KERNELS, MATMUL, txc

INTERPRETED = """kernel g(X: f32[N, K]) -> (Y: f32[N]) {
    Y[i] = (sum(k) X[i + 1, k]) if i < N - 1 else 0
}
"""


# emit


# Without site there is no installed package; of those, numpy and ml_dtypes alone are let in again.
ALONE = """
import importlib.util, json, pickle, sys
sys.path.append(sys.argv[1])
import numpy as np, ml_dtypes
for name in ('tilewright', 'lark', 'islpy', 'sympy', 'click'):
    assert importlib.util.find_spec(name) is None, name
for job in json.load(open(sys.argv[2])):
    spec = importlib.util.spec_from_file_location('alone', job['module'])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with open(job['arguments'], 'rb') as file:
        positional, keywords = pickle.load(file)
    with open(job['results'], 'wb') as file:
        pickle.dump(getattr(module, job['name'])(*positional, **keywords), file)
print(*sorted({m.split('.')[0] for m in sys.modules} - sys.stdlib_module_names - {'__main__'}))
"""


@pytest.fixture(scope="module")
def two_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which numpy and ml_dtypes can be imported, and nothing else."""
    place = tmp_path_factory.mktemp("packages")
    for module in (np, ml_dtypes):
        assert module.__file__ is not None
        home = Path(module.__file__).parent
        (place / home.name).symlink_to(home)
    return place


def test_emitted_files_run_alone_and_give_the_bits_of_the_kernel(tmp_path: Path, two_packages: Path) -> None:
    jobs: list[dict[str, str]] = []
    wanted: list[tuple[str, Any]] = []
    for file, name in KERNELS:
        kernel = tw.load(file)[name]
        module = tmp_path / f"{name}.py"
        result = txc("emit", "--target", "numpy", "--kernel", name, file, "-o", module)
        assert (result.exit_code, result.output) == (0, "")
        program = kernel.program
        sizes = default_sizes(program, {}, 5)
        assert sizes is not None
        inputs = {**random_inputs(program, sizes, 3), **default_scalars(program, {})}
        fixed = {n for t in program.tensors.values() if t.role == "input" for e in t.extents for n in _names(e)}
        positional = [inputs[p] for p in program.parameters if p not in program.sizes]
        keywords = {n: v for n, v in sizes.items() if n not in fixed}
        (tmp_path / f"{name}.in").write_bytes(pickle.dumps((positional, keywords)))
        job = {"module": str(module), "name": name, "arguments": f"{tmp_path / name}.in", "results": f"{module}.out"}
        jobs.append(job)
        wanted.append((job["results"], kernel(**inputs, **sizes)))
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    command = [sys.executable, "-P", "-I", "-S", "-c", ALONE, str(two_packages), str(tmp_path / "jobs.json")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "ml_dtypes numpy\n"
    for path, result in wanted:
        alone = pickle.loads(Path(path).read_bytes())
        pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (alone, result)), strict=True)
        assert all(same_bits(a, b) for a, b in pairs), path


def _names(extent: Any) -> list[str]:
    size = extent.size.bare if extent.size is not None else None
    return [size] if size is not None else []


def test_emit_prints_what_it_would_write(folder: Path) -> None:
    assert txc("emit", "good.tx", "-o", "f.py").output == ""
    assert txc("emit", "good.tx").stdout == Path("f.py").read_text()
    assert Path("f.py").read_text() == tw.load("good.tx")["f"].numpy_source


# run


def test_run_prints_a_summary(folder: Path) -> None:
    result = txc("run", "good.tx", "--size", "N=6", "--scalar", "a=0", "--seed", "7")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "f(X: f32[N], a: f32) -> (Y: f32[N])"
    assert re.fullmatch(r"  N=6, seed 7: \d+\.\d ms", lines[1])
    assert lines[2] == "  Y: float32[6]  min 1  max 1  mean 1"
    assert re.fullmatch(r"    1 1 1 1 \.\.\.  bits [0-9a-f]{16}", lines[3])


@pytest.mark.parametrize(
    "words",
    [
        ["--size", "M=6", "K=9", "N=2"],
        ["--size", "M=6", "--size", "K=9", "--size", "N=2"],
        ["--size=M=6", "--size", "K=9", "N=2"],
        ["--size", "M=6", "K=9", "--seed", "0", "--size", "N=2"],
    ],
)
@pytest.mark.parametrize("file_first", [True, False])
def test_the_forms_of_size(words: list[str], file_first: bool) -> None:
    result = txc("run", *([MATMUL, *words] if file_first else [*words, MATMUL]))
    assert result.exit_code == 0
    assert "  M=6 K=9 N=2, seed 0: " in result.stdout
    assert "  Y: bfloat16[6, 2]  min " in result.stdout


def test_sizes_that_are_not_given_keep_the_promises() -> None:
    result = txc("run", EXAMPLES / "attention_gqa.tx", "--size", "H=8", "T=2", "D=1", "B=1")
    assert (result.exit_code, "H=8 T=2 D=1 G=2" in result.stdout) == (0, True)


def test_the_same_seed_gives_the_same_bits_and_another_gives_others() -> None:
    def bits(seed: int) -> list[str]:
        return re.findall(r"bits (\w+)", txc("run", MATMUL, "--size", "M=3", "K=3", "N=3", "--seed", str(seed)).stdout)

    assert bits(1) == bits(1) != bits(2)


def test_empty_results_are_summed_up(folder: Path) -> None:
    assert txc("run", "good.tx", "--size", "N=0").stdout.splitlines()[2] == "  Y: float32[0] empty"


def test_save_and_input_carry_arrays_over(folder: Path) -> None:
    given = np.array([1, -2, 0.5], np.float32)
    np.save("x.npy", given)
    result = txc("run", "good.tx", "--input", "X=x.npy", "--scalar", "a=2", "--save", "Y=y.npy")
    assert result.exit_code == 0
    assert "N=3" in result.stdout
    assert same_bits(np.load("y.npy"), np.array([3, -3, 2], np.float32))
    assert txc("run", "good.tx", "--input", "X=y.npy", "--save", "Y=z.npy").exit_code == 0
    assert same_bits(np.load("z.npy"), np.array([2.5, -0.5, 2], np.float32))


@pytest.mark.parametrize("dtype", ["bf16", "f8e4m3", "f8e5m2"])
def test_what_is_saved_in_a_type_unknown_to_numpy_can_be_read_again(dtype: str, folder: Path) -> None:
    Path("copy.tx").write_text(f"kernel copy(X: {dtype}[N]) -> (Y: {dtype}[N]) {{\n    Y[i] = X[i]\n}}\n")
    first = txc("run", "copy.tx", "--size", "N=7", "--save", "Y=y.npy")
    again = txc("run", "copy.tx", "--input", "X=y.npy", "--save", "Y=z.npy")
    assert (first.exit_code, again.exit_code) == (0, 0), again.stderr
    assert Path("y.npy").read_bytes() == Path("z.npy").read_bytes()
    bits = [re.findall(r"bits (\w+)", r.stdout) for r in (first, again)]
    assert bits[0] == bits[1] != []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3), "X is f32, the array is float64; convert it: X.astype('float32')"),
        (np.zeros((3, 1), np.float32), "X has 1 dimensions, the array has 2 (shape (3, 1))"),
        (np.zeros(3, ">f4"), "in the other byte order"),
        (np.zeros(3, [("a", "f4")]), "X is f32, the array is"),
        (np.array(["a"]), "X is f32, the array is"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(array: Any, message: str, folder: Path) -> None:
    np.save("x.npy", array)
    result = txc("run", "good.tx", "--input", "X=x.npy", "--save", "Y=y.npy")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr
    assert not Path("y.npy").exists()


@pytest.mark.parametrize("content", ["empty", "text", "truncated", "archive", "objects"])
def test_a_file_that_holds_no_array_is_refused(content: str, folder: Path) -> None:
    np.save("x.npy", np.zeros(4, np.float32))
    path = Path("x.npy")
    if content == "empty":
        path.write_bytes(b"")
    elif content == "text":
        path.write_text("1 2 3\n")
    elif content == "truncated":
        path.write_bytes(path.read_bytes()[:-3])
    elif content == "archive":
        np.savez("x.npz", a=np.zeros(3))
        shutil.move("x.npz", path)
    else:
        np.save(path, np.array([None]), allow_pickle=True)
    result = txc("run", "good.tx", "--input", "X=x.npy")
    assert result.exit_code == 2
    assert "cannot read X from x.npy" in result.stderr


def test_a_size_that_contradicts_an_array_is_refused(folder: Path) -> None:
    np.save("x.npy", np.zeros(3, np.float32))
    result = txc("run", "good.tx", "--input", "X=x.npy", "--size", "N=4")
    assert (result.exit_code, result.stderr) == (1, "N is 3 by the shape of X, and 4 was given\n")


def test_a_position_outside_is_refused(folder: Path) -> None:
    np.save("at.npy", np.array([0, 16], np.int32))
    result = txc("run", EXAMPLES / "embedding.tx", "--input", "idx=at.npy")
    assert (result.exit_code, result.stderr) == (1, "idx[1] = 16 is outside 0..16 of E\n")


def test_a_scalar_of_another_type_is_refused(folder: Path) -> None:
    assert txc("run", "good.tx", "--scalar", "a=true").stderr == "a is a number of type f32; bool was given\n"


@pytest.mark.parametrize(("file", "name"), KERNELS, ids=lambda x: x if isinstance(x, str) else "")
def test_check_agrees_with_the_interpreter(file: Path, name: str) -> None:
    kernel = tw.load(file)[name]
    sizes = default_sizes(kernel.program, {}, 4)
    assert sizes is not None
    words = [f"{n}={min(v, 3) if n in 'KCDN' and len(sizes) > 4 else v}" for n, v in sizes.items()]
    result = txc("run", file, "--kernel", name, "--size", *words, "--check")
    assert result.exit_code == 0, result.output
    assert "  checked: the same bits as the scalar interpreter, at " in result.stdout


def test_check_says_so_and_fails_where_the_bits_differ(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tw.Kernel, "interpreted", lambda self, **_: {"Y": np.zeros(4, np.float32)})
    result = txc("run", "good.tx", "--size", "N=4", "--check")
    assert result.exit_code == 1
    assert result.stdout.endswith("  DIFFERS from the interpreter at N=4: Y\n")


def test_check_of_a_reduction_within_a_choice(folder: Path) -> None:
    Path("guarded.tx").write_text(INTERPRETED)
    result = txc("run", "guarded.tx", "--size", "N=3", "K=2", "--check")
    assert result.exit_code == 0
    assert result.stdout.endswith("the same bits as the scalar interpreter, at N=3 K=2\n")
