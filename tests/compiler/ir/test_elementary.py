"""The elementary functions against mpmath, and their two evaluations against each other."""

from __future__ import annotations

import functools
import json
import math
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from tilewright.backends.elementary import function_name
from tilewright.backends.embed import names_used, runtime_text
from tilewright.backends.numpy.elementary import function_text
from tilewright.compiler.ir.bits import same_bits
from tilewright.compiler.ir.dtype import BF16, F32, F64
from tilewright.compiler.ir.elementary import FUNCTIONS, NONPOSITIVE, NORMAL, evaluate, sequence
from tilewright.compiler.ir.elementary.parts import two_over_pi

if TYPE_CHECKING:
    from collections.abc import Callable

    from tilewright.compiler.ir.dtype import DType

INF, NAN = math.inf, math.nan
EVERY = [pytest.param(name, dtype, id=f"{name}-{dtype}") for name in FUNCTIONS for dtype in (F32, F64)]
LEAST = {"f32": 2.0**-149, "f64": 2.0**-1074}

# Greatest error in ulp: measured over all arguments for f32, with a margin over 10^8 arguments for f64.
BOUNDS = {
    "exp": (0.8914, 1.0),
    "exp2": (0.8785, 0.9),
    "log": (0.934, 0.95),
    "log2": (0.965, 0.9),
    "tanh": (1.2067, 1.5),
    "erf": (1.3518, 1.3),
    "sin": (1.5361, 1.6),
    "cos": (1.5456, 1.6),
    "rsqrt": (0.5001, 0.501),
}
# The f32 arguments with the greatest error, and that error.
WORST = {
    "exp": ("-0x1.765026p+2", 0.8913),
    "exp2": ("-0x1.f9fc6ap+6", 0.8784),
    "log": ("0x1.4574e2p-1", 0.9338),
    "log2": ("0x1.676d24p+0", 0.9649),
    "tanh": ("0x1.33a138p-1", 1.2066),
    "erf": ("0x1.21ca58p+0", 1.3517),
    "sin": ("0x1.fc8c1ap+15", 1.5360),
    "cos": ("0x1.9c8fc2p+16", 1.5454),
    "rsqrt": ("0x1.13e07p-127", 0.5000),
}


def reference(name: str, x: float) -> mpmath.mpf:
    """The function in 120-bit arithmetic; mpmath reduces large angles in as many bits as they need.

    Where the function is flat or far outside the types, the argument is clamped: exact values there take
    millions of digits.
    """
    if name in ("exp", "exp2", "tanh", "erf"):
        x = max(min(x, 1e4), -1e4)
    with mpmath.workprec(120):
        v = mpmath.mpf(x)
        match name:
            case "exp2":
                return mpmath.power(2, v)
            case "log2":
                return mpmath.log(v) / mpmath.log(2)
            case "rsqrt":
                return 1 / mpmath.sqrt(v)
            case _:
                return getattr(mpmath, name)(v)


def unit_exponent(value: mpmath.mpf, dtype: DType) -> int:
    """The exponent of the unit in the last place of *value*."""
    return max(mpmath.frexp(value)[1] - dtype.precision, dtype.emin)


def rounded(value: mpmath.mpf, dtype: DType) -> float:
    """*value* in the type, to nearest even."""
    with mpmath.workprec(200):
        unit = mpmath.mpf(2) ** unit_exponent(value, dtype)
        result = mpmath.nint(value / unit) * unit
        return math.copysign(INF, value) if abs(result) > dtype.largest else float(result)


def ulps(got: float, exact: mpmath.mpf, dtype: DType) -> float:
    """|got - exact| in units in the last place of *exact*; beyond the type, infinity counts as 2^emax."""
    beyond = mpmath.mpf(2) ** (1 - dtype.precision - dtype.emin + 1)
    exact = max(min(exact, beyond), -beyond)
    value = math.copysign(1, got) * beyond if math.isinf(got) else mpmath.mpf(got)
    return float(abs(value - exact) / mpmath.mpf(2) ** unit_exponent(exact, dtype))


@functools.cache
def numpy_function(name: str, dtype: DType) -> Callable[[Any], Any]:
    """The printed function, in a module of its own."""
    text = function_text(sequence(name, dtype))
    module: dict[str, Any] = {}
    exec(f"import numpy as np\n\n\n{runtime_text('numpy', names_used('numpy', text))}\n\n\n{text}\n", module)
    function = module[function_name(sequence(name, dtype))]

    def quiet(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(x)

    return quiet


def random_arguments(name: str, dtype: DType, count: int) -> np.ndarray:
    """Random bits, the interesting range, and the neighbourhood of multiples of pi/2 for angles."""
    random = np.random.default_rng(count)
    bits = random.integers(0, 1 << dtype.bits, count, np.dtype(f"u{dtype.bits // 8}")).view(dtype.numpy)
    near = random.normal(0, 4, count).astype(dtype.numpy)
    if name in ("sin", "cos"):
        turns = np.exp2(random.uniform(0, 60, count)) * (np.pi / 2)
        near = np.concatenate([near, np.floor(turns).astype(dtype.numpy), turns.astype(dtype.numpy)])
    return np.concatenate([bits, near, -near])


def defined(name: str, x: float) -> bool:
    if not math.isfinite(x):
        return False
    return x > 0 if name in ("log", "log2", "rsqrt") else True


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_error_is_within_the_stated_bound_at_random_arguments(name: str, dtype: DType) -> None:
    arguments = [x for x in random_arguments(name, dtype, 250).tolist() if defined(name, x)]
    results = numpy_function(name, dtype)(np.array(arguments, dtype.numpy)).tolist()
    bound = BOUNDS[name][dtype == F64]
    for x, y in zip(arguments, results, strict=True):
        exact = reference(name, x)
        assert ulps(y, exact, dtype) <= bound, (name, x.hex())
        assert y == 0 or math.copysign(1, y) == mpmath.sign(exact), (name, x.hex())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_worst_argument_of_f32_has_the_documented_error(name: str) -> None:
    text, error = WORST[name]
    x = float.fromhex(text)
    assert ulps(evaluate(sequence(name, F32), x), reference(name, x), F32) == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_more_rounding_gives_the_nearest_bf16(name: str) -> None:
    patterns = np.arange(FUNCTIONS.index(name), 1 << 16, 23, np.uint16)
    arguments = [x for x in patterns.view(ml_dtypes.bfloat16).astype(np.float32).tolist() if defined(name, x)]
    results = numpy_function(name, F32)(np.array(arguments, np.float32)).astype(ml_dtypes.bfloat16)
    for x, y in zip(arguments, results.astype(np.float64).tolist(), strict=True):
        exact = reference(name, x)
        assert y == rounded(exact, BF16), (name, x.hex())


@pytest.mark.parametrize(("name", "least"), [("exp", -86.0), ("exp2", -124.0)])
def test_sequences_for_normal_results_have_the_bits_of_the_definition(name: str, least: float) -> None:
    every = np.arange(0, 1 << 32, 997, np.uint32).view(np.float32)
    for shorter, of_nan, factor in zip(NORMAL[name], (INF, NAN), (2, 1), strict=True):
        found = numpy_function(shorter, F32)(every)
        bounded = np.where(np.isnan(every), np.float32(of_nan), np.where(every < least, np.float32(least), every))
        with np.errstate(over="ignore"):
            assert same_bits(found * np.float32(factor), numpy_function(name, F32)(bounded))
        some = [evaluate(sequence(shorter, F32), float(x)) for x in every[::40000]]
        assert same_bits(np.float32(some), found[::40000])


@pytest.mark.parametrize("name", NONPOSITIVE)
def test_sequences_for_what_is_not_above_0_have_the_bits_of_the_definition(name: str) -> None:
    # 0 and NaN, all numbers below 0 by steps, and closely those whose results are subnormal.
    patterns = [np.arange(0x80000000, 0xFF900000, 997, np.uint32), np.array([0, 0x7FC00000], np.uint32)]
    patterns += [np.arange(0xC2AC0000, 0xC3200000, 61, np.uint32)]
    every = np.concatenate(patterns).view(np.float32)
    found = numpy_function(NONPOSITIVE[name], F32)(every)
    assert same_bits(found, numpy_function(name, F32)(every))
    some = [evaluate(sequence(NONPOSITIVE[name], F32), float(x)) for x in every[::40000]]
    assert same_bits(np.float32(some), found[::40000])


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_the_interpreter_and_the_numpy_text_agree_bit_for_bit(name: str, dtype: DType) -> None:
    edges = [
        0.0,
        1.0,
        0.5,
        LEAST[str(dtype)],
        2.0 ** (dtype.emin + dtype.precision - 1),
        dtype.largest,
        INF,
        NAN,
        88.75,
        104.0,
        709.8,
        745.2,
        131072.0,
        131073.0,
        2.0**30,
        2.0**30 + 64,
    ]
    edges += [-e for e in edges]
    arguments = np.concatenate([np.array(edges, dtype.numpy), random_arguments(name, dtype, 80)])
    printed = numpy_function(name, dtype)(arguments)
    assert printed.dtype == dtype.numpy
    for x, y in zip(arguments.tolist(), printed.tolist(), strict=True):
        same(evaluate(sequence(name, dtype), x), y)


def same(got: float, want: float) -> None:
    """The same number and the same sign of zero, or two NaNs."""
    if math.isnan(want):
        assert math.isnan(got)
    else:
        assert (got, math.copysign(1, got)) == (want, math.copysign(1, want))


SPECIALS: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)],
    "exp2": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (10.0, 1024.0), (-3.0, 0.125)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN)],
    "log2": [(8.0, 3.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (-1.0, NAN), (NAN, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (100.0, 1.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (100.0, 1.0)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)],
    "rsqrt": [(4.0, 0.5), (0.0, INF), (-0.0, -INF), (INF, 0.0), (-INF, NAN), (-1.0, NAN), (NAN, NAN)],
}


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_special_arguments(name: str, dtype: DType) -> None:
    for x, want in SPECIALS[name]:
        same(evaluate(sequence(name, dtype), x), want)
        same(float(numpy_function(name, dtype)(np.array(x, dtype.numpy))), want)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_subnormal_arguments_are_returned_as_they_are(name: str, dtype: DType) -> None:
    least = LEAST[str(dtype)]
    for x in (least, -least, 5 * least, 2.0 ** (dtype.emin + dtype.precision - 1) - least):
        assert evaluate(sequence(name, dtype), x) == x


@pytest.mark.parametrize(
    ("name", "dtype", "x", "want"),
    [
        # The last finite result and the first overflow; the last result that is not 0 and the first that is.
        ("exp", F32, "0x1.62e42ep+6", "0x1.ffff08p+127"),
        ("exp", F32, "0x1.62e430p+6", "inf"),
        ("exp", F32, "-0x1.9fe368p+6", "0x1p-149"),
        ("exp", F32, "-0x1.9fe36ap+6", "0x0p+0"),
        ("exp", F64, "0x1.62e42fefa39efp+9", "0x1.fffffffffff2ap+1023"),
        ("exp", F64, "0x1.62e42fefa39f0p+9", "inf"),
        ("exp", F64, "-0x1.74910d52d3051p+9", "0x1p-1074"),
        ("exp", F64, "-0x1.74910d52d3052p+9", "0x0p+0"),
        ("exp2", F32, "128", "inf"),
        ("exp2", F32, "-149", "0x1p-149"),
        ("exp2", F32, "-150", "0x0p+0"),
        ("exp2", F64, "1024", "inf"),
        ("exp2", F64, "-1074", "0x1p-1074"),
        ("exp2", F64, "-1075", "0x0p+0"),
        ("log2", F32, "0x1p-149", "-149"),
        ("log2", F64, "0x1p-1074", "-1074"),
    ],
)
def test_edges_of_overflow_and_underflow(name: str, dtype: DType, x: str, want: str) -> None:
    argument = float(int(x)) if x.lstrip("-").isdigit() else float.fromhex(x)
    expected = float(int(want)) if want.lstrip("-").isdigit() else float.fromhex(want)
    assert evaluate(sequence(name, dtype), argument) == expected


@pytest.mark.parametrize(
    ("dtype", "x"),
    # The arguments that come nearest to a multiple of pi/2, for either reduction, and the greatest ones.
    [
        (F32, "0x1.f9cbe2p+7"),
        (F32, "0x1.f37c8ap+95"),
        (F32, "0x1.fffffep+127"),
        (F64, "0x1.6c6cbc45dc8dep+5"),
        (F64, "0x1.6ac5b262ca1ffp+849"),
        (F64, "0x1.fffffffffffffp+1023"),
    ],
)
def test_angles_that_cancel_most(dtype: DType, x: str) -> None:
    for name in ("sin", "cos"):
        for angle in (float.fromhex(x), -float.fromhex(x)):
            got = evaluate(sequence(name, dtype), angle)
            assert ulps(got, reference(name, angle), dtype) <= BOUNDS[name][dtype == F64]


def test_the_words_of_two_over_pi() -> None:
    with mpmath.workprec(1400):
        bits = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** 1280))
    words = [bits >> (1280 - 32 * (k + 1)) & 0xFFFFFFFF for k in range(40)]
    assert two_over_pi(0, 0, 40, 32) == tuple(words)
    # Behind 21 zero bits, in overlapping pairs: word 1 starts at bit 32 + 32 of the stream, bit 43 of 2/pi.
    assert two_over_pi(21, 1, 2, 64)[1] == bits >> (1280 - 43 - 64) & (1 << 64) - 1


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_and_never_beyond_one(name: str, dtype: DType) -> None:
    x = np.abs(random_arguments(name, dtype, 20000))
    x = x[np.isfinite(x)]
    y = numpy_function(name, dtype)(x)
    assert (y <= 1).all()
    assert (numpy_function(name, dtype)(-x) == -y).all()


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_powers_of_two_are_exact(dtype: DType) -> None:
    n = np.arange(dtype.emin, 2 - dtype.precision - dtype.emin)
    powers = np.ldexp(1.0, n).astype(dtype.numpy)
    assert (numpy_function("exp2", dtype)(n.astype(dtype.numpy)) == powers).all()
    assert (numpy_function("log2", dtype)(powers) == n).all()


# Any change of a function's bits is a change of the language: checksums over a grid of arguments.
CHECKSUMS: dict[str, tuple[int, int]] = {
    "exp": (0x8050444A, 0xC2F804F0),
    "exp2": (0x80D80CA5, 0xA7317F9B),
    "log": (0xD9539015, 0x4314711E),
    "log2": (0x8F384B37, 0x4BAB5FAC),
    "tanh": (0x06A81086, 0xA2B6AAF4),
    "erf": (0x968D3EB5, 0x782D9F4D),
    "sin": (0x24796E5B, 0x05E6713F),
    "cos": (0xFBBC351D, 0x4282B902),
    "rsqrt": (0x9C984D5B, 0xB8B6343B),
}


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_the_bits_of_the_definition(name: str, dtype: DType) -> None:
    words = np.dtype(f"u{dtype.bits // 8}")
    patterns = (np.arange(10007, dtype=words) * ((1 << dtype.bits) // 10007)).view(dtype.numpy)
    arguments = np.concatenate([patterns, np.arange(-10000, 10000, dtype=dtype.numpy) / 999])
    results = numpy_function(name, dtype)(arguments)
    results[np.isnan(results)] = 0  # the bits of a NaN are not defined
    assert zlib.crc32(results.astype(f"<f{dtype.bits // 8}").tobytes()) == CHECKSUMS[name][dtype == F64]


@pytest.mark.parametrize(("name", "dtype"), EVERY)
def test_the_printed_function_takes_any_shape(name: str, dtype: DType) -> None:
    function = numpy_function(name, dtype)
    x = np.linspace(0.25, 3, 24, dtype=dtype.numpy).reshape(2, 3, 4)
    want = function(x)
    assert want.dtype == dtype.numpy
    assert (function(x.T) == want.T).all()
    assert (function(x[:, ::-2]) == want[:, ::-2]).all()
    assert function(x[:0]).shape == (0, 3, 4)
    for scalar in (x[1, 1, 1], np.array(x[1, 1, 1])):
        assert function(scalar).dtype == dtype.numpy
        assert function(scalar) == want[1, 1, 1]


def test_the_measured_errors_are_within_the_stated_bounds() -> None:
    results = Path(__file__).parents[3] / "benchmarks/results/elementary.json"
    measured = json.loads(results.read_text())["functions"]
    for name in FUNCTIONS:
        assert measured[f"{name}_f32"]["max_ulp"] == pytest.approx(WORST[name][1], abs=1e-4)
        for wide, dtype in enumerate(("f32", "f64")):
            result = measured[f"{name}_{dtype}"]
            assert result["max_ulp"] <= BOUNDS[name][wide]
            assert result["sign_differs"] == result["nan_differs"] == 0
