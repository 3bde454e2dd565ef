"""examples/locator.py: the application of PACK's section 7 on Spark, behind a gate."""

from __future__ import annotations

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

from headgate.reproduce.campus_log import campus_log
from headgate.reproduce.locator import AccessPoints, LocatorSettings
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "locator.py"


def test_the_locator_finds_devices_behind_a_gate(spark: SparkSession, hg: Headgate) -> None:
    example = runpy.run_path(str(EXAMPLE))
    log = campus_log(40.0, seed=2)
    campus = AccessPoints(log, LocatorSettings(ask_median=0.0))
    syslog = example["replayed"](spark, log, rate=2000)
    query = example["start_locator"](hg, syslog, campus, latency="30s", name="locator_test")

    def all_offered() -> bool:
        assert query.exception() is None
        return sum(row["offered"] for row in rows_of(hg, "locator_test")) == len(log)

    wait_for(all_offered, what="the whole log")
    for row in rows_of(hg, "locator_test"):
        assert row["offered"] == row["kept"] + row["dropped"]
    located = spark.table("locator_test").collect()
    assert len({row.client for row in located}) > 20
    assert all(campus.addresses[row.client] == row.ip for row in located)
    at = {(message["client"], message["ap"]) for message in log}
    assert all((row.client, row.ap) in at for row in located)
