"""The choice of rows as columns of Spark: what a gate computes for every tuple.

Each kind gives the column that says whether a tuple is kept, further columns and metrics if it
needs any, and what has to be done above the gate. All numbers of a decision come from the gate's
live array; nothing here changes from batch to batch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from headgate.errors import UsageError
from headgate.spark.gates.row_choice import AT_RANDOM, RowChoice
from headgate.spark.gates.threshold import EVERYTHING
from headgate.spark.gates.window_drop import CELLS, CELLS_FROM, WindowShape

__all__ = [
    "COLUMN_PREFIX",
    "KEPT_COLUMN",
    "ByKey",
    "ByWindow",
    "Live",
    "RandomRows",
    "Rows",
    "passes_hash",
    "quoted",
    "type_of",
]

COLUMN_PREFIX = "__headgate_"
KEPT_COLUMN = COLUMN_PREFIX + "kept"
WINDOW_COLUMN = "window"
_OLDER, _NEWER = COLUMN_PREFIX + "older", COLUMN_PREFIX + "newer"
_EVENT_TIME = COLUMN_PREFIX + "event_time"
_FIXED_SALT = 0
_MOST_WINDOWS = 1000
_SECONDS = {"microsecond": 1e-6, "millisecond": 1e-3, "second": 1, "minute": 60, "hour": 3600}
_SECONDS |= {"day": 86_400, "week": 604_800}

Live = Callable[[Column | int], Column]
"""The number at an index of the gate's live array."""


class Rows(Protocol):
    """One way to choose rows. `seed` is a column that tells tuples apart cheaply."""

    @property
    def choice(self) -> RowChoice: ...
    @property
    def seed(self) -> Column: ...
    def columns(self, live: Live) -> Mapping[str, Column]: ...
    def metrics(self) -> Sequence[Column]: ...
    def above(self, frame: DataFrame) -> DataFrame: ...


def passes_hash(hashed: Column, salt: Column, threshold: Column) -> Column:
    """The rule of every gate. An int would hash differently, hence the cast.

    An open gate is asked for first: then the generated code computes no hash.
    """
    mixed = F.xxhash64(hashed, salt.cast("bigint"))
    return (threshold >= F.lit(EVERYTHING)) | (F.pmod(mixed, F.lit(EVERYTHING)) < threshold)


class RandomRows:
    """Tuples fall by a hash of their identity, anew with every decision."""

    choice = AT_RANDOM

    def __init__(self, identity: Sequence[str | Column]) -> None:
        self.seed = F.xxhash64(*(F.col(quoted(c)) if isinstance(c, str) else c for c in identity))

    def columns(self, live: Live) -> Mapping[str, Column]:
        return {KEPT_COLUMN: passes_hash(self.seed, live(0), live(1))}

    def metrics(self) -> Sequence[Column]:
        return ()

    def above(self, frame: DataFrame) -> DataFrame:
        return frame


class ByKey(RandomRows):
    """Keys fall: the same ones at every gate, in every batch, as long as the share stays.

    Whole numbers are hashed as bigint and floats as double, as a join compares them.
    """

    def __init__(
        self, frame: DataFrame, gate: str, key: Sequence[str] | Mapping[str, str] | str
    ) -> None:
        named = _named_key(gate, key)
        types = [_key_type(gate, name, type_of(frame, gate, name)) for name in named.values()]
        self.choice = RowChoice(tuple(named), tuple(types))
        columns = zip(named.values(), types, strict=True)
        self.seed = F.xxhash64(*(F.col(quoted(name)).cast(kind) for name, kind in columns))


class ByWindow:
    """Blocks of whole windows fall; see `window_drop` for the rule.

    Above a gate on sliding windows every tuple stands once for each of its windows that
    stays, with that window in the column `window`.
    """

    def __init__(self, frame: DataFrame, gate: str, window: Sequence[str]) -> None:
        if isinstance(window, str) or len(window) not in (2, 3):
            raise UsageError(
                f'gate {gate!r}: by_window wants ("event time column", "10 seconds") and, for '
                f'sliding windows, a third text such as "5 seconds"; got {window!r}'
            )
        self._time_name = window[0]
        self._texts = tuple(window[1:])
        size, slide = _micros(gate, window[1]), _micros(gate, window[-1])
        if slide > size:
            raise UsageError(f"gate {gate!r}: the slide {window[-1]!r} is longer than the window")
        if size > _MOST_WINDOWS * slide:
            raise UsageError(f"gate {gate!r}: a tuple is in more than {_MOST_WINDOWS} windows")
        delay = _watermark_delay(frame, gate, self._time_name)
        self._shape = WindowShape.of(size, slide, delay)
        self.sliding = slide < size
        if self.sliding and WINDOW_COLUMN in frame.columns:
            raise UsageError(
                f"gate {gate!r} on sliding windows adds a column {WINDOW_COLUMN!r}; "
                "rename the one that is there"
            )
        self.choice = RowChoice(window=self._shape)
        self._time = F.unix_micros(F.col(quoted(self._time_name)))
        self.seed = self._time

    def columns(self, live: Live) -> Mapping[str, Column]:
        newest = self._time - F.pmod(self._time, F.lit(self._shape.slide))
        newer = self._stays(self._block(newest), live)
        event_time = {_EVENT_TIME: self._time.cast("double")}  # microseconds: exact until 2255
        if not self.sliding:
            return {KEPT_COLUMN: newer, **event_time}
        before = F.lit((self._shape.windows_of_a_tuple - 1) * self._shape.slide)
        older = self._stays(self._block(newest - before), live)
        return {_OLDER: older, _NEWER: newer, KEPT_COLUMN: older | newer, **event_time}

    def metrics(self) -> Sequence[Column]:
        return (F.max(_EVENT_TIME).alias("event_time_max"),)

    def above(self, frame: DataFrame) -> DataFrame:
        frame = frame.drop(_EVENT_TIME)
        if not self.sliding:
            return frame
        windows = F.window(F.col(quoted(self._time_name)), *self._texts)
        expanded = frame.withColumn(WINDOW_COLUMN, windows)
        newest = self._time - F.pmod(self._time, F.lit(self._shape.slide))
        mine = self._block(F.unix_micros(F.col(WINDOW_COLUMN)["start"]))
        stays = F.when(mine == self._block(newest), F.col(_NEWER)).otherwise(F.col(_OLDER))
        return expanded.where(stays).drop(_OLDER, _NEWER)

    def _block(self, start: Column) -> Column:
        return start - F.pmod(start, F.lit(self._shape.width))

    def _stays(self, block: Column, live: Live) -> Column:
        cell = F.pmod((block / F.lit(self._shape.width)).cast("bigint"), F.lit(CELLS))
        threshold = (
            F.when(block < live(1), F.lit(0).cast("bigint"))
            .when(block >= live(3), live(5))
            .when(block < live(2), live(4))
            .otherwise(live(cell.cast("int") + F.lit(CELLS_FROM)))
        )
        # A tuple without event time is in no window: it harms none.
        fate = passes_hash(block, F.lit(_FIXED_SALT), threshold)
        return F.coalesce(fate, F.lit(True))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def type_of(frame: DataFrame, gate: str, name: str) -> DataType:
    for field in frame.schema.fields:
        if field.name == name:
            return field.dataType
    known = ", ".join(frame.columns[:20])
    raise UsageError(f"gate {gate!r}: no column {name!r}; the columns are {known}")


def _named_key(gate: str, key: Sequence[str] | Mapping[str, str] | str) -> dict[str, str]:
    """The columns by the name that the key has at all gates."""
    if isinstance(key, str):
        key = [key]
    named = dict(key) if isinstance(key, Mapping) else {name: name for name in key}
    if not named:
        raise UsageError(f"gate {gate!r}: by_key must name at least one column")
    return named


def _key_type(gate: str, name: str, kind: DataType) -> str:
    """What a key column is hashed as, so that keys that a join takes for equal hash alike."""
    if isinstance(kind, ByteType | ShortType | IntegerType | LongType):
        return "bigint"
    if isinstance(kind, FloatType | DoubleType):
        return "double"
    if isinstance(kind, StringType) and kind.collation == "UTF8_BINARY":
        return "string"
    plain = BooleanType | BinaryType | DateType | TimestampType | TimestampNTZType
    if isinstance(kind, plain):
        return kind.simpleString()
    raise UsageError(
        f"gate {gate!r}: key column {name!r} is {kind.simpleString()}; equal keys of that type can "
        "hash differently. Cast it to bigint or string (of the default collation) before the gate"
    )


def _micros(gate: str, text: str) -> int:
    """A duration as `pyspark.sql.functions.window` takes it, without months."""
    match = re.fullmatch(r"\s*(?:interval\s+)?(\d+)\s+([a-z]+?)s?\s*", str(text).lower())
    if match is None or match[2] not in _SECONDS or int(match[1]) == 0:
        raise UsageError(
            f"gate {gate!r}: {text!r} is no length of a window; write a number and one of "
            f"{', '.join(_SECONDS)}, for example '10 seconds'"
        )
    return math.floor(int(match[1]) * _SECONDS[match[2]] * 1e6 + 0.5)


def _watermark_delay(frame: DataFrame, gate: str, name: str) -> int:
    """Microseconds; UsageError without a watermark on the column."""
    kind = type_of(frame, gate, name)
    if not isinstance(kind, TimestampType):
        raise UsageError(
            f"gate {gate!r}: event time {name!r} is {kind.simpleString()}; expected a timestamp"
        )
    delay = frame.schema[name].metadata.get("spark.watermarkDelayMs")
    if delay is None:
        raise UsageError(
            f"gate {gate!r} drops whole windows and has to know when they are over: put "
            f".withWatermark({name!r}, ...) before the gate"
        )
    return int(delay) * 1000
