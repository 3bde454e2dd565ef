"""LATEST_PER_KEY: selects the newest event of each key (conflation).

What a receiver of positions or prices wants under overload: the last word on each key,
nothing on the way there. LATEST with a group that must be given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.filters.latest import Latest
from headgate.reduction.parameters import COUNT, parameter

__all__ = ["LatestPerKey"]


@dataclass(frozen=True, slots=True)
class LatestPerKey(Latest):
    """The last `window` events, one unless given, of each value of `group`. No state."""

    name: ClassVar[str] = "LATEST_PER_KEY"

    window: int = parameter(COUNT, 1)

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.group is None:
            yield "group", "missing; name the attribute that is the key, here or for the policy"
