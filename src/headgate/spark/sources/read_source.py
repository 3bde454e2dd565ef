"""`Headgate.read`: the sources that can have a gate inside.

    hg.read("kafka", "orders", options={"kafka.bootstrap.servers": "...", "subscribe": "orders"})
    hg.read("replay", "orders", options={"rate": 5000})

Both give an ordinary streaming DataFrame with the arrival time in the column `timestamp`.
Mistakes in the options raise `UsageError` here, before a query is started; nothing is asked
over the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource

from headgate.errors import UsageError
from headgate.spark.letters.letter_settings import LETTERS_OPTION
from headgate.spark.sources.kafka_options import check_options
from headgate.spark.sources.replay_gate import GatedReplaySource
from headgate.spark.sources.replay_source import check_options as check_replay_options
from headgate.spark.sources.replay_source import profile_from
from headgate.spark.sources.source_gate import (
    GATE_OPTION,
    SAME_TUPLES_OPTION,
    add_source_gate,
    most_rows,
)

__all__ = ["read_source"]

_SOURCES = ("kafka", "replay")


def read_source(
    spark: SparkSession,
    source: str,
    gate: str,
    options: Mapping[str, Any],
    same_tuples: bool,
    letters: str = "",
) -> DataFrame:
    """The stream of a source with a gate in it, which keeps everything until a query is started.

    letters: the option for dead letters; see `source_letters`.
    """
    if source not in _SOURCES:
        raise UsageError(
            f"no source {source!r} with a gate inside; expected {' or '.join(_SOURCES)}. "
            "For any other source use spark.readStream and gate(df, name)"
        )
    if not gate or len(gate) > 200:
        raise UsageError(f"a gate needs a name of 1 to 200 characters, got {gate!r}")
    texts = {name: _text(value) for name, value in options.items()}
    kind = _kafka(texts) if source == "kafka" else _replay(texts)
    spark.dataSource.register(kind)
    texts |= {GATE_OPTION: gate, SAME_TUPLES_OPTION: _text(same_tuples)}
    if letters:
        texts[LETTERS_OPTION] = letters
    frame = spark.readStream.format(kind.name()).options(**texts).load()
    return add_source_gate(frame, gate, "timestamp", bool(letters))


def _kafka(options: Mapping[str, str]) -> type[DataSource]:
    if find_spec("confluent_kafka") is None:
        raise UsageError("reading Kafka needs confluent-kafka: pip install 'headgate[kafka]'")
    from headgate.spark.sources.kafka_source import (
        KafkaSource,  # needs what is not always installed
    )

    check_options(options)
    return KafkaSource


def _replay(options: Mapping[str, str]) -> type[DataSource]:
    profile_from(options)
    check_replay_options(options)
    most_rows(options, "maxRowsPerTrigger")
    return GatedReplaySource


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
