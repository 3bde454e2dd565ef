"""What a dropped tuple costs: the gate inside the source against the gate behind it.

Both read the replay source and keep one tuple in a thousand. A batch of few and a batch of
many offered tuples, taken apart, leave out what every batch costs: the difference in time
over the difference in tuples is the cost of a dropped tuple, in nanoseconds of the batch
(two tasks side by side). Medians of Spark's own `addBatch`; the sides run in turn, some
rounds, in one Spark session.
"""

from __future__ import annotations

import json
import time
from statistics import median
from typing import Any

from benchmarks.spark.environment import spark_and_headgate

__all__ = ["run"]

ROUNDS = 3
FEW, MANY = 100_000, 5_000_000
KEEP = 0.001
WARM_UP_BATCHES = 3
BATCHES = 6


def run(rounds: int = ROUNDS, few: int = FEW, many: int = MANY) -> dict[str, Any]:
    """Nanoseconds of a batch for each dropped tuple, by kind of gate; `ratio` is inline/source."""
    costs: dict[str, list[float]] = {"source": [], "inline": []}
    with spark_and_headgate() as (spark, hg):
        for number in range(rounds + 1):
            for kind in ("source", "inline") if number % 2 else ("inline", "source"):
                low, high = (_batch_ms(spark, hg, kind, rows, number) for rows in (few, many))
                if number > 0:  # the first round warms the machine up
                    costs[kind].append((high - low) * 1e6 / (many - few))
    return {
        "rounds": rounds,
        "keep_fraction": KEEP,
        "offered_per_batch": [few, many],
        "source_ns_per_dropped": costs["source"],
        "inline_ns_per_dropped": costs["inline"],
        "source_ns_median": median(costs["source"]),
        "inline_ns_median": median(costs["inline"]),
        "ratio": sum(costs["inline"]) / max(sum(costs["source"]), 1e-3),
    }


def _batch_ms(spark: Any, hg: Any, kind: str, rows: int, number: int) -> float:
    """Median `addBatch` of batches that are offered `rows` tuples and drop nearly all."""
    options = {"rate": 1e9, "epoch": 1, "partitions": 2}
    if kind == "source":  # its limit counts what comes out of the gate
        stream = hg.read("replay", "orders", {**options, "maxRowsPerTrigger": round(rows * KEEP)})
    else:
        reader = spark.readStream.format("headgate_replay").options(**options)
        stream = reader.option("maxRowsPerTrigger", rows).load()
        stream = hg.gate(stream, "orders", arrival="timestamp", identity=["id"])
    name = f"source_gate_{kind}_{rows}_{number}"
    query = hg.start(stream.writeStream.format("noop"), name=name)
    hg.limit(name, "orders", KEEP)
    times: list[float] = []
    while len(times) < WARM_UP_BATCHES + BATCHES:
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.1)
        reports = [(hg.batch(p.json), json.loads(p.json)) for p in query.recentProgress]
        times = [
            progress["durationMs"]["addBatch"]
            for report, progress in reports
            if report.offered == rows and report.gates["orders"].kept < rows / 100
        ]
    query.stop()
    return float(median(times[WARM_UP_BATCHES:]))
