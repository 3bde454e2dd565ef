"""MEAN: the mean of the numbers. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.digest_contract import NumberDigest, checked_count, checked_fields
from headgate.reduction.exact_sum import (
    as_double,
    as_fraction,
    exact_from_text,
    exact_sum,
    exact_to_text,
)

__all__ = ["Mean"]

Floats: TypeAlias = NDArray[np.float64]
CountAndSum: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Mean(NumberDigest):
    """The mean of the attribute; None where no event had a number."""

    name: ClassVar[str] = "MEAN"

    def nothing(self) -> CountAndSum:
        return 0, 0

    def of_numbers(self, numbers: Floats) -> CountAndSum:
        return len(numbers), exact_sum(numbers)

    def merge(self, left: CountAndSum, right: CountAndSum) -> CountAndSum:
        return left[0] + right[0], left[1] + right[1]

    def result(self, content: CountAndSum) -> float | None:
        count, total = content
        return as_double(as_fraction(total) / count) if count else None

    def to_json(self, content: CountAndSum) -> dict[str, Any]:
        return {"count": content[0], "sum": exact_to_text(content[1])}

    def from_json(self, data: Any) -> CountAndSum:
        count, total = checked_fields(data, "count", "sum")
        return checked_count(count), exact_from_text(total)
