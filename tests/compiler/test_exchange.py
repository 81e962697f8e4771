"""Tensors of another library: their memory is read and written where it is."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.compiler.arguments import ArgumentError
from tilewright.compiler.exchange import as_array
from tilewright.compiler.ir.dtype import DTYPES

torch = pytest.importorskip("torch", reason="torch, whose tensors these are, is not installed")
TYPES = ("f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2", "i8", "i64", "bool")


def tensor(name: str, *shape: int) -> Any:
    kinds = {"f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2", "bf16": "bfloat16", "bool": "bool"}
    kind = getattr(torch, kinds.get(name, name.replace("f", "float").replace("i", "int")))
    return torch.arange(int(np.prod(shape))).reshape(shape).to(torch.float32).to(kind)


@pytest.mark.parametrize("name", TYPES)
def test_memory_is_shared_whatever_the_type(name: str) -> None:
    given = tensor(name, 3, 4)
    for one in (given, given.t(), given[1:, ::2], given[:, :0], given[0, 1]):
        array = as_array(one)
        assert array is not None
        assert array.dtype == DTYPES[name].numpy
        assert array.shape == tuple(one.shape)
        assert np.array_equal(array.astype(np.float32), one.to(torch.float32).numpy())
    array = as_array(given)
    assert array is not None
    given[1, 2] = 0
    assert array[1, 2] == 0
    array[2, 3] = 1
    assert given[2, 3].item() == 1


def test_a_kernel_reads_and_writes_tensors() -> None:
    (kernel,) = tw.parse("kernel neg(X: bf16[M, N]) -> (Y: bf16[M, N]) { Y[i, j] = bf16(-f32(X[i, j])) }").values()
    for call in (kernel, tw.compile(kernel), tw.compile(kernel, target="numpy")):
        x, out = tensor("bf16", 5, 7), torch.zeros(5, 7, dtype=torch.bfloat16)
        assert np.array_equal(np.asarray(call(x)).astype(np.float32), (-x).float().numpy())
        call(x, out=out)
        assert torch.equal(out, -x)
        with pytest.raises(ArgumentError, match="shares memory"):
            call(x, out=x)


def test_what_cannot_be_shared_is_said() -> None:
    (kernel,) = tw.parse("kernel same(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] }").values()
    with pytest.raises(ArgumentError, match="detach"):
        kernel(torch.ones(3, requires_grad=True))
    with pytest.raises(ArgumentError, match="X is a f32 array; Tensor was given"):
        kernel(torch.ones(3, device="meta"))
    with pytest.raises(ArgumentError, match="the array is bfloat16"):
        kernel(tensor("bf16", 3))
    with pytest.raises(ArgumentError, match="list was given: use np"):
        kernel([1.0])


def test_negated_views_and_what_is_not_to_be_written() -> None:
    (kernel,) = tw.parse("kernel same(X: f32[N]) -> (Y: f32[N]) { Y[i] = X[i] }").values()
    negated = torch.imag(torch.tensor([1 + 2j, 3 + 4j]).conj())
    with pytest.raises(ArgumentError, match="resolve_neg"):
        kernel(negated)
    assert np.array_equal(kernel(negated.resolve_neg()), [-2, -4])

    class Fixed:
        """An array of another library that nobody may write to."""

        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array
            array.flags.writeable = False

        def __dlpack__(self, **words: Any) -> Any:
            return self.array.__dlpack__(**words)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    given = Fixed(np.arange(3, dtype=np.float32))
    assert np.array_equal(kernel(given), [0, 1, 2])
    with pytest.raises(ArgumentError, match="read-only"):
        kernel(np.zeros(3, np.float32), out=given)


def test_memory_lives_as_long_as_its_array() -> None:
    given = tensor("bf16", 1000)
    array = as_array(given)
    assert array is not None
    part = array[500:]
    del given, array
    gc.collect()
    # Were it free, one of these would have it.
    others = [torch.zeros(1000, dtype=torch.bfloat16) for _ in range(100)]
    assert part.astype(np.float32)[0] == 500
    del others
