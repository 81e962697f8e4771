"""Calls with torch tensors: what is refused before anything runs, and kernels as operations of torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
import torch

EXAMPLES = Path(__file__).parents[2] / "examples"


@cache
def compiled(name: str) -> tw.CompiledKernel:
    return tw.compile(tw.load(EXAMPLES / f"{name}.tx")[name], target="triton")


def tensors(m: int = 4, k: int = 8, n: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(m, k, dtype=torch.bfloat16), torch.zeros(k, n, dtype=torch.bfloat16)


A, W = tensors()
REFUSED: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "another type": ((A.float(), W), {}, "A is torch.bfloat16, and the tensor is torch.float32"),
    "another shape": ((A, torch.zeros(9, 6, dtype=torch.bfloat16)), {}, "W has the shape (8, 6)"),
    "columns first": ((A, torch.zeros(6, 8, dtype=torch.bfloat16).t()), {}, "W does not lie row by row"),
    "an array": ((A.float().numpy(), W), {}, "A is a torch tensor; ndarray was given"),
    "one too few": ((A,), {}, "lacks the argument W"),
    "an output of another shape": ((A, W), {"out": torch.zeros(4, 7, dtype=torch.bfloat16)}, "Y has the shape (4, 6)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what: str) -> None:
    args, keywords, message = REFUSED[what]
    with pytest.raises(tw.ArgumentError) as caught:
        compiled("matmul_silu")(*args, **keywords)
    assert message in str(caught.value)


def test_an_output_is_apart_from_the_inputs() -> None:
    square = torch.zeros(6, 6, dtype=torch.bfloat16)
    with pytest.raises(tw.ArgumentError, match="Y to write to shares memory with A"):
        compiled("matmul_silu")(square, square.clone(), out=square)


def test_a_promise_is_checked() -> None:
    X = torch.zeros(3, 0, dtype=torch.bfloat16)
    kernel = tw.load(EXAMPLES / "rmsnorm.tx")["rmsnorm"]
    with pytest.raises(tw.ArgumentError, match="where D >= 1"):
        tw.compile(kernel, target="triton")(X, torch.zeros(0, dtype=torch.bfloat16), 0.1)


def test_an_operation_knows_its_outputs() -> None:
    operation = compiled("matmul_silu").as_torch_op("tilewright_test::matmul_silu")
    found = operation(*(t.to("meta") for t in tensors()))
    assert (tuple(found.shape), found.dtype) == ((4, 6), torch.bfloat16)
    assert str(torch.ops.tilewright_test.matmul_silu.default._schema).endswith("(Tensor A, Tensor W) -> Tensor")


def test_an_operation_of_several_outputs_and_scalars() -> None:
    kernel = tw.parse(
        "kernel both(X: f32[N], s: f32, k: i32) -> (Y: f32[2 * N], n: f32[M]) { Y[i] = X[i // 2] * s\n n[i] = f32(k) }"
    )["both"]
    operation = tw.compile(kernel, target="triton").as_torch_op("tilewright_test::both")
    Y, n = operation(torch.zeros(5, device="meta"), 0.5, 3, M=7)
    assert (tuple(Y.shape), tuple(n.shape)) == ((10,), (7,))


@pytest.mark.parametrize("name", ["softmax", "a::b::c", "a::1"])
def test_an_operation_needs_a_namespace(name: str) -> None:
    with pytest.raises(ValueError, match="namespace::name"):
        compiled("matmul_silu").as_torch_op(name)


def test_other_targets_take_no_tensors() -> None:
    kernel = tw.load(EXAMPLES / "matmul_silu.tx")["matmul_silu"]
    plain = tw.compile(kernel)
    with pytest.raises(ValueError, match="takes no torch tensors"):
        plain.as_torch_op("a::b")
    with pytest.raises(ValueError, match="compiles no kernels"):
        plain.capacity()
    with pytest.raises(ValueError, match="warps"):
        tw.compile(kernel, warps=4)
    with pytest.raises(ValueError, match="warps"):
        tw.compile(kernel, target="triton", warps=3)
