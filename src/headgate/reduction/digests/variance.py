"""VARIANCE: the population variance of the numbers.

Count, sum and sum of squares are exact, so nothing cancels and merging is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.digest_contract import NumberDigest, checked_count, checked_fields
from headgate.reduction.exact_sum import (
    SQUARE_UNIT,
    as_double,
    as_fraction,
    exact_from_text,
    exact_squares,
    exact_sum,
    exact_to_text,
)

__all__ = ["Variance"]

Floats: TypeAlias = NDArray[np.float64]
Moments: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Variance(NumberDigest):
    """Mean square distance from the mean; None where no event had a number."""

    name: ClassVar[str] = "VARIANCE"

    def nothing(self) -> Moments:
        return 0, 0, 0

    def of_numbers(self, numbers: Floats) -> Moments:
        return len(numbers), exact_sum(numbers), exact_squares(numbers)

    def merge(self, left: Moments, right: Moments) -> Moments:
        return left[0] + right[0], left[1] + right[1], left[2] + right[2]

    def result(self, content: Moments) -> float | None:
        count, total, squares = content
        if not count:
            return None
        mean = as_fraction(total) / count
        return as_double(as_fraction(squares, SQUARE_UNIT) / count - mean * mean)

    def to_json(self, content: Moments) -> dict[str, Any]:
        count, total, squares = content
        return {
            "count": count,
            "sum": exact_to_text(total),
            "squares": exact_to_text(squares, SQUARE_UNIT),
        }

    def from_json(self, data: Any) -> Moments:
        count, total, squares = checked_fields(data, "count", "sum", "squares")
        return checked_count(count), exact_from_text(total), exact_from_text(squares, SQUARE_UNIT)
