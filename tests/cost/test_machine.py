"""Machines: every file is read, every figure has a unit and a source, and what is not known is an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tilewright.cost.machine import FOLDER, UNITS, Figure, MachineError, machine, machines, read

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = 'name = "X"\nvendor = "V"\nkind = "K"\n'


@pytest.mark.parametrize("name", machines())
def test_a_machine_says_where_its_figures_come_from(name: str) -> None:
    found = machine(name)
    assert found.id == name
    assert found.name
    for figure in (*found.figures.values(), *found.rates.values()):
        assert figure.source
        assert figure.value >= 0
        assert figure.text.partition(" ")[2] in UNITS


def test_figures_are_in_units_without_prefixes() -> None:
    found = machine("h100-sxm")
    assert found.figure("memory_bandwidth") == Figure(3350e9, "3350 GB/s", "sections 4.1.3, 5.1.5")
    assert found.rate("bf16", "f32").value == 989.4e12
    assert found.figure("memory_latency").value == pytest.approx(600e-9)
    assert found.figure("die_area").value == pytest.approx(814e-6)
    assert machine("tpu-v1").figure("unified_buffer").value == 24 * 2**20
    assert str(found.figure("power")) == "700 W (section 4.1.3)"


def test_rates_are_told_apart_by_what_adds_up() -> None:
    found = machine("rtx-4090")
    assert found.rate("bf16", "f32").value == 165.2e12
    assert found.rate("f16", "f16").value == 330e12
    with pytest.raises(MachineError, match=r"adds f16 into f32 \(matrix\) is not known; known are bf16 into f32"):
        found.rate("f16", "f32")


def test_what_is_not_known_is_an_error() -> None:
    with pytest.raises(MachineError, match="l2 of H100 SXM5 is not known; known are memory_capacity"):
        machine("h100-sxm").figure("l2")
    with pytest.raises(MachineError, match="memory_bandwith of H100 SXM5 is not known; did you mean memory_bandwidth"):
        machine("h100-sxm").figure("memory_bandwith")
    with pytest.raises(MachineError, match=r"no machine h100; did you mean .*h100-sxm"):
        machine("h100")
    with pytest.raises(MachineError, match="no machine xyzzy; there are a100-80gb-sxm"):
        machine("xyzzy")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is no TOML file"),
        ('vendor = "V"', "does not say its name"),
        (f"{PLAIN}speed = 3", "speed means nothing here"),
        (f"{PLAIN}figures = 3", "figures is a table"),
        (f"{PLAIN}[figures]\npower = 3", "power wants a value that is a number"),
        (f'{PLAIN}[figures]\npower = {{ value = true, unit = "W", source = "s" }}', "power wants a value"),
        (f'{PLAIN}[figures]\npower = {{ value = 3, unit = "PS", source = "s" }}', "the unit of power is one of"),
        (f'{PLAIN}[figures]\npower = {{ value = 3, unit = "W" }}', "power does not say where it comes from"),
        (f'{PLAIN}[[rates]]\ninput = "bf16"', "rate 1 wants input, accumulator and unit"),
    ],
)
def test_a_file_that_describes_no_machine_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(MachineError, match=message):
        read(path)


def test_a_machine_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text(f'{PLAIN}[figures]\npower = {{ value = 3, unit = "W", source = "a label" }}\n')
    assert machine(str(path)).figure("power").value == 3
    with pytest.raises(MachineError, match="cannot read"):
        machine(str(tmp_path / "none.toml"))


def test_files_and_ids_agree() -> None:
    assert set(machines()) == {p.stem for p in FOLDER.glob("*.toml")}
