"""NE: selects events whose attribute is different from a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Ne"]


@dataclass(frozen=True, slots=True)
class Ne(ComparisonFilter):
    """attribute different from `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "NE"
    arrow_function: ClassVar[str] = "not_equal"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.ne(left, right)
