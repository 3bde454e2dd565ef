"""What a person gives to a call, as plain values: durations, shares, percentiles, names.

No pyspark. Each function returns a checked value or raises `UsageError` with the field, the
value and what is expected; nothing is guessed. A bool is no number here: `latency=True` is a
slip and not a second.
"""

from __future__ import annotations

from datetime import timedelta
from numbers import Real
from typing import Any

from headgate.control import LATENCY_CONTROLLERS
from headgate.errors import UsageError
from headgate.names import LONGEST_NAME
from headgate.quantities import DURATION

__all__ = [
    "controller_of",
    "flag_of",
    "name_of",
    "percentile_of",
    "seconds_of",
    "share_of",
    "text_of",
]

_LONGEST_SECONDS = 1e9


def seconds_of(value: Any, field: str) -> float:
    """A duration: a text such as "3s" or "3 seconds", a timedelta, or a number of seconds.

    >>> from datetime import timedelta
    >>> seconds_of("500 milliseconds", "latency"), seconds_of(timedelta(minutes=1), "latency")
    (0.5, 60.0)
    """
    if isinstance(value, str):
        try:
            seconds = DURATION.parse(value)
        except ValueError as error:
            raise UsageError(f"{field}: {error}") from None
    elif isinstance(value, timedelta):
        seconds = value.total_seconds()
    else:
        seconds = _number(value, field, 'a duration such as "3s", a timedelta or seconds')
    if not 0.0 < seconds < _LONGEST_SECONDS:
        raise UsageError(f"{field} must be above 0, got {value!r}")
    return seconds


def share_of(value: Any, field: str) -> float:
    """A number from 0 to 1."""
    share = _number(value, field, "a number from 0 to 1")
    if not 0.0 <= share <= 1.0:
        raise UsageError(f"{field} must be from 0 to 1, got {value!r}")
    return share


def percentile_of(value: Any, field: str) -> float | None:
    """A percentile from 1 to below 100; None stands for the mean."""
    if value is None:
        return None
    percentile = _number(value, field, "a number from 1 to below 100, such as 95")
    if not 1.0 <= percentile < 100.0:
        is_share = 0.0 < percentile < 1.0
        hint = f" (write {100.0 * percentile:g}, not {value!r})" if is_share else ""
        raise UsageError(f"{field} must be from 1 to below 100, got {value!r}{hint}")
    return percentile


def name_of(value: Any, whose: str) -> str:
    """A text of 1 to 200 characters."""
    if not isinstance(value, str) or not value or len(value) > LONGEST_NAME:
        wanted = f"a name of 1 to {LONGEST_NAME} characters"
        raise UsageError(f"{whose} needs {wanted}, got {value!r}")
    return value


def text_of(value: Any, field: str) -> str | None:
    """A text that is not empty, or None."""
    if value is not None and (not isinstance(value, str) or not value):
        raise UsageError(f"{field} must be a text, got {value!r}")
    return value


def flag_of(value: Any, field: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UsageError(f"{field} must be True or False, got {value!r}")
    return value


def controller_of(value: Any, percentile: float | None) -> str:
    """The name of a controller; only "model" holds a percentile."""
    if not isinstance(value, str) or value not in LATENCY_CONTROLLERS:
        known = ", ".join(LATENCY_CONTROLLERS)
        raise UsageError(f"no controller {value!r}; expected one of {known}")
    if percentile is not None and value != "model":
        raise UsageError(
            f"percentile: the controller {value!r} holds none; leave out percentile, or controller"
        )
    return value


def _number(value: Any, field: str, expected: str) -> float:
    """A real number that is no bool."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(f"{field} must be {expected}, got {value!r}")
    return float(value)
