"""Numbers with a proved bound on their error: a running error analysis in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float64 = NDArray[np.float64]

# Float64 arithmetic rounds too: a part in 2^20 on top of every f32 rounding covers it many times.
SLACK = 1 + 2.0**-20
UNIT, HALF_LEAST = 2.0**-24 * SLACK, 2.0**-150


@dataclass(frozen=True)
class Estimate:
    """What an f32 computation would give without roundings, and how far its roundings can lead.

    Both arrays are float64 and of one shape: an f32 run of the same operations, in the same order,
    lies within *error* of *value*. Each operation passes on the errors of its operands, exactly and
    not to first order, and adds one rounding to nearest: 2^-24 of the largest possible result, or half
    of the least subnormal. The elementary functions are trusted to 2 ulp, that is four such roundings.
    """

    value: Float64
    error: Float64

    def __add__(self, other: Estimate) -> Estimate:
        return _rounded(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Estimate) -> Estimate:
        return _rounded(self.value - other.value, self.error + other.error)

    def __mul__(self, other: Estimate) -> Estimate:
        error = abs(self.value) * other.error + abs(other.value) * self.error + self.error * other.error
        return _rounded(self.value * other.value, error)

    def __truediv__(self, other: Estimate) -> Estimate:
        least = abs(other.value) - other.error
        assert (least > 0).all(), "a divisor that may be zero has no bound"
        value = self.value / other.value
        return _rounded(value, (self.error + abs(value) * other.error) / least)

    def __getitem__(self, place: object) -> Estimate:
        return Estimate(self.value[place], self.error[place])  # type: ignore[index]


def exact(array: ArrayLike) -> Estimate:
    """An f32 or bf16 array whose bits are known."""
    value = np.asarray(np.asarray(array), np.float64)
    return Estimate(value, np.zeros_like(value))


def exp(x: Estimate) -> Estimate:
    """exp within 2 ulp of its argument's exponential."""
    value = np.exp(x.value)
    return _rounded(value, value * np.expm1(x.error), roundings=4)


def log(x: Estimate) -> Estimate:
    """Natural logarithm within 2 ulp; its slope is largest at the lower end of the argument's interval."""
    least = x.value - x.error
    assert (least > 0).all(), "the logarithm of a number that may be zero has no bound"
    return _rounded(np.log(x.value), x.error / least, roundings=4)


def rsqrt(x: Estimate) -> Estimate:
    """1 / sqrt(x) within 2 ulp, for an argument whose bits are known."""
    assert not x.error.any()
    return _rounded(1 / np.sqrt(x.value), np.zeros_like(x.value), roundings=4)


def to_bf16(x: Estimate) -> Estimate:
    """One rounding to bf16: it is monotone, so both ends of the interval are rounded."""
    least, greatest = _nearest_bf16(x.value - x.error), _nearest_bf16(x.value + x.error)
    return Estimate((least + greatest) / 2, (greatest - least) / 2)


def _nearest_bf16(x: Float64) -> Float64:
    """The nearest value of 8 significant bits, ties to even; below 2^-126 the spacing stays 2^-133."""
    _, exponent = np.frexp(x)
    spacing = np.maximum(exponent, -125) - 8
    return np.ldexp(np.rint(np.ldexp(x, -spacing)), spacing)


def _rounded(value: Float64, error: Float64, roundings: int = 1) -> Estimate:
    unit, least = roundings * UNIT, roundings * HALF_LEAST
    return Estimate(value, error * SLACK + (abs(value) + error) * unit + least)
