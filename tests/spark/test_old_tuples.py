from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.errors import UsageError
from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.session import Headgate
from tests.spark.streams import logged_batches, rows_of, wait_for_batches


class Nowhere:
    def set(self, values: tuple[int, ...]) -> None:
        """Takes anything."""


def run_with(limit_seconds: float | None, finite: bool = False) -> QueryRun:
    arrays = {"timed": Nowhere(), "untimed": Nowhere()}
    run = QueryRun("key", "q", arrays, finite, timed_gates=frozenset({"timed"}))
    run.drop_older_seconds = limit_seconds
    return run


def test_old_tuples_fall_at_the_first_look_and_after_a_stall_only() -> None:
    run = run_with(60.0)
    assert run.cut_offs(1000.0) == {"timed": 940_000_000}
    run.looked_at_seconds = 1000.0
    assert run.cut_offs(1059.0) == {}
    assert run.cut_offs(1061.0) == {"timed": 1_001_000_000}


def test_old_tuples_fall_while_a_limited_source_hands_out_old_ones() -> None:
    run = run_with(60.0)
    run.looked_at_seconds = 1000.0
    gates = {"timed": GateReport(10, 10, 930.0, 900.0, 960.0)}
    run.last_report = BatchReport("q", "r", 1, 1000.0, 1.0, None, gates)
    assert run.cut_offs(1001.0) == {"timed": 941_000_000}
    gates = {"timed": GateReport(10, 10, 999.0, 998.0, 1000.0)}
    run.last_report = BatchReport("q", "r", 2, 1001.0, 1.0, None, gates)
    assert run.cut_offs(1002.0) == {}


def test_no_limit_and_finite_queries_drop_nothing_for_its_age() -> None:
    assert run_with(None).cut_offs(1000.0) == {}
    assert run_with(60.0, finite=True).cut_offs(1000.0) == {}


def test_a_cut_off_survives_the_offset_log_and_old_logs_have_none() -> None:
    decision = GateDecision().changed_to({"a": 0.5}, older_than={"a": 17})
    assert GateDecision.from_offset(json.loads(json.dumps(decision.offset()))) == decision
    assert decision.sheds
    assert decision.changed_to({"a": 0.5}, older_than={"a": 17}) is decision
    assert decision.changed_to({"a": 0.5}).older_than == {}
    assert GateDecision.from_offset(GateDecision().offset()).cut_off("a") == 0


def test_after_a_stall_the_old_ones_fall_and_the_fresh_ones_stay(
    hg: Headgate, spark: SparkSession, replay: Callable[..., DataFrame], tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    began = time.time() - 100.0
    stream = hg.gate(replay(rate=500, epoch=began), "orders", "timestamp", ["id"])
    writer = stream.writeStream.format("parquet").option("path", str(out))
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = hg.start(writer, name="stalled", drop_older="20s")
    wait_for_batches(hg, "stalled", 3)
    query.stop()
    rows = rows_of(hg, "stalled")
    first = next(row for row in rows if row["offered"])
    assert first["why"] == "too old"
    assert [row["dropped"] for row in rows if row is not first] == [0] * (len(rows) - 1)
    decision, _ = next(
        entry for batch, entry in logged_batches(checkpoint).items() if batch == first["batch"]
    )
    cut = decision.cut_off("orders") / 1e6
    assert began + 80.0 <= cut < began + 100.0
    assert first["dropped"] == pytest.approx((cut - began) * 500, abs=1)
    written = spark.read.parquet(str(out)).selectExpr("min(timestamp)").first()
    assert written is not None
    assert 0.0 <= written[0].timestamp() - cut < 0.01
    hg_after = hg.report().sums["stalled", "orders"]
    assert hg_after.dropped_because == {"too old": first["dropped"]}


def test_dropping_old_tuples_needs_an_arrival_column_and_a_running_query(
    hg: Headgate, replay: Callable[..., DataFrame]
) -> None:
    blind = hg.gate(replay(rate=10), "blind", identity=["id"]).writeStream.format("noop")
    with pytest.raises(UsageError, match="arrival"):
        hg.start(blind, name="blind", drop_older="20s")
    with pytest.raises(UsageError, match="no query 'nobody'"):
        hg.drop_older("nobody", "20s")
