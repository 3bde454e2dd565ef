"""A stream for benchmarks whose rate can be changed while queries read it.

The rates stand in a file; both the driver side and the tasks read it again for every
batch, so that load can follow what was measured in the same run.
"""

from __future__ import annotations

import json
import time
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from headgate.simulation.rate_profile import RateProfile
from headgate.spark.replay_source import ReplayReader

__all__ = ["LiveRateSource", "LiveRates"]

_AHEAD_SECONDS = 0.3


class LiveRates:
    """The file with the rate of one stream over time. Begins at 0 rows a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch = time.time()
        self._pieces: list[tuple[float, float]] = [(0.0, 0.0)]
        self._write()

    def set(self, rate_per_second: float) -> None:
        """Change the rate a moment from now, so that every reader knows before it counts."""
        start = time.time() - self.epoch + _AHEAD_SECONDS
        self._pieces.append((max(start, self._pieces[-1][0] + 1e-3), rate_per_second))
        self._write()

    def _write(self) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps(self._pieces))
        new.replace(self.path)


class LiveRateSource(DataSource):
    """Options: file, epoch (seconds since 1970), partitions, keys."""

    @classmethod
    def name(cls) -> str:
        return "headgate_live_rate"

    def schema(self) -> str:
        return "id bigint, key bigint, value double, timestamp timestamp"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return LiveRateReader(self.options)


class LiveRateReader(ReplayReader):
    """The replay source with the profile read anew each time."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__({**options, "pattern": "constant", "rate": "1"})
        self._file = options["file"]

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._profile = self._read()
        return super().latestOffset(start, limit)

    def _rows(self, low: int, high: int, epoch: float) -> pa.RecordBatch:
        self._profile = self._read()
        return super()._rows(low, high, epoch)

    def _read(self) -> RateProfile:
        pieces = np.array(json.loads(Path(self._file).read_text()), dtype=np.float64)
        return RateProfile(pieces[:, 0], pieces[:, 1])
