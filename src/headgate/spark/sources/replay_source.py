"""`headgate_replay`: rows that arrive in real time at a rate of your choice.

    spark.readStream.format("headgate_replay").option("rate", 5000).load()
    ....option("pattern", "steps").option("rates", "1000,3000,1000").option("step", "10s")
    ....option("pattern", "flash crowd").option("rate", 1000).option("peak", 3000)
        .option("at", "20s").option("for", "30s")
    ....option("pattern", "trace").option("file", "rates.csv").option("step", "1s")

Columns: id (0, 1, 2, ...), key (0 to `keys` - 1), value (0 to 1), timestamp (when the row
arrived). Row n is the same in every run but for its timestamp, which is the time the
query was first started plus the n-th arrival of the pattern. Nothing is random.

The offset is the number of rows that have arrived, and the time of the first start; so a
query that starts again goes on where it was and finds what has arrived meanwhile.
Options: partitions (default: 2), keys (1000), maxRowsPerTrigger (no limit; several with
commas in between are taken in turn), rows (ends after so many).
A trace is a text file with one rate per line (the last field of a line of CSV counts).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from headgate.errors import UsageError
from headgate.names import nearest
from headgate.quantities import DURATION
from headgate.simulation.arrivals import Constant, FlashCrowd, Steps, Trace
from headgate.simulation.rate_profile import RateProfile

__all__ = [
    "ROWS_PER_CHUNK",
    "SCHEMA",
    "ReplayReader",
    "ReplaySource",
    "RowRange",
    "check_options",
    "profile_from",
]

ROWS_PER_CHUNK = 65_536
_MIX = np.uint64(0x9E3779B97F4A7C15)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.int64()),
        ("value", pa.float64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)


_OF_PATTERN = {
    "constant": ("rate",),
    "steps": ("rates", "step"),
    "flash crowd": ("rate", "peak", "at", "for"),
    "trace": ("file", "scale", "step"),
}
_OF_ALL = ("pattern", "partitions", "keys", "maxRowsPerTrigger", "rows", "epoch")


def profile_from(options: Mapping[str, str]) -> RateProfile:
    """The rate over time that the options describe; UsageError says what is wrong."""
    pattern = options.get("pattern", "constant").replace("_", " ")
    if pattern == "constant":
        return Constant(_float(options, "rate", 1000.0)).profile_until(0.0)
    if pattern == "steps":
        rates = tuple(float(text) for text in options.get("rates", "").split(",") if text.strip())
        return Steps(rates, _duration(options, "step", "10s")).profile_until(0.0)
    if pattern == "flash crowd":
        base = _float(options, "rate", 1000.0)
        crowd = FlashCrowd(
            base,
            _float(options, "peak", 3.0 * base),
            _duration(options, "at", "20s"),
            _duration(options, "for", "30s"),
        )
        return crowd.profile_until(0.0)
    if pattern == "trace":
        rates = _trace(Path(options.get("file", "")))
        scale = _float(options, "scale", 1.0)
        return Trace(rates, _duration(options, "step", "1s"), scale).profile_until(0.0)
    raise UsageError(
        f"headgate_replay has no pattern {pattern!r}; expected constant, steps, flash crowd, trace"
    )


def check_options(options: Mapping[str, str]) -> None:
    """UsageError for an option that the pattern does not have; Spark passes over case."""
    pattern = options.get("pattern", "constant").replace("_", " ")
    known = (*_OF_PATTERN.get(pattern, ()), *_OF_ALL)
    wrong = {name.lower(): name for name in options}
    for name in known:
        wrong.pop(name.lower(), None)
    for name in wrong.values():
        raise UsageError(
            f"the replay source has no option {name!r} with the pattern {pattern!r}"
            f"{nearest(name, known)}"
        )


class ReplaySource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return "headgate_replay"

    def schema(self) -> str:
        return "id bigint, key bigint, value double, timestamp timestamp"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        check_options(self.options)
        return ReplayReader(self.options)


@dataclass
class RowRange(InputPartition):
    """Rows from `start` to `end` (not included) of a stream that began at `epoch`."""

    start: int
    end: int
    epoch: float


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are {"row": rows arrived, "epoch": seconds since 1970}."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._profile = profile_from(options)
        self._partitions = max(1, int(options.get("partitions", "2")))
        self._keys = max(1, int(options.get("keys", "1000")))
        self._most_rows = int(options.get("rows", "0"))
        self._limits = _limits(options.get("maxRowsPerTrigger"))
        self._limit: ReadLimit = (
            ReadMaxRows(max(self._limits)) if self._limits else ReadAllAvailable()
        )
        self._epoch = float(options.get("epoch", "0")) or time.time()
        self._frozen_at: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"row": 0, "epoch": self._epoch}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._limit

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen_at = time.time()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        epoch = float(start["epoch"])
        now = time.time() if self._frozen_at is None else self._frozen_at
        arrived = int(np.floor(self._profile.expected_before(max(0.0, now - epoch)) + 0.5))
        if self._most_rows:
            arrived = min(arrived, self._most_rows)
        row = max(int(start["row"]), arrived)
        if isinstance(limit, ReadMaxRows):
            row = min(row, int(start["row"]) + limit.max_rows)
        if len(self._limits) > 1:
            row = min(row, _next_cut(int(start["row"]), self._limits))
        return {"row": row, "epoch": epoch}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        cuts = np.linspace(start["row"], end["row"], self._partitions + 1).astype(np.int64)
        pairs = zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
        return [RowRange(low, high, float(end["epoch"])) for low, high in pairs if high > low]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        for low in range(partition.start, partition.end, ROWS_PER_CHUNK):
            high = min(low + ROWS_PER_CHUNK, partition.end)
            yield self.rows(np.arange(low, high, dtype=np.int64), partition.epoch)

    def rows(self, ids: NDArray[np.int64], epoch: float) -> pa.RecordBatch:
        """The rows with these numbers."""
        mixed = (ids.astype(np.uint64) + np.uint64(1)) * _MIX
        mixed ^= mixed >> np.uint64(32)
        arrived = (self._profile.times_of(ids.astype(np.float64) + 0.5) + epoch) * 1e6
        columns = [
            pa.array(ids),
            pa.array((mixed % np.uint64(self._keys)).astype(np.int64)),
            pa.array((mixed >> np.uint64(11)).astype(np.float64) / 2.0**53),
            pa.array(arrived.astype(np.int64)).cast(pa.timestamp("us", tz="UTC")),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _limits(text: str | None) -> tuple[int, ...]:
    """One limit, or several that are taken in turn."""
    try:
        limits = tuple(int(part) for part in text.split(",")) if text is not None else ()
    except ValueError:
        limits = (0,)
    if any(limit < 1 for limit in limits):
        raise UsageError(
            "headgate_replay: maxRowsPerTrigger must be a number above 0, or some with commas in "
            f"between, which are taken in turn; got {text!r}"
        )
    return limits


def _next_cut(row: int, limits: Sequence[int]) -> int:
    """Where the batch that begins with `row` ends at the latest.

    >>> _next_cut(0, (10, 50)), _next_cut(10, (10, 50)), _next_cut(65, (10, 50))
    (10, 60, 70)
    """
    cuts = list(accumulate(limits))
    whole = row - row % cuts[-1]
    return whole + next(cut for cut in cuts if whole + cut > row)


def _float(options: Mapping[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"headgate_replay: {name} must be a number, got {text!r}") from None


def _duration(options: Mapping[str, str], name: str, default: str) -> float:
    try:
        return DURATION.parse(options.get(name, default))
    except ValueError as error:
        raise UsageError(f"headgate_replay: {name}: {error}") from None


def _trace(path: Path) -> tuple[float, ...]:
    if not path.is_file():
        raise UsageError(f"headgate_replay: no trace file {str(path)!r}; set the option file")
    rates = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.split(",")[-1].strip()
        if not text or text.startswith("#"):
            continue
        try:
            rates.append(float(text))
        except ValueError:
            if number > 1:  # the first line may name the columns
                raise UsageError(f"{path}:{number}: not a rate: {text!r}") from None
    return tuple(rates)
