"""What one value of an event counts as: a number, a text, a truth value or a set.

The plain-Python half of the reading rules; `columns` has the Arrow half, and every
rule here has its twin there:

- a number is an int, a float that is not NaN, a Decimal, or a date or time (seconds
  since 1970, UTC where no zone is given, cut to microseconds); numbers are compared as
  doubles;
- a text is a str, a truth value a bool (True is not 1), a set any list, tuple or set;
- a key says whether two values are the same: 1 and 1.0 are, 1 and "1" and True are not.
  Whole numbers of up to 64 bits stay exact in keys; larger ones are read as doubles.

Everything else, and everything that is absent, is None: the filter cannot judge it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

__all__ = [
    "Event",
    "Kind",
    "Scalar",
    "boolean_of",
    "elements_of",
    "is_long",
    "key_of",
    "kind_of",
    "number_of",
    "text_of",
]

Event: TypeAlias = Mapping[str, Any]
Scalar: TypeAlias = bool | int | float | str

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Kind(StrEnum):
    """The kinds of value that a policy can name as an attribute's type."""

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    TIME = "time"
    SET = "set"


def kind_of(value: object) -> Kind | None:
    """The kind of a value; None for what no filter can judge.

    >>> kind_of(3), kind_of("3"), kind_of(float("nan"))
    (<Kind.NUMBER: 'number'>, <Kind.TEXT: 'text'>, None)
    """
    if isinstance(value, bool):
        return Kind.BOOLEAN
    if isinstance(value, str):
        return Kind.TEXT
    if isinstance(value, date):
        return Kind.TIME
    if isinstance(value, list | tuple | set | frozenset):
        return Kind.SET
    return None if number_of(value) is None else Kind.NUMBER


def number_of(value: object) -> float | None:
    """The value as a double; infinities are numbers, NaN is none."""
    if isinstance(value, float):
        return None if value != value else float(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int | Decimal):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            return None
        return None if number != number else number
    if isinstance(value, date):
        return _microseconds(value) / 1e6
    return None


def text_of(value: object) -> str | None:
    """The text itself; half a surrogate pair, which UTF-8 cannot hold, makes it none."""
    if not isinstance(value, str) or value.isascii():
        return value if isinstance(value, str) else None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def is_long(value: int) -> bool:
    """Does the whole number fit into 64 bits with a sign?"""
    return -(1 << 63) <= value < 1 << 63


def boolean_of(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def elements_of(value: object) -> Collection[Any] | None:
    return value if isinstance(value, list | tuple | set | frozenset) else None


def key_of(value: object) -> str | None:
    """A short text that is equal for equal values; JSON-able, so that state can hold it.

    >>> key_of(1), key_of(1.0), key_of(True), key_of("1"), key_of(0.5), key_of(None)
    ('i:1', 'i:1', 'b:true', 't:1', 'f:0.5', None)
    """
    if isinstance(value, str):
        return None if text_of(value) is None else "t:" + value
    if isinstance(value, bool):
        return "b:true" if value else "b:false"
    if isinstance(value, int) and is_long(value):
        return f"i:{value}"
    if isinstance(value, date):
        return f"d:{_microseconds(value)}"
    number = number_of(value)
    if number is None:
        return None
    if number.is_integer():
        return f"i:{int(number)}"
    return f"f:{number!r}" if math.isfinite(number) else f"f:{number}"


def _microseconds(value: date) -> int:
    if not isinstance(value, datetime):
        return (value - _EPOCH.date()).days * 86_400_000_000
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return (value - _EPOCH) // _MICROSECOND
