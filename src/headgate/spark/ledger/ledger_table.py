"""The ledger as a DataFrame, and where it stands on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

__all__ = ["LEDGER_SCHEMA", "ledger_directory", "ledger_table", "lines_at"]

LEDGER_SCHEMA = (
    "time_seconds double, query string, query_id string, run_id string, batch bigint, "
    "gate string, status string, offered bigint, kept bigint, dropped bigint, "
    "keep_fraction double, version bigint, salt bigint, why string, "
    "latency_mean_seconds double, latency_p95_seconds double, duration_seconds double, "
    "arrival_rate_per_second double, query_class string, held_seconds double, lost bigint, "
    "event_time_max_micros bigint, "
    "level int, dropped_by_level array<bigint>, odd bigint, digest string, "
    "result_rows bigint, result_latency_mean_seconds double, result_latency_p95_seconds double, "
    "letters bigint, letters_left bigint, would_keep double"
)


_NEEDED = ("time_seconds", "query", "query_id", "run_id", "batch", "gate", "status", "why")


def ledger_directory(checkpoint: str) -> Path | None:
    """Beside the checkpoint's own logs; None where that is not on this machine's disk.

    checkpoint: as Hadoop writes a whole address, which has its signs as they are.

    >>> ledger_directory("file:/data/50%25 #1").as_posix()
    '/data/50%25 #1/headgate/ledger'
    >>> ledger_directory("hdfs://name/data")
    """
    scheme, _, path = checkpoint.partition(":")
    if scheme != "file":
        return None
    return Path("/" + path.lstrip("/")) / "headgate" / "ledger"


def ledger_table(spark: SparkSession, addresses: Sequence[str]) -> DataFrame:
    """All rows as one DataFrame; read when it is used. Damaged lines are left out."""
    if not addresses:
        return spark.createDataFrame([], LEDGER_SCHEMA)
    sound = " and ".join(f"{name} is not null" for name in _NEEDED)
    lines = lines_at(spark, addresses, LEDGER_SCHEMA).where(sound)
    return lines.dropDuplicates(["query_id", "batch", "gate"])


def lines_at(spark: SparkSession, addresses: Sequence[str], schema: str) -> DataFrame:
    """The lines of all files in these directories. A file that is replaced by others meanwhile is
    no error: its lines stand in the spool too.
    """
    reader = spark.read.schema(schema).option("mode", "DROPMALFORMED")
    return reader.option("ignoreMissingFiles", "true").json(list(addresses))
