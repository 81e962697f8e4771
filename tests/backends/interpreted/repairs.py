"""Repairs of Triton's interpreter, so that it computes what a GPU does: to be made before a kernel is run in it.

It keeps bf16 and 8-bit floats as words and computes with the words; it truncates where a GPU rounds to nearest; its fma
rounds twice; it knows no assembly; NaN goes through its every minimum, and its maximum may take -0 for +0; it cannot
take a tile of one element for a number with newer NumPy; a reduction by a function of the program's own goes element by
element; and it reads and writes anywhere in memory.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import triton.language as tl
from tilewright.backends.numpy.runtime import fma_f32, fma_f64, fold, maximum, minimum
from tilewright.backends.triton.quotients import RECIPROCALS, reciprocal
from tilewright.compiler.ir.dtype import DTYPES
from tilewright.compiler.ir.fold import FAMILIES
from triton.runtime import interpreter

BUILDER = interpreter.InterpreterBuilder
STORED_AS_WORDS = {
    tl.bfloat16: np.dtype(ml_dtypes.bfloat16),
    tl.float8e4nv: np.dtype(ml_dtypes.float8_e4m3fn),
    tl.float8e5: np.dtype(ml_dtypes.float8_e5m2),
}
# First and one past the last address of each tensor of the launch.
ranges: list[tuple[int, int]] = []


def numbers(handle: Any) -> Any:
    """The values of a tile as an array of their own type."""
    kind = STORED_AS_WORDS.get(handle.dtype.scalar)
    return handle.data if kind is None else np.ascontiguousarray(handle.data).view(kind).reshape(handle.data.shape)


def handle(values: Any, kind: Any) -> Any:
    """A tile of values, kept as the interpreter keeps that type."""
    stored = STORED_AS_WORDS.get(kind.scalar)
    if stored is not None:
        values = np.asarray(values).astype(stored).view(interpreter._get_np_dtype(kind))
    return interpreter.TensorHandle(values, kind.scalar)


def cast(self: Any, source: Any, kind: Any) -> Any:
    values, target = numbers(source), kind.scalar
    if target not in STORED_AS_WORDS:
        wide = values.astype(np.float32) if source.dtype.scalar in STORED_AS_WORDS else values
        return interpreter.TensorHandle(wide.astype(interpreter._get_np_dtype(kind)), target)
    narrow = values.astype(np.float32)
    if target != tl.bfloat16:
        # A GPU's cast to 8 bits goes no further than the largest number.
        largest = float(ml_dtypes.finfo(STORED_AS_WORDS[target]).max)
        narrow = np.clip(narrow, -largest, largest)
    return handle(narrow, kind)


# Whether products are added as the matrix units of sm_90 do it, for a kernel that asks for that.
units: list[bool] = [False]


def dot(self: Any, a: Any, b: Any, held: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
    if units[0]:
        name = next(n for n, d in DTYPES.items() if d.numpy == numbers(a).dtype)
        unit = FAMILIES["sm_90"][name]
        facts = unit.block, max_num_imprecise_acc or 0, unit.align, unit.bits, unit.least, unit.cut
        factors = numbers(a)[..., :, None, :], np.swapaxes(numbers(b), -1, -2)[..., None, :, :]
        return interpreter.TensorHandle(fold(held.data, *factors, *facts), held.dtype.scalar)
    left, right = (numbers(x).astype(np.float32) for x in (a, b))
    if "TF32" in str(input_precision).upper() and a.dtype.scalar == tl.float32:
        left, right = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (left, right))
    return interpreter.TensorHandle(np.matmul(left, right) + held.data, held.dtype.scalar)


def fma(self: Any, x: Any, y: Any, z: Any) -> Any:
    function = {np.dtype(np.float32): fma_f32, np.dtype(np.float64): fma_f64}[z.data.dtype]
    return interpreter.TensorHandle(function(*np.broadcast_arrays(x.data, y.data, z.data)), z.dtype.scalar)


def inline_asm(self: Any, text: str, constraints: str, values: Any, kinds: Any, pure: bool, pack: int) -> Any:
    """What a GPU approximates: each at two of three arguments off by as much as it may be."""
    x = np.asarray(values[0].data, np.float32)
    place = x.view(np.uint32) % RECIPROCALS
    if text == "rcp.approx.ftz.f32 $0, $1;":
        found = np.choose(place, [reciprocal(x, n) for n in range(RECIPROCALS)])
    else:
        function = {"ex2.approx.f32 $0, $1;": np.exp2, "rsqrt.approx.f32 $0, $1;": lambda x: 1 / np.sqrt(x)}[text]
        found = function(x.astype(np.float64)) * (1 + (place.astype(np.float64) - 1) * 2.0**-22.4)
    result = interpreter.TensorHandle(found.astype(np.float32), tl.float32)
    return SimpleNamespace(get_result=lambda number: result)


def _binary(original: Any) -> Any:
    def binary(self: Any, left: Any, right: Any, operation: Any) -> Any:
        kind = left.dtype.scalar
        if operation in (np.maximum, np.minimum) and kind.is_floating():
            function = maximum if operation is np.maximum else minimum
            return handle(function(*np.broadcast_arrays(numbers(left), numbers(right))), kind)
        if kind in STORED_AS_WORDS:
            result = operation(numbers(left).astype(np.float32), numbers(right).astype(np.float32))
            return interpreter.TensorHandle(result, tl.int1) if result.dtype == bool else handle(result, kind)
        return original(self, left, right, operation)

    return binary


def _reduce(self: Any, given: Any) -> Any:
    """A reduction by a function of the program's own, tile by tile from the first on."""
    (whole,) = given
    slices = np.moveaxis(whole.handle.data, self.axis, 0)
    total = self.to_tensor(slices[0], whole.dtype)
    for part in slices[1:]:
        total = self.combine_fn.fn(total, self.to_tensor(part, whole.dtype))
    return total


def _tensor_patch(original: Any) -> Any:
    def patch(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(np.asarray(self.handle.data).item()))

    return patch


def _remember(original: Any) -> Any:
    def start(self: Any, arguments: Any, keywords: Any) -> Any:
        found = original(self, arguments, keywords)
        ranges[:] = [(t.data_ptr(), t.data_ptr() + t.nbytes) for t in found[0] if hasattr(t, "data_ptr")]
        return found

    return start


def _inside(pointers: Any, mask: Any) -> None:
    addresses = pointers.data.astype(np.int64)[np.broadcast_to(np.asarray(mask.data, bool), pointers.data.shape)]
    size = max(1, pointers.dtype.scalar.element_ty.primitive_bitwidth // 8)
    fits = np.zeros(addresses.shape, bool)
    for first, last in ranges:
        fits |= (addresses >= first) & (addresses + size <= last)
    if not fits.all():
        raise IndexError(f"{int((~fits).sum())} of {fits.size} lanes lie outside every tensor")


def _checked(original: Any) -> Any:
    def access(self: Any, pointers: Any, *rest: Any, **keywords: Any) -> Any:
        # The mask is the first argument of a load, the second of a store.
        mask = rest[0] if original.__name__ == "create_masked_load" else rest[1]
        _inside(pointers, mask)
        return original(self, pointers, *rest, **keywords)

    access.__name__ = original.__name__
    return access


def repair() -> None:
    """Make the repairs; once in a process."""
    BUILDER.cast_impl = cast
    BUILDER.create_fp_to_fp = lambda self, source, kind, rounding_mode: cast(self, source, kind)
    BUILDER.create_dot = dot
    BUILDER.create_fma = fma
    BUILDER.create_inline_asm = inline_asm
    BUILDER.get_bf16 = lambda self, value: handle(np.array([value], np.float32), tl.bfloat16)
    BUILDER.create_minnumf = lambda self, left, right: BUILDER.binary_op(self, left, right, np.fmin)
    BUILDER.create_maxnumf = lambda self, left, right: BUILDER.binary_op(self, left, right, np.fmax)
    BUILDER.binary_op = _binary(BUILDER.binary_op)
    BUILDER.create_masked_load = _checked(BUILDER.create_masked_load)
    BUILDER.create_masked_store = _checked(BUILDER.create_masked_store)
    interpreter.ReduceOps.generic_reduce = _reduce
    interpreter._patch_lang_tensor = _tensor_patch(interpreter._patch_lang_tensor)
    interpreter.GridExecutor._init_args_hst = _remember(interpreter.GridExecutor._init_args_hst)
