"""The replay source with a gate in it: `hg.read("replay", name, options={...})`.

Options and rows are those of `headgate_replay`; see `replay_source`. The identity of a
tuple is its row number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from headgate.spark.sources.replay_source import ROWS_PER_CHUNK, SCHEMA, ReplayReader, RowRange
from headgate.spark.sources.source_gate import MARKER_DDL, Chunk, Input, SourceGate, most_rows
from headgate.spark.sources.source_offset import Position

__all__ = ["FORMAT", "GatedReplaySource", "ReplayInput"]

FORMAT = "headgate_replay_gate"


class GatedReplaySource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return f"id bigint, key bigint, value double, timestamp timestamp, {MARKER_DDL}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        limit = most_rows(self.options, "maxRowsPerTrigger")
        return SourceGate(ReplayInput(self.options), self.options, SCHEMA, limit)


class ReplayInput(Input):
    """Positions are {"row": rows arrived, "epoch": time of the first start}."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._reader = ReplayReader(options)

    def first(self) -> Position:
        return self._reader.initialOffset()

    def is_position(self, data: Mapping[str, Any]) -> bool:
        return data.keys() == {"row", "epoch"}

    def latest(self, start: Position) -> tuple[Position, list[str]]:
        return self._reader.latestOffset(start, ReadAllAvailable()), []

    def count(self, start: Position, end: Position) -> int:
        return int(end["row"]) - int(start["row"])

    def part(self, start: Position, end: Position, most: int) -> Position:
        return {**end, "row": min(int(end["row"]), int(start["row"]) + max(1, most))}

    def shares(self, start: Position, end: Position) -> Sequence[Any]:
        return self._reader.partitions(start, end)

    def chunks(self, share: Any) -> Iterator[Chunk]:
        assert isinstance(share, RowRange)
        for low in range(share.start, share.end, ROWS_PER_CHUNK):
            ids = np.arange(low, min(low + ROWS_PER_CHUNK, share.end), dtype=np.int64)
            yield Chunk(
                ids.view(np.uint64),
                lambda kept, ids=ids: self._reader.rows(ids[kept], share.epoch),  # type: ignore[misc]
            )

    def close(self) -> None:
        """Nothing was opened."""
