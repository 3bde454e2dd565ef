"""SUPSET: selects events whose attribute, a set, has all of a set of values. PACK, section 2."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.columns import Sets
from headgate.reduction.members import rows_with
from headgate.reduction.set_filter import SetFilter

__all__ = ["Supset"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Supset(SetFilter):
    """Each of `values` is an element; equal sets count too."""

    name: ClassVar[str] = "SUPSET"

    @staticmethod
    def compare(elements: AbstractSet[str | None], members: frozenset[str]) -> bool:
        return members <= elements

    def compare_column(self, sets: Sets) -> Mask:
        selected: Mask = rows_with(sets, self.values) == len(self.values)
        return selected
