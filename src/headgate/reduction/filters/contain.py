"""CONTAIN: selects events whose attribute, a set, contains a value. PACK, section 2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.members import rows_with
from headgate.reduction.parameters import SCALAR, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, elements_of, key_of, text_of

__all__ = ["Contain"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Contain(RowFilter):
    """A set has `value` among its elements; a text contains the text `value`."""

    name: ClassVar[str] = "CONTAIN"

    value: bool | int | float | str = parameter(SCALAR)

    def test_value(self, value: Any) -> bool | None:
        elements = elements_of(value)
        if elements is not None:
            wanted = key_of(self.value)
            return any(key_of(element) == wanted for element in elements)
        text = text_of(value)
        if text is None or not isinstance(self.value, str):
            return None
        return self.value in text

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        sets = queue.sets(self.attribute or "")
        found, known = rows_with(sets, (self.value,)) > 0, sets.known
        if isinstance(self.value, str):
            texts = queue.texts(self.attribute or "")
            matches = pc.match_substring(texts.array, self.value).fill_null(False)
            found = found | matches.to_numpy(zero_copy_only=False)
            known = known | texts.known
        return found, known

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        kinds = {Kind.SET, Kind.TEXT} if isinstance(self.value, str) else {Kind.SET}
        return {self.attribute: frozenset(kinds)} if self.attribute else {}
