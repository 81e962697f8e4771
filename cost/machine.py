"""Machines: what is known of them, each figure with its unit and where it comes from; what is not known is absent.

A machine is a TOML file, of `cost/machines/` or of one's own:

    name = "H100 SXM5"
    vendor = "NVIDIA"
    kind = "data centre"

    [figures]
    memory_bandwidth = { value = 3350, unit = "GB/s", source = "section 4.1.3" }

    [[rates]]                       # of operations, by the types that go in and that adds up, and the unit that does it
    input = "bf16"
    accumulator = "f32"
    unit = "matrix"
    value = 989.4
    per = "TFLOP/s"
    source = "section 4.6.1"

    [facts]                         # what is no number
    unified_memory = false

Sections are those of two chapters on accelerators (4) and on operators (5) from which most figures are quoted.
"""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compiler.ir.errors import TilewrightError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent / "machines"

# What one of a unit is in bytes, seconds, watts, joules, hertz, square metres, operations.
UNITS: dict[str, float] = {
    "": 1,
    "%": 1e-2,
    "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
    "B/s": 1, "GB/s": 1e9, "TB/s": 1e12, "Gbit/s": 1e9 / 8,
    "FLOP": 1, "FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12,
    "Hz": 1, "MHz": 1e6, "GHz": 1e9,
    "s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9,
    "W": 1, "J": 1, "pJ": 1e-12, "J/B": 1, "pJ/B": 1e-12, "pJ/FLOP": 1e-12,
    "mm2": 1e-6,
}  # fmt: skip


class MachineError(TilewrightError, ValueError):
    """A machine that there is not, a figure that is not known of one, or a file that is none."""


@dataclass(frozen=True)
class Figure:
    """A number of a machine. *value*: in bytes, seconds, watts, hertz, operations or a quotient of them; *text*: as its
    file has it, with the unit; *source*: where it comes from."""

    value: float
    text: str
    source: str

    def __str__(self) -> str:
        """`3350 GB/s (section 4.1.3)`."""
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class Machine:
    """A machine; *rates* by (type that goes in, type that adds up, unit), *facts*: what is no number."""

    id: str
    name: str
    vendor: str
    kind: str
    architecture: str
    notes: str
    figures: Mapping[str, Figure]
    rates: Mapping[tuple[str, str, str], Figure]
    facts: Mapping[str, Any]

    def figure(self, name: str) -> Figure:
        """A figure by its name, such as `memory_bandwidth`.

        Raises:
            MachineError: it is not known of this machine.
        """
        if name in self.figures:
            return self.figures[name]
        near = difflib.get_close_matches(name, self.figures, 1)
        known = f"did you mean {near[0]}?" if near else f"known are {', '.join(self.figures) or 'no figures'}"
        raise MachineError(f"{name} of {self.name} is not known; {known}")

    def rate(self, taken: str, accumulator: str, unit: str = "matrix") -> Figure:
        """Operations a second of one kind: factors of the type *taken* (`bf16`), sums in *accumulator* (`f32`).

        Raises:
            MachineError: it is not known of this machine.
        """
        found = self.rates.get((taken, accumulator, unit))
        if found is not None:
            return found
        known = ", ".join(f"{a} into {b} ({u})" for a, b, u in self.rates) or "no rates"
        raise MachineError(
            f"how fast {self.name} adds {taken} into {accumulator} ({unit}) is not known; known are {known}"
        )


def machines() -> tuple[str, ...]:
    """The ids of the machines that come with the package."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def machine(name: str) -> Machine:
    """A machine by its id, such as `h100-sxm`, or by the path of a file of one's own.

    Raises:
        MachineError: there is no such machine, or the file describes none.
    """
    if name in machines():
        return read(FOLDER / f"{name}.toml")
    if name.endswith(".toml"):
        return read(Path(name))
    near = difflib.get_close_matches(name, machines(), 3, 0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(machines())}"
    raise MachineError(f"no machine {name}; {hint}")


def read(path: Path) -> Machine:
    """The machine that a file describes.

    Raises:
        MachineError: the file cannot be read, or describes no machine; with the place.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as error:
        raise MachineError(f"cannot read {path}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MachineError(f"{path} is no TOML file: {error}") from None
    missing = [key for key in ("name", "vendor", "kind") if not isinstance(content.get(key), str)]
    if missing:
        raise MachineError(f'{path} does not say its {missing[0]}: {missing[0]} = ".."')
    unknown = set(content) - {"name", "vendor", "kind", "architecture", "notes", "figures", "rates", "facts"}
    if unknown:
        raise MachineError(f"{path}: {sorted(unknown)[0]} means nothing here; figures belong under [figures]")
    figures = {n: _figure(path, n, v, "unit") for n, v in _table(path, content, "figures").items()}
    rates: dict[tuple[str, str, str], Figure] = {}
    for number, rate in enumerate(content.get("rates", [])):
        what = f"rate {number + 1}"
        keys = [rate.get(k) for k in ("input", "accumulator", "unit")] if isinstance(rate, dict) else [None]
        if not all(isinstance(k, str) for k in keys):
            raise MachineError(f"{path}: {what} wants input, accumulator and unit")
        rates[(str(keys[0]), str(keys[1]), str(keys[2]))] = _figure(path, what, rate, "per")
    texts = {key: str(content.get(key, "")) for key in ("architecture", "notes")}
    return Machine(
        path.stem,
        content["name"],
        content["vendor"],
        content["kind"],
        texts["architecture"],
        texts["notes"],
        figures,
        rates,
        _table(path, content, "facts"),
    )


def _table(path: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise MachineError(f"{path}: {name} is a table: [{name}]")
    return found


def _figure(path: Path, name: str, given: Any, key: str) -> Figure:
    """A figure from its value, its unit, which *key* holds, and its source."""
    value, unit, source = (given.get(k) if isinstance(given, dict) else None for k in ("value", key, "source"))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise MachineError(f"{path}: {name} wants a value that is a number, {key} and source")
    if not isinstance(unit, str) or unit not in UNITS:
        known = ", ".join(u for u in UNITS if u)
        raise MachineError(f'{path}: the unit of {name} is one of {known}, or "" for a count; not {unit!r}')
    if not isinstance(source, str) or not source:
        raise MachineError(f'{path}: {name} does not say where it comes from: source = ".."')
    return Figure(value * UNITS[unit], f"{value} {unit}".rstrip(), source)
