"""MEAN: the mean of the numbers. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.count_and_sum import CountAndSum, SumDigest
from headgate.reduction.exact_sum import as_double, as_fraction

__all__ = ["Mean"]


@dataclass(frozen=True, slots=True)
class Mean(SumDigest):
    """The mean of the attribute; None where no event had a number."""

    name: ClassVar[str] = "MEAN"

    def result(self, content: CountAndSum) -> float | None:
        count, total = content
        return as_double(as_fraction(total) / count) if count else None
