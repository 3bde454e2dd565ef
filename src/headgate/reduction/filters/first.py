"""FIRST: of the events whose value is in a set, selects the first. PACK, section 2.

Reading: the first event with any of the values, not one for each value; events with other
values stay. Per group if a group is given. Each queue on its own: no state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from headgate.reduction.end_of_set import EndOfSet

__all__ = ["First"]


@dataclass(frozen=True, slots=True)
class First(EndOfSet):
    """The first event whose attribute is one of `values`."""

    name: ClassVar[str] = "FIRST"
    latest: ClassVar[bool] = False
