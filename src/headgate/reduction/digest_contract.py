"""What every digest is: a summary of dropped events that merges in any order.

A digest kind is a frozen dataclass; its content is an immutable value. `merge` is
associative and commutative and `nothing` is its neutral element, across packings,
partitions, batches and hosts. The content goes to JSON and back; reading back checks
everything and never unpickles. The same rows give the same content from plain events
and from Arrow columns, since both are first read into the same arrays.

PACK, section 2, "Policy execution".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headgate.reduction.contract import ANY_SCALAR
from headgate.reduction.hashing import hash_bytes
from headgate.reduction.parameters import ATTRIBUTE, parameter
from headgate.reduction.queues import ColumnQueue, Queue
from headgate.reduction.values import Kind, key_of, number_of

__all__ = [
    "MAX_DIGEST_COUNT",
    "DigestKind",
    "NumberDigest",
    "checked_count",
    "checked_fields",
    "counted_keys",
    "finite_numbers",
    "short_key",
]

Floats: TypeAlias = NDArray[np.float64]
Content: TypeAlias = Any

MAX_DIGEST_COUNT = 1 << 62
LONGEST_KEY = 200


@dataclass(frozen=True, slots=True)
class DigestKind(ABC):
    """See the module. Subclasses are found by introspection, see `catalogue`."""

    name: ClassVar[str]
    needs_attribute: ClassVar[bool] = True
    kinds: ClassVar[frozenset[Kind]] = ANY_SCALAR

    attribute: str | None = parameter(ATTRIBUTE, None)

    @abstractmethod
    def nothing(self) -> Content:
        """The content of no events."""

    @abstractmethod
    def of(self, queue: Queue) -> Content:
        """The content of all events of the queue."""

    @abstractmethod
    def merge(self, left: Content, right: Content) -> Content: ...

    @abstractmethod
    def result(self, content: Content) -> Any:
        """What a receiver wants to know: plain JSON, None where there is no answer."""

    @abstractmethod
    def to_json(self, content: Content) -> Any: ...

    @abstractmethod
    def from_json(self, data: Any) -> Content:
        """The content again; ValueError for what cannot be one."""

    @property
    def title(self) -> str:
        return f"{self.name}({self.attribute})" if self.attribute else self.name


@dataclass(frozen=True, slots=True)
class NumberDigest(DigestKind):
    """A digest of finite numbers; events without one are counted but not summed."""

    kinds: ClassVar[frozenset[Kind]] = frozenset({Kind.NUMBER, Kind.TIME})

    def of(self, queue: Queue) -> Content:
        return self.of_numbers(finite_numbers(queue, self.attribute or ""))

    @abstractmethod
    def of_numbers(self, numbers: Floats) -> Content: ...


def finite_numbers(queue: Queue, attribute: str) -> Floats:
    """The attribute's finite numbers."""
    if isinstance(queue, ColumnQueue):
        read = queue.numbers(attribute)
        return read.values[read.known & np.isfinite(read.values)]
    values = [number_of(value) for value in queue.values(attribute)]
    numbers = np.array([value for value in values if value is not None], np.float64)
    return numbers[np.isfinite(numbers)]


def counted_keys(queue: Queue, attribute: str) -> dict[str, int]:
    """How often each value occurs, as keys in alphabetical order; long ones are shortened."""
    if isinstance(queue, ColumnQueue):
        keys = queue.keys(attribute)
        counts = np.bincount(keys.codes[keys.known], minlength=0)
        codes = np.flatnonzero(counts)
        found = zip(keys.labels(codes), counts[codes].tolist(), strict=True)
        return dict(sorted((short_key(key), count) for key, count in found))
    labels = (key_of(value) for value in queue.values(attribute))
    return dict(sorted(Counter(short_key(key) for key in labels if key is not None).items()))


def short_key(key: str) -> str:
    """A key of bounded length; a cut one ends in its hash."""
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:LONGEST_KEY]}...#{hash_bytes(key.encode()):016x}"


def checked_count(value: object, what: str = "count") -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < MAX_DIGEST_COUNT:
        raise ValueError(f"{what}: expected a whole number of at least 0")
    return value


def checked_fields(data: object, *names: str) -> list[Any]:
    """The values of a JSON object that has exactly these names."""
    if not isinstance(data, Mapping) or set(data) != set(names):
        raise ValueError(f"expected an object with {', '.join(names)}")
    return [data[name] for name in names]
