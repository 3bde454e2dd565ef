"""MIN: the smallest number. PACK, section 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.digest_contract import NumberDigest

__all__ = ["Minimum"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Minimum(NumberDigest):
    """The smallest of the attribute; None where no event had a number."""

    name: ClassVar[str] = "MIN"

    def nothing(self) -> float | None:
        return None

    def of_numbers(self, numbers: Floats) -> float | None:
        return float(numbers.min()) + 0.0 if len(numbers) else None

    def merge(self, left: float | None, right: float | None) -> float | None:
        return min((value for value in (left, right) if value is not None), default=None)

    def result(self, content: float | None) -> float | None:
        return content

    def to_json(self, content: float | None) -> float | None:
        return content

    def from_json(self, data: Any) -> float | None:
        if data is None:
            return None
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise ValueError("expected a number or null")
        if abs(data) > 1.7976931348623157e308 or not math.isfinite(data):
            raise ValueError("expected a finite number")
        return float(data)
