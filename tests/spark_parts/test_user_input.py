"""What a person may give to a call, and what is said of everything else. No Spark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from headgate.errors import UsageError
from headgate.spark.user_input import (
    controller_of,
    flag_of,
    name_of,
    percentile_of,
    seconds_of,
    share_of,
    text_of,
)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3s", 3.0),
        ("3 seconds", 3.0),
        ("1 minute", 60.0),
        ("500 milliseconds", 0.5),
        ("10m", 600.0),
        (2, 2.0),
        (0.5, 0.5),
        (np.float64(1.5), 1.5),
        (np.int32(4), 4.0),
        (timedelta(milliseconds=250), 0.25),
        (timedelta(minutes=2), 120.0),
    ],
)
def test_durations_as_people_give_them(value: Any, seconds: float) -> None:
    assert seconds_of(value, "latency") == seconds


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, 'latency must be a duration such as "3s", a timedelta or seconds, got True'),
        ([3], "latency must be a duration"),
        (None, "latency must be a duration"),
        (0, "latency must be above 0, got 0"),
        (timedelta(seconds=-1), "latency must be above 0"),
        (float("nan"), "latency must be above 0, got nan"),
        ("inf", "latency must be above 0, got 'inf'"),
        ("soon", "latency: expected a number such as 120us, got 'soon'"),
        ("3 parsecs", "latency: unknown unit 'parsecs'"),
    ],
)
def test_what_is_no_duration_is_named(value: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        seconds_of(value, "latency")
    assert message in str(caught.value)


def test_a_percentile_is_not_a_share() -> None:
    assert percentile_of(None, "percentile") is None
    assert percentile_of(95, "percentile") == 95.0
    assert percentile_of(99.9, "percentile") == 99.9
    with pytest.raises(UsageError, match=r"from 1 to below 100, got 0\.95 \(write 95, not 0\.95\)"):
        percentile_of(0.95, "percentile")
    for wrong in ("95", True, 0, 100, -5, float("nan"), [95]):
        with pytest.raises(UsageError, match="percentile must be"):
            percentile_of(wrong, "percentile")


def test_a_share_is_a_number_from_0_to_1() -> None:
    assert [share_of(value, "keep") for value in (0, 1, 0.5, np.float32(0.25))] == [0, 1, 0.5, 0.25]
    for wrong in ("a", True, -0.1, 1.1, float("nan"), None):
        with pytest.raises(UsageError, match="keep must be"):
            share_of(wrong, "keep")


def test_names_texts_flags_and_controllers() -> None:
    assert name_of("orders", "a gate") == "orders"
    assert text_of(None, "path") is None
    assert flag_of(False, "same_tuples") is False
    assert controller_of("model", 95.0) == "model"
    for wrong in ("", 5, None, "x" * 201):
        with pytest.raises(UsageError, match="a gate needs a name of 1 to 200 characters"):
            name_of(wrong, "a gate")
    with pytest.raises(UsageError, match="path must be a text, got 5"):
        text_of(5, "path")
    with pytest.raises(UsageError, match="same_tuples must be True or False, got 'no'"):
        flag_of("no", "same_tuples")
    with pytest.raises(UsageError, match="no controller 'best'; expected one of model, none"):
        controller_of("best", None)
    with pytest.raises(UsageError, match="percentile: the controller 'paper' holds none"):
        controller_of("paper", 95.0)
