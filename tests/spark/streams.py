"""What the Spark tests share: waiting, reading ledgers and offset logs, the rule of the gate."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.spark.agent.decision import GateDecision, decision_in_offsets
from headgate.spark.gates.gate import passes
from headgate.spark.session import Headgate
from headgate.spark.sources.source_offset import SourceOffset


def wait_for(condition: Callable[[], Any], timeout_seconds: float = 90.0, what: str = "") -> Any:
    """The first true value of `condition`; fails after the time limit."""
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.25)
    return pytest.fail(f"waited {timeout_seconds:g} s in vain for {what or condition}")


def rows_of(hg: Headgate, query: str) -> list[dict[str, Any]]:
    """Ledger rows of one query, in order of batches."""
    hg._settle()
    rows = [row for row in hg._book.rows() if row["query"] == query]
    return sorted(rows, key=lambda row: (row["batch"], row["gate"]))


def wait_for_batches(hg: Headgate, query: str, more: int) -> list[dict[str, Any]]:
    """Wait until so many further batches are in the ledger; returns all rows."""
    last = max((row["batch"] for row in rows_of(hg, query)), default=-1)

    def arrived() -> list[dict[str, Any]] | None:
        rows = rows_of(hg, query)
        return rows if rows and rows[-1]["batch"] >= last + more else None

    result: list[dict[str, Any]] = wait_for(arrived, what=f"{more} batches of {query}")
    return result


def settles(rows: list[dict[str, Any]], low: float, high: float, batches: int = 9) -> bool:
    """Was the median latency of the last four of so many batches that shed within bounds?

    To wait for: a machine that others use can lose a few batches, a loop that does not hold
    its target never gets there.
    """
    latencies = [row["latency_mean_seconds"] for row in rows if row["dropped"]]
    return len(latencies) >= batches and low < median(latencies[-4:]) < high


def logged_batches(checkpoint: Path) -> dict[int, tuple[GateDecision, dict[str, Any]]]:
    """Decision and replay offset of every batch in the offset log, by batch."""
    found = {}
    for path in (checkpoint / "offsets").iterdir():
        if path.name.isdigit():
            lines = path.read_text().splitlines()
            decision = decision_in_offsets(lines)
            rows = [json.loads(line) for line in lines if '"row"' in line]
            assert decision is not None
            found[int(path.name)] = (decision, rows[0])
    return dict(sorted(found.items()))


def batches_in_sink(out: Path) -> set[int]:
    """Batches that a file sink has. A stop can come before Spark's commit log has the last one,
    and before the ledger has it.
    """
    return {int(path.name.split(".")[0]) for path in (out / "_spark_metadata").glob("[0-9]*")}


def expected_ids(spark: SparkSession, checkpoint: Path, gate: str, batches: set[int]) -> set[int]:
    """The ids that the rule of the gate keeps, from nothing but the offset log."""
    kept: set[int] = set()
    start = 0
    for batch, (decision, offset) in logged_batches(checkpoint).items():
        if batch in batches and offset["row"] > start:
            rows = spark.range(start, offset["row"], numPartitions=1)
            rule = passes(["id"], F.lit(decision.salt), F.lit(decision.threshold(gate)))
            kept.update(rows.where(rule).toPandas()["id"].tolist())  # type: ignore[index]
        start = offset["row"]
    return kept


def logged_sources(checkpoint: Path) -> dict[int, list[SourceOffset]]:
    """Offsets of the sources with gates of every batch in the offset log, by batch."""
    found = {}
    for path in (checkpoint / "offsets").iterdir():
        if path.name.isdigit():
            lines = [line for line in path.read_text().splitlines() if "headgate_source" in line]
            found[int(path.name)] = [SourceOffset.from_dict(json.loads(line)) for line in lines]
    return dict(sorted(found.items()))
