"""What the nodes of the sampled distributed planner say to each other.

A message is a sender, a receiver, a kind and a body of plain data, so it can be
written as JSON as it is. Nothing in it is executed. `size_bytes` is what a plain
binary form of the body takes: 8 bytes a number, 4 a row number, names in UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["FitMessage", "Kind"]


class Kind(StrEnum):
    """Who speaks to whom, and what about."""

    OFFER = "offer"  # child to parent: what my inputs are worth
    LIMITS = "limits"  # parent to child: what can ever arrive
    TABLE = "table"  # child to parent: the whole table
    DELTA = "delta"  # child to parent: rows removed and added
    RATES = "rates"  # child to parent: rates of streams that enter further down
    ENTRY = "entry"  # parent to child: run with these rates


@dataclass(frozen=True)
class FitMessage:
    """One message between neighbours."""

    sender: str
    receiver: str
    kind: Kind
    body: Mapping[str, Any]
    size_bytes: int = 0

    def to_json(self) -> str:
        return json.dumps(
            {
                "sender": self.sender,
                "receiver": self.receiver,
                "kind": str(self.kind),
                "body": self.body,
                "size_bytes": self.size_bytes,
            },
            allow_nan=False,
        )

    @classmethod
    def from_json(cls, text: str) -> FitMessage:
        data = json.loads(text)
        return cls(
            data["sender"],
            data["receiver"],
            Kind(data["kind"]),
            data["body"],
            data["size_bytes"],
        )
