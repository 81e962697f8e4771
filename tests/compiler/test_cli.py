"""The command line: usage, check and show; what is printed, exit statuses, and no traceback from any input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tilewright as tw
from tilewright.compiler.cli import cli, expanded

from .shell import BAD, BAD_LINES, EXAMPLES, GOOD, txc

# Help and usage.


@pytest.mark.parametrize("command", ["check", "show", "emit", "run", "machine"])
def test_help_of_each_command_has_an_example_that_runs(command: str, tmp_path: Path) -> None:
    result = txc(command, "--help")
    assert result.exit_code == 0
    example = re.search(r"Example: txc (.*)", " ".join(result.stdout.split()))
    assert example is not None
    words: list[str] = []
    for word in example[1].split():
        named = sorted(EXAMPLES.parent.glob(word)) if word.endswith(".tx") else []
        words += [str(file) for file in named] or [word]
    # A Python file is one of the examples, or written.
    folders = {w: EXAMPLES.parent if (EXAMPLES.parent / w).exists() else tmp_path for w in words if w.endswith(".py")}
    words = [str(folders[w] / w) if w in folders else w for w in words]
    assert words[0] == command
    assert txc(*words).exit_code == 0


def test_help_names_the_commands_and_the_exit_status() -> None:
    result = txc("-h")
    assert result.exit_code == 0
    assert re.search(r"0 done, 1 refused or failed check, 2 wrong\s+usage", result.stdout)
    assert all(re.search(rf"^  {c} ", result.stdout, re.MULTILINE) for c in ("check", "show", "emit", "run", "machine"))


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
    "tiles without a schedule": (["emit", "good.tx", "--target", "tiles"], "needs a --schedule"),
    "no such schedule": (["emit", "good.tx", "--schedule", "none.py"], "cannot read none.py"),
    "unknown target": (["emit", "good.tx", "--target", "cuda"], "'cuda' is not one of 'llvm', 'numpy', 'tiles'"),
    "output folder": (["emit", "good.tx", "-o", "."], "cannot write .: Is a directory"),
    "two files to emit": (["emit", "good.tx", "bad.tx"], "unexpected extra argument (bad.tx)"),
    "size without a value": (["run", "good.tx", "--size", "N"], "--size takes NAME=VALUE, one or more"),
    "size with nothing": (["run", "good.tx", "--size", "N="], "--size takes NAME=VALUE, not 'N='"),
    "negative size": (["run", "good.tx", "--size", "N=-1"], "a whole number of at least 0, not '-1'"),
    "fractional size": (["run", "good.tx", "--size", "N=1.5"], "a whole number of at least 0, not '1.5'"),
    "superscript size": (["run", "good.tx", "--size", "N=²"], "a whole number of at least 0, not '²'"),
    "unknown size": (["run", "good.tx", "--size", "M=3"], "nothing is called 'M'; there are N"),
    "no size last": (["run", "good.tx", "--size"], "--size takes NAME=VALUE, one or more"),
    "no input before size": (["run", "good.tx", "--input", "--size", "N=3"], "--input takes NAME=VALUE, one or more"),
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


@pytest.mark.parametrize("size", ["1000000000000000", "99999999999999999999"])
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
        "\nloops\n  for Y.i in 0..N:\n      Y[i] = a * X[i] + 1\n"
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
    assert sorted(cli.commands) == ["bench", "cache", "check", "emit", "explain", "machine", "rank", "run", "show"]


def test_machine_measures_the_processor() -> None:
    measured = txc("machine", "measure")
    assert measured.exit_code == 0
    assert "memory_bandwidth" in measured.stdout
    assert 'kind = "CPU"' in measured.stdout


def test_machine_shows_every_figure_and_where_it_comes_from(tmp_path: Path) -> None:
    listed = txc("machine", "list")
    assert listed.exit_code == 0
    assert re.search(r"^h100-sxm +H100 SXM5, NVIDIA$", listed.stdout, re.MULTILINE)
    shown = txc("machine", "show", "m4-max")
    assert (
        shown.stdout
        == """M4 Max (Apple, unified memory)
  memory_bandwidth      546 GB/s  section 4.6.3
  memory_capacities_gb  128
  unified_memory        yes
  h2d_copy              no
"""
    )
    missing = txc("machine", "show", "h100")
    assert (missing.exit_code, missing.stderr) == (1, "no machine h100; did you mean h200 or h100-sxm or h200-sxm?\n")
    (tmp_path / "bad.toml").write_text("name = 3")
    bad = txc("machine", "show", str(tmp_path / "bad.toml"))
    assert bad.exit_code == 1
    assert "does not say its name" in bad.stderr


def test_emit_prints_a_schedule_in_loops_or_in_tiles() -> None:
    files = ("--schedule", EXAMPLES / "schedules" / "matmul_silu.py", EXAMPLES / "matmul_silu.tx")
    loops, tiles = (txc("emit", "--target", target, *files) for target in ("numpy", "tiles"))
    assert (loops.exit_code, tiles.exit_code) == (0, 0)
    assert "for C_ki in range(min(32, K - 32 * C_ko))" in loops.stdout
    assert "np.einsum(" in tiles.stdout
    assert "for C_ki" not in tiles.stdout


def test_emit_prints_the_refusal_of_a_schedule(folder: Path) -> None:
    Path("wrong.py").write_text("def schedule(s):\n    s.block('C.k')\n", encoding="utf-8")
    result = txc("emit", "--target", "tiles", "--schedule", "wrong.py", "--kernel", "matmul", EXAMPLES / "matmul.tx")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "refused [rounding]: block(C.k)" in result.stderr


def test_show_prints_footprints() -> None:
    files = ("--schedule", EXAMPLES / "schedules" / "matmul_silu.py", EXAMPLES / "matmul_silu.tx")
    shown = txc("show", "--footprints", *files)
    assert shown.exit_code == 0
    assert re.search(r"C\.ko +W_cache 32 x 64, W 32 x 64, A_cache 64 x 32, A 64 x 32, C\.acc 64 x 64", shown.stdout)
    plain = txc("show", "--footprints", EXAMPLES / "matmul_silu.tx")
    assert re.search(r"C\.i +C\.acc 1 x N, A 1 x K, W K x N, C 1 x N", plain.stdout)
