"""The gate: an ordinary transformation of a streaming DataFrame.

A tuple passes when

    pmod(xxhash64(xxhash64(identity...), salt), 1 000 000) < threshold

with salt and threshold from the batch's decision. Where the decision has a cut-off,
tuples that arrived before it fall too. The test is part of Spark's generated code: no
`rand()`, no state, no extra job. The same pass counts what was offered and kept and
looks at arrival times (`DataFrame.observe`): the mean of all kept tuples, and quantiles
of one in sixteen, chosen by a hash.

Guarantees: a threshold of 1 000 000 keeps every tuple and 0 keeps none; the same tuple
under the same decision has the same fate on any machine, in retries and replays;
offered and kept come from the same rows. Not guaranteed: exactly the wanted share of a
small batch (it is a sample), and independent fates of tuples with equal identity.
Until `Headgate.start` sees it, a gate keeps everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    MapType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from headgate.errors import UsageError
from headgate.spark.decision import EVERYTHING
from headgate.spark.live_array import LiveArray
from headgate.spark.progress import ARRIVAL_QUANTILES

__all__ = [
    "KEPT_COLUMN",
    "METRIC_PREFIX",
    "OPEN_VALUES",
    "add_gate",
    "check_gate",
    "count_metrics",
    "fate",
    "identity_hash",
    "live_index",
    "passes",
]

METRIC_PREFIX = "headgate:"
KEPT_COLUMN = "__headgate_kept"
OPEN_VALUES = (0, EVERYTHING, 0)
"""Content of a gate's live array that keeps everything: salt, threshold, cut-off."""
_SAMPLED_TUPLES = 16
_QUANTILE_ACCURACY = 200


def passes(identity: Sequence[str], salt: Column, threshold: Column) -> Column:
    """True for the tuples that a gate keeps. Also what tests and back-fills compare with."""
    mixed = F.xxhash64(
        identity_hash(identity), salt.cast("bigint")
    )  # an int would hash differently
    return F.pmod(mixed, F.lit(EVERYTHING)) < threshold


def add_gate(
    spark: SparkSession,
    frame: DataFrame,
    gate: str,
    arrival: str | None,
    identity: Sequence[str] | None,
) -> DataFrame:
    """`frame` behind a gate that keeps everything until a query is started on it."""
    names = check_gate(frame, gate, arrival, identity)
    live = LiveArray(spark, OPEN_VALUES).column()
    kept = fate(frame, gate, arrival, names, live)
    metrics = count_metrics(KEPT_COLUMN, arrival, names)
    measured = frame.withColumn(KEPT_COLUMN, kept).observe(METRIC_PREFIX + gate, *metrics)
    return measured.where(F.col(KEPT_COLUMN)).drop(KEPT_COLUMN)


def fate(
    frame: DataFrame, gate: str, arrival: str | None, identity: Sequence[str], live: Column
) -> Column:
    """Does the tuple pass by the hash and the cut-off of the live array?"""
    zero = live_index(identity)
    kept = passes(identity, F.get(live, zero), F.get(live, zero + F.lit(1)))
    if arrival is None:
        return kept
    arrived = _micros(frame, gate, arrival)
    return kept & F.coalesce(arrived >= F.get(live, zero + F.lit(2)), F.lit(True))


def live_index(identity: Sequence[str]) -> Column:
    """0, but it cannot be folded.

    A constant index would let the optimiser write the present number into the generated
    code and compile it anew at every change.
    """
    return F.pmod(identity_hash(identity), F.lit(1)).cast("int")


def count_metrics(kept: str, arrival: str | None, identity: Sequence[str]) -> list[Column]:
    """What every gate observes: offered, kept, and when tuples arrived."""
    # Each aggregate costs every row; these are the cheapest that say enough.
    metrics = [
        F.count(F.lit(1)).alias("offered"),
        F.sum(F.col(kept).cast("bigint")).alias("kept"),
    ]
    if arrival is not None:
        time = F.col(_quoted(arrival))
        seconds = F.when(F.col(kept), time.cast("double"))  # a sum of these cannot overflow
        chosen = F.xxhash64(time, identity_hash(identity))
        sample = F.when(chosen.bitwiseAND(F.lit(_SAMPLED_TUPLES - 1)) == 0, seconds)
        quantiles = F.percentile_approx(sample, list(ARRIVAL_QUANTILES), _QUANTILE_ACCURACY)
        metrics += [
            F.avg(seconds).alias("arrival_mean"),
            F.min(time).cast("double").alias("first_arrival"),
            F.max(time).cast("double").alias("last_arrival"),
            F.count(sample).alias("sampled"),
            quantiles.alias("arrival_quantiles"),
        ]
    return metrics


def identity_hash(identity: Sequence[str]) -> Column:
    """The hash of the columns that say which tuple it is."""
    return F.xxhash64(*(F.col(_quoted(name)) for name in identity))


def _micros(frame: DataFrame, gate: str, arrival: str) -> Column:
    """Arrival in microseconds since 1970."""
    time = F.col(_quoted(arrival))
    if isinstance(_type_of(frame, gate, arrival), NumericType):
        return time.cast("double") * F.lit(1e6)
    return F.unix_micros(time.cast("timestamp"))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def check_gate(
    frame: DataFrame, gate: str, arrival: str | None, identity: Sequence[str] | None
) -> list[str]:
    """UsageError for mistakes in the call; the columns that are the identity."""
    _check(frame, gate, arrival)
    return _identity(frame, identity)


def _check(frame: DataFrame, gate: str, arrival: str | None) -> None:
    if not frame.isStreaming:
        raise UsageError(f"gate {gate!r}: the DataFrame is not a stream; use spark.readStream")
    if not gate or len(gate) > 200:
        raise UsageError(f"a gate needs a name of 1 to 200 characters, got {gate!r}")
    if KEPT_COLUMN in frame.columns:
        raise UsageError(f"gate {gate!r}: the column name {KEPT_COLUMN} is taken by Headgate")
    if arrival is None:
        return
    kind = _type_of(frame, gate, arrival)
    if not isinstance(kind, TimestampType | TimestampNTZType | NumericType):
        raise UsageError(
            f"gate {gate!r}: arrival column {arrival!r} is {kind.simpleString()}; "
            "expected a timestamp, or seconds since 1970 as a number"
        )


def _identity(frame: DataFrame, identity: Sequence[str] | None) -> list[str]:
    """The columns that are hashed: the given ones, or all that can be hashed."""
    if identity is None:
        names = [field.name for field in frame.schema.fields if _hashable(field.dataType)]
        if not names:
            raise UsageError("the stream has no column that can be hashed; name the identity")
        return names
    if isinstance(identity, str):
        identity = [identity]
    if not identity:
        raise UsageError("identity must name at least one column")
    for name in identity:
        if not _hashable(_type_of(frame, name, name)):
            raise UsageError(f"identity column {name!r} holds a map or variant: not hashable")
    return list(identity)


def _type_of(frame: DataFrame, gate: str, name: str) -> DataType:
    for field in frame.schema.fields:
        if field.name == name:
            return field.dataType
    known = ", ".join(frame.columns[:20])
    raise UsageError(f"gate {gate!r}: no column {name!r}; the columns are {known}")


def _hashable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    inner = getattr(kind, "elementType", None)
    if isinstance(inner, DataType):
        return _hashable(inner)
    return not isinstance(kind, MapType | VariantType)
