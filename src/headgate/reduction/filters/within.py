"""WITHIN: selects events whose attribute lies in [low, high]. PACK, section 2.

The paper's text drops what lies in the normal range, the caption of its Figure 2 what
lies outside; the sense says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.parameters import NUMBER, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, number_of

__all__ = ["Within"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Within(RowFilter):
    """`low` <= attribute <= `high`, numbers."""

    name: ClassVar[str] = "WITHIN"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.NUMBER, Kind.TIME})

    low: float = parameter(NUMBER)
    high: float = parameter(NUMBER)

    def test_value(self, value: Any) -> bool | None:
        number = number_of(value)
        return None if number is None else self.low <= number <= self.high

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        numbers = queue.numbers(self.attribute or "")
        values = numbers.values
        return (values >= self.low) & (values <= self.high), numbers.known

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.low > self.high:
            yield "low", f"low {self.low:g} is above high {self.high:g}; exchange them"
