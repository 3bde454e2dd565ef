"""Shared by MAX and MIN: one number of all, the extreme one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.digest_contract import NumberDigest

__all__ = ["Extreme"]

Floats: TypeAlias = NDArray[np.float64]

_LARGEST_FLOAT = 1.7976931348623157e308


@dataclass(frozen=True, slots=True)
class Extreme(NumberDigest):
    """The content is the number itself; None where no event had one."""

    @staticmethod
    @abstractmethod
    def pick(numbers: Iterable[float]) -> float | None:
        """The extreme one; None of nothing."""

    def nothing(self) -> float | None:
        return None

    def of_numbers(self, numbers: Floats) -> float | None:
        if not len(numbers):
            return None
        ends = (float(numbers.min()) + 0.0, float(numbers.max()) + 0.0)  # + 0.0: no -0.0
        return self.pick(ends)

    def merge(self, left: float | None, right: float | None) -> float | None:
        return self.pick(value for value in (left, right) if value is not None)

    def result(self, content: float | None) -> float | None:
        return content

    def to_json(self, content: float | None) -> float | None:
        return content

    def from_json(self, data: Any) -> float | None:
        if data is None:
            return None
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise ValueError("expected a number or null")
        if abs(data) > _LARGEST_FLOAT or not math.isfinite(data):
            raise ValueError("expected a finite number")
        return float(data)
