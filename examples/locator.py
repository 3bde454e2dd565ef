"""The MAC/IP locator of the PACK paper as a Spark application: which address is where.

    python examples/locator.py --seconds 60

A campus log, generated, is replayed sixty times as fast as it was written. The locator
asks access points for the addresses of their devices, which takes longer than there is
time: without a gate it would fall behind. The gate drops messages, as many as the latency
asks for: by the paper's six levels (examples/policies/syslog.yaml), or at random with
`--random`. The report says how many, and the digests what they were. A batch with state has
seconds of cost of its own on a small machine; a latency below that cannot be held.

Between `gate` and `start` stands plain PySpark: a filter, and a state for each access
point (`applyInPandasWithState`) that remembers its last answer. An access point is not
asked twice within 30 seconds of the log's time.

Needs `pip install 'headgate[spark,reduction]'`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import headgate
from headgate.reproduce.campus_log import ASSOCIATIONS, Message, campus_log
from headgate.reproduce.locator import AccessPoints, LocatorSettings
from headgate.spark.session import Headgate

POLICY = Path(__file__).parent / "policies" / "syslog.yaml"
LOG_SECONDS = 3600.0
MESSAGES_PER_SECOND = 900
ANSWERS = LocatorSettings(ask_median=0.03, ask_spread=1.0, ask_at_most=1.0)
MESSAGE = "number long, time double, type string, action string, ap string, host string, "
MESSAGE += "client string, ip string"
LOCATION = "client string, ap string, ip string, time double, arrived timestamp"
REMEMBERED = "asked_at double, answer string"

Locate = Callable[[tuple[str], Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]


def replayed(
    spark: SparkSession, log: Sequence[Message], rate: float, most_in_a_batch: int | None = None
) -> DataFrame:
    """The log as a stream: the replay source sets the pace, message by message."""
    pace = spark.readStream.format("headgate_replay").option("rate", rate)
    if most_in_a_batch is not None:
        pace = pace.option("maxRowsPerTrigger", most_in_a_batch)
    pace = pace.option("rows", len(log)).load()
    messages = spark.createDataFrame(pd.DataFrame(log), MESSAGE)
    numbered = pace.select(F.col("id").alias("number"), F.col("timestamp").alias("arrived"))
    return numbered.join(F.broadcast(messages), "number")


def locating(campus: AccessPoints) -> Locate:
    """Messages of one access point in, locations out; asks it where it must."""

    def locate(
        key: tuple[str], parts: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        asked_at, text = state.get if state.exists else (float("-inf"), "{}")
        answer: dict[str, str] = json.loads(text)
        found = []
        messages = pd.concat(parts).sort_values("number")
        for message in messages.itertuples():
            ip = message.ip or answer.get(message.client)
            if ip is None and message.time - asked_at >= campus.settings.ask_again_after:
                answer, seconds = campus.ask(key[0], message.time)
                asked_at = message.time
                time.sleep(seconds)
                ip = answer.get(message.client)
            if ip is not None:
                found.append((message.client, key[0], ip, message.time, message.arrived))
        state.update((asked_at, json.dumps(answer)))
        if found:
            yield pd.DataFrame(found, columns=["client", "ap", "ip", "time", "arrived"])

    return locate


def start_locator(
    hg: Headgate,
    syslog: DataFrame,
    campus: AccessPoints,
    latency: str,
    name: str = "locator",
    **gate_options: Any,
) -> StreamingQuery:
    """The whole application; `gate_options` go to the gate."""
    gated = hg.gate(syslog, "syslog", arrival="arrived", identity=["number"], **gate_options)
    useful = F.col("action").isin(*ASSOCIATIONS) | F.col("ip").isNotNull()
    locations = (
        gated.where(useful)
        .groupBy("ap")
        .applyInPandasWithState(
            locating(campus), LOCATION, REMEMBERED, "append", GroupStateTimeout.NoTimeout
        )
    )
    writer = locations.writeStream.outputMode("append").format("memory")
    return hg.start(writer, name=name, latency=latency)


def main() -> None:
    parser = argparse.ArgumentParser(description="The MAC/IP locator on Spark.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run")
    parser.add_argument("--latency", default="10s", help="the latency to hold")
    parser.add_argument("--random", action="store_true", help="drop at random, not by the policy")
    options = parser.parse_args()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("locator")
    builder = builder.config("spark.sql.shuffle.partitions", "2")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    log = campus_log(LOG_SECONDS)
    with headgate.attach(spark) as hg:
        syslog = replayed(spark, log, MESSAGES_PER_SECOND)
        chosen = {} if options.random else {"policy": POLICY}
        query = start_locator(hg, syslog, AccessPoints(log, ANSWERS), options.latency, **chosen)
        query.awaitTermination(options.seconds)  # raises if the query failed
        print(hg.report())
        located = spark.table("locator")
        print(f"{located.select('client').distinct().count()} devices located. The last ones:")
        located.orderBy(F.desc("arrived")).show(5, truncate=False)
        if not options.random:
            print("What was dropped, batch by batch:")
            hg.digests().select("batch", "level", "dropped", "results").show(20, truncate=False)
        spark.sparkContext.setLogLevel("OFF")  # a batch under way is about to fail
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
