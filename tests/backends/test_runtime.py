"""The NumPy run time against the scalar operations bit for bit, and against midpoints built exactly."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tilewright.backends.embed import names_used, runtime_text
from tilewright.backends.numpy import runtime
from tilewright.backends.numpy.casts import binary_text, cast_text, fma_text, unary_text
from tilewright.compiler.ir import scalar
from tilewright.compiler.ir.dtype import BF16, BOOL, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, DType

F8E4M3, F8E5M2 = DTYPES["f8e4m3"], DTYPES["f8e5m2"]
ARITHMETIC = [F64, F32, F16, BF16]
INTEGERS = [I64, I32, I16, I8, U8]
LARGEST = {"f32": 0x7F7FFFFF, "f16": 0x7BFF, "bf16": 0x7F7F, "f8e4m3": 0x7E, "f8e5m2": 0x7B}
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def evaluate(text: str, **arrays: Any) -> Any:
    """Run an expression as an emitted module would: with copies of the functions it names, and no others."""
    space: dict[str, Any] = {"np": np, "ml_dtypes": ml_dtypes}
    exec(runtime_text("numpy", names_used("numpy", text)), space)
    return eval(text, {**space, **arrays})


def from_codes(dtype: DType, codes: Any) -> Array:
    return np.asarray(codes, UNSIGNED[dtype.bits // 8]).view(dtype.numpy)


def exact_array(dtype: DType, values: list[float]) -> Array:
    """The values as an array; the type must hold each of them exactly."""
    wide = np.array(values, np.float64 if dtype.is_float else dtype.numpy)
    if dtype.name in ("bf16", "f8e4m3", "f8e5m2"):
        wide = wide.astype(np.float32)
    array = wide.astype(dtype.numpy)
    back = array.astype(wide.dtype)
    assert np.all((back == wide) | ((back != back) & (wide != wide))), "a value that the type does not hold"
    return array


def values(array: Array) -> list[float]:
    return (array.astype(np.float64) if array.dtype.kind not in "iub" else array).tolist()


def assert_same(got: Any, want: Array, *given_: Array) -> None:
    """The same type, shape and bits; one NaN is like another."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    bits = UNSIGNED[want.dtype.itemsize]
    same = (np.asarray(got).view(bits) == want.view(bits)) | ((got != got) & (want != want))
    assert same.all(), [x[~same][:5] for x in (np.asarray(got), want, *given_)]


def pool(dtype: DType, count: int, seed: int = 0) -> Array:
    """Values of a type: all of an 8-bit type, else random codes and the edges."""
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.bits == 8:
        return np.arange(256, dtype=np.uint8).view(dtype.numpy)
    draw = np.random.default_rng(seed)
    size = dtype.bits // 8
    codes = np.frombuffer(draw.bytes(count * size), UNSIGNED[size]).view(dtype.numpy)
    if dtype.is_int:
        least, greatest = dtype.least, dtype.greatest
        edges = np.array([0, 1, -1, least, greatest, least + 1, greatest - 1], dtype.numpy)
        small = draw.integers(-1000, 1000, count // 4).astype(dtype.numpy)
    else:
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, dtype.largest, -dtype.largest], dtype.numpy)
        spread = draw.normal(size=count // 2) * 2.0 ** draw.integers(-40, 70, count // 2)
        fixed = draw.integers(-(2**40), 2**40, count // 4) / 2**32
        small = np.concatenate([spread, fixed]).astype(dtype.numpy)
    return np.concatenate([codes, edges, small])


CASTS = [(s, t, sat) for s in DTYPES.values() for t in DTYPES.values() for sat in (False, True)]


@pytest.mark.parametrize(("source", "target", "saturating"), CASTS, ids=str)
def test_cast_agrees_with_the_scalar_cast(source: DType, target: DType, saturating: bool) -> None:
    x = pool(source, 800)
    text = cast_text("x", source, target, saturating)
    want = exact_array(target, [scalar.cast(v, source, target, saturating) for v in values(x)])
    assert_same(evaluate(text, x=x), want, x)
    for k in (0, 1, x.size - 1):  # NumPy scalars and 0-d arrays keep the type as well
        assert_same(np.asarray(evaluate(text, x=x[k])), want[k : k + 1].reshape(()))
        assert_same(np.asarray(evaluate(text, x=x[k : k + 1].reshape(()))), want[k : k + 1].reshape(()))
    assert_same(evaluate(text, x=x[:0].reshape(0, 3)), want[:0].reshape(0, 3))
    assert_same(evaluate(text, x=x[::-2]), np.ascontiguousarray(want[::-2]))


NARROW = [(s, t, sat) for s in (F16, BF16) for t in (F16, BF16, F8E4M3, F8E5M2) for sat in (False, True)]


@pytest.mark.parametrize(("source", "target", "saturating"), NARROW, ids=str)
def test_every_16_bit_value_is_cast_like_the_scalar(source: DType, target: DType, saturating: bool) -> None:
    x = from_codes(source, np.arange(65536))
    want = exact_array(target, [scalar.cast(v, source, target, saturating) for v in values(x)])
    assert_same(evaluate(cast_text("x", source, target, saturating), x=x), want, x)


def midpoints(target: DType) -> tuple[Array, Array, Array, Array]:
    """Lower value, upper value, midpoint (f64, exact), and which of the two is even."""
    last = LARGEST[target.name]
    if target is F32:
        draw = np.random.default_rng(1)
        anywhere, subnormal = draw.integers(0, last, 100_000), draw.integers(0, 2**23, 20_000)
        codes = np.concatenate([anywhere, subnormal, [0, 1, last - 1]])
    else:
        codes = np.arange(last)
    low, high = from_codes(target, codes), from_codes(target, codes + 1)
    middle = (low.astype(np.float64) + high.astype(np.float64)) / 2
    return low, high, middle, np.where(codes % 2 == 0, low, high)


@pytest.mark.parametrize("target", [F32, F16, BF16, F8E4M3, F8E5M2], ids=str)
@pytest.mark.parametrize("saturating", [False, True])
def test_f64_beside_every_midpoint_rounds_once(target: DType, saturating: bool) -> None:
    low, high, middle, even = midpoints(target)
    text = cast_text("x", F64, target, saturating)
    for x, want in ((middle, even), (np.nextafter(middle, np.inf), high), (np.nextafter(middle, 0), low)):
        assert_same(evaluate(text, x=x), want, x)
        assert_same(evaluate(text, x=-x), -want, x)
    assert_same(evaluate(text, x=low.astype(np.float64)), low)


@pytest.mark.parametrize("target", [F16, BF16, F8E4M3, F8E5M2], ids=str)
def test_f32_beside_every_midpoint_rounds_once(target: DType) -> None:
    low, high, exact, even = midpoints(target)
    middle = exact.astype(np.float32)
    assert (middle == exact).all()
    text = cast_text("x", F32, target)
    above, below = np.nextafter(middle, np.float32(np.inf)), np.nextafter(middle, np.float32(0))
    for x, want in ((middle, even), (above, high), (below, low)):
        assert_same(evaluate(text, x=x), want, x)


@pytest.mark.parametrize("source", [I32, I64], ids=str)
@pytest.mark.parametrize("target", [F32, F16, BF16], ids=str)
def test_integers_beside_midpoints_round_once(source: DType, target: DType) -> None:
    low, high, middle, even = midpoints(target)
    spaced = high.astype(np.float64) - middle >= 1
    inside = spaced & (middle < source.greatest // 2) & (middle % 1 == 0)
    x = middle[inside].astype(source.numpy)
    assert x.size > 100
    text = cast_text("x", source, target)
    assert_same(evaluate(text, x=x), even[inside], x)
    assert_same(evaluate(text, x=x + np.ones_like(x)), high[inside], x)
    assert_same(evaluate(text, x=x - np.ones_like(x)), low[inside], x)
    assert_same(evaluate(text, x=-x), -even[inside], x)


def test_overflow_to_8_bit_floats() -> None:
    inf = math.inf
    e4m3 = {
        448: (0x7E, 0x7E),
        464: (0x7E, 0x7E),
        464.03125: (0x7F, 0x7E),
        465: (0x7F, 0x7E),
        1000: (0x7F, 0x7E),
        -1000: (0xFF, 0xFE),
        inf: (0x7F, 0x7E),
        -inf: (0xFF, 0xFE),
        2**-9: (1, 1),
        2**-10: (0, 0),
        1.5 * 2**-10: (1, 1),
        -(2**-11): (0x80, 0x80),
    }
    e5m2 = {
        57344: (0x7B, 0x7B),
        61439: (0x7B, 0x7B),
        61440: (0x7C, 0x7B),
        65536: (0x7C, 0x7B),
        -70000: (0xFC, 0xFB),
        inf: (0x7C, 0x7B),
        -inf: (0xFC, 0xFB),
        2**-16: (1, 1),
        2**-17: (0, 0),
        1.5 * 2**-17: (1, 1),
    }
    for dtype, table in ((F8E4M3, e4m3), (F8E5M2, e5m2)):
        for source in (F64, F32):
            x = np.array(list(table), source.numpy)
            for column, saturating in enumerate((False, True)):
                got = evaluate(cast_text("x", source, dtype, saturating), x=x)
                assert got.view(np.uint8).tolist() == [codes[column] for codes in table.values()]
            nan = evaluate(cast_text("x", source, dtype, True), x=np.array([np.nan], source.numpy))
            assert np.isnan(nan.astype(np.float32)).all()


@pytest.mark.parametrize("source", [F64, F32], ids=str)
@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer_at_the_ends_of_the_range(source: DType, target: DType) -> None:
    ends = np.array([target.least, target.greatest, target.greatest + 1], source.numpy)
    toward = np.array([-np.inf, np.inf], source.numpy)
    x = np.concatenate([ends, *(np.nextafter(ends, side) for side in toward), ends - 0.5, ends + 0.5])
    want = [min(max(math.trunc(v), target.least), target.greatest) for v in x.tolist()]
    assert_same(evaluate(cast_text("x", source, target), x=x), np.array(want, target.numpy), x)


def test_narrowing_rounds_once() -> None:
    table = [
        (F64, F16, 1 + 2**-11 + 2**-40, 0x3C01),
        (F64, BF16, 1 + 2**-8 + 2**-40, 0x3F81),
        (F32, F16, 65519.0, 0x7BFF),
        (I32, BF16, 16842753, 0x4B81),
        (I32, BF16, 33685506, 0x4C01),
        (I32, BF16, 259, 0x4382),
        (I32, BF16, 511, 0x4400),
    ]
    for source, target, value, code in table:
        got = evaluate(cast_text("x", source, target), x=np.array([value] * 40, source.numpy))
        assert got.view(np.uint16).tolist() == [code] * 40


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "min", "max"])
def test_float_operations_agree_with_the_scalar(op: str, dtype: DType) -> None:
    x, y = pool(dtype, 12_000, 1), pool(dtype, 12_000, 2)
    specials = np.concatenate([x[:4], x[12_000:12_007]])
    x = np.concatenate([x, np.repeat(specials, 11), x])
    y = np.concatenate([y, np.tile(specials, 11), y[::-1]])
    pairs = zip(values(x), values(y), strict=True)
    want = exact_array(dtype, [scalar.binary(op, a, b, dtype) for a, b in pairs])
    text = binary_text(op, "x", "y", dtype)
    assert_same(evaluate(text, x=x, y=y), want, x, y)
    assert_same(np.asarray(evaluate(text, x=x[5], y=y[5])), want[5:6].reshape(()))
    assert_same(np.asarray(evaluate(text, x=x[5:6].reshape(()), y=y[5])), want[5:6].reshape(()))
    assert evaluate(text, x=x[:6].reshape(6, 1), y=y[5]).dtype == dtype.numpy
    assert evaluate(text, x=x[:6].reshape(6, 1), y=y[:0].reshape(1, 0)).shape == (6, 0)


def test_quotients_in_the_subnormal_range_are_rounded_once() -> None:
    """bf16 computes in f32, here without spare exponents: all significands, k * 2^-133 by integers."""
    top, bottom = (grid.ravel() for grid in np.meshgrid(np.arange(128, 256), np.arange(128, 256)))
    x = (top * 2.0**-126).astype(np.float32).astype(ml_dtypes.bfloat16)
    for shift in range(9):
        y = (bottom * 2.0**shift).astype(np.float32).astype(ml_dtypes.bfloat16)
        numerator, denominator = top << 7, bottom << shift
        quotient, rest = numerator // denominator, numerator % denominator
        up = (2 * rest > denominator) | ((2 * rest == denominator) & (quotient % 2 == 1))
        want = from_codes(BF16, quotient + up)
        assert_same(evaluate(binary_text("/", "x", "y", BF16), x=x, y=y), want, x, y)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
@pytest.mark.parametrize("op", ["-", "abs", "floor", "ceil", "round", "sqrt"])
def test_unary_float_operations_agree_with_the_scalar(op: str, dtype: DType) -> None:
    x = from_codes(dtype, np.arange(65536)) if dtype.bits == 16 else pool(dtype, 5000)
    want = exact_array(dtype, [scalar.unary(op, v, dtype) for v in values(x)])
    text = unary_text(op, "x", dtype)
    assert_same(evaluate(text, x=x), want, x)
    assert_same(np.asarray(evaluate(text, x=x[9])), want[9:10].reshape(()))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "min", "max"])
def test_integer_operations_agree_with_the_scalar(op: str, dtype: DType) -> None:
    edges = np.array([0, 1, 2, 3, dtype.least, dtype.greatest, 255 if dtype is U8 else -1, 7], dtype.numpy)
    x = np.concatenate([np.repeat(edges, 8), pool(dtype, 3000, 3), edges])
    y = np.concatenate([np.tile(edges, 8), pool(dtype, 3000, 4)[::-1], edges[::-1]])
    text = binary_text(op, "x", "y", dtype)
    pairs = zip(values(x), values(y), strict=True)
    want = exact_array(dtype, [scalar.binary(op, a, b, dtype) for a, b in pairs])
    assert_same(evaluate(text, x=x, y=y), want, x, y)
    for b in edges:  # one divisor for a whole vector takes another path in NumPy
        want = exact_array(dtype, [scalar.binary(op, a, int(b), dtype) for a in values(x[:99])])
        assert_same(evaluate(text, x=x[:99], y=b), want)
        assert_same(np.asarray(evaluate(text, x=x[4], y=b)), want[4:5].reshape(()))
    for name in ("-", "abs"):
        want = exact_array(dtype, [scalar.unary(name, a, dtype) for a in values(x)])
        assert_same(evaluate(unary_text(name, "x", dtype), x=x), want)
        assert_same(np.asarray(evaluate(unary_text(name, "x", dtype), x=x[4])), want[4:5].reshape(()))


def test_division_and_remainder_floor() -> None:
    a = np.array([-7, -6, -1, 0, 1, 6, 7], np.int32)
    table = {
        2: ([-4, -3, -1, 0, 0, 3, 3], [1, 0, 1, 0, 1, 0, 1]),
        0: ([0] * 7, [0] * 7),
        -2: ([3, 3, 0, 0, -1, -3, -4], [-1, 0, -1, 0, -1, 0, -1]),
        3: ([-3, -2, -1, 0, 0, 2, 2], [2, 0, 2, 0, 1, 0, 1]),
        -3: ([2, 2, 0, 0, -1, -2, -3], [-1, 0, -1, 0, -2, 0, -2]),
    }
    for b, (quotients, rests) in table.items():
        for divisor in (np.int32(b), np.full(7, b, np.int32)):
            assert evaluate(binary_text("//", "a", "b", I32), a=a, b=divisor).tolist() == quotients
            assert evaluate(binary_text("%", "a", "b", I32), a=a, b=divisor).tolist() == rests


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_least_and_greatest_of_nan_and_zeros_in_every_lane(dtype: DType) -> None:
    zeros = np.tile(np.array([-0.0, 0.0], dtype.numpy), 20)
    ones, nans = np.full(40, 1.0, dtype.numpy), np.full(40, np.nan, dtype.numpy)
    uniform = [np.full(40, zero, dtype.numpy) for zero in (-0.0, 0.0)]
    for x, y in ((zeros, -zeros), (-zeros, zeros), uniform, uniform[::-1], (uniform[0][3], uniform[1][4])):
        assert not np.signbit(runtime.maximum(x, y)).any()
        assert np.signbit(runtime.minimum(x, y)).all()
    for x, y in ((ones, nans), (nans, ones)):
        assert np.isnan(runtime.maximum(x, y)).all()
        assert np.isnan(runtime.minimum(x, y)).all()


def test_embedded_text_is_closed_and_in_file_order() -> None:
    text = runtime_text("numpy", {"fma_bf16", "minimum"})
    assert names_used("numpy", text) == {"to_bf16", "f64_to_odd_f32", "f64_to_bf16", "two_sum", "odd_sum"}
    order = [line.split("(")[0] for line in text.splitlines() if line.startswith("def ")]
    assert order == [
        "def to_bf16",
        "def f64_to_odd_f32",
        "def f64_to_bf16",
        "def minimum",
        "def two_sum",
        "def odd_sum",
        "def fma_bf16",
    ]
    assert runtime_text("numpy", set()) == ""
    with pytest.raises(ValueError, match="no run-time function nonsense"):
        runtime_text("numpy", {"nonsense"})


def test_texts() -> None:
    assert cast_text("A[k]", BF16, F32) == "A[k].astype(np.float32)"
    assert cast_text("acc", F32, BF16) == "to_bf16(acc)"
    assert cast_text("acc", F64, F8E4M3, True) == "f64_to_f8e4m3(np.clip(acc, -448, 448))"
    assert cast_text("x", F16, BOOL) == "(x != 0)"
    assert cast_text("x", I64, U8, True) == "saturate_int(x, np.uint8)"
    assert binary_text("max", "a", "b", I32) == "np.maximum(a, b)"
    assert fma_text("a", "b", "c", BF16) == "fma_bf16(a, b, c)"
    for call in (lambda: binary_text("/", "a", "b", I32), lambda: unary_text("sqrt", "a", F8E4M3)):
        with pytest.raises(ValueError, match="no operation"):
            call()
