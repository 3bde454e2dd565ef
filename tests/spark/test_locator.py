"""examples/locator.py: the application of PACK's section 7 on Spark, behind a gate."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

from headgate.reproduce.campus_log import CampusSettings, campus_log
from headgate.reproduce.locator import AccessPoints, LocatorSettings
from headgate.spark.session import Headgate
from tests.spark.streams import rows_of, wait_for

EXAMPLE = Path(__file__).parents[2] / "examples" / "locator.py"


def test_the_locator_finds_devices_behind_a_gate(spark: SparkSession, hg: Headgate) -> None:
    example = runpy.run_path(str(EXAMPLE))
    log = campus_log(40.0, CampusSettings(access_points=40, buildings=8), seed=2)
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


def test_the_locator_behind_the_paper_s_policy(spark: SparkSession, hg: Headgate) -> None:
    example = runpy.run_path(str(EXAMPLE))
    log = campus_log(40.0, CampusSettings(access_points=40, buildings=8), seed=2)
    campus = AccessPoints(log, LocatorSettings(ask_median=0.0))
    # In the first batch no level is known yet, and what is too much goes by chance.
    syslog = example["replayed"](spark, log, rate=1000, most_in_a_batch=len(log) // 4)
    query = example["start_locator"](
        hg, syslog, campus, latency="60s", name="policy_locator", policy=example["POLICY"]
    )
    hg.limit("policy_locator", "syslog", 0.3)  # as if time were short

    def all_offered() -> bool:
        assert query.exception() is None
        return sum(row["offered"] for row in rows_of(hg, "policy_locator")) == len(log)

    wait_for(all_offered, what="the whole log")
    query.stop()
    rows = [row for row in rows_of(hg, "policy_locator") if row["level"]]
    dropped = sum(row["dropped"] for row in rows)
    assert dropped > 0
    assert all(row["offered"] == row["kept"] + row["dropped"] for row in rows)
    went = hg.digests().where("query = 'policy_locator'").collect()
    assert sum(row.dropped for row in went) >= dropped
    assert len({row.client for row in spark.table("policy_locator").collect()}) > 20


@dataclass
class FakeState:
    """What `applyInPandasWithState` hands over for one access point."""

    get: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.get)

    def update(self, value: tuple[Any, ...]) -> None:
        self.get = value


def test_one_answer_serves_all_devices_of_an_access_point_for_30_seconds() -> None:
    def message(number: int, client: str, at: float, ip: str | None = None) -> dict[str, Any]:
        base = {"number": number, "time": at, "action": "Associated", "ap": "ap-1"}
        return base | {"client": client, "ip": ip, "arrived": at}

    log = [
        message(0, "anna", 0.0),
        message(1, "ben", 1.0),
        message(2, "cleo", 2.0, "10.0.0.3"),
        message(3, "anna", 3.0, "10.0.0.1"),
        message(4, "ben", 50.0, "10.0.0.2"),
    ]
    campus = AccessPoints(log, LocatorSettings(ask_median=0.0))
    asked: list[float] = []

    def ask(ap: str, now_seconds: float) -> tuple[dict[str, str], float]:
        asked.append(now_seconds)
        return AccessPoints.ask(campus, ap, now_seconds)

    campus.ask = ask  # type: ignore[method-assign]
    locate = runpy.run_path(str(EXAMPLE))["locating"](campus)
    state = FakeState()

    def located(*messages: dict[str, Any]) -> list[tuple[str, str]]:
        parts = list(locate(("ap-1",), iter([pd.DataFrame(list(messages))]), state))
        return [(row.client, row.ip) for part in parts for row in part.itertuples()]

    assert located(log[0], log[2]) == [("anna", "10.0.0.1"), ("cleo", "10.0.0.3")]
    assert located(log[1]) == []  # ben came after the question, and it is too early for another
    assert located(message(5, "ben", 31.0)) == [("ben", "10.0.0.2")]
    assert asked == [0.0, 31.0]
