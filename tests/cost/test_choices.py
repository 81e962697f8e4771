"""Tiles that the model chooses, and the ways to fuse that it ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import tilewright as tw
from click.testing import CliRunner
from tilewright.compiler.automatic import MOST_APART, chosen, partitions
from tilewright.compiler.cli import cli
from tilewright.passes.choices import choices

EXAMPLES = Path(__file__).parents[2] / "examples"
CHAIN = """kernel chain(G: bf16[M, N], U: bf16[M, N]) -> (Y: bf16[M, N]) {
    S[i, j] = bf16(silu(f32(G[i, j])))
    H[i, j] = bf16(f32(S[i, j]) * f32(U[i, j]))
    Y[i, j] = bf16(f32(H[i, j]) * 2)
}"""


def kernel(name: str) -> tw.Kernel:
    return tw.load(EXAMPLES / f"{name}.tx")[name]


def test_few_rows_take_small_tiles_and_many_take_large_ones() -> None:
    product = kernel("matmul_silu")
    few, many = (chosen(product, {"M": m, "K": 4096, "N": 12288}) for m in (8, 2048))
    assert (few.rows, few.columns, few.consumers) == (16, 128, 0)
    assert (many.rows, many.columns, many.consumers) == (128, 256, 2)
    turned, at = kernel("transpose"), {"M": 4096, "N": 512}
    assert tw.gpu_schedule(turned, at=at).trace == tw.gpu_schedule(turned, chosen(turned, at)).trace
    with pytest.raises(KeyError):
        tw.gpu_schedule(product, at={"M": 8})


def test_what_has_one_choice_stays_as_it_is() -> None:
    assert list(choices(kernel("rmsnorm").program)) == [tw.Sizes()]
    assert chosen(kernel("rmsnorm"), {"M": 64, "D": 64}) == tw.Sizes()
    assert len({s.side for s in choices(kernel("transpose").program)}) == 3


def test_a_row_is_kept_only_where_all_read_their_own() -> None:
    text = """kernel f(X: f32[R, C]) -> (Y: f32[R, C]) where R >= 1, C >= 1, C <= 512 {
        m[r] = max(c) X[r, c]
        Y[r, c] = X[r, c] - m[r]OTHER
    }"""
    for other, kept in (("", True), (" + X[0, c]", False), (" + X[r, 0]", False), (" + X[R - 1 - r, c]", False)):
        (rows,) = tw.parse(text.replace("OTHER", other)).values()
        steps = [step.name for step in tw.gpu_schedule(rows).trace]
        assert "block" in steps, other
        assert ("cache_read" in steps) == kept, other


def test_all_ways_to_fuse_a_chain_are_ranked() -> None:
    (chain,) = tw.parse(CHAIN).values()
    ways = partitions(chain)
    assert list(ways) == ["together", "S apart", "H apart", "S, H apart"]
    found = tw.rank(chain, ways, "h200", {"M": 1024, "N": 12288})
    assert (found[0].name, found[-1].name) == ("together", "S, H apart")
    launches = {r.name: len(r.estimate.launches) for r in found if r.estimate is not None}
    assert launches == {"together": 1, "S apart": 2, "H apart": 2, "S, H apart": 3}


def test_more_kernels_may_win() -> None:
    # Written into a product's factor, what is quantised once would be for every block of columns.
    text = """kernel q(A: bf16[M, K], W: f8e4m3[K, N]) -> (Y: bf16[M, N]) { allow reassociate
        Q[i, k] = sat f8e4m3(exp(f32(A[i, k])))
        Y[i, j] = bf16(sum(k) f32(Q[i, k]) * f32(W[k, j]))
    }"""
    (quantised,) = tw.parse(text).values()
    inside = tw.Schedule(quantised)
    inside.inline("Q")
    ways = {"inside": inside, **partitions(quantised)}
    first, *_, last = tw.rank(quantised, ways, "h200", {"M": 4096, "K": 4096, "N": 1536})
    assert (first.name, last.name) == ("together", "inside")
    assert first.estimate is not None
    assert len(first.estimate.launches) == 2


def test_of_many_equations_not_all_ways_are_made() -> None:
    lines = [f"    T{n}[i] = {'X' if not n else f'T{n - 1}'}[i] * 2" for n in range(MOST_APART + 2)]
    text = "\n".join(["kernel long(X: f32[N]) -> (Y: f32[N]) {", *lines, f"    Y[i] = T{MOST_APART + 1}[i] + 1", "}"])
    (long,) = tw.parse(text).values()
    count = MOST_APART + 2
    assert len(partitions(long)) == 1 + count + count + 1


def test_the_commands_take_sizes(tmp_path: Path) -> None:
    path = tmp_path / "chain.tx"
    path.write_text(CHAIN)
    words = ["--size", "M=64", "--size", "N=512"]
    shown = CliRunner().invoke(cli, ["rank", str(path), "--partitions", *words])
    assert shown.exit_code == 0, shown.output
    assert [line.split("  ")[0] for line in shown.output.splitlines()][1:] == list(partitions_names())
    both = CliRunner().invoke(cli, ["rank", str(path), *words])
    assert both.exit_code == 2
    assert "--schedules FOLDER or --partitions" in both.output
    emitted = CliRunner().invoke(cli, ["emit", "--target", "triton", str(EXAMPLES / "transpose.tx"), *words])
    assert emitted.exit_code == 0, emitted.output
    wrong = CliRunner().invoke(cli, ["emit", str(EXAMPLES / "transpose.tx"), *words])
    assert wrong.exit_code == 2
    assert "for --target triton" in wrong.output


def partitions_names() -> list[str]:
    (chain,) = tw.parse(CHAIN).values()
    found = tw.rank(chain, partitions(chain), "h200", {"M": 64, "N": 512})
    return [one.name for one in found]
