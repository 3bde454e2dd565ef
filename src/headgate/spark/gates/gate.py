"""The gate: an ordinary transformation of a streaming DataFrame.

A tuple passes when

    pmod(xxhash64(xxhash64(identity...), salt), 1 000 000) < threshold

with salt and threshold from the batch's decision. Where the decision has a cut-off,
tuples that arrived before it fall too. The test is part of Spark's generated code: no
`rand()`, no state, no extra job. The same pass counts what was offered and kept and
looks at arrival times: the mean of all kept tuples, and quantiles of one in sixteen. The
aggregates stand in the plan as `DataFrame.observe`; `plans.counting` makes generated code of
them when a query starts.

Which tuples fall can also go by a key or by whole windows; see `row_columns`.

Guarantees: a threshold of 1 000 000 keeps every tuple and 0 keeps none; the same tuple
under the same decision has the same fate on any machine, in retries and replays;
offered and kept come from the same rows; nothing that a row holds makes a column of the gate
raise an error. Not guaranteed: exactly the wanted share of a
small batch (it is a sample), and independent fates of tuples with equal identity.
Until `Headgate.start` sees it, a gate keeps everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    MapType,
    NumericType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from headgate.errors import UsageError
from headgate.spark.agent.decision import EVERYTHING
from headgate.spark.gates.column_names import columns_of, repeated
from headgate.spark.gates.gate_metrics import (
    ARRIVAL_QUANTILES,
    SAMPLED_TUPLES,
    metric_name,
)
from headgate.spark.gates.row_choice import RowChoice
from headgate.spark.gates.row_columns import (
    COLUMN_PREFIX,
    KEPT_COLUMN,
    ByKey,
    ByWindow,
    Live,
    RandomRows,
    Rows,
    passes_hash,
    quoted,
    type_of,
)
from headgate.spark.gates.window_drop import WindowMemory
from headgate.spark.plans.live_array import LiveArray

__all__ = [
    "COLUMN_PREFIX",
    "KEPT_COLUMN",
    "KEPT_SECONDS",
    "OBSERVED_TIMES",
    "SECONDS",
    "add_gate",
    "check_gate",
    "choose_rows",
    "count_metrics",
    "fate",
    "identity_hash",
    "open_values",
    "passes",
    "time_of",
    "with_sample",
]

_WEIGHT = COLUMN_PREFIX + "weight"
SECONDS = COLUMN_PREFIX + "seconds"
KEPT_SECONDS = COLUMN_PREFIX + "kept_seconds"
_SAMPLE = COLUMN_PREFIX + "sample"
OBSERVED_TIMES = (SECONDS, KEPT_SECONDS, _SAMPLE)
_QUANTILE_ACCURACY = 200
_CALENDAR = ("0001-01-01 00:00:00", "9999-12-31 23:59:59")
"""Arrivals without a time zone that lie outside are not known."""


def passes(identity: Sequence[str], salt: Column, threshold: Column) -> Column:
    """True for the tuples that a gate keeps. Also what tests and back-fills compare with."""
    return passes_hash(RandomRows(identity).seed, salt, threshold)


def open_values(choice: RowChoice) -> tuple[int, ...]:
    """The content of a live array that keeps everything; the first number is of no account.

    Salt, threshold and cut-off; for whole windows what `window_drop` says.
    """
    return (0, EVERYTHING, 0) if choice.window is None else WindowMemory(choice.window).array()


def choose_rows(
    frame: DataFrame,
    gate: str,
    identity: Sequence[str] | None = None,
    by_key: Sequence[str] | Mapping[str, str] | str | None = None,
    by_window: Sequence[str] | None = None,
) -> Rows:
    """Which rows the gate drops; at random without a key and a window."""
    given = [value for value in (identity, by_key, by_window) if value is not None]
    if len(given) > 1:
        raise UsageError(f"gate {gate!r}: give one of identity, by_key and by_window")
    if by_key is not None:
        return ByKey(frame, gate, by_key)
    if by_window is not None:
        return ByWindow(frame, gate, by_window)
    return RandomRows(_all_columns(frame) if identity is None else _identity(frame, identity))


def add_gate(
    spark: SparkSession,
    frame: DataFrame,
    gate: str,
    arrival: str | None,
    rows: Rows,
    weight: str | None = None,
    letters: Callable[[DataFrame, str, Column], DataFrame] | None = None,
) -> DataFrame:
    """`frame` behind a gate that keeps everything until a query is started on it.

    letters: what is to be done with dropped tuples before they go; see `letter_columns`.
    """
    _check(frame, gate, arrival)
    _check_weight(frame, gate, rows, weight)
    live = LiveArray(spark, open_values(rows.choice)).number
    columns = dict(rows.columns(live))
    if arrival is not None and rows.choice.window is None:
        fresh = _micros(frame, gate, arrival) >= live(2)
        columns[KEPT_COLUMN] &= F.coalesce(fresh, F.lit(True))
    if weight is not None:
        # Of rows that fall too, before they do: where none is kept, nothing is divided by 0.
        columns[_WEIGHT] = F.lit(float(EVERYTHING)) / F.greatest(live(1), F.lit(1))
    time = time_of(frame, gate, arrival)
    metrics = count_metrics(KEPT_COLUMN, time, rows.metrics())
    if time is not None:
        columns[SECONDS] = time.cast("double")
    chosen = [
        column.alias(name, metadata=rows.choice.as_dict() if name == KEPT_COLUMN else {})
        for name, column in columns.items()
    ]
    measured = with_sample(frame.select("*", *chosen), KEPT_COLUMN, time, rows.seed)
    measured = measured.observe(metric_name(gate), *metrics)
    if letters is not None:
        measured = letters(measured, KEPT_COLUMN, _letter_seed(frame, rows))
    kept = rows.above(measured.where(F.col(KEPT_COLUMN)).drop(KEPT_COLUMN, *OBSERVED_TIMES))
    return kept if weight is None else kept.withColumnRenamed(_WEIGHT, weight)


def with_sample(frame: DataFrame, kept: str, time: Column | None, seed: Column) -> DataFrame:
    """`frame` with the arrival of all tuples, of kept ones, and of one of these in sixteen.

    For `count_metrics`. A column of its own is part of the generated code. Within an aggregate,
    which is not, the same expression would take 150 ns of every row. A frame that has `SECONDS`
    already is the cheaper one to plan.
    """
    if time is None:
        return frame
    chosen = F.xxhash64(time, seed).bitwiseAND(F.lit(SAMPLED_TUPLES - 1)) == 0
    timed = frame if SECONDS in frame.columns else frame.withColumn(SECONDS, time.cast("double"))
    return timed.withColumns(
        {
            KEPT_SECONDS: F.when(F.col(kept), F.col(SECONDS)),
            _SAMPLE: F.when(F.col(kept) & chosen, F.col(SECONDS)),
        }
    )


def count_metrics(kept: str, time: Column | None, others: Sequence[Column] = ()) -> list[Column]:
    """What every gate observes: offered, kept, when tuples arrived, and `others`.

    time: of the arrival; see `time_of`. The frame has to come from `with_sample`.
    """
    # Each aggregate costs every row; these are the cheapest that say enough.
    metrics = [
        F.count(F.lit(1)).alias("offered"),
        F.sum(F.col(kept).cast("bigint")).alias("kept"),
        *others,
    ]
    if time is not None:
        quantiles = F.percentile_approx(_SAMPLE, list(ARRIVAL_QUANTILES), _QUANTILE_ACCURACY)
        metrics += [
            F.avg(KEPT_SECONDS).alias("arrival_mean"),  # a sum of these cannot overflow
            F.min(SECONDS).alias("first_arrival"),
            F.max(SECONDS).alias("last_arrival"),
            quantiles.alias("arrival_quantiles"),
        ]
    return metrics


def fate(frame: DataFrame, gate: str, arrival: str | None, seed: Column, live: Live) -> Column:
    """Does the tuple pass by the hash (`seed`) and the cut-off of the live array?"""
    kept = passes_hash(seed, live(0), live(1))
    if arrival is None:
        return kept
    fresh = _micros(frame, gate, arrival) >= live(2)
    return kept & F.coalesce(fresh, F.lit(True))


def identity_hash(identity: Sequence[str | Column]) -> Column:
    """The hash of the columns that say which tuple it is."""
    return RandomRows(identity).seed


def check_gate(
    frame: DataFrame, gate: str, arrival: str | None, identity: Sequence[str] | None
) -> list[str]:
    """UsageError for mistakes in the call; the columns that are the identity."""
    _check(frame, gate, arrival)
    return _identity(frame, identity)


def time_of(frame: DataFrame, gate: str, arrival: str | None) -> Column | None:
    """The arrival as something that casts to seconds since 1970; what is not finite is null."""
    if arrival is None:
        return None
    time, kind = F.col(quoted(arrival)), type_of(frame, gate, arrival)
    if isinstance(kind, FloatType | DoubleType):
        return F.when(F.abs(time) < F.lit(math.inf), time)  # NaN is above all for Spark
    if not isinstance(kind, TimestampNTZType):
        return time
    # The last times that a column can hold are an error in some zones, also for `try_cast`.
    first, last = (F.to_timestamp_ntz(F.lit(text)) for text in _CALENDAR)
    return F.when(time.between(first, last), time).cast("timestamp")


def _micros(frame: DataFrame, gate: str, arrival: str) -> Column:
    """Arrival in microseconds since 1970."""
    time = time_of(frame, gate, arrival)
    assert time is not None
    if isinstance(type_of(frame, gate, arrival), NumericType):
        return time.cast("double") * F.lit(1e6)
    return F.unix_micros(time)


def _check(frame: DataFrame, gate: str, arrival: str | None) -> None:
    if not frame.isStreaming:
        raise UsageError(f"gate {gate!r}: the DataFrame is not a stream; use spark.readStream")
    if not gate or len(gate) > 200:
        raise UsageError(f"a gate needs a name of 1 to 200 characters, got {gate!r}")
    for name in frame.columns:
        if name.startswith(COLUMN_PREFIX):
            raise UsageError(f"gate {gate!r}: the column name {name} is taken by Headgate")
    if arrival is None:
        return
    kind = type_of(frame, gate, arrival)
    if not isinstance(kind, TimestampType | TimestampNTZType | NumericType):
        raise UsageError(
            f"gate {gate!r}: arrival column {arrival!r} is {kind.simpleString()}; "
            "expected a timestamp, or seconds since 1970 as a number"
        )


def _letter_seed(frame: DataFrame, rows: Rows) -> Column:
    """What tells tuples apart; a key or a window would make letters of many at once."""
    at_random = isinstance(rows, RandomRows) and not isinstance(rows, ByKey)
    return rows.seed if at_random else identity_hash(_all_columns(frame))


def _check_weight(frame: DataFrame, gate: str, rows: Rows, weight: str | None) -> None:
    if weight is None:
        return
    if not isinstance(rows, RandomRows) or isinstance(rows, ByKey):
        raise UsageError(
            f"gate {gate!r}: a weight is for rows that are dropped at random; leave out weight, "
            "or by_key and by_window"
        )
    if not weight or weight in frame.columns:
        raise UsageError(f"gate {gate!r}: the weight needs a column name that is free: {weight!r}")


def _all_columns(frame: DataFrame) -> list[str] | list[Column]:
    """All that can be hashed, also of a stream in which a name stands more than once."""
    if not repeated(frame):
        return list(_identity(frame, None))
    hashable = [_hashable(field.dataType) for field in frame.schema.fields]
    if not any(hashable):
        raise UsageError("the stream has no column that can be hashed; name the identity")
    return [c for c, can_be in zip(columns_of(frame), hashable, strict=True) if can_be]


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
        if not _hashable(type_of(frame, name, name)):
            raise UsageError(f"identity column {name!r} holds a map or variant: not hashable")
    return list(identity)


def _hashable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_hashable(field.dataType) for field in kind.fields)
    inner = getattr(kind, "elementType", None)
    if isinstance(inner, DataType):
        return _hashable(inner)
    return not isinstance(kind, MapType | VariantType)
