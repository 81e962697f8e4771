"""The command line: what each command prints, its exit status, and that no input ends in a traceback."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.bits import same_bits
from tilewright.compiler.cli import cli, expanded, main
from tilewright.compiler.inputs import default_scalars, default_sizes, random_inputs

if TYPE_CHECKING:
    from click.testing import Result

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*.tx"))
KERNELS = [(file, name) for file in FILES for name in tw.load(file)]
MATMUL = str(EXAMPLES / "matmul_silu.tx")

GOOD = """kernel f(X: f32[N], a: f32) -> (Y: f32[N]) {
    Y[i] = a * X[i] + 1
}
"""
BAD = """kernel f(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = X[i + 1]
    Z[i] = 1
}
"""
BAD_LINES = ["2:12", "3:7"]

INTERPRETED = """kernel g(X: f32[N, K]) -> (Y: f32[N]) {
    Y[i] = (sum(k) X[i + 1, k]) if i < N - 1 else 0
}
"""


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def whole(words: tuple[str, ...]) -> None:
    """main() as a click command, so that its output can be caught."""
    main(words)


def txc(*words: str | Path) -> Result:
    """Run txc in this process; whatever escapes it fails the test."""
    result = CliRunner().invoke(whole, [str(w) for w in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a good file and a bad one."""
    monkeypatch.chdir(tmp_path)
    Path("good.tx").write_text(GOOD)
    Path("bad.tx").write_text(BAD)
    return tmp_path


# Help and usage.


@pytest.mark.parametrize("command", ["check", "show", "emit", "run"])
def test_help_of_each_command_has_an_example_that_runs(command: str, tmp_path: Path) -> None:
    result = txc(command, "--help")
    assert result.exit_code == 0
    example = re.search(r"Example: txc (.*)", " ".join(result.stdout.split()))
    assert example is not None
    words: list[str] = []
    for word in example[1].split():
        named = sorted(EXAMPLES.parent.glob(word)) if word.endswith(".tx") else []
        words += [str(file) for file in named] or [word]
    words = [str(tmp_path / w) if w.endswith(".py") else w for w in words]
    assert words[0] == command
    assert txc(*words).exit_code == 0


def test_help_names_the_commands_and_the_exit_status() -> None:
    result = txc("-h")
    assert result.exit_code == 0
    assert re.search(r"0 done, 1 refused or failed check, 2 wrong\s+usage", result.stdout)
    assert all(re.search(rf"^  {c} ", result.stdout, re.MULTILINE) for c in ("check", "show", "emit", "run"))


def test_version() -> None:
    assert txc("--version").stdout == f"txc, version {tw.__version__}\n"


USAGE = {
    "no file": (["check"], "Missing argument 'FILES...'"),
    "unknown command": (["compile", "good.tx"], "No such command 'compile'"),
    "unknown option": (["check", "--fast", "good.tx"], "No such option"),
    "missing file": (["check", "none.tx"], "cannot read none.tx: No such file or directory"),
    "folder": (["show", "."], "cannot read .: Is a directory"),
    "unknown kernel to show": (["show", "good.tx", "--kernel", "g"], "good.tx has no kernel 'g'; it holds f"),
    "unknown kernel to emit": (["emit", "good.tx", "--kernel", "g"], "good.tx has no kernel 'g'; it holds f"),
    "unknown kernel to run": (["run", "good.tx", "--kernel", "g"], "good.tx has no kernel 'g'; it holds f"),
    "several kernels": (["emit", str(EXAMPLES / "argmax.tx")], "choose one with --kernel"),
    "unknown target": (["emit", "good.tx", "--target", "cuda"], "'cuda' is not 'numpy'"),
    "output folder": (["emit", "good.tx", "-o", "."], "cannot write .: Is a directory"),
    "two files to emit": (["emit", "good.tx", "bad.tx"], "unexpected extra argument (bad.tx)"),
    "size without a value": (["run", "good.tx", "--size", "N"], "--size takes NAME=VALUE, not 'N'"),
    "size with nothing": (["run", "good.tx", "--size", "N="], "--size takes NAME=VALUE, not 'N='"),
    "negative size": (["run", "good.tx", "--size", "N=-1"], "a whole number of at least 0, not '-1'"),
    "fractional size": (["run", "good.tx", "--size", "N=1.5"], "a whole number of at least 0, not '1.5'"),
    "superscript size": (["run", "good.tx", "--size", "N=²"], "a whole number of at least 0, not '²'"),
    "unknown size": (["run", "good.tx", "--size", "M=3"], "nothing is called 'M'; there are N"),
    "no size last": (["run", "good.tx", "--size"], "--size"),
    "no input before size": (["run", "good.tx", "--input", "--size", "N=3"], "--input"),
    "impossible size": (["run", str(EXAMPLES / "attention_gqa.tx"), "--size", "H=3"], "no sizes fit H=3"),
    "unknown scalar": (["run", "good.tx", "--scalar", "b=1"], "nothing is called 'b'; there are a"),
    "scalar of letters": (["run", "good.tx", "--scalar", "a=x"], "--scalar a takes a number, not 'x'"),
    "unknown input": (["run", "good.tx", "--input", "Y=y.npy"], "nothing is called 'Y'; there are X"),
    "unknown output": (["run", "good.tx", "--save", "X=x.npy"], "nothing is called 'X'; there are Y"),
    "missing input file": (["run", "good.tx", "--input", "X=none.npy"], "cannot read X from none.npy"),
    "folder as input": (["run", "good.tx", "--input", "X=."], "cannot read X from .:"),
    "no place to save": (["run", "good.tx", "--save", "Y=none/y.npy"], "cannot write none/y.npy"),
    "seed of letters": (["run", "good.tx", "--seed", "x"], "'x' is not a valid integer"),
    "negative seed": (["run", "good.tx", "--seed", "-1"], "--seed"),
}


@pytest.mark.parametrize("case", USAGE)
def test_wrong_usage(case: str, folder: Path) -> None:
    words, message = USAGE[case]
    result = txc(*words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize("size", ["99999999999", "1000000000000000", "99999999999999999999"])
def test_a_size_that_no_memory_holds_is_refused(size: str, folder: Path) -> None:
    result = txc("run", "good.tx", "--size", f"N={size}")
    assert result.exit_code in (1, 2)
    assert size in result.stderr


def test_several_values_of_one_option() -> None:
    assert expanded(["run", "--size", "M=1", "K=2", "f.tx", "--save", "Y=y.npy", "--check"]) == [
        *["run", "--size", "M=1", "--size", "K=2", "f.tx", "--save", "Y=y.npy", "--check"]
    ]
    assert expanded(["run", "--size=M=1", "f.tx"]) == ["run", "--size=M=1", "f.tx"]
    assert expanded(["show", "--loops", "f.tx"]) == ["show", "--loops", "f.tx"]


# What is no program.


@pytest.mark.parametrize("command", ["check", "show", "emit", "run"])
@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("binary.tx", bytes(range(256)), "not UTF-8"),
        ("executable.tx", b"\x7fELF\x02\x01\x01" + b"\x00" * 40, "error:"),
        ("empty.tx", b"", "an empty file: no kernel"),
        ("words.tx", b"this is not a kernel\n", "words.tx:1:1: error:"),
        ("half.tx", b"kernel f(X: f32[N]", "half.tx:1:"),
        ("bad.tx", BAD.encode(), "bad.tx:2:12: error: reads X outside its range at N=1, i=0"),
    ],
)
def test_a_file_that_is_no_program_is_refused(command: str, name: str, data: bytes, message: str, folder: Path) -> None:
    Path(name).write_bytes(data)
    result = txc(command, name)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert message in result.stderr


# check


def test_check_prints_signatures() -> None:
    result = txc("check", EXAMPLES / "argmax.tx")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert [line.split(": ", 1)[1] for line in result.stdout.splitlines()] == [
        "argmax_rows(X: f32[R, C]) -> (I: i64[R])",
        "top1(X: f32[R, C]) -> (I: i64[R], V: f32[R])",
    ]


@pytest.mark.parametrize("order", [["good.tx", "bad.tx"], ["bad.tx", "good.tx"]])
def test_check_goes_on_after_a_file_with_errors(order: list[str], folder: Path) -> None:
    result = txc("check", *order)
    assert result.exit_code == 1
    assert result.stdout == "good.tx: f(X: f32[N], a: f32) -> (Y: f32[N])\n"
    assert re.findall(r"^bad.tx:(\d+:\d+): error:", result.stderr, re.MULTILINE) == BAD_LINES


def test_check_as_json(folder: Path) -> None:
    result = txc("check", "--json", "good.tx", "bad.tx")
    assert result.exit_code == 1
    assert result.stderr == ""
    found = json.loads(result.stdout)
    assert [f"{d['line']}:{d['column']}" for d in found] == BAD_LINES
    assert found[0] == {
        "path": "bad.tx",
        "line": 2,
        "column": 12,
        "width": 8,
        "severity": "error",
        "message": "reads X outside its range at N=1, i=0",
        "hint": "a guard, ... if c else ..., or a padded read, (X[..] else 0)",
    }
    result = txc("check", "--json", "good.tx")
    assert (result.exit_code, json.loads(result.stdout)) == (0, [])


ODD = """kernel odd(X: bf16[N], spare: f32[N]) -> (y: bf16) {
    y = sum(i) X[i]
}
"""


def test_check_shows_warnings_and_still_accepts(folder: Path) -> None:
    Path("odd.tx").write_text(ODD)
    result = txc("check", "odd.tx")
    assert result.exit_code == 0
    assert result.stdout == "odd.tx: odd(X: bf16[N], spare: f32[N]) -> (y: bf16)\n"
    assert re.findall(r"^odd.tx:(\d+:\d+): (\w+):", result.stderr, re.MULTILINE) == [
        ("1:24", "warning"),
        ("2:9", "warning"),
    ]
    result = txc("check", "--json", "odd.tx")
    found = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [(d["line"], d["column"], d["severity"]) for d in found] == [(1, 24, "warning"), (2, 9, "warning")]


# show


def test_show_without_options_prints_tensors_and_loops(folder: Path) -> None:
    result = txc("show", "good.tx")
    assert result.exit_code == 0
    assert result.stdout == (
        "kernel f(X: f32[N], a: f32) -> (Y: f32[N])\n"
        "\ntensors\n  input        X: f32[N]\n  output       Y: f32[N]\n"
        "\nloops\n  for i in 0..N:\n      Y[i] = a * X[i] + 1\n"
    )


@pytest.mark.parametrize("section", ["domains", "accesses", "dependences", "loops"])
def test_show_prints_the_section_that_is_asked_for(section: str, folder: Path) -> None:
    lines = txc("show", f"--{section}", "good.tx").stdout.splitlines()
    assert [line for line in lines if line and not line.startswith(" ")][1:] == [section]
    assert len(lines) > 3


def test_show_says_that_there_are_no_dependences(folder: Path) -> None:
    assert txc("show", "--dependences", "good.tx").stdout.endswith("\ndependences\n  none\n")


def test_show_one_kernel_of_several() -> None:
    both = txc("show", EXAMPLES / "argmax.tx").stdout
    one = txc("show", "--kernel", "top1", EXAMPLES / "argmax.tx").stdout
    assert both.count("\nloops\n") == 2
    assert one.startswith("kernel top1(")
    assert both.endswith(one)


def test_show_as_json_says_the_same_as_the_text() -> None:
    file = EXAMPLES / "softmax.tx"
    records = json.loads(txc("show", "--json", file).stdout)
    assert [r["kernel"] for r in records] == ["softmax", "softmax_online"]
    for record in records:
        name = record["kernel"]
        text = txc("show", "--domains", "--accesses", "--loops", "--kernel", name, file).stdout
        wanted = f"kernel {record['signature']}\n"
        for section in ("domains", "accesses", "loops"):
            wanted += f"\n{section}\n" + "".join(f"  {line}\n" for line in record[section])
        assert text == wanted
        shown = txc("show", "--dependences", "--kernel", name, file).stdout.splitlines()[3:]
        assert len(shown) == len(record["dependences"])
        for line, found in zip(shown, record["dependences"], strict=True):
            strength = "reduction" if found["reduction"] else "strict"
            assert line.split(maxsplit=3) == [strength, found["kind"], found["tensor"], found["relation"].strip()]


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


# As a process.


def process(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    code = "from tilewright.compiler.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=cwd, check=False)


def test_the_process_ends_with_the_exit_status(folder: Path) -> None:
    done = process("check", "good.tx", "bad.tx", cwd=folder)
    assert done.returncode == 1
    assert done.stdout.startswith("good.tx: f(")
    assert done.stderr.startswith("bad.tx:2:12: error: ")
    done = process("run", "good.tx", "--size", "N=3", "M=3", cwd=folder)
    assert done.returncode == 2
    assert done.stderr.endswith("Error: --size: nothing is called 'M'; there are N\n")


def test_the_process_prints_unusual_names(folder: Path) -> None:
    (folder / "größe ✓.tx").write_text(GOOD)
    done = process("check", "größe ✓.tx", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "größe ✓.tx: f(X: f32[N], a: f32) -> (Y: f32[N])\n")


def test_cli_is_the_group_that_main_runs() -> None:
    assert sorted(cli.commands) == ["check", "emit", "run", "show"]
