"""Pictures: that they are drawn, of what, and what is said where they cannot be."""

from __future__ import annotations

import builtins
import runpy
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from click.testing import CliRunner
from matplotlib.figure import Figure
from tilewright.compiler.cli import cli
from tilewright.cost.estimate import Estimate, estimate
from tilewright.cost.machine import machine
from tilewright.cost.plot import resources, roof, save, scatter, slots

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {"M": 1024, "K": 4096, "N": 12288}


def product() -> Estimate:
    schedule = tw.Schedule(tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"])
    runpy.run_path(str(EXAMPLES / "schedules" / "matmul_large.py"))["schedule"](schedule)
    return estimate(schedule.state.program, schedule.state.tree, machine("h200"), SIZES)


def rows() -> Estimate:
    kernel = tw.load(EXAMPLES / "softmax.tx")["softmax"]
    state = tw.gpu_schedule(kernel).state
    return estimate(state.program, state.tree, machine("h200"), {"R": 1024, "C": 8192})


def test_the_launches_lie_under_the_roof() -> None:
    found = product()
    axes = Figure().add_subplot()
    roof(axes, found, [("the same", found)])
    (line,) = axes.get_lines()
    ((x, y),) = axes.collections[0].get_offsets()
    (launch,) = found.launches
    assert x == launch.flops / sum(launch.memory.values())
    assert y == pytest.approx(launch.flops / launch.seconds / 1e12)
    height = dict(zip(*line.get_data(), strict=True))
    assert y <= min(h for intensity, h in height.items() if intensity >= x)
    assert [t.get_text() for t in axes.texts] == ["launch 1", "the same"]


def test_a_bar_for_each_resource_and_the_one_that_binds_stands_out() -> None:
    found = product()
    axes = Figure().add_subplot()
    resources(axes, found.launches)
    names = [t.get_text() for t in axes.get_yticklabels()]
    widths = {name: bar.get_width() for name, bar in zip(names, axes.patches, strict=True)}
    (launch,) = found.launches
    assert widths == {r.name: r.seconds * 1e6 for r in launch.resources if r.seconds}
    colours = {name: bar.get_facecolor() for name, bar in zip(names, axes.patches, strict=True)}
    assert [n for n in names if colours[n] != colours["memory"]] == [launch.binds]


def test_blocks_on_their_way_are_those_of_the_simulation() -> None:
    found = product()
    axes = Figure().add_subplot()
    slots(axes, found.launches, count=5)
    (pipe,) = found.launches[0].pipelines
    assert pipe.slots == 4
    assert len(axes.patches) == 10
    used = axes.patches[1::2]
    assert all(bar.get_width() == pytest.approx(pipe.compute * 1e6) for bar in used)
    starts = [bar.get_x() for bar in used]
    assert starts == sorted(starts)
    none = Figure().add_subplot()
    slots(none, rows().launches)
    assert [t.get_text() for t in none.texts] == ["no loop is pipelined"]


def test_files_are_written(tmp_path: Path) -> None:
    save(product(), tmp_path / "product.png", [("rows", rows())])
    save(rows(), tmp_path / "rows.svg")
    scatter([("64 x 64", 24e3, 3e9), ("128 x 128", 96e3, 1.5e9)], [(24e3, 1e9), (96e3, 5e8)], tmp_path / "tiles.png")
    assert all(path.stat().st_size > 5000 for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match="format"):
        save(rows(), tmp_path / "picture.nothing")


def test_the_command_draws(tmp_path: Path) -> None:
    path, to = str(EXAMPLES / "softmax.tx"), tmp_path / "costs.png"
    words = ["explain", path, "--kernel", "softmax", "--size", "R=64", "--size", "C=128", "--plot"]
    shown = CliRunner().invoke(cli, [*words, str(to)])
    assert shown.exit_code == 0, shown.output
    assert to.stat().st_size > 5000
    for wrong, why in (("costs.nothing", "format"), (str(tmp_path / "no" / "folder.png"), "No such file")):
        shown = CliRunner().invoke(cli, [*words, wrong])
        assert shown.exit_code == 2
        assert f"--plot {wrong}" in shown.output
        assert why.lower() in shown.output.lower()


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **words: Any) -> Any:
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *args, **words)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'tilewright\[plot\]'"):
        save(rows(), tmp_path / "rows.png")
