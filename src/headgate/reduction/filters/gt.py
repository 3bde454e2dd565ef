"""GT: selects events whose attribute is above a value. PACK, section 2."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, ClassVar

from headgate.reduction.comparing import ComparisonFilter

__all__ = ["Gt"]


@dataclass(frozen=True, slots=True)
class Gt(ComparisonFilter):
    """attribute above `value`; numbers as doubles, texts by code point."""

    name: ClassVar[str] = "GT"
    arrow_function: ClassVar[str] = "greater"

    @staticmethod
    def compare(left: Any, right: Any) -> Any:
        return operator.gt(left, right)
