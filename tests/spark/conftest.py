"""One Spark session and one Headgate for all tests of this directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.spark.local_session import PLAIN_FILES
from headgate.spark.session import Headgate, attach
from tests.spark.kafka_broker import Broker, KafkaJars, NoJarsError, kafka_jars


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A file is run by one process, and all that need a broker by the same one.

    py4j leaves the connection of a thread that has ended to the garbage collector.
    """
    ignore = pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    )
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(ignore)
            needs_broker = "broker" in getattr(item, "fixturenames", ())
            item.add_marker(pytest.mark.xdist_group("kafka" if needs_broker else item.path.stem))


@pytest.fixture(scope="session")
def jars_or_reason() -> KafkaJars | str:
    """Jars of Kafka and of Spark's connector; where they cannot be fetched, why."""
    try:
        return kafka_jars()
    except NoJarsError as error:
        return str(error)


@pytest.fixture(scope="session")
def broker(
    jars_or_reason: KafkaJars | str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A running Kafka broker. CI needs it; elsewhere, without Maven Central, tests are skipped."""
    if isinstance(jars_or_reason, str):
        reason = f"no Kafka: {jars_or_reason}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    broker = Broker(jars_or_reason, tmp_path_factory.mktemp("kafka"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def connector_jars(request: pytest.FixtureRequest) -> str:
    """What the session needs for Spark's Kafka connector, if a test of this run uses a broker."""
    if not any("broker" in getattr(item, "fixturenames", ()) for item in request.session.items):
        return ""
    jars = request.getfixturevalue("jars_or_reason")
    return "" if isinstance(jars, str) else ",".join(map(str, jars.connector))


@pytest.fixture(scope="session", autouse=True)
def worker_python(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers run this Python without what Spark puts in front of its path: a zip of pyspark.

    A zip has nothing compiled. Every process of a Python source would compile pyspark anew.
    """
    script = tmp_path_factory.mktemp("python") / "python"
    script.write_text(f'#!/bin/sh\nunset PYTHONPATH\nexec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    os.environ["PYSPARK_PYTHON"] = str(script)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, connector_jars: str) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("headgate-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.driver.memory", "2g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars", connector_jars)
        # The drivers that tests start and kill write their files as usual.
        .config(map={**PLAIN_FILES})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    for query in session.streams.active:
        query.stop()
    session.stop()


@pytest.fixture(scope="session")
def shared(spark: SparkSession) -> Iterator[Headgate]:
    with attach(spark, timeout="20s") as hg:
        yield hg


@pytest.fixture
def hg(shared: Headgate, spark: SparkSession) -> Iterator[Headgate]:
    shared.mode("on")
    yield shared
    shared.mode("on")
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def replay(spark: SparkSession) -> Callable[..., DataFrame]:
    """A stream of the replay source; rows that arrived before now, if `epoch` says so."""

    def stream(**options: Any) -> DataFrame:
        reader = spark.readStream.format("headgate_replay")
        for name, value in options.items():
            reader = reader.option(name, str(value))
        return reader.load()

    return stream
