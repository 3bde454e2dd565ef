"""EQ: selects events whose attribute is equal to a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Eq"]


@dataclass(frozen=True, slots=True)
class Eq(ComparisonFilter):
    """attribute equal to `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "EQ"
    arrow_function: ClassVar[str] = "equal"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.eq(left, right)
