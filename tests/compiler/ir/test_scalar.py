"""The scalar operations against exact fractions, and against literal tables."""

from __future__ import annotations

import math
import random
import struct
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tilewright.compiler.ir import scalar
from tilewright.compiler.ir.dtype import BF16, BOOL, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, DType

# Exponent bits, mantissa bits, code of the largest finite value: the formats as their standards write them.
FORMATS = {
    "f64": (11, 52, 0x7FEFFFFFFFFFFFFF),
    "f32": (8, 23, 0x7F7FFFFF),
    "f16": (5, 10, 0x7BFF),
    "bf16": (8, 7, 0x7F7F),
    "f8e4m3": (4, 3, 0x7E),
    "f8e5m2": (5, 2, 0x7B),
}
F8E4M3, F8E5M2 = DTYPES["f8e4m3"], DTYPES["f8e5m2"]
FLOATS = [F64, F32, F16, BF16, F8E4M3, F8E5M2]
ARITHMETIC = [F64, F32, F16, BF16]
INTEGERS = [I64, I32, I16, I8, U8]


def decode(name: str, code: int) -> Fraction:
    """The exact value of the code of a non-negative number, the formula going on beyond the largest."""
    exponent_bits, mantissa_bits, _ = FORMATS[name]
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, mantissa = code >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return Fraction(mantissa) * Fraction(2) ** (1 - bias - mantissa_bits)
    return Fraction(mantissa + (1 << mantissa_bits)) * Fraction(2) ** (exponent - bias - mantissa_bits)


def nearest(name: str, exact: Fraction, zero_sign: float = 1.0) -> float:
    """The definition of rounding: bisect the codes, take the nearer neighbour, the even code of two."""
    size, largest = abs(exact), FORMATS[name][2]
    sign = zero_sign if exact == 0 else (-1.0 if exact < 0 else 1.0)
    low, high = 0, largest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if decode(name, middle) <= size else (low, middle)
    below, above = size - decode(name, low), decode(name, high) - size
    code = low if below < above or (below == above and low % 2 == 0) else high
    if code > largest:
        return math.nan if name == "f8e4m3" else sign * math.inf
    return sign * float(decode(name, code))


def same(x: float, y: float) -> bool:
    """Equal with the sign of zero; one NaN is like another."""
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    return x == y and math.copysign(1.0, x) == math.copysign(1.0, y)


def some(dtype: DType, draw: random.Random) -> float:
    """A random finite value of the type: all codes alike, so subnormals and both ends come often."""
    edge = draw.random() < 0.2
    code = draw.choice([0, 1, 2, FORMATS[dtype.name][2]]) if edge else draw.randint(0, FORMATS[dtype.name][2])
    return draw.choice([1.0, -1.0]) * float(decode(dtype.name, code))


def bits(dtype: DType, value: float) -> int:
    """The code of a value of a float type, by search."""
    if math.isnan(value):
        return -1
    assert value == scalar.round_to(dtype, value)
    largest = FORMATS[dtype.name][2]
    code = largest + 1 if math.isinf(value) else 0
    if math.isfinite(value):
        low, high = 0, largest + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if decode(dtype.name, middle) <= abs(value) else (low, middle)
        code = low
    return code | (1 << (dtype.bits - 1) if math.copysign(1.0, value) < 0 else 0)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_to_takes_the_nearest_and_the_even_one_of_two(dtype: DType) -> None:
    draw, largest = random.Random(1), FORMATS[dtype.name][2]
    codes = range(largest + 1) if dtype.bits == 8 else [draw.randint(0, largest) for _ in range(3000)]
    for code in [*codes, 0, 1, 2, largest - 1, largest]:
        low, high = decode(dtype.name, code), decode(dtype.name, code + 1)
        middle, speck = (low + high) / 2, (high - low) / 2**60
        beyond = math.nan if dtype is F8E4M3 else math.inf
        lower, upper = float(low), float(high) if code < largest else beyond
        even = upper if code % 2 else lower
        for exact, want in ((low, lower), (middle - speck, lower), (middle, even), (middle + speck, upper)):
            assert same(scalar.round_to(dtype, exact), want)
            if exact:
                assert same(scalar.round_to(dtype, -exact), -want)


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.sampled_from(FLOATS), st.fractions() | st.integers() | FINITE)
@settings(max_examples=600, deadline=None, derandomize=True)
def test_round_to_agrees_with_bisection(dtype: DType, value: Fraction | float) -> None:
    sign = math.copysign(1.0, value) if isinstance(value, float) else 1.0
    assert same(scalar.round_to(dtype, value), nearest(dtype.name, Fraction(value), sign))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_round_to_of_specials(dtype: DType) -> None:
    assert math.isnan(scalar.round_to(dtype, math.nan))
    assert same(scalar.round_to(dtype, -0.0), -0.0)
    assert same(scalar.round_to(dtype, -Fraction(1, 2**1200)), -0.0)
    for huge in (math.inf, 10**400, Fraction(10**400, 3)):
        assert same(scalar.round_to(dtype, huge), math.nan if dtype is F8E4M3 else math.inf)
        assert same(scalar.round_to(dtype, -huge), math.nan if dtype is F8E4M3 else -math.inf)


def test_round_to_f64_and_f32_agree_with_the_machine() -> None:
    draw = random.Random(2)
    for _ in range(5000):
        exact = Fraction(draw.getrandbits(200), draw.getrandbits(draw.randint(1, 900)) | 1)
        assert scalar.round_to(F64, exact) == float(exact)
        value = float(exact)
        if value < 2.0**127:
            assert scalar.round_to(F32, value) == struct.unpack("f", struct.pack("f", value))[0]


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_arithmetic_rounds_the_exact_result_once(dtype: DType) -> None:
    draw = random.Random(3)
    exactly = {"+": Fraction.__add__, "-": Fraction.__sub__, "*": Fraction.__mul__, "/": Fraction.__truediv__}
    for _ in range(1200):
        a, b = some(dtype, draw), some(dtype, draw)
        if draw.random() < 0.4:  # Neighbouring exponents: cancellation, and quotients near 1.
            b = scalar.round_to(dtype, a * draw.uniform(-1, 1))
        for op, function in exactly.items():
            if op == "/" and b == 0:
                continue
            exact, plain = function(Fraction(a), Fraction(b)), {"+": a + b, "-": a - b, "*": a * b}.get(op, a)
            sign = math.copysign(1.0, plain) * (math.copysign(1.0, b) if op == "/" else 1.0)
            assert same(scalar.binary(op, a, b, dtype), nearest(dtype.name, exact, sign)), (op, a, b)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_square_roots_are_nearest(dtype: DType) -> None:
    draw, largest = random.Random(4), Fraction(dtype.largest)
    for _ in range(600):
        a = abs(some(dtype, draw))
        root = scalar.unary("sqrt", a, dtype)
        code = bits(dtype, root)
        assert root == float(decode(dtype.name, code))
        assert root <= largest
        # No square root of a p-bit number is a midpoint, so the comparisons are strict.
        assert (decode(dtype.name, code) + decode(dtype.name, code + 1)) ** 2 > 4 * Fraction(a)
        if code:
            assert (decode(dtype.name, code) + decode(dtype.name, code - 1)) ** 2 < 4 * Fraction(a)
    assert math.isnan(scalar.unary("sqrt", -1.0, dtype))
    assert same(scalar.unary("sqrt", -0.0, dtype), -0.0)
    assert scalar.unary("sqrt", math.inf, dtype) == math.inf


def test_division_by_zero_and_specials() -> None:
    inf, nan = math.inf, math.nan
    table = [
        (1.0, 0.0, inf),
        (1.0, -0.0, -inf),
        (-inf, 0.0, -inf),
        (0.0, 0.0, nan),
        (nan, 0.0, nan),
        (inf, inf, nan),
        (1.0, -inf, -0.0),
        (-0.0, 3.0, -0.0),
    ]
    for a, b, want in table:
        assert same(scalar.binary("/", a, b, F32), want)
    assert same(scalar.binary("+", inf, -inf, BF16), nan)
    assert same(scalar.binary("*", inf, 0.0, F16), nan)
    assert same(scalar.binary("-", 65504.0, -65504.0, F16), inf)


@pytest.mark.parametrize("dtype", ARITHMETIC, ids=str)
def test_fma_rounds_the_exact_result_once(dtype: DType) -> None:
    draw = random.Random(5)
    for _ in range(1200):
        a, b, c = (some(dtype, draw) for _ in range(3))
        if draw.random() < 0.5:
            c = scalar.round_to(dtype, -Fraction(a) * Fraction(b) * draw.choice([1, 2, Fraction(1, 2)]))
        if math.isfinite(c):
            exact, sign = Fraction(a) * Fraction(b) + Fraction(c), math.copysign(1.0, a * b + c)
            assert same(scalar.fma(a, b, c, dtype), nearest(dtype.name, exact, sign)), (a, b, c)


def test_fma_signs_of_zero_and_specials() -> None:
    inf, nan = math.inf, math.nan
    table = [
        (-0.0, 1.0, -0.0, -0.0),
        (-0.0, 1.0, 0.0, 0.0),
        (2.0, 3.0, -6.0, 0.0),
        (inf, 0.0, 1.0, nan),
        (2.0**1000, 2.0**1000, -inf, -inf),
        (inf, 1.0, -inf, nan),
        (1.0, 1.0, nan, nan),
        (1.0, nan, inf, nan),
        (-(2.0**-1000), 2.0**-1000, 0.0, -0.0),
        (2.0**1000, -(2.0**1000), 0.0, -inf),
    ]
    for a, b, c, want in table:
        assert same(scalar.fma(a, b, c, F64), want), (a, b, c)


def test_floor_ceil_round_keep_the_sign_of_zero() -> None:
    table = [
        (-0.5, -1.0, -0.0, -0.0),
        (0.5, 0.0, 1.0, 0.0),
        (1.5, 1.0, 2.0, 2.0),
        (2.5, 2.0, 3.0, 2.0),
        (-0.0, -0.0, -0.0, -0.0),
        (-2.5, -3.0, -2.0, -2.0),
        (math.inf,) * 4,
        (math.nan,) * 4,
    ]
    for a, *wanted in table:
        for op, want in zip(("floor", "ceil", "round"), wanted, strict=True):
            assert same(scalar.unary(op, a, F32), want), (op, a)
    assert same(scalar.unary("abs", -0.0, F32), 0.0)
    assert same(scalar.unary("-", 0.0, F32), -0.0)


def test_max_and_min_propagate_nan_and_order_zeros() -> None:
    nan = math.nan
    for a, b in ((1.0, nan), (nan, 1.0), (nan, math.inf), (-math.inf, nan)):
        for op in ("max", "min"):
            assert math.isnan(scalar.binary(op, a, b, F32))
    for a, b in ((-0.0, 0.0), (0.0, -0.0)):
        assert same(scalar.binary("max", a, b, F32), 0.0)
        assert same(scalar.binary("min", a, b, F32), -0.0)
    raised = [scalar.binary("max", x, 0.0, F32) for x in (nan, -1.0, 2.0, 0.5)]
    clamped = [scalar.binary("min", x, 1.0, F32) for x in raised]
    assert math.isnan(clamped[0])
    assert clamped[1:] == [0.0, 1.0, 0.5]
    assert scalar.binary("max", -3, 2, I32) == 2
    assert scalar.binary("min", -3, 2, I32) == -3


@pytest.mark.parametrize(
    ("source", "target", "value", "code"),
    [
        (F64, F16, 1 + 2**-11 + 2**-40, 0x3C01),
        (F64, BF16, 1 + 2**-8 + 2**-40, 0x3F81),
        (F32, F16, 1 + 2**-10, 0x3C01),
        (F32, F16, 1.00390625, 0x3C04),
        (F32, F16, 65519.0, 0x7BFF),
        (I32, BF16, 16842753, 0x4B81),
        (I32, BF16, 33685506, 0x4C01),
        (I32, BF16, 259, 0x4382),
        (I32, BF16, 511, 0x4400),
    ],
)
def test_narrowing_rounds_once(source: DType, target: DType, value: float, code: int) -> None:
    assert bits(target, scalar.cast(value, source, target)) == code


E4M3_TABLE = [
    (448, 0x7E, 0x7E),
    (464, 0x7E, 0x7E),
    (464.03125, -1, 0x7E),
    (465, -1, 0x7E),
    (1000, -1, 0x7E),
    (-1000, -1, 0xFE),
    (math.inf, -1, 0x7E),
    (-math.inf, -1, 0xFE),
    (math.nan, -1, -1),
    (2**-9, 1, 1),
    (2**-10, 0, 0),
    (1.5 * 2**-10, 1, 1),
    (-(2**-11), 0x80, 0x80),
]
E5M2_TABLE = [
    (57344, 0x7B, 0x7B),
    (61439, 0x7B, 0x7B),
    (61440, 0x7C, 0x7B),
    (65536, 0x7C, 0x7B),
    (-70000, 0xFC, 0xFB),
    (math.inf, 0x7C, 0x7B),
    (math.nan, -1, -1),
    (2**-16, 1, 1),
    (2**-17, 0, 0),
    (1.5 * 2**-17, 1, 1),
]


@pytest.mark.parametrize(("dtype", "table"), [(F8E4M3, E4M3_TABLE), (F8E5M2, E5M2_TABLE)], ids=str)
def test_overflow_to_8_bit_floats(dtype: DType, table: list[tuple[float, int, int]]) -> None:
    for value, plain, saturated in table:
        for source in (F64, F32):
            assert bits(dtype, scalar.cast(float(value), source, dtype)) == plain
            assert bits(dtype, scalar.cast(float(value), source, dtype, saturating=True)) == saturated


def test_division_and_remainder_floor() -> None:
    a = [-7, -6, -1, 0, 1, 6, 7]
    table = {
        2: ([-4, -3, -1, 0, 0, 3, 3], [1, 0, 1, 0, 1, 0, 1]),
        -2: ([3, 3, 0, 0, -1, -3, -4], [-1, 0, -1, 0, -1, 0, -1]),
        3: ([-3, -2, -1, 0, 0, 2, 2], [2, 0, 2, 0, 1, 0, 1]),
        -3: ([2, 2, 0, 0, -1, -2, -3], [-1, 0, -1, 0, -2, 0, -2]),
        0: ([0] * 7, [0] * 7),
    }
    for b, (quotients, rests) in table.items():
        assert [scalar.binary("//", x, b, I32) for x in a] == quotients
        assert [scalar.binary("%", x, b, I32) for x in a] == rests
    for dtype in (I8, I16, I32, I64):
        assert scalar.binary("//", dtype.least, -1, dtype) == dtype.least
        assert scalar.binary("%", dtype.least, -1, dtype) == 0


def test_integers_wrap() -> None:
    table = [
        ("+", 200, 100, U8, 44),
        ("+", 127, 1, I8, -128),
        ("-", 5, 7, U8, 254),
        ("*", 2**62, 2, I64, -(2**63)),
        ("-", -(2**31), 1, I32, 2**31 - 1),
    ]
    for op, a, b, dtype, want in table:
        assert scalar.binary(op, a, b, dtype) == want
    assert scalar.unary("-", -128, I8) == scalar.unary("abs", -128, I8) == -128
    assert scalar.unary("-", 5, U8) == 251
    assert (scalar.cast(300, I32, U8), scalar.cast(-1, I8, U8), scalar.cast(200, U8, I8)) == (44, 255, -56)
    assert scalar.cast(300, I32, U8, True) == 255
    assert scalar.cast(-1, I8, U8, True) == 0
    assert scalar.cast(200, U8, I8, True) == 127


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_float_to_integer_truncates_and_saturates(dtype: DType) -> None:
    table = [
        (2.9, 2),
        (1e300, dtype.greatest),
        (math.inf, dtype.greatest),
        (-math.inf, dtype.least),
        (math.nan, 0),
        (-0.9, 0),
        (-2.9, -2 if dtype.signed else 0),
        (-1e300, dtype.least),
    ]
    for value, want in table:
        got = scalar.cast(value, F64, dtype)
        assert got == want
        assert type(got) is int


def test_bool_casts() -> None:
    truths = {0.0: False, 0.5: True, math.nan: True, math.inf: True}
    assert [scalar.cast(x, F32, BOOL) for x in truths] == list(truths.values())
    assert scalar.cast(-0.0, F32, BOOL) is False
    assert scalar.cast(-3, I8, BOOL) is True
    for dtype in DTYPES.values():
        assert (scalar.cast(True, BOOL, dtype), scalar.cast(False, BOOL, dtype)) == (1, 0)


def test_comparisons_with_nan() -> None:
    for op, (less, equal, more, with_nan) in {
        "<": (True, False, False, False),
        "<=": (True, True, False, False),
        "==": (False, True, False, False),
        "!=": (True, False, True, True),
        ">=": (False, True, True, False),
        ">": (False, False, True, False),
    }.items():
        pairs = ((1.0, 2.0), (-0.0, 0.0), (2.0, 1.0), (math.nan, math.nan))
        got = [scalar.compare(op, a, b) for a, b in pairs]
        assert got == [less, equal, more, with_nan]


def test_what_a_type_cannot_do_is_refused() -> None:
    for call in (
        lambda: scalar.binary("/", 1, 2, I32),
        lambda: scalar.binary("//", 1.0, 2.0, F32),
        lambda: scalar.binary("+", 1.0, 1.0, F8E4M3),
        lambda: scalar.binary("+", True, True, BOOL),
        lambda: scalar.unary("sqrt", 4, I32),
        lambda: scalar.unary("-", 1.0, F8E5M2),
    ):
        with pytest.raises(ValueError, match="no operation"):
            call()
    with pytest.raises(ValueError, match="no comparison '<>'"):
        scalar.compare("<>", 1, 2)
