"""How old results are: the oldest arrival behind each result row, carried to the sink.

A gate measures the way of a tuple to the end of its batch. What comes out of an aggregate
can be older: a window waits for its watermark, a join for its other side. `oldest` carries
the first arrival of a group through an aggregate, and `measure_results` looks at it in the
rows that leave the query, in the same pass (`DataFrame.observe`).

Guarantees: every row that passes is counted; the mean is over all of them. Percentiles come
from at most all rows with an error of half a percent in rank. Not guaranteed: that dropping
can shorten this latency (waiting for a watermark is not work), so no target is held on it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType, TimestampNTZType, TimestampType

from headgate.errors import UsageError
from headgate.spark.gates.gate import time_of
from headgate.spark.gates.gate_metrics import RESULT_PREFIX, RESULT_QUANTILES
from headgate.spark.gates.row_columns import quoted, type_of

__all__ = ["OLDEST", "measure_results", "oldest"]

OLDEST = "oldest_arrival"
_QUANTILE_ACCURACY = 200


def oldest(arrival: str) -> Column:
    """An aggregate: the first arrival of a group, as the column `oldest_arrival`."""
    return F.min(quoted(arrival)).alias(OLDEST)


def measure_results(frame: DataFrame, name: str, arrival: str = OLDEST) -> DataFrame:
    """`frame`, whose rows are counted and whose arrivals are looked at on the way."""
    if not frame.isStreaming:
        raise UsageError(f"results {name!r}: the DataFrame is not a stream")
    if not name or len(name) > 200:
        raise UsageError(f"results need a name of 1 to 200 characters, got {name!r}")
    kind = type_of(frame, name, arrival)
    if not isinstance(kind, TimestampType | TimestampNTZType | NumericType):
        raise UsageError(
            f"results {name!r}: column {arrival!r} is {kind.simpleString()}; expected a "
            "timestamp, or seconds since 1970 as a number"
        )
    time = time_of(frame, name, arrival)
    assert time is not None
    seconds = time.cast("double")
    return frame.observe(
        RESULT_PREFIX + name,
        F.count(seconds).alias("rows"),
        F.avg(seconds).alias("arrival_mean"),
        F.percentile_approx(seconds, list(RESULT_QUANTILES), _QUANTILE_ACCURACY).alias(
            "arrival_quantiles"
        ),
    )
