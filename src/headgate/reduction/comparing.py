"""Shared by the filters that compare an attribute with given values.

A number is compared with numbers and times, a text with texts, a truth value with truth
values. An attribute of another kind cannot be judged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headgate.reduction.contract import RowFilter
from headgate.reduction.parameters import SCALAR, parameter
from headgate.reduction.queues import ColumnQueue
from headgate.reduction.values import Kind, Scalar, boolean_of, number_of, text_of

__all__ = ["ComparisonFilter", "column_in", "kinds_like", "value_in", "value_like"]

Mask: TypeAlias = NDArray[np.bool_]


def kinds_like(reference: Scalar) -> frozenset[Kind]:
    """The kinds of attribute that can be compared with `reference`."""
    if isinstance(reference, bool):
        return frozenset({Kind.BOOLEAN})
    if isinstance(reference, str):
        return frozenset({Kind.TEXT})
    return frozenset({Kind.NUMBER, Kind.TIME})


def value_like(value: Any, reference: Scalar) -> Scalar | None:
    """The value, if it is of the kind of `reference`."""
    if isinstance(reference, bool):
        return boolean_of(value)
    return text_of(value) if isinstance(reference, str) else number_of(value)


def value_in(value: Any, members: frozenset[Scalar]) -> bool | None:
    """Is the value one of `members`, which are all of one kind? None: of another kind."""
    read = value_like(value, next(iter(members)))
    return None if read is None else read in members


def column_in(queue: ColumnQueue, attribute: str, members: tuple[Scalar, ...]) -> tuple[Mask, Mask]:
    """`value_in` for every row: which are members, and which can be judged."""
    reference = members[0]
    if isinstance(reference, bool):
        booleans = queue.booleans(attribute)
        return np.isin(booleans.values, members) & booleans.known, booleans.known
    if isinstance(reference, str):
        texts = queue.texts(attribute)
        found = pc.is_in(texts.array, value_set=pa.array(members, texts.array.type))
        return found.to_numpy(zero_copy_only=False), texts.known
    numbers = queue.numbers(attribute)
    if len(members) == 1:
        return (numbers.values == reference) & numbers.known, numbers.known
    return np.isin(numbers.values, members) & numbers.known, numbers.known


@dataclass(frozen=True, slots=True)
class ComparisonFilter(RowFilter):
    """Selects by one comparison with `value`, a number or a text (texts by code point)."""

    arrow_function: ClassVar[str]

    value: bool | int | float | str = parameter(SCALAR)

    @staticmethod
    @abstractmethod
    def compare(left: Any, right: Any) -> Any:
        """The comparison, of two values or of an array and a value."""

    def test_value(self, value: Any) -> bool | None:
        read = value_like(value, self.value)
        return None if read is None else bool(self.compare(read, self.value))

    def test_column(self, queue: ColumnQueue) -> tuple[Mask, Mask]:
        attribute = self.attribute or ""
        if isinstance(self.value, bool):
            booleans = queue.booleans(attribute)
            return self.compare(booleans.values, self.value), booleans.known
        if isinstance(self.value, str):
            texts = queue.texts(attribute)
            given = pa.scalar(self.value, texts.array.type)
            found = pc.call_function(self.arrow_function, [texts.array, given])
            return found.fill_null(False).to_numpy(zero_copy_only=False), texts.known
        numbers = queue.numbers(attribute)
        return self.compare(numbers.values, self.value), numbers.known

    def problems(self) -> Iterator[tuple[str, str]]:
        if isinstance(self.value, bool) and self.arrow_function not in ("equal", "not_equal"):
            yield "value", f"{self.name} compares numbers or texts; use EQ or NE for true and false"

    def needs(self) -> Mapping[str, frozenset[Kind]]:
        return {self.attribute: kinds_like(self.value)} if self.attribute else {}
