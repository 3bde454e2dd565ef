"""FREQUENT: the values that occurred most, by a frequent-items sketch of `datasketches`.

Exact up to 192 different values. Beyond that the sketch keeps bounds: a value's true
count is never outside [lower, upper], in whatever order parts are merged, and upper -
lower is at most 3.5 / 256 of all events. Which of the rare values it forgets does depend
on the order; no bounded summary of frequent items can avoid that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.digest_contract import LONGEST_KEY, DigestKind, counted_keys
from headgate.reduction.parameters import COUNT, parameter
from headgate.reduction.queues import Queue
from headgate.reduction.sketch_bytes import bytes_from_json, bytes_to_json, datasketches, opened

__all__ = ["Frequent"]

_LG_SIZE = 8
_MOST_BYTES = (1 << _LG_SIZE) * (8 + 4 + 4 * (LONGEST_KEY + 24)) + 64


@dataclass(frozen=True, slots=True)
class Frequent(DigestKind):
    """The `count` most frequent values of the attribute, each with bounds of its count."""

    name: ClassVar[str] = "FREQUENT"

    count: int = parameter(COUNT, 10)

    def nothing(self) -> bytes:
        return bytes(datasketches().frequent_strings_sketch(_LG_SIZE).serialize())

    def of(self, queue: Queue) -> bytes:
        sketch = datasketches().frequent_strings_sketch(_LG_SIZE)
        for key, count in counted_keys(queue, self.attribute or "").items():
            sketch.update(key, count)
        return bytes(sketch.serialize())

    def merge(self, left: bytes, right: bytes) -> bytes:
        first, second = sorted((left, right))  # so that the order of the two does not matter
        merged = datasketches().frequent_strings_sketch(_LG_SIZE)  # whatever size a part claims
        merged.merge(_open(first))
        merged.merge(_open(second))
        return bytes(merged.serialize())

    def result(self, content: bytes) -> list[dict[str, Any]]:
        items = sorted(_items(_open(content)), key=lambda item: (-item[1], item[0]))
        return [
            {"value": value, "estimate": estimate, "lower": lower, "upper": upper}
            for value, estimate, lower, upper in items[: self.count]
        ]

    def to_json(self, content: bytes) -> str:
        return bytes_to_json(content)

    def from_json(self, data: Any) -> bytes:
        content = bytes_from_json(data, _MOST_BYTES)
        if len(content) < 5 or content[3] != _LG_SIZE or content[4] > _LG_SIZE:
            raise ValueError("not a sketch of this size")  # a forged size would be allocated
        opened(_items, _open(content))  # also looks at every value
        return content


def _items(sketch: Any) -> list[Any]:
    kind = datasketches().frequent_items_error_type.NO_FALSE_NEGATIVES
    return list(sketch.get_frequent_items(kind))


def _open(content: bytes) -> Any:
    return opened(datasketches().frequent_strings_sketch.deserialize, content)
