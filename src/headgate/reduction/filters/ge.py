"""GE: selects events whose attribute is at or above a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Ge"]


@dataclass(frozen=True, slots=True)
class Ge(ComparisonFilter):
    """attribute at or above `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "GE"
    arrow_function: ClassVar[str] = "greater_equal"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.ge(left, right)
