"""`hg.read("kafka", name, options={...})`: Kafka with a gate in the source.

Columns as of Spark's own connector: key, value, topic, partition, offset, timestamp,
timestampType, and headers if asked for. The identity of a tuple is (topic, partition,
offset). A task reads one partition; messages come as bytes and are never decoded here.

A position is {topic: {partition: offset}}. A partition that was not there before, and one
that has begun anew (its end stays below where we were), is entered at its present begin, in
a batch of its own without rows; then it is read like the others.
Failure: no broker, or no topic: the query waits and an alarm says so, as long as it takes;
a new query ends with an error if it finds neither within three times `requestTimeout`.
In the middle of a batch a task waits `readTimeout`; then it fails, as with Spark's connector.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from headgate.spark.sources.kafka_client import (
    SHORT_SECONDS,
    ClusterAwayError,
    KafkaShare,
    Offsets,
    Partitions,
    read_range,
)
from headgate.spark.sources.kafka_options import KafkaOptions
from headgate.spark.sources.source_gate import MARKER_DDL, Chunk, Input, InputAwayError, SourceGate
from headgate.spark.sources.source_offset import Position, identity_seed

__all__ = ["FORMAT", "KafkaInput", "KafkaSource"]

FORMAT = "headgate_kafka"
_START_TRIES = 3
_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"
_FIELDS: list[tuple[str, Any]] = [
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", pa.timestamp("us", tz="UTC")),
    ("timestampType", pa.int32()),
]
_HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class KafkaSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        options = KafkaOptions.read(self.options)
        columns = f"{_COLUMNS}, {_HEADERS}" if options.headers else _COLUMNS
        return f"{columns}, {MARKER_DDL}"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        options = KafkaOptions.read(self.options)
        source = KafkaInput(options)
        return SourceGate(source, self.options, source.schema, options.most_rows)


class KafkaInput(Input):
    """The topics of one query."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        fields = [*_FIELDS, ("headers", _HEADERS_TYPE)] if options.headers else _FIELDS
        self.schema = pa.schema(fields)
        self._offsets: Offsets | None = None
        self._short_since: dict[tuple[str, int], float] = {}

    def first(self) -> Position:
        deadline = time.monotonic() + _START_TRIES * self._options.request_timeout_seconds
        while True:
            try:
                return _position(self._first())
            except ClusterAwayError as error:
                if time.monotonic() > deadline:
                    raise InputAwayError(str(error)) from None
                time.sleep(0.2)

    def _first(self) -> Partitions:
        starting = self._options.starting
        latest = self._ask().latest()
        if isinstance(starting, int):
            return self._ask().at(dict.fromkeys(latest, starting))
        given = {(topic, p): offset for topic, ps in starting.items() for p, offset in ps.items()}
        if given.keys() != latest.keys():
            names = ", ".join(f"{topic}[{p}]" for topic, p in sorted(given.keys() ^ latest.keys()))
            raise ValueError(
                f"startingOffsets must name exactly the partitions that there are; see {names}"
            )
        return self._ask().at(given)

    def is_position(self, data: Mapping[str, Any]) -> bool:
        """Spark's own Kafka connector writes the same."""
        return bool(data) and all(
            isinstance(offsets, dict)
            and all(p.isdigit() and isinstance(offset, int) for p, offset in offsets.items())
            for offsets in data.values()
        )

    def latest(self, start: Position) -> tuple[Position, list[str]]:
        try:
            return self._latest(_partitions(start))
        except ClusterAwayError as error:
            raise InputAwayError(str(error)) from None

    def _latest(self, start: Mapping[tuple[str, int], int]) -> tuple[Position, list[str]]:
        latest = self._ask().latest()
        news = []
        begun_anew = self._begun_anew(start, latest)
        if begun_anew and self._options.fail_on_data_loss:
            topic, partition = begun_anew[0]
            raise ValueError(
                f"{topic}[{partition}] ends below where the query was: it was made anew or cut "
                "off. Set failOnDataLoss to false to go on from its begin"
            )
        for key in begun_anew:
            topic, partition = key
            news.append(
                f"{topic}[{partition}] ends at {latest[key]}, below {start[key]} where the query "
                "was: it was made anew or cut off; the query goes on from its begin"
            )
        new = [key for key in latest if key not in start]
        news += [
            f"{topic}[{partition}] is new; it is read from its begin" for topic, partition in new
        ]
        entered = [*begun_anew, *new]
        if entered:
            latest |= self._ask().earliest(entered)
        # A topic that is no longer subscribed stays in the position, should it come back.
        return _position({**start, **latest}), news

    def _begun_anew(self, start: Mapping[tuple[str, int], int], latest: Partitions) -> list[Any]:
        """Partitions that end below where we were, and stay so.

        A broker that crashed, or a new leader, may not know for a moment how far it had come;
        until then such a partition has nothing new.
        """
        now = time.monotonic()
        short = [key for key, end in latest.items() if start.get(key, end) > end]
        self._short_since = {key: self._short_since.get(key, now) for key in short}
        lasting = [key for key in short if now - self._short_since[key] >= SHORT_SECONDS]
        latest.update({key: start[key] for key in short if key not in lasting})
        return lasting

    def count(self, start: Position, end: Position) -> int:
        return sum(share[3] - share[2] for share in _ranges(start, end))

    def part(self, start: Position, end: Position, most: int) -> Position:
        """Each partition gives the same share of what waits in it, at least one tuple."""
        total = self.count(start, end)
        cut = _partitions(end)
        for topic, partition, low, high in _ranges(start, end):
            cut[topic, partition] = min(high, low + max(1, (high - low) * most // total))
        return _position(cut)

    def shares(self, start: Position, end: Position) -> Sequence[Any]:
        return [KafkaShare(*one) for one in _ranges(start, end)]

    def chunks(self, share: Any) -> Iterator[Chunk]:
        seed = identity_seed(share.topic, share.partition)
        for part in read_range(self._options, share):
            messages = part.messages
            offsets = np.fromiter((m.offset() for m in messages), np.uint64, len(messages))
            yield Chunk(
                offsets + seed,
                lambda kept, messages=messages: self._rows(share, messages, kept),  # type: ignore[misc]
                part.lost,
            )

    def close(self) -> None:
        if self._offsets is not None:
            self._offsets.close()

    def _ask(self) -> Offsets:
        if self._offsets is None:
            self._offsets = Offsets(self._options)
        return self._offsets

    def _rows(self, share: Any, messages: Sequence[Any], kept: NDArray[np.bool_]) -> pa.RecordBatch:
        rows = [messages[index] for index in np.flatnonzero(kept).tolist()]
        # (kind, milliseconds); kind 0 is "none", 1 when it was made, 2 when the log took it
        times = [message.timestamp() for message in rows]
        micros = [ms * 1000 if kind > 0 else None for kind, ms in times]
        columns = [
            pa.array([message.key() for message in rows], pa.binary()),
            pa.array([message.value() for message in rows], pa.binary()),
            pa.array([share.topic] * len(rows), pa.string()),
            pa.array(np.full(len(rows), share.partition, np.int32)),
            pa.array([message.offset() for message in rows], pa.int64()),
            pa.array(micros, pa.timestamp("us", tz="UTC")),
            pa.array([kind - 1 for kind, _ in times], pa.int32()),
        ]
        if self._options.headers:
            columns.append(pa.array([_headers(m) for m in rows], _HEADERS_TYPE))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _headers(message: Any) -> list[dict[str, Any]] | None:
    headers = message.headers()
    return None if headers is None else [{"key": k, "value": v} for k, v in headers]


def _position(offsets: Mapping[tuple[str, int], int]) -> Position:
    position: Position = {}
    for topic, partition in sorted(offsets):
        position.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return position


def _partitions(position: Position) -> Partitions:
    return {(t, int(p)): int(offset) for t, ps in position.items() for p, offset in ps.items()}


def _ranges(start: Position, end: Position) -> list[tuple[str, int, int, int]]:
    """(topic, partition, from, to) of all partitions that have something between."""
    low, high = _partitions(start), _partitions(end)
    return [(*key, low[key], high[key]) for key in high if low.get(key, high[key]) < high[key]]
