"""The kinds of parameter that a filter or digest takes, and how each is checked.

A parameter is a dataclass field made with `parameter(KIND)`; its default, if any, makes
it optional. `Kind.accept` turns what a person wrote into the value that is used, or
raises ValueError with what was expected. Every kind bounds what it accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headgate.names import LONGEST_NAME, nearest
from headgate.quantities import DURATION
from headgate.reduction.values import Scalar, text_of

__all__ = [
    "ATTRIBUTE",
    "CHANGE",
    "COUNT",
    "FRACTION",
    "MAX_SET",
    "NUMBER",
    "PATTERN",
    "QUANTILES",
    "SCALAR",
    "SCALARS",
    "SECONDS",
    "SEED",
    "TEXT",
    "ParameterKind",
    "choice",
    "parameter",
    "parameters_of",
    "shown",
]

MAX_SET = 10_000  # values in one set
MAX_COUNT = 1_000_000_000
LONGEST_PATTERN = 1000  # characters
LONGEST_TEXT = 10_000


@dataclass(frozen=True, slots=True)
class ParameterKind:
    """`expected` completes the sentence "expected ..."."""

    expected: str
    accept: Callable[[Any], Any]


def parameter(kind: ParameterKind, default: Any = MISSING) -> Any:
    """A dataclass field that is a parameter of a policy."""
    if default is MISSING:
        return field(kw_only=True, metadata={"parameter": kind})
    return field(default=default, kw_only=True, metadata={"parameter": kind})


def parameters_of(cls: type) -> dict[str, tuple[ParameterKind, bool]]:
    """The parameters of a filter or digest, and whether each must be given."""
    return {
        item.name: (item.metadata["parameter"], item.default is MISSING)
        for item in fields(cls)
        if "parameter" in item.metadata
    }


def shown(value: object) -> str:
    """A value in an error message, cut short."""
    text = repr(value[:64] if isinstance(value, str | bytes | list | tuple) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def _number(value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise ValueError(f"expected a number, got {shown(value)}")


def _positive(value: Any) -> float:
    number = _number(value)
    if number <= 0.0:
        raise ValueError(f"expected a number above 0, got {shown(value)}")
    return number


def _count(value: Any) -> int:
    number = _number(value)
    if not (number.is_integer() and 1 <= number <= MAX_COUNT):
        raise ValueError(f"expected a whole number from 1 to {MAX_COUNT:,}, got {shown(value)}")
    return int(number)


def _seed(value: Any) -> int:
    number = _number(value)
    if not (number.is_integer() and abs(number) <= 2**53):
        raise ValueError(f"expected a whole number, got {shown(value)}")
    return int(number)


def _fraction(value: Any) -> float:
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            value = float(value.strip()[:-1]) / 100.0
        except ValueError:
            raise ValueError(
                f"expected a fraction such as 0.1 or 10%, got {shown(value)}"
            ) from None
    number = _number(value)
    if not 0.0 <= number <= 1.0:
        raise ValueError(f"expected a fraction from 0 to 1, got {shown(value)}")
    return number


def _seconds(value: Any) -> float:
    if isinstance(value, str):
        value = DURATION.parse(value)
    return _positive(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or text_of(value) is None:
        raise ValueError(f"expected text, got {shown(value)}")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"expected at most {LONGEST_TEXT:,} characters, got {len(value):,}")
    return value


def _attribute(value: Any) -> str:
    text = _text(value)
    if not text or len(text) > LONGEST_NAME:
        raise ValueError(f"expected a name of 1 to {LONGEST_NAME} characters, got {shown(value)}")
    return text


def _scalar(value: Any) -> Scalar:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    try:
        return _number(value)
    except ValueError:
        raise ValueError(f"expected a number, text, true or false, got {shown(value)}") from None


def _scalars(value: Any) -> tuple[Scalar, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(values) <= MAX_SET:
        raise ValueError(f"expected 1 to {MAX_SET:,} values, got {len(values):,}")
    scalars = [_scalar(item) for item in values]
    if len({_sort_of(item) for item in scalars}) > 1:
        raise ValueError("expected values of one kind: all numbers, all texts or all true/false")
    return tuple(dict.fromkeys(scalars))


def _sort_of(value: Scalar) -> str:
    return "boolean" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _pattern(value: Any) -> str:
    """Compiled once by RE2, whose matching time is linear in the text whatever the pattern."""
    pattern = _text(value)
    if len(pattern) > LONGEST_PATTERN:
        raise ValueError(f"expected at most {LONGEST_PATTERN:,} characters, got {len(pattern):,}")
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0].removeprefix("Invalid regular expression: ")[:200]
        raise ValueError(
            f"expected a regular expression that RE2 can match in linear time: {reason}; "
            "look-around and back-references are not possible"
        ) from None
    return pattern


def _quantiles(value: Any) -> tuple[float, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    if not 1 <= len(values) <= 100:
        raise ValueError(f"expected 1 to 100 fractions, got {len(values):,}")
    return tuple(_fraction(item) for item in values)


NUMBER = ParameterKind("a number", _number)
CHANGE = ParameterKind("a number above 0", _positive)
COUNT = ParameterKind("a whole number of at least 1", _count)
SEED = ParameterKind("a whole number", _seed)
FRACTION = ParameterKind("a fraction from 0 to 1", _fraction)
SECONDS = ParameterKind("a duration such as 10s", _seconds)
TEXT = ParameterKind("text", _text)
ATTRIBUTE = ParameterKind("the name of an attribute", _attribute)
SCALAR = ParameterKind("a number, text, true or false", _scalar)
SCALARS = ParameterKind("a list of values", _scalars)
PATTERN = ParameterKind("a regular expression", _pattern)
QUANTILES = ParameterKind("a list of fractions", _quantiles)


def choice(*names: str) -> ParameterKind:
    """One of a few words."""

    def accept(value: Any) -> str:
        if value in names:
            return str(value)
        raise ValueError(
            f"expected one of {', '.join(names)}, got {shown(value)}"
            + (nearest(value, names) if isinstance(value, str) else "")
        )

    return ParameterKind("one of " + ", ".join(names), accept)
