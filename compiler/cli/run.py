"""txc run: a kernel on random or given inputs."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ...passes.refusal import IllegalTransformError
from ..compile import compile
from ..inputs import default_scalars, default_sizes, random_inputs
from ..ir.bits import digest, same_bits
from ..tile_check import each, within
from .common import pairs, read_kernel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..arguments import Array, Number
    from ..compiled import CompiledKernel
    from ..ir.program import Program, Tensor
    from ..kernel import Kernel

SMALL = 5
# What `txc run` will make up inputs for.
MEMORY = 16 << 30


@click.command(epilog="Example: txc run examples/matmul_silu.tx --size M=64 K=96 N=80 --seed 0 --check")
@click.argument("file")
@click.option("--kernel", "name", help="The kernel, where the file holds several.")
@click.option("--target", type=click.Choice(["llvm", "numpy"]), help="What runs it.  [default: llvm, where it can]")
@click.option("--size", "sizes", multiple=True, metavar="NAME=N ...", help="Sizes; those not given are chosen.")
@click.option("--scalar", "scalars", multiple=True, metavar="NAME=X ...", help="Scalar arguments.")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=F.npy ...",
    help="Inputs from files; the others are random.",
)
@click.option(
    "--save",
    "saves",
    multiple=True,
    metavar="NAME=F.npy ...",
    help="Write outputs to files (bf16 and 8-bit floats as raw bytes: .npy does not know them).",
)
@click.option("--seed", default=0, type=click.IntRange(min=0), show_default=True, help="Seed of the random inputs.")
@click.option(
    "--check",
    "wants_check",
    is_flag=True,
    help="Compare with the definition, and that with the scalar interpreter at small sizes, bit for bit.",
)
def run(
    file: str,
    name: str | None,
    target: str | None,
    sizes: tuple[str, ...],
    scalars: tuple[str, ...],
    inputs: tuple[str, ...],
    saves: tuple[str, ...],
    seed: int,
    wants_check: bool,
) -> None:
    """Run a kernel in FILE and print a summary of its outputs.

    llvm: as machine code, by the default schedule; numpy: its definition.
    """
    kernel = read_kernel(file, name)
    program = kernel.program
    tensors = [n for n in program.parameters if n in program.tensors]
    arrays = {n: _read(program.tensors[n], path) for n, path in pairs("--input", inputs, tensors).items()}
    targets = pairs("--save", saves, program.outputs)
    values = {n: _number(n, v) for n, v in pairs("--scalar", scalars, tuple(program.scalars)).items()}
    chosen = {n: _size(n, v) for n, v in pairs("--size", sizes, program.sizes).items()}
    all_sizes = _sizes(program, chosen, arrays)
    _check_room(program, all_sizes)
    arguments: dict[str, Any] = {
        **random_inputs(program, all_sizes, seed),
        **arrays,
        **default_scalars(program, values),
        **all_sizes,
    }
    compiled = _compiled(kernel, target)
    function = compiled or kernel
    if compiled is not None:
        compiled.prepare()
    start = time.perf_counter()
    result = function(**arguments)
    elapsed = time.perf_counter() - start
    results = dict(zip(program.outputs, each(result), strict=True))
    click.echo(f"{kernel.signature}\n  {_shown(all_sizes)}, seed {seed}: {elapsed * 1e3:.1f} ms")
    for output, array in results.items():
        click.echo(summary(output, array))
    for output, path in targets.items():
        _write(path, results[output])
    if wants_check:
        checks = [check_bits(kernel, all_sizes, values, seed)]
        if compiled is not None:
            checks.insert(0, check_code(compiled, arguments, results))
        for _, line in checks:
            click.echo(line)
        sys.exit(0 if all(equal for equal, _ in checks) else 1)


def _compiled(kernel: Kernel, target: str | None) -> CompiledKernel | None:
    """The kernel as machine code; None where its definition is to run."""
    if target == "numpy":
        return None
    try:
        return compile(kernel, target="llvm")
    except IllegalTransformError as error:
        if target is not None:
            raise
        click.echo(f"in NumPy: {error.refusal.message}")
        return None


def _number(name: str, text: str) -> Number:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    raise click.UsageError(f"--scalar {name} takes a number, not '{text}'")


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise click.UsageError(f"--size {name} takes a whole number of at least 0, not '{text}'")
    return int(text)


def _by_name(dtype: np.dtype[Any]) -> bool:
    """Whether a .npy file keeps a type; it does not know bf16 and the 8-bit floats."""
    return dtype.name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def _read(tensor: Tensor, path: str) -> Array:
    try:
        with open(path, "rb") as file:
            array = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise click.UsageError(f"cannot read {tensor.name} from {path}: {error}") from None
    if not isinstance(array, np.ndarray):
        raise click.UsageError(f"cannot read {tensor.name} from {path}: it holds several arrays, not one")
    wanted = tensor.dtype.numpy
    raw = array.dtype == np.dtype(f"V{wanted.itemsize}")
    return array.view(wanted) if raw and not _by_name(wanted) else array


def _write(path: str, array: Array) -> None:
    try:
        with open(path, "wb") as file:
            np.save(file, array if _by_name(array.dtype) else array.view(f"V{array.dtype.itemsize}"))
    except OSError as error:
        raise click.UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _sizes(program: Program, given: Mapping[str, int], arrays: Mapping[str, Array]) -> dict[str, int]:
    fixed = dict(given)
    for name, array in arrays.items():
        for extent, length in zip(program.tensors[name].extents, array.shape, strict=False):
            size = extent.size.bare if extent.size is not None else None
            if size is not None:
                fixed.setdefault(size, int(length))
    sizes = default_sizes(program, fixed, 16)
    if sizes is None:
        promises = ", ".join(p.text for p in program.promises)
        raise click.UsageError(f"no sizes fit {_shown(fixed)}" + (f" and where {promises}" if promises else ""))
    return sizes


def _check_room(program: Program, sizes: Mapping[str, int]) -> None:
    """Refuse sizes at which the arrays would not fit in memory."""
    total = 0
    for tensor in program.tensors.values():
        count = 1
        for extent in tensor.extents:
            count *= extent.interval(sizes)[1]
        total += count * tensor.dtype.numpy.itemsize
    if total > MEMORY:
        raise click.UsageError(f"at {_shown(sizes)} the arrays take {total / 2**30:.3g} GiB, more than {MEMORY >> 30}")


def _shown(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{n}={v}" for n, v in sizes.items()) or "no sizes"


def summary(name: str, array: Array) -> str:
    """An output in a line or two: type, shape, range, first elements, and a hash of its bits."""
    head = f"  {name}: {array.dtype.name}{list(array.shape)}"
    if array.size == 0:
        return f"{head} empty"
    wide = array.astype(np.float64)
    first = " ".join(f"{v:.6g}" for v in wide.reshape(-1)[:4])
    with np.errstate(all="ignore"):
        spread = f"min {np.min(wide):.6g}  max {np.max(wide):.6g}  mean {np.mean(wide):.6g}"
    return f"{head}  {spread}\n    {first}{' ...' if array.size > 4 else ''}  bits {digest(array)}"


def check_code(
    compiled: CompiledKernel, arguments: Mapping[str, Any], results: Mapping[str, Array]
) -> tuple[bool, str]:
    """Compare what machine code gave with the definition: bit for bit, or within the bound of what is permitted."""
    program = compiled.kernel.program
    wanted = dict(zip(program.outputs, each(compiled.kernel(**arguments)), strict=True))
    differing = [n for n in program.outputs if not same_bits(results[n], wanted[n])]
    if not differing:
        return True, "  checked: the bits of the definition"
    used = ", ".join(sorted(compiled.permissions))
    if used:
        bounds = dict(zip(program.outputs, each(compiled.error_bound(**arguments)), strict=True))
        far = [n for n in differing if not within(wanted[n], results[n], bounds[n]).all()]
        if not far:
            return True, f"  checked: within the bound of what is permitted ({used})"
        return False, f"  DIFFERS from the definition by more than {used} permits: {', '.join(far)}"
    return False, f"  DIFFERS from the definition: {', '.join(differing)}"


def check_bits(kernel: Kernel, sizes: Mapping[str, int], scalars: Mapping[str, Number], seed: int) -> tuple[bool, str]:
    """Compare the NumPy reference with the scalar interpreter, at sizes of about SMALL."""
    program = kernel.program
    limits = {n: max(v, 0) for n, v in sizes.items()}
    small = default_sizes(program, {n: v for n, v in sizes.items() if v <= SMALL}, SMALL, limits) or dict(sizes)
    arguments: dict[str, Any] = {
        **random_inputs(program, small, seed),
        **default_scalars(program, scalars),
        **small,
    }
    result = kernel(**arguments)
    results = dict(zip(program.outputs, each(result), strict=True))
    wanted = kernel.interpreted(**arguments)
    differing = [n for n in program.outputs if not same_bits(results[n], wanted[n])]
    if differing:
        return False, f"  DIFFERS from the interpreter at {_shown(small)}: {', '.join(differing)}"
    return True, f"  checked: the same bits as the scalar interpreter, at {_shown(small)}"
