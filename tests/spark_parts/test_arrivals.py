"""Arrivals that cannot be measured: what is left out, and what is said. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.spark.agent.arrivals import arrival_problems
from headgate.spark.agent.progress import BatchReport, gate_report
from tests.spark_parts.test_agent import Query

NOW = 1_790_000_000.0


def batch(**values: Any) -> BatchReport:
    counts = {"offered": 10, "kept": 5, **values}
    return BatchReport("q", "r", 3, NOW - 2.0, 2.0, None, {"orders": gate_report(counts)})


def arrivals(time_: float | None) -> dict[str, float | None]:
    return {"arrival_mean": time_, "first_arrival": time_, "last_arrival": time_}


def test_arrivals_that_are_times_are_no_problem() -> None:
    assert arrival_problems(batch(**arrivals(NOW - 3.0)), True) == []
    assert arrival_problems(batch(), True) == []  # there is no arrival column
    assert arrival_problems(batch(**arrivals(None), offered=0, kept=0), True) == []
    dropped = {**arrivals(NOW), "arrival_mean": None, "kept": 0}
    assert arrival_problems(batch(**dropped), True) == []


def test_arrivals_that_nobody_knows_matter_where_a_target_is_held() -> None:
    [text] = arrival_problems(batch(**arrivals(None)), True)
    assert text.startswith("orders: none of the 5 rows of batch 3 has a known arrival (NULL")
    assert arrival_problems(batch(**arrivals(None)), False) == []


@pytest.mark.parametrize(
    ("factor", "unit", "divide"),
    [
        (1e3, "milliseconds", "1,000"),
        (1e6, "microseconds", "1,000,000"),
        (1e9, "nanoseconds", "1,000,000,000"),
    ],
)
def test_another_unit_is_named_and_no_latency_is_made_of_it(
    factor: float, unit: str, divide: str
) -> None:
    report = batch(**arrivals(factor * NOW), arrival_quantiles=[factor * NOW] * 8)
    assert report.latency_mean_seconds() is None
    assert report.latency_percentiles_seconds() == {}
    [text] = arrival_problems(report, False)
    assert f"looks like {unit} since 1970" in text
    assert f"divide the column by {divide} before the gate" in text


def test_garbage_in_one_row_is_named_too() -> None:
    seen = {"arrival_mean": 1e299, "first_arrival": NOW, "last_arrival": 1e300}
    report = batch(**seen)
    assert report.gates["orders"].first_arrival == NOW
    [text] = arrival_problems(report, True)
    assert "an arrival of 1e+300 is no time in seconds since 1970" in text


def test_the_alarm_comes_once_as_long_as_it_stays_so() -> None:
    query = Query()
    query.ask()
    for older_seconds in (0.0, -1e13, -1e13, 0.0, -1e13):
        query.finish(10, 1.0, older_seconds)
        query.ask()
    told = [alarm.text for alarm in query.alarms.all() if alarm.kind == "arrival"]
    assert len(told) == 2
    assert "looks like milliseconds" in told[0]
    assert query.recorded[1].latency_mean_seconds() is None
    assert query.recorded[3].latency_mean_seconds() is not None
