"""LAST: of the events whose value is in a set, selects the last. PACK, section 2.

Reading: the last event with any of the values, not one for each value; events with other
values stay. Per group if a group is given. Each queue on its own: no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.end_of_set import EndOfSet
from headgate.reduction.grouping import Segments

__all__ = ["Last"]

Rows: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Last(EndOfSet):
    """The last event whose attribute is one of `values`."""

    name: ClassVar[str] = "LAST"

    @staticmethod
    def end(parts: Segments) -> Rows:
        ends: Rows = parts.begins + parts.lengths - 1
        return parts.order[ends]

    @staticmethod
    def replaces() -> bool:
        return True
