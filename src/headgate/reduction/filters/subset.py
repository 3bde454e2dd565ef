"""SUBSET: selects events whose attribute, a set, lies within a set of values. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.members import member_keys, strangers
from headgate.reduction.parameters import SCALARS, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, Scalar, elements_of, key_of

__all__ = ["Subset"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Subset(RowFilter):
    """Every element is one of `values`; equal sets and the empty set count too."""

    name: ClassVar[str] = "SUBSET"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.SET})

    values: tuple[Scalar, ...] = parameter(SCALARS)

    def test_value(self, value: Any) -> bool | None:
        elements = elements_of(value)
        if elements is None:
            return None
        members = member_keys(self.values)
        return all(key_of(element) in members for element in elements)

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        sets = queue.sets(self.attribute or "")
        return strangers(sets, self.values) == 0, sets.known
