"""SUPSET: selects events whose attribute, a set, has all of a set of values. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.members import member_keys, rows_with
from headgate.reduction.parameters import SCALARS, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, Scalar, elements_of, key_of

__all__ = ["Supset"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Supset(RowFilter):
    """Each of `values` is an element; equal sets count too."""

    name: ClassVar[str] = "SUPSET"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.SET})

    values: tuple[Scalar, ...] = parameter(SCALARS)

    def test_value(self, value: Any) -> bool | None:
        elements = elements_of(value)
        if elements is None:
            return None
        return member_keys(self.values) <= {key_of(element) for element in elements}

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        sets = queue.sets(self.attribute or "")
        return rows_with(sets, self.values) == len(self.values), sets.known
