"""MAX: the largest number. PACK, section 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.extremes import Extreme

__all__ = ["Maximum"]


@dataclass(frozen=True, slots=True)
class Maximum(Extreme):
    """The largest of the attribute; None where no event had a number."""

    name: ClassVar[str] = "MAX"

    @staticmethod
    def pick(numbers: Iterable[float]) -> float | None:
        return max(numbers, default=None)
