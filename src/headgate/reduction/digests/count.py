"""COUNT: how many events. PACK, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.digest_contract import DigestKind, checked_count
from headgate.reduction.queues import Queue

__all__ = ["Count"]


@dataclass(frozen=True, slots=True)
class Count(DigestKind):
    """All dropped events, whatever their attributes."""

    name: ClassVar[str] = "COUNT"
    needs_attribute: ClassVar[bool] = False

    def nothing(self) -> int:
        return 0

    def of(self, queue: Queue) -> int:
        return len(queue)

    def merge(self, left: int, right: int) -> int:
        return left + right

    def result(self, content: int) -> int:
        return content

    def to_json(self, content: int) -> int:
        return content

    def from_json(self, data: Any) -> int:
        return checked_count(data)
