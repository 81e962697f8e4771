"""A program in tiles as one Triton module: a kernel for each outermost loop nest, and the function that runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import indent
from typing import TYPE_CHECKING

from ...compiler.ir.codegen import Words
from ...compiler.ir.dtype import DTYPES
from ...compiler.ir.elementary import SEQUENCES, sequence
from ...compiler.ir.tree import loops
from ..embed import helper_names, names_used, runtime_text
from ..lower.lower import lower_to_tiles
from ..lower.tile import Dot, Elem, If, values_of
from ..naming import Names
from .elementary import function_text
from .gluon_launch import GLUON_NAMES, IMPORTS, layouts_text
from .host import HOST_NAMES, host_text
from .launch import Launch, kernel_text
from .operations import is_fast, pairs_text
from .units import UNIT_NAMES, units_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...compiler.ir.program import Program
    from ...compiler.ir.tree import Node

# Triton divides toward 0, and joins conditions by bits.
WORDS = Words(both="&", either="|", floor="floor_div")


@dataclass(frozen=True)
class Emitted:
    """A module's text, its launches in order, and the permissions that its operations lean on."""

    source: str
    launches: tuple[Launch, ...]
    leans: tuple[str, ...]


def emit_triton(program: Program, tree: Sequence[Node], heading: str, warps: int | None = None) -> Emitted:
    """A module that needs torch and triton alone, with one function of torch tensors that runs a loop tree on a GPU.

    *heading*: comments above the function's body. *warps*: of each program (None: by the largest tile). The module is
    compiled without contraction: the bits of a strict program are those of its definition.

    Raises:
        IllegalTransformError: tiles, or Triton, cannot say the schedule (rules target, shape and rounding).
    """
    parted = any(loop.roles is not None for loop in loops(tree))
    names = Names(program, [*helper_names("triton"), *HOST_NAMES, *UNIT_NAMES, *(GLUON_NAMES if parted else ())])
    tiles = lower_to_tiles(program, tree, lambda name: names[name], WORDS)
    kernels = [
        kernel_text(program, names, tiles, stmt, warps) for stmt in tiles.body if not isinstance(stmt, If) or stmt.body
    ]
    launches = tuple(launch for *_, launch in kernels)
    units, tests = units_text(tiles.body)
    host = host_text(program, names, tiles.arrays, launches, heading, tests)
    boxes = [box for launch in launches if launch.roles for box in launch.roles.boxes]
    texts = [layouts_text(boxes), *(text for _, text, _ in kernels if text)] if boxes else []
    others = "\n\n".join(indent(text, "    ") for text in texts)
    body = "\n\n\n".join([*(text for text, *_ in kernels), *([f"if GLUON:\n\n{others}"] if others else []), host])
    elementary = [sequence(f, DTYPES[t]) for f, t in SEQUENCES if re.search(rf"\b{f}_{t}\(", body)]
    functions = [pairs_text(name) for name in sorted(set(re.findall(r"\bpairs_\w+(?=\()", body)))]
    functions += [function_text(s) for s in elementary]
    helpers = runtime_text("triton", names_used("triton", "\n\n\n".join([*functions, body])))
    whole = "\n\n\n".join(part for part in (helpers, *functions, units, body) if part)
    whole = f"{IMPORTS}\n\n\n{whole}" if others else whole
    found = [f"import {name}\n" for name in ("functools", "hashlib", "warnings") if f"{name}." in whole]
    imports = f"{''.join(found)}\n" if found else ""
    head = (
        f'"""The kernel {program.name} in Triton: {program.name}(..) takes and returns torch tensors."""\n\n{imports}'
    )
    leans = {p for value in values_of(tiles.body) if isinstance(value, Dot) for p in value.leans}
    leans |= {f"approx({v.ulps})" for v in values_of(tiles.body) if isinstance(v, Elem) and is_fast(v)}
    tools = "from triton.tools.tensor_descriptor import TensorDescriptor\n" if "TensorDescriptor." in whole else ""
    source = f"{head}import torch\nimport triton\nimport triton.language as tl\n{tools}\n\n{whole}\n"
    return Emitted(source, launches, tuple(sorted(leans)))
