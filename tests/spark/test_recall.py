from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headgate.spark.agent.recall import recalled_batches
from headgate.spark.ledger.ledger_file import COUNTED, UNCOUNTED, LedgerLine
from headgate.spark.session import Headgate, attach
from tests.spark.streams import rows_of, wait_for_batches


def line(batch: int, run: str = "r", gate: str = "orders", **changes: Any) -> dict[str, Any]:
    whole = LedgerLine(
        1000.0 + batch, "q", "id", run, batch, gate, COUNTED, 100, 40, 60, 0.4, 1, 1, "feedback"
    )
    times = {"latency_mean_seconds": 3.0, "duration_seconds": 2.0}
    return {**asdict(whole), **times, "arrival_rate_per_second": 50.0, **changes}


def test_the_last_batches_are_recalled_without_the_first_of_a_run() -> None:
    rows = [line(n) for n in range(3)] + [line(n, "later") for n in range(3, 6)]
    recalled = recalled_batches(rows, ["orders"])
    assert [report.batch for report, _ in recalled] == [1, 2, 4, 5]
    report, rates = recalled[-1]
    assert (report.start_seconds, report.end_seconds) == (1003.0, 1005.0)
    assert report.latency_mean_seconds() == 3.0
    assert report.gates["orders"].dropped == 60
    assert rates == {"orders": 50.0}


def test_what_was_not_counted_or_had_other_gates_is_left_out() -> None:
    rows = [line(0), line(1, status=UNCOUNTED), line(2, duration_seconds=None), line(3)]
    rows += [line(4), line(4, gate="more")]
    assert [report.batch for report, _ in recalled_batches(rows, ["orders"])] == [3]
    assert len(recalled_batches([line(n) for n in range(100)], ["orders"])) == 30


def test_a_query_that_starts_again_sheds_its_first_batch(
    hg: Headgate, spark: SparkSession, replay: Callable[..., DataFrame], tmp_path: Path
) -> None:
    """A ledger that says 5 tuples a second can be done, and 1,000 a second that arrive.

    Its batches are of two sizes, so what a tuple costs is known also for larger ones.
    """
    crowd = {"rate": 1000, "epoch": time.time() - 1.0}

    def start(hg: Headgate) -> Any:
        stream = hg.gate(replay(**crowd), "orders", arrival="timestamp", identity=["id"])
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        return hg.start(writer, name="again", latency="3s")

    query = start(hg)
    wait_for_batches(hg, "again", 4)
    query.stop()
    [ledger] = (tmp_path / "headgate" / "ledger").glob("*.jsonl")
    last = max(row["batch"] for row in rows_of(hg, "again"))
    told = {"query_id": str(query.id), "run_id": "before", "query": "again"}
    past = []
    for batch in range(last + 1):
        rows = (10, 4)[batch % 2]
        counts = {"offered": rows, "kept": rows, "dropped": 0, "duration_seconds": rows / 5.0}
        past.append(line(batch, **{**told, **counts, "time_seconds": time.time() - 30.0}))
    ledger.write_text("".join(json.dumps(row) + "\n" for row in past))
    with attach(spark, timeout="20s") as own:
        query = start(own)
        wait_for_batches(own, "again", 2)
        query.stop()
        rows = rows_of(own, "again")
    decided = [row for row in rows if row["batch"] > last and row["why"] != "replayed"]
    assert decided[0]["why"] == "feedback"
    assert decided[0]["keep_fraction"] < 0.5
