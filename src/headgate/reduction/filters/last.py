"""LAST: of the events whose value is in a set, selects the last. PACK, section 2.

Reading: the last event with any of the values, not one for each value; events with other
values stay. Per group if a group is given. Each queue on its own: no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.end_of_set import EndOfSet

__all__ = ["Last"]


@dataclass(frozen=True, slots=True)
class Last(EndOfSet):
    """The last event whose attribute is one of `values`."""

    name: ClassVar[str] = "LAST"
    latest: ClassVar[bool] = True
