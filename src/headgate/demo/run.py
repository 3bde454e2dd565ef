"""The demo itself: measure the capacity, then the same crowd with Headgate and without it.

The session is given, so that tests share one. One query at a time: two at once would take
each other's cores. Headgate goes first, because the JVM gets faster with time: what comes
second has the better machine.

Without Headgate the batches are bounded to two seconds of work, as `maxOffsetsPerTrigger`
would do it for Kafka. Without a bound each batch would be three times as long as the one
before, and its first rows would wait for the last ones.

The stream begins when the query should be running: so long after its start as the first query
took on a cold JVM. A crowd that began within the first batch, whose code is compiled, would meet
an agent that knows nothing.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.demo.capacity import measure_capacity
from headgate.demo.follow import Followed, batch_of, writer_of
from headgate.demo.job import GATE, measured, orders
from headgate.demo.recording import WITH, WITHOUT, Ledger, LedgerRow, Recording, Run, Watcher
from headgate.demo.scenario import Scenario
from headgate.spark.session import Headgate

__all__ = ["run_demo"]

_BOUND_SECONDS = 2.0
_LONGEST_START_SECONDS = 12.0
_FEWEST_BATCHES = 3
_LONGEST_WAIT_SECONDS = 30.0


def run_demo(
    spark: SparkSession, hg: Headgate, recording: Recording, watcher: Watcher, directory: Path
) -> None:
    """Fill the recording. On an exception, Ctrl-C included, no query of the demo runs on."""
    settings = recording.settings
    recording.capacity = measure_capacity(spark, hg, settings, watcher, directory)
    recording.scenario = Scenario(
        settings.run_seconds, settings.target_seconds, recording.capacity.rows_per_second
    )
    watcher.scene(recording)
    for name in (WITH, WITHOUT):
        run = recording.runs[name] = Run(name)
        watcher.stage(f"The crowd {name}", settings.run_seconds)
        epoch = time.time() + min(recording.capacity.start_seconds, _LONGEST_START_SECONDS)
        checkpoint = directory / name.replace(" ", "-")
        _run(spark, hg, recording.scenario, run, watcher, checkpoint, epoch)


def _run(
    spark: SparkSession,
    hg: Headgate,
    scenario: Scenario,
    run: Run,
    watcher: Watcher,
    checkpoint: Path,
    epoch: float,
) -> None:
    options = {**scenario.replay_options(), "epoch": repr(epoch)}
    query_name = f"demo {run.name}"
    if run.name == WITH:
        stream = hg.gate(orders(spark, options), GATE, arrival="timestamp", identity=["id"])
        query = hg.start(
            writer_of(stream, checkpoint), name=query_name, latency=scenario.target_seconds
        )
    else:
        bound = max(1, round(_BOUND_SECONDS * scenario.capacity_per_second))
        stream = measured(orders(spark, {**options, "maxRowsPerTrigger": str(bound)}))
        query = writer_of(stream, checkpoint).queryName(query_name).start()
    with Followed(query) as followed:
        while _goes_on(elapsed := time.time() - epoch, scenario, run):
            run.batches += [batch_of(hg, text, epoch) for text in followed.fresh()]
            watcher.tick(max(0.0, elapsed))
            time.sleep(0.2)
        run.batches += [batch_of(hg, text, epoch) for text in followed.fresh()]
    if run.name == WITH:
        run.ledger = _ledger(hg, query_name)


def _goes_on(elapsed: float, scenario: Scenario, run: Run) -> bool:
    """On a machine that is busy with other things, wait for a few batches at least."""
    late = elapsed - scenario.run_seconds
    return late < 0.0 or (late < _LONGEST_WAIT_SECONDS and len(run.batches) < _FEWEST_BATCHES)


def _ledger(hg: Headgate, query_name: str) -> Ledger:
    rows = hg.ledger().where(F.col("query") == query_name).where("offered is not null")
    columns = ("batch", "offered", "kept", "dropped", "why")
    return Ledger(tuple(LedgerRow(*row) for row in rows.select(*columns).sort("batch").collect()))
