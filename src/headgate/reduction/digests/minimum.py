"""MIN: the smallest number. PACK, section 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.extremes import Extreme

__all__ = ["Minimum"]


@dataclass(frozen=True, slots=True)
class Minimum(Extreme):
    """The smallest of the attribute; None where no event had a number."""

    name: ClassVar[str] = "MIN"

    @staticmethod
    def pick(numbers: Iterable[float]) -> float | None:
        return min(numbers, default=None)
