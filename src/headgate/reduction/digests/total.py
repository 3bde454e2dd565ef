"""SUM: the sum of the numbers. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.count_and_sum import CountAndSum, SumDigest
from headgate.reduction.exact_sum import as_double, as_fraction

__all__ = ["Total"]


@dataclass(frozen=True, slots=True)
class Total(SumDigest):
    """The sum, exact until it is shown as a double; 0 where no event had a number."""

    name: ClassVar[str] = "SUM"

    def result(self, content: CountAndSum) -> float:
        return as_double(as_fraction(content[1]))
