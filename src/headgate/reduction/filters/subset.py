"""SUBSET: selects events whose attribute, a set, lies within a set of values. PACK, section 2."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.columns import Sets
from headgate.reduction.members import strangers
from headgate.reduction.set_filter import SetFilter

__all__ = ["Subset"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Subset(SetFilter):
    """Every element is one of `values`; equal sets and the empty set count too."""

    name: ClassVar[str] = "SUBSET"

    @staticmethod
    def compare(elements: AbstractSet[str | None], members: frozenset[str]) -> bool:
        return elements <= members

    def compare_column(self, sets: Sets) -> Mask:
        selected: Mask = strangers(sets, self.values) == 0
        return selected
