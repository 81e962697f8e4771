"""The runs whose bits every target must give: kernels, types, sizes.

`python tests/bits/catalogue.py` records them anew.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tilewright as tw
from tilewright.compiler.inputs import default_scalars, default_sizes, random_inputs
from tilewright.compiler.ir.bits import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("bits.json")
SEED = 20
# Of each size: tiny, two small tiles and one, and a little more.
WANTED = (3, 17, 33)


@dataclass(frozen=True)
class Run:
    """One kernel at one set of sizes."""

    key: str
    kernel: tw.Kernel
    sizes: dict[str, int]
    small: bool

    def arguments(self) -> dict[str, Any]:
        program = self.kernel.program
        return {**random_inputs(program, self.sizes, SEED), **default_scalars(program, {}), **self.sizes}

    def outputs(self) -> dict[str, Any]:
        result = self.kernel(**self.arguments())
        values = result if isinstance(result, tuple) else (result,)
        return dict(zip(self.kernel.program.outputs, values, strict=True))

    def digests(self) -> dict[str, str]:
        return {name: digest(array) for name, array in self.outputs().items()}


def variants(path: Path) -> Iterator[tuple[str, dict[str, tw.Kernel]]]:
    """The kernels of a file, and where they are f32 throughout, the same in f64 and f16."""
    text = path.read_text()
    yield "", tw.parse(text, path.name)
    code = re.sub(r"#.*", "", text)
    if "f32" in code and not re.search(r"\b(bf16|f16|f64|f8e4m3|f8e5m2)\b", code):
        for other in ("f64", "f16"):
            yield f" in {other}", tw.parse(re.sub(r"\bf32\b", other, text), path.name)


def catalogue() -> Iterator[Run]:
    """Every run, in a fixed order."""
    for path in sorted((ROOT / "examples").glob("*.tx")):
        for suffix, kernels in variants(path):
            for name, kernel in kernels.items():
                for wanted in WANTED:
                    sizes = default_sizes(kernel.program, {}, wanted)
                    assert sizes is not None, name
                    if len(sizes) > 3 and wanted > 17:
                        continue  # a cube of 33 and more dimensions takes long and shows nothing new
                    shown = " ".join(f"{n}={v}" for n, v in sizes.items())
                    yield Run(f"{name}{suffix}: {shown}", kernel, sizes, max(sizes.values()) <= 9)


if __name__ == "__main__":
    found = {run.key: run.digests() for run in catalogue()}
    FILE.write_text(json.dumps({"seed": SEED, "bits": found}, indent=1) + "\n")
    print(f"{len(found)} runs")
