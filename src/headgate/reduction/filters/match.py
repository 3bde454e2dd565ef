"""MATCH: selects events whose text attribute matches a regular expression. PACK, section 2.

The engine is RE2, by way of Arrow's `match_substring_regex`, in both forms: matching is
linear in the text whatever the pattern, so no pattern can stall a packing. RE2 has no
look-around and no back-references; a policy that asks for them is refused. The match may
be anywhere in the text: anchor with ^ and $.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.parameters import PATTERN, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, text_of

__all__ = ["Match"]

Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Match(RowFilter):
    """The pattern matches somewhere in the attribute, a text."""

    name: ClassVar[str] = "MATCH"
    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.TEXT})

    pattern: str = parameter(PATTERN)

    def test_value(self, value: Any) -> bool | None:
        return self.test_values([value])[0]

    def test_values(self, values: Sequence[Any]) -> list[bool | None]:
        texts = pa.array([text_of(value) for value in values], pa.string())
        answers: list[bool | None] = pc.match_substring_regex(texts, self.pattern).to_pylist()
        return answers

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        texts = queue.texts(self.attribute or "")
        found = pc.match_substring_regex(texts.array, self.pattern).fill_null(False)
        return found.to_numpy(zero_copy_only=False), texts.known
