from __future__ import annotations

import json
from typing import Any

import pytest

from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport, parse_progress

DECISION = GateDecision().changed_to({"orders": 0.5})


def progress(batch: int = 3, **metrics: Any) -> str:
    return json.dumps(
        {
            "id": "q",
            "runId": "r",
            "batchId": batch,
            "timestamp": "2026-01-01T00:00:10.000Z",
            "durationMs": {"triggerExecution": 2000, "addBatch": 1500},
            "sources": [{"endOffset": {"row": 5}}, {"endOffset": DECISION.offset()}],
            "observedMetrics": {"headgate:orders": metrics, "mine": {"x": 1}},
        }
    )


START = 1767225610.0


def test_a_batch_is_read_from_progress() -> None:
    report = parse_progress(
        progress(
            offered=100,
            kept=50,
            arrival_mean=START - 1.0,
            first_arrival=START - 2.0,
            last_arrival=START,
        )
    )
    assert report.decision == DECISION
    assert list(report.gates) == ["orders"]
    assert report.end_seconds == START + 2.0
    assert report.latency_mean_seconds() == pytest.approx(3.0)
    assert report.latency_percentiles_seconds()[95.0] == pytest.approx(3.9)
    event = report.event("alerts", report.arrival_rates(None), True)
    assert event.counts["orders"].dropped == 50
    assert event.arrival_rate_per_second == pytest.approx(50.0)


def test_a_batch_without_rows_has_no_latency() -> None:
    report = parse_progress(progress(offered=0, kept=0, arrival_mean=None))
    assert report.latency_mean_seconds() is None
    assert report.latency_percentiles_seconds() == {}
    assert sum(report.arrival_rates(None).values()) == 0.0


def test_the_rate_counts_the_time_in_which_tuples_came() -> None:
    before = BatchReport("q", "r", 1, START - 60.0, 1.0, None)
    after_a_pause = GateReport(1000, 1000, START - 0.5, START - 1.0, START)
    late_events = GateReport(1000, 1000, START - 0.5, START - 9999.0, START)
    for gate, rate in ((after_a_pause, 1000.0), (late_events, 1000.0 / 60.0)):
        report = BatchReport("q", "r", 2, START, 1.0, None, {"g": gate})
        assert report.arrival_rates(before)["g"] == pytest.approx(rate)


@pytest.mark.parametrize("text", ["[]", "{}", '{"id": 1}', '{"durationMs": 3}'])
def test_what_is_no_progress_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="progress"):
        parse_progress(text)


def test_percentiles_follow_the_sampled_arrivals_when_there_are_enough() -> None:
    quantiles = [START - t for t in (10.0, 9.0, 8.0, 2.0, 1.5, 1.0, 0.5, 0.0)]
    seen = {"offered": 2000, "kept": 1000, "arrival_mean": START - 1.5}
    seen |= {"first_arrival": START - 10.0, "last_arrival": START}
    report = parse_progress(progress(**seen, arrival_quantiles=quantiles))
    percentiles = report.latency_percentiles_seconds(97.0)
    assert percentiles[95.0] == pytest.approx(2.0 + 8.0)
    assert percentiles[50.0] == pytest.approx(2.0 + 1.0)
    assert percentiles[97.0] == pytest.approx(2.0 + 8.5)
    few = parse_progress(progress(**{**seen, "kept": 100}, arrival_quantiles=quantiles))
    assert few.latency_percentiles_seconds()[95.0] == pytest.approx(2.0 + 9.5)


def test_percentiles_of_several_gates_count_each_by_what_it_kept() -> None:
    fresh = GateReport(300, 300, START - 0.5, START - 1.0, START)
    old = GateReport(100, 100, START - 9.5, START - 10.0, START - 9.0)
    report = BatchReport("q", "r", 2, START, 0.0, None, {"a": fresh, "b": old})
    percentiles = report.latency_percentiles_seconds(75.0)
    assert percentiles[90.0] == pytest.approx(9.0 + 0.6)
    assert percentiles[50.0] == pytest.approx(2.0 / 3.0)


def test_results_are_as_old_as_the_oldest_tuple_behind_them() -> None:
    metrics = {
        "headgate results:late": {
            "rows": 30,
            "arrival_mean": START - 8.0,
            "arrival_quantiles": [START - 20.0, START - 19.0, START - 18.0, START - 8.0],
        },
        "headgate results:early": {
            "rows": 10,
            "arrival_mean": START,
            "arrival_quantiles": [START - 1.0, START - 1.0, START - 1.0, START],
        },
        "headgate results:none": {"rows": 0, "arrival_mean": None, "arrival_quantiles": None},
    }
    text = json.loads(progress(offered=0, kept=0))
    report = parse_progress(json.dumps({**text, "observedMetrics": metrics}))
    assert report.result_rows == 40
    assert report.result_latency_mean_seconds() == pytest.approx((30 * 10.0 + 10 * 2.0) / 40)
    assert report.result_latency_p95_seconds() == pytest.approx(20.0)


def test_a_query_whose_results_are_not_measured_has_no_result_latency() -> None:
    report = parse_progress(progress(offered=1, kept=1, arrival_mean=START))
    assert report.result_rows is None
    assert report.result_latency_mean_seconds() is None
    assert report.result_latency_p95_seconds() is None
