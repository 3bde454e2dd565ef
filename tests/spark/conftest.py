"""One Spark session and one Headgate for all tests of this directory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headgate.spark.session import Headgate, attach


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j leaves the connection of a thread that has ended to the garbage collector."""
    ignore = pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
    )
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(ignore)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
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
