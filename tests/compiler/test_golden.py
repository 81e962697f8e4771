"""Texts that people read, as recorded under tests/golden: programs, emitted code, signatures, messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable

    Golden = Callable[[str, str], None]

TESTS = Path(__file__).parents[1]
KERNELS = TESTS / "kernels"
EXAMPLES = TESTS.parent / "examples"

SHOWN = ["matmul_silu", "rmsnorm", "cholesky", "conv2d", "argmax"]
EMITTED = ["matmul_silu", "softmax", "attention_gqa", "cholesky", "embedding", "conv2d"]
SECTIONS = ["--domains", "--accesses", "--dependences", "--loops"]

MALFORMED = {
    "bounds": """kernel blur(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = (X[i] + X[i + 1]) * 0.5
}
""",
    "several": """kernel matmul(A: f32[M, K], B: f16[K, N]) -> (C: f32[M, N], D: f32[M]) {
    C[i, j] = sum(k) A[i, k] * B[k, j]
    E[i in 0..M] = A[i]
    C[i, 0] = unknown(A[i, 0])
}
""",
    "syntax": """kernel first(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = (X[i] + 1
}

kernel second(X: f32[N]) -> (Y: f32[N]) {
    Y[i] = X[i] +
    Z[i] = 0 < X[i] < 1
}
""",
}


@pytest.mark.parametrize("name", SHOWN)
def test_show(name: str, golden: Golden) -> None:
    result = CliRunner().invoke(cli, ["show", *SECTIONS, str(KERNELS / f"{name}.tx")])
    assert result.exit_code == 0
    golden(f"show/{name}", result.stdout)


@pytest.mark.parametrize("name", EMITTED)
def test_main_function_of_the_numpy_code(name: str, golden: Golden) -> None:
    result = CliRunner().invoke(cli, ["emit", "--target", "numpy", str(KERNELS / f"{name}.tx")])
    assert result.exit_code == 0
    _, decorator, main = result.stdout.rpartition('@np.errstate(all="ignore")')
    golden(f"emit/{name}", decorator + main)


def test_signatures(golden: Golden) -> None:
    files = [*sorted(EXAMPLES.glob("*.tx")), *sorted(KERNELS.glob("*.tx"))]
    shown = [repr(kernel) for file in files for kernel in tw.load(file).values()]
    golden("kernel/reprs", "\n".join(shown) + "\n")


@pytest.mark.parametrize("name", MALFORMED)
def test_messages(name: str, golden: Golden) -> None:
    with pytest.raises(tw.SourceError) as caught:
        tw.parse(MALFORMED[name], f"{name}.tx")
    golden(f"messages/{name}", f"{caught.value}\n")


def test_there_is_no_recorded_text_without_a_test() -> None:
    wanted = {f"show/{n}" for n in SHOWN} | {f"emit/{n}" for n in EMITTED} | {f"messages/{n}" for n in MALFORMED}
    folder = TESTS / "golden"
    found = {p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.txt")}
    assert found == wanted | {"kernel/reprs", "explain/matmul_large", "explain/processor", "triton_roles/matmul_silu"}
