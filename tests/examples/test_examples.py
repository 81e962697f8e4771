"""Every example against plain NumPy, bit for bit where the order of operations decides the bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw

from . import bounded_cases, exact_cases
from .estimate import Estimate
from .inputs import Array, Case, Source

EXAMPLES = Path(__file__).parents[2] / "examples"

PRODUCT = ((1, 1, 1), (7, 5, 3), (16, 32, 16), (17, 33, 17), (3, 0, 5), (0, 4, 3), (4, 3, 0))
ROWS = ((1, 1), (5, 7), (16, 32), (17, 33), (0, 5))
PLANE = ((1, 1), (7, 13), (16, 32), (17, 33), (5, 0), (0, 5), (0, 0))
IMAGE = ((1, 1, 1), (7, 5, 3), (16, 16, 4), (17, 17, 1), (0, 5, 2), (5, 0, 2), (4, 3, 0))

# Sizes in the order in which the case's function takes them: 1, primes, multiples of 16, one more, none.
SIZES: dict[str, dict[str, tuple[tuple[int, ...], ...]]] = {
    "matmul": {"matmul": PRODUCT, "matmul_blocks": (*PRODUCT, (3, 256, 2), (2, 257, 3), (2, 769, 1))},
    "matmul_silu": {"matmul_silu": PRODUCT},
    "matmul_sm90": {"matmul_sm90": (*PRODUCT, (2, 129, 3))},
    "matmul_fp8": {"matmul_fp8": (*PRODUCT, (2, 129, 3), (1, 400, 2))},
    "gated_mlp": {"gated_mlp": PRODUCT},
    "rmsnorm": {"rmsnorm": (*ROWS, (3, 1024), (2, 1025), (2, 3001)), "rmsnorm_free": (*ROWS, (2, 257))},
    "layernorm": {"layernorm": (*ROWS, (2, 257))},
    "softmax": {"softmax": PLANE, "softmax_online": PLANE},
    "attention_gqa": {
        "attention_gqa": (
            (1, 1, 1, 1),
            (2, 3, 7, 5),
            (1, 1, 16, 16),
            (1, 2, 17, 8),
            (2, 1, 0, 4),
            (0, 1, 3, 4),
            (1, 0, 3, 4),
            (1, 1, 3, 0),
        ),
    },
    "rotary": {"rotary": IMAGE},
    "conv2d": {
        "conv2d": (
            (1, 1, 1, 1, 1),
            (2, 7, 5, 3, 2),
            (1, 16, 16, 16, 4),
            (1, 17, 5, 17, 3),
            (0, 4, 4, 2, 2),
            (1, 0, 4, 2, 2),
            (1, 4, 3, 0, 2),
            (1, 4, 3, 2, 0),
        ),
    },
    "depthwise": {"depthwise": IMAGE},
    "maxpool": {"maxpool": (*IMAGE, (2, 2, 2), (32, 33, 5))},
    "transpose": {"transpose": PLANE},
    "embedding": {
        "embedding": ((1, 1, 1), (13, 7, 5), (32, 16, 48), (33, 17, 49), (5, 3, 0), (0, 3, 0), (5, 0, 3)),
    },
    "quant_fp8": {"quant_fp8": PRODUCT},
    "cross_entropy": {
        "cross_entropy": ((1, 1), (5, 7), (16, 32), (17, 33), (64, 3), (65, 5), (2, 256), (2, 521)),
    },
    "prefix_sum": {"prefix_sum": ((0,), (1,), (7,), (16,), (17,), (1025,))},
    "stencil_time": {
        "stencil_time": ((2, 2, 3), (2, 5, 1), (7, 5, 0), (7, 5, 1), (13, 11, 7), (16, 32, 16), (17, 33, 17)),
    },
    "wavefront": {"wavefront": PLANE},
    "argmax": {"argmax_rows": ROWS, "top1": ROWS},
    "pairwise": {"pairwise": PRODUCT},
    "trisolve": {
        "trisolve": ((0, 3), (1, 1), (7, 5), (16, 16), (17, 33), (5, 0)),
        "trisolve_upper": ((0, 3), (1, 1), (7, 5), (16, 16), (17, 33), (5, 0)),
    },
}
RUNS = [
    pytest.param(file, kernel, sizes, id=f"{kernel}-{'x'.join(map(str, sizes))}")
    for file, kernels in SIZES.items()
    for kernel, table in kernels.items()
    for sizes in table
]


def make_case(kernel: str, sizes: tuple[int, ...]) -> Case:
    """Arguments and expected results of one run, the same every time."""
    function = getattr(exact_cases, kernel, None) or getattr(bounded_cases, kernel)
    return function(Source(sum(sizes)), *sizes)


def check_result(got: Array, want: Array | Estimate) -> None:
    """Within the error of an estimate; the same type, shape and bits as an array (any NaN is a NaN)."""
    if isinstance(want, Estimate):
        assert got.shape == want.value.shape
        apart = abs(got.astype(np.float64) - want.value)
        assert (apart <= want.error).all(), f"{(apart - want.error).max()} beyond the bound"
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    same = bits(got) == bits(want)
    if np.issubdtype(got.dtype, np.floating):
        same |= np.isnan(got) & np.isnan(want)
    assert same.all(), f"{(~same).sum()} of {same.size} elements differ"


def bits(array: Array) -> Array:
    """The elements of *array* as unsigned integers."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    """Every kernel of every example, by name."""
    return {name: kernel for file in sorted(EXAMPLES.glob("*.tx")) for name, kernel in tw.load(file).items()}


@pytest.mark.parametrize(("file", "kernel", "sizes"), RUNS)
def test_example_against_numpy(kernels: dict[str, Any], file: str, kernel: str, sizes: tuple[int, ...]) -> None:
    with np.errstate(all="ignore"):
        case = make_case(kernel, sizes)
    got = kernels[kernel](**case.arguments)
    results = got if isinstance(got, tuple) else (got,)
    assert len(results) == len(case.results)
    for result, want in zip(results, case.results, strict=True):
        check_result(result, want)


def test_every_example_and_every_kernel_in_it_has_a_case() -> None:
    found = {file.stem: set(tw.load(file)) for file in EXAMPLES.glob("*.tx")}
    assert found == {file: set(table) for file, table in SIZES.items()}


@pytest.mark.parametrize("file", sorted(SIZES))
def test_example_explains_itself_and_draws_no_warning(file: str) -> None:
    path = EXAMPLES / f"{file}.tx"
    comment = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert len(comment) >= 2
    assert [str(warning) for kernel in tw.load(path).values() for warning in kernel.warnings] == []


def test_a_wrong_order_of_a_sum_is_seen() -> None:
    """The data of the bit-for-bit cases tell the orders of a sum apart."""
    case = exact_cases.matmul(Source(0), 7, 33, 5)
    A, B = case.arguments["A"], case.arguments["B"]
    backwards = exact_cases.ascending(
        np.zeros((7, 5), np.float32), [A[:, k, None] * B[None, k, :] for k in reversed(range(33))]
    )
    with pytest.raises(AssertionError, match="elements differ"):
        check_result(backwards, case.results[0])
