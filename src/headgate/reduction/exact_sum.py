"""Sums of doubles without rounding, so that adding them in any order gives the same.

A sum is a Python integer in units of 2^-1074 (the smallest double), a sum of squares one
in units of 2^-2148. Adding integers is associative and commutative; adding doubles is
not. An integer here has at most 2200 bits (4300 for squares): bounded.

Cost: about 30 ns a value (60 with squares): mantissas are added per exponent in doubles
that stay below 2^53, so nothing is rounded there either.
"""

from __future__ import annotations

import re
import sys
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SQUARE_UNIT",
    "UNIT",
    "as_double",
    "as_fraction",
    "exact_from_text",
    "exact_squares",
    "exact_sum",
    "exact_to_text",
]

UNIT = 1074  # a sum counts in 2^-1074
SQUARE_UNIT = 2 * UNIT

_CHUNK = 1 << 15
_TEXT = re.compile(r"(-?[0-9]{1,1400})p(-?[0-9]{1,4})")


def exact_sum(values: NDArray[np.float64]) -> int:
    """The sum of finite doubles, in units of 2^-1074.

    >>> exact_sum(np.array([1e308, 1.0, -1e308])) == 1 << UNIT
    True
    """
    total = 0
    for begin in range(0, len(values), _CHUNK * 1024):
        exponents, mantissas = _split(values[begin : begin + _CHUNK * 1024])
        high = np.floor(mantissas / 2.0**27)
        low = mantissas - high * 2.0**27
        total += _weighted(exponents, ((high, 27), (low, 0)), UNIT)
    return total


def exact_squares(values: NDArray[np.float64]) -> int:
    """The sum of the squares of finite doubles, in units of 2^-2148."""
    total = 0
    for begin in range(0, len(values), _CHUNK):
        exponents, mantissas = _split(np.abs(values[begin : begin + _CHUNK]))
        a = np.floor(mantissas / 2.0**36)
        rest = mantissas - a * 2.0**36
        b = np.floor(rest / 2.0**18)
        c = rest - b * 2.0**18
        limbs = ((a * a, 72), (2 * a * b, 54), (2 * a * c + b * b, 36), (2 * b * c, 18), (c * c, 0))
        total += _weighted(2 * exponents, limbs, SQUARE_UNIT)
    return total


def _split(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """value = mantissa * 2^exponent with a whole mantissa below 2^53."""
    fractions, exponents = np.frexp(values)
    return exponents.astype(np.int64) - 53, fractions * 2.0**53


def _weighted(
    exponents: NDArray[np.int64],
    limbs: tuple[tuple[NDArray[np.float64], int], ...],
    unit: int,
) -> int:
    """The sum of limb * 2^(exponent + shift) in units of 2^-unit."""
    if not len(exponents):
        return 0
    lowest = int(exponents.min())
    places = exponents - lowest
    total = 0
    for limb, shift in limbs:
        sums = np.bincount(places, weights=limb)
        for place in np.flatnonzero(sums).tolist():
            power = place + lowest + shift + unit
            whole = int(sums[place])
            total += whole << power if power >= 0 else whole >> -power
    return total


def as_fraction(total: int, unit: int = UNIT) -> Fraction:
    return Fraction(total, 1 << unit)


def exact_to_text(total: int, unit: int = UNIT) -> str:
    """An exact and short text: an odd integer, p, and the power of two.

    >>> exact_to_text(3 << UNIT), exact_from_text("3p0") == 3 << UNIT
    ('3p0', True)
    """
    if total == 0:
        return "0p0"
    zeros = (total & -total).bit_length() - 1
    return f"{total >> zeros}p{zeros - unit}"


def exact_from_text(text: object, unit: int = UNIT) -> int:
    """The sum again; ValueError for anything that is none."""
    match = _TEXT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError("expected an exact sum such as 3p-1")
    mantissa, power = int(match[1]), int(match[2]) + unit
    if not (0 <= power <= 2 * unit + 128 and mantissa.bit_length() + power <= 2 * unit + 128):
        raise ValueError("the exact sum is out of range")
    return mantissa << power


def as_double(value: Fraction) -> float:
    """The nearest double; the largest one where there is none so large."""
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max
