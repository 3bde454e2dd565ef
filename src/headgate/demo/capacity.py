"""How many rows a second the saturated query can do on this machine, now.

A cold JVM runs at a tenth of its later speed and gets faster for half a minute. So the
query runs with bounded batches while more waits than it can take: first with a gate that
only measures (its generated code gets warm too), then without, with batches of about a
second, until the last batches agree or the time is over. Capacity: the median of the last.

Not guaranteed: that the machine stays as fast. The report says what the query did later.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headgate.demo.follow import Followed, batch_of, writer_of
from headgate.demo.job import GATE, measured, orders
from headgate.demo.recording import Batch, Capacity, Watcher
from headgate.demo.scenario import Settings
from headgate.errors import DemoError
from headgate.spark.session import Headgate

__all__ = ["is_steady", "measure_capacity"]

_ENDLESS = "1e9"
_FIRST_ROWS = 8_000
_FIRST_SHARE = 0.45  # of the time, with a gate
_COMPARED = 4
_BATCH_SECONDS = 1.5  # at the rate of the shorter batches before
_FEWEST = 3  # batches
_AGREE_WITHIN = 0.05
_LONGEST_WAIT_SECONDS = 90.0


def is_steady(rates: Sequence[float]) -> bool:
    """The last four agree with the four before them, and did not get faster.

    >>> is_steady([1, 5, 9, 10, 10, 10, 10, 10, 10, 10]), is_steady([6, 7, 8, 9, 10, 11, 12, 13])
    (True, False)
    """
    if len(rates) < 2 * _COMPARED:
        return False
    before, last = median(rates[-2 * _COMPARED : -_COMPARED]), median(rates[-_COMPARED:])
    return last <= (1.0 + _AGREE_WITHIN) * before


def measure_capacity(
    spark: SparkSession, hg: Headgate, settings: Settings, watcher: Watcher, directory: Path
) -> Capacity:
    """At most `settings.warm_up_seconds`, longer only for the fewest batches."""
    began = time.monotonic()
    watcher.stage("Warming up and measuring the capacity", settings.warm_up_seconds)
    bound = {"rate": _ENDLESS, "maxRowsPerTrigger": str(_FIRST_ROWS)}
    gated = hg.gate(orders(spark, bound), GATE, arrival="timestamp", identity=["id"])
    query = hg.start(writer_of(gated, directory / "warm-up"), name="demo warm-up")
    until = began + _FIRST_SHARE * settings.warm_up_seconds
    first = _rates(_saturated(query, began, until, watcher))
    bound["maxRowsPerTrigger"] = str(round(_BATCH_SECONDS * max(first)))
    plain = measured(orders(spark, bound))
    started = time.time()
    query = writer_of(plain, directory / "capacity").queryName("demo capacity").start()
    batches = _saturated(query, began, began + settings.warm_up_seconds, watcher)
    rates = _rates(batches)
    start_seconds = batches[0].end_seconds - started
    return Capacity(
        median(rates[-_COMPARED:]), is_steady(rates), max(0.0, start_seconds), tuple(rates)
    )


def _rates(batches: Sequence[Batch]) -> list[float]:
    """Rows per second of each batch, the first one (it compiles) left out if there are more."""
    rates = [b.offered / max(b.duration_seconds, 1e-3) for b in batches if b.offered]
    return rates[1:] or rates


def _saturated(query: StreamingQuery, began: float, until: float, watcher: Watcher) -> list[Batch]:
    """Batches of a query that never has nothing to do; their times are since 1970."""
    batches: list[Batch] = []
    with Followed(query) as followed:
        while not is_steady(_rates(batches)):
            now = time.monotonic()
            if (now > until and len(batches) > _FEWEST) or now > until + _LONGEST_WAIT_SECONDS:
                break
            batches += [batch_of(text, 0.0) for text in followed.fresh()]
            watcher.tick(now - began)
            time.sleep(0.1)
    if not _rates(batches):
        raise DemoError(
            "Spark finished no batch while the capacity was measured; is the machine busy with "
            "something else? Try again, or see `headgate demo --simulated`"
        )
    return batches
