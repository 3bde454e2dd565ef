"""INSET: selects events whose attribute is one of a set of values. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.comparing import column_in, kinds_like, value_in
from headgate.reduction.contract import RowFilter
from headgate.reduction.parameters import SCALARS, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, Scalar

__all__ = ["Inset"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Inset(RowFilter):
    """The attribute is one of `values`, all of one kind."""

    name: ClassVar[str] = "INSET"

    values: tuple[Scalar, ...] = parameter(SCALARS)

    def test_value(self, value: Any) -> bool | None:
        return value_in(value, frozenset(self.values))

    def test_values(self, values: Sequence[Any]) -> list[bool | None]:
        members = frozenset(self.values)
        return [value_in(value, members) for value in values]

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        return column_in(queue, self.attribute or "", self.values)

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.attribute: kinds_like(self.values[0])} if self.attribute else {}
