"""LE: selects events whose attribute is at or below a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Le"]


@dataclass(frozen=True, slots=True)
class Le(ComparisonFilter):
    """attribute at or below `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "LE"
    arrow_function: ClassVar[str] = "less_equal"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.le(left, right)
