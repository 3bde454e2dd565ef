"""Cores that have tasks are counted for the coordinator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from headgate.coordinator import BatchStarted, CoordinatorSettings, QuerySettings
from headgate.spark.agent.agent import Agent
from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.busy_cores import busy_cores
from headgate.spark.agent.classes import class_settings
from headgate.spark.agent.core_watch import CoreWatch
from tests.spark.streams import wait_for


def test_running_tasks_are_counted(spark: SparkSession) -> None:
    count = busy_cores(spark)
    wait_for(lambda: count() == 0)
    sleep = F.expr("reflect('java.lang.Thread', 'sleep', cast(pmod(id, 1) + 2000 as bigint))")
    rows = spark.range(0, 2, 1, 2).withColumn("slept", sleep).where("slept is not null")
    job = threading.Thread(target=rows.collect)
    job.start()
    wait_for(lambda: count() == 2)
    job.join()
    wait_for(lambda: count() == 0)


def agent_with(busy: Callable[[], int]) -> Agent:
    """Two queries have a turn, the third one waits."""
    settings = CoordinatorSettings(
        {name: QuerySettings(("rows",), 3.0, "gold") for name in ("one", "two", "three")},
        classes=class_settings({"gold": 1}, cores=2),
    )
    agent = Agent(Alarms(), lambda *_: None, settings, CoreWatch(busy))
    for query in settings.queries:
        agent._handle(BatchStarted(time.time(), query, 0, {"rows": 10}, 0.1, tasks=2))
    return agent


def test_a_tick_tells_how_many_cores_were_busy() -> None:
    looks = iter((0, 1, 2))
    agent = agent_with(lambda: next(looks))
    agent._cores.look(time.time() - 1.0)
    agent.tick()
    assert '"busy_cores":0.5' in agent.journal_lines[-1]  # one look before, one at the tick


def test_nobody_counts_while_nobody_waits() -> None:
    agent = Agent(
        Alarms(),
        lambda *_: None,
        CoordinatorSettings(classes=class_settings({"gold": 1}, cores=2)),
        CoreWatch(lambda: pytest.fail("counted")),
    )
    agent.tick()
    assert '"busy_cores":null' in agent.journal_lines[-1]


def test_a_spark_that_does_not_tell_is_not_asked_again() -> None:
    asked = []

    def fail() -> int:
        asked.append(1)
        raise RuntimeError("stopped")

    agent = agent_with(fail)
    agent.tick()
    time.sleep(0.15)
    agent.tick()
    assert len(asked) == 1
    assert agent.alarms.all() == []


def test_more_executors_are_more_places_and_the_classes_go_on() -> None:
    cores = [2]
    agent = agent_with(lambda: 2)
    agent._cores = CoreWatch(None, lambda: cores[0])
    loop = agent.coordinator.classes
    agent.tick()
    assert loop is not None
    assert loop.settings.cores == 2
    cores[0] = 8
    agent._cores._asked_at -= 10.0
    loop._last_cycle_seconds -= 10.0
    agent.tick()
    assert agent.coordinator.classes is loop
    assert loop.settings.cores == 8
