"""LT: selects events whose attribute is below a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Lt"]


@dataclass(frozen=True, slots=True)
class Lt(ComparisonFilter):
    """attribute below `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "LT"
    arrow_function: ClassVar[str] = "less"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.lt(left, right)
