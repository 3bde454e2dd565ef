"""What is known of a running query, from literal batches. No Spark."""

from __future__ import annotations

import json

import pytest

from headgate.coordinator import QuerySettings
from headgate.spark.agent.progress import BatchReport, GateReport, ResultReport
from headgate.spark.measured_statistics import MeasuredStatistics, QueryMeter

FIXED, LOOKING, PROCESSING = 0.3, 0.0002, 0.002


def batch(
    number: int, offered: int, kept: int, behind: int | None = None, delivered: int | None = None
) -> BatchReport:
    gates = {"orders": GateReport(offered, kept)}
    if behind is not None:
        gates["late"] = GateReport(kept, behind)
    busy = FIXED + LOOKING * offered + PROCESSING * (kept if behind is None else behind)
    return BatchReport("q", "r", number, 10.0 * number, busy, None, gates, output_rows=delivered)


def metered(settings: QuerySettings, batches: list[BatchReport]) -> QueryMeter:
    meter = QueryMeter(settings)
    for report in batches:
        meter.observe(report, {"orders": report.offered / 10.0})
    return meter


def varied(number: int) -> tuple[int, int]:
    offered = (1000, 3000, 500, 2000)[number % 4]
    return offered, offered if number % 3 else offered // 4


def test_costs_shares_and_capacity_come_from_the_batches() -> None:
    batches = [batch(n, *varied(n), delivered=varied(n)[1] // 10) for n in range(60)]
    meter = metered(QuerySettings(("orders",), 3.0), batches)
    known = meter.statistics("alerts", {"orders": 70})
    assert known.batches == 60
    assert known.seconds_per_looked_at_tuple == pytest.approx(LOOKING, rel=0.1)
    assert known.seconds_per_processed_tuple == pytest.approx(PROCESSING, rel=0.05)
    assert known.fixed_seconds_per_batch == pytest.approx(FIXED, rel=0.05)
    # Two seconds a batch hold three of latency.
    assert known.capacity_tuples_per_second == pytest.approx((2.0 - FIXED) / 2.0 / 0.0022, rel=0.05)
    assert known.output_rows_per_tuple == pytest.approx(0.1, rel=0.01)
    [gate] = known.gates
    last = [varied(n) for n in range(40, 60)]
    assert gate.kept_share == sum(kept for _, kept in last) / sum(offered for offered, _ in last)
    assert gate.waiting_tuples == 70
    assert gate.arrival_rate_per_second is not None
    assert 50.0 < gate.arrival_rate_per_second < 300.0


def test_nothing_is_known_before_the_second_batch() -> None:
    meter = QueryMeter(QuerySettings(("orders",), 3.0))
    fresh = meter.statistics("alerts", {})
    assert (fresh.batches, fresh.capacity_tuples_per_second) == (0, None)
    assert (fresh.gates[0].arrival_rate_per_second, fresh.gates[0].kept_share) == (None, None)
    meter.observe(batch(0, 10, 10), {"orders": 1.0})
    assert meter.statistics("alerts", {}).seconds_per_processed_tuple is None
    assert meter.output_rows_per_tuple is None


def test_a_tuple_behind_two_gates_is_offered_once_and_kept_once() -> None:
    settings = QuerySettings(("orders", "late"), None, after={"late": ("orders",)})
    batches = [batch(n, varied(n)[0], varied(n)[1], varied(n)[1] // 2) for n in range(60)]
    known = metered(settings, batches).statistics("joined", {})
    assert known.seconds_per_processed_tuple == pytest.approx(PROCESSING, rel=0.1)
    assert known.gates[1].kept_share == pytest.approx(0.5, rel=0.01)


def test_results_that_are_measured_before_the_sink_count_first() -> None:
    report = BatchReport(
        "q", "r", 1, 0.0, 1.0, None, {"orders": GateReport(100, 50)}, {"out": ResultReport(5)}
    )
    assert metered(QuerySettings(("orders",)), [report]).output_rows_per_tuple == 0.1


def test_the_table_and_the_dictionary_say_the_same() -> None:
    settings = QuerySettings(("orders", "late"), 3.0, after={"late": ("orders",)})
    batches = [batch(n, varied(n)[0], varied(n)[1], varied(n)[1] // 2) for n in range(10)]
    meter = metered(settings, batches)
    known = MeasuredStatistics((meter.statistics("alerts", {"orders": 1234}),))
    head, first, second = str(known).splitlines()
    assert head.split() == [
        *("query", "gate", "arriving/s", "waiting", "kept"),
        *("looking", "us", "processing", "us", "batch", "ms", "capacity/s"),
    ]
    assert first.startswith("alerts  orders")
    assert "1,234" in first
    assert second.split()[:3] == ["late", "-", "-"]
    assert json.loads(known.to_json()) == json.loads(json.dumps(known.to_dict()))
    assert known.to_dict()["queries"][0]["gates"][0]["waiting_tuples"] == 1234
    assert str(MeasuredStatistics(())) == "No query runs."
