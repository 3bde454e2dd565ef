"""Shared by SUBSET and SUPSET: an attribute that is a set, compared with a set of values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.columns import Sets
from headgate.reduction.contract import RowFilter
from headgate.reduction.members import member_keys
from headgate.reduction.parameters import SCALARS, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, Scalar, elements_of, key_of

__all__ = ["SetFilter"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SetFilter(RowFilter):
    """A subclass says how the two sets compare, for one event and for a column."""

    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.SET})

    values: tuple[Scalar, ...] = parameter(SCALARS)

    @staticmethod
    @abstractmethod
    def compare(elements: AbstractSet[str | None], members: frozenset[str]) -> bool:
        """Is the event selected? Both sets hold keys; None is an element without one."""

    @abstractmethod
    def compare_column(self, sets: Sets) -> Mask:
        """The same for every row of a column."""

    def test_value(self, value: Any) -> bool | None:
        elements = elements_of(value)
        if elements is None:
            return None
        return self.compare({key_of(element) for element in elements}, member_keys(self.values))

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        sets = queue.sets(self.attribute or "")
        return self.compare_column(sets), sets.known
