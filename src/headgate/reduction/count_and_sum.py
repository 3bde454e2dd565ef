"""Shared by SUM and MEAN: how many numbers there were, and their exact sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.digest_contract import NumberDigest, checked_count, checked_fields
from headgate.reduction.exact_sum import exact_from_text, exact_sum, exact_to_text

__all__ = ["CountAndSum", "SumDigest"]

Floats: TypeAlias = NDArray[np.float64]
CountAndSum: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SumDigest(NumberDigest):
    """The content is a count and a sum in `exact_sum`'s unit."""

    def nothing(self) -> CountAndSum:
        return 0, 0

    def of_numbers(self, numbers: Floats) -> CountAndSum:
        return len(numbers), exact_sum(numbers)

    def merge(self, left: CountAndSum, right: CountAndSum) -> CountAndSum:
        return left[0] + right[0], left[1] + right[1]

    def to_json(self, content: CountAndSum) -> dict[str, Any]:
        return {"count": content[0], "sum": exact_to_text(content[1])}

    def from_json(self, data: Any) -> CountAndSum:
        count, total = checked_fields(data, "count", "sum")
        return checked_count(count), exact_from_text(total)
