"""Windows of an aggregate as its network describes them, in the words of Spark.

An aggregate over sliding windows may group by a column `window` that it does not make. Then its
rows come once for each of their windows, with that window in the column: from the gate, if whole
windows fall there, else from here.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from headgate.errors import UsageError
from headgate.network import Operator
from headgate.spark.gates.row_columns import WINDOW_COLUMN, quoted

__all__ = ["windows_of", "with_windows"]


class _Windowed(Protocol):
    @property
    def window_seconds(self) -> float | None: ...
    @property
    def slide_seconds(self) -> float | None: ...


def windows_of(frame: DataFrame, windowed: _Windowed) -> tuple[str, ...]:
    """Event time column, size and, for sliding windows, slide; UsageError without event time."""
    times = [f.name for f in frame.schema.fields if "spark.watermarkDelayMs" in f.metadata]
    if len(times) != 1:
        raise UsageError(
            "the stream has no event time here; give its source event_time and watermark"
        )
    size = _text(windowed.window_seconds or 0.0)
    slide = windowed.slide_seconds
    if slide is None or slide == windowed.window_seconds:
        return times[0], size
    return times[0], size, _text(slide)


def with_windows(frame: DataFrame, operator: Operator) -> DataFrame:
    """The rows, each once for each of its windows; themselves if the gate has done that."""
    if WINDOW_COLUMN in frame.columns:
        return frame
    try:
        time, *texts = windows_of(frame, operator)
    except UsageError as error:
        raise UsageError(
            f"operator {operator.name!r} groups by the column {WINDOW_COLUMN!r}: {error}"
        ) from None
    return frame.withColumn(WINDOW_COLUMN, F.window(F.col(quoted(time)), *texts))


def _text(seconds: float) -> str:
    return f"{round(1e6 * seconds)} microseconds"
