"""Dead letters in the plan of a gate, and as a DataFrame afterwards.

    Filter(kept)
      CollectMetrics headgate letters:orders       how many were written, and what failed
        Project(*, when(wanted, write(when(not kept, struct(*)))))
          Filter(kept or letter)
            CollectMetrics headgate:orders         as without letters
              Project(*, kept)

The source is read once, and only letters are passed to Python: for a row that stays the
argument of `write` is null. `wanted` is a constant to Spark's optimiser, which sees the plan
anew in every batch: as long as nothing is dropped, no Python process takes part at all.
A gate without letters has none of these nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyarrow.fs import FileType
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType, StringType, StructType

from headgate.errors import UsageError
from headgate.spark.agent.decision import EVERYTHING
from headgate.spark.gates.gate_metrics import metric_name
from headgate.spark.gates.row_columns import COLUMN_PREFIX, quoted
from headgate.spark.letters.letter_settings import (
    BATCH_COLUMN,
    GATE_COLUMN,
    LETTERS_PREFIX,
    LetterSettings,
    text_of,
)
from headgate.spark.letters.letter_sinks import (
    IDENTITY_FIELD,
    JSON_FIELD,
    directory_of,
    open_files,
)
from headgate.spark.letters.letter_task import NOTE_DDL, letter_function
from headgate.spark.plans.live_array import LiveArray

__all__ = ["LETTER_COLUMN", "GateLetters", "letters_of_gate", "letters_table"]

LETTER_COLUMN = COLUMN_PREFIX + "letter_"
_SECOND_HASH = 0x6C65747465727321  # no salt of a decision is so large


@dataclass(frozen=True)
class GateLetters:
    """The letters of one gate, in the plan; `number` finds the settings again."""

    spark: SparkSession
    gate: str
    number: int
    settings: LetterSettings
    schema: StructType

    def __call__(self, observed: DataFrame, kept: str, seed: Column) -> DataFrame:
        """What the gate has observed, with its letters taken out and counted."""
        live = LiveArray(self.spark, (0, 0))
        chance = F.pmod(F.xxhash64(seed, F.lit(_SECOND_HASH)), F.lit(EVERYTHING))
        stays = F.col(kept)
        passing = observed.where(stays | (chance < live.number(1)))
        wanted = F.get(live.column(), F.lit(1)) > F.lit(0)  # folded, on purpose
        functions: Any = F  # `arrow_udf` is missing in PySpark's stubs
        function = letter_function(self.gate, text_of(self.settings, self.number))
        write = functions.arrow_udf(function, NOTE_DDL).asNondeterministic()
        column = f"{LETTER_COLUMN}{self.number}"
        written = F.when(wanted, write(F.when(~stays, self._content(seed))))
        note = F.col(column)
        counted = passing.withColumn(column, written).observe(
            metric_name(self.gate, LETTERS_PREFIX),
            F.sum(note["written"]).alias("written"),
            F.sum(note["left"]).alias("left"),
            F.max(note["error"]).alias("error"),
        )
        return counted.drop(column)

    def _content(self, seed: Column) -> Column:
        own = F.struct(*(F.col(quoted(name)) for name in self.schema.names))
        if self.settings.path:
            return own
        return F.struct(seed.alias(IDENTITY_FIELD), F.to_json(own).alias(JSON_FIELD))


def letters_of_gate(
    spark: SparkSession, frame: DataFrame, gate: str, settings: LetterSettings, number: int
) -> GateLetters:
    """UsageError when the columns cannot be written down."""
    from pyspark.sql.pandas.types import to_arrow_schema

    where = f"gate {gate!r}: dead_letters"
    taken = [name for name in frame.columns if name in (BATCH_COLUMN, GATE_COLUMN)]
    if taken:
        raise UsageError(f"{where}: the column name {taken[0]} is taken; rename the column")
    if settings.topic:
        _check_kafka(where, settings)
        return GateLetters(spark, gate, number, settings, frame.schema)
    try:
        to_arrow_schema(frame.schema, timezone="UTC")
    except PySparkException as error:
        reason = str(error).splitlines()[0][:200]
        raise UsageError(f"{where}: a column cannot be written ({reason}); drop it first") from None
    return GateLetters(spark, gate, number, settings, frame.schema)


def letters_table(letters: GateLetters, query_ids: Sequence[str]) -> DataFrame:
    """What the queries with these ids have written at one gate; read when it is used."""
    schema = StructType([*letters.schema.fields])
    schema = schema.add(GATE_COLUMN, StringType()).add(BATCH_COLUMN, LongType())
    if letters.settings.topic:
        return _read_topic(letters, query_ids)
    files, path = open_files(letters.settings.path)
    names = {directory_of(path, query_id, letters.gate) for query_id in query_ids}
    infos = files.get_file_info(sorted(names))
    found = [info.path for info in infos if info.type is not FileType.NotFound]
    if not found:
        return letters.spark.createDataFrame([], schema)
    scheme = letters.settings.path.partition("://")[0] if "://" in letters.settings.path else "file"
    return letters.spark.read.schema(schema).parquet(*(f"{scheme}://{name}" for name in found))


def _read_topic(letters: GateLetters, query_ids: Sequence[str]) -> DataFrame:
    """Through Spark's Kafka connector; repetitions are left out."""
    servers = letters.settings.producer["bootstrap.servers"]
    reader = letters.spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    reader = reader.option("subscribe", letters.settings.topic).option("includeHeaders", "true")
    try:
        messages = reader.option("failOnDataLoss", "false").load()
    except PySparkException as error:
        raise UsageError(
            f"the letters stand in topic {letters.settings.topic!r} at {servers}; to read them "
            "here Spark's Kafka connector is needed (spark.jars.packages): "
            f"{str(error).splitlines()[0][:200]}"
        ) from None
    names = F.transform("headers", lambda h: F.struct(h["key"], h["value"].cast("string")))
    headers = F.map_from_entries(names)
    content = F.from_json(F.col("value").cast("string"), letters.schema)
    return (
        messages.where(headers["headgate_query"].isin(list(query_ids)))
        .where(headers["headgate_gate"] == letters.gate)
        .withColumn(BATCH_COLUMN, headers["headgate_batch"].cast("bigint"))
        .dropDuplicates(["key", "value", BATCH_COLUMN])
        .select(content.alias("content"), F.lit(letters.gate).alias(GATE_COLUMN), BATCH_COLUMN)
        .select("content.*", GATE_COLUMN, BATCH_COLUMN)
    )


def _check_kafka(where: str, settings: LetterSettings) -> None:
    try:
        from confluent_kafka import KafkaException, Producer
    except ModuleNotFoundError:
        raise UsageError(f"{where}: Kafka needs confluent-kafka: headgate[kafka]") from None
    try:
        Producer(dict(settings.producer))
    except (KafkaException, TypeError, ValueError) as error:
        raise UsageError(f"{where}: a kafka.* option is not accepted: {error}") from None
