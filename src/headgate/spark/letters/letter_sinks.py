"""Where dead letters go: Parquet files or a Kafka topic. Runs in Spark's tasks; no pyspark.

Files: one for each (query, gate, batch, partition), written under a hidden name and then
moved to its own, so a task that runs again or twice leaves the same file and never a
second one, and nobody reads half a file. Local paths were tried; other file systems go
through `pyarrow.fs`, and on those without an atomic move the file appears when it is whole.

Kafka: at least once. The key of a message is the hash of the tuple's identity and the
headers name query, gate and batch, so whoever reads can tell a repetition. A broker that
does not answer costs a task `timeout` at most, and is then left alone for `_PAUSE_SECONDS`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from headgate.spark.letters.letter_settings import (
    BATCH_COLUMN,
    GATE_COLUMN,
    LetterSettings,
    safe_name,
)

__all__ = [
    "IDENTITY_FIELD",
    "JSON_FIELD",
    "BatchFiles",
    "FileSink",
    "KafkaSink",
    "LetterSink",
    "Place",
    "directory_of",
    "open_files",
    "sink_of",
]

IDENTITY_FIELD, JSON_FIELD = "identity", "json"
_PAUSE_SECONDS = 30.0
_ASIDE = "_before-"
"""Readers of Parquet directories pass over names that begin with an underscore."""
_producers: dict[tuple[tuple[str, str], ...], Any] = {}
_quiet_until: dict[str, float] = {}


@dataclass(frozen=True, slots=True)
class Place:
    """Which task of which batch writes."""

    query_id: str
    gate: str
    batch: int
    partition: int


class LetterSink(Protocol):
    """`write` returns how many letters have arrived; it may raise anything."""

    def write(self, letters: pa.Table, place: Place) -> int: ...


def sink_of(settings: LetterSettings) -> LetterSink:
    return FileSink(settings.path) if settings.path else KafkaSink(settings)


# --- files ------------------------------------------------------------------------------------


def open_files(path: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a path or an address, and the path in it."""
    if "://" in path:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(path)
        return found
    return pafs.LocalFileSystem(), path


def directory_of(path: str, query_id: str, gate: str) -> str:
    return f"{path.rstrip('/')}/{query_id}/{safe_name(gate)}"


@dataclass(frozen=True, slots=True)
class FileSink:
    """One Parquet file for each task."""

    path: str

    def write(self, letters: pa.Table, place: Place) -> int:
        files, path = open_files(self.path)
        directory = directory_of(path, place.query_id, place.gate)
        name = f"{_prefix(place.batch)}{place.partition:05d}.parquet"
        hidden = f"{directory}/.{name}.{uuid.uuid4().hex}"
        rows = int(letters.num_rows)
        letters = letters.append_column(GATE_COLUMN, pa.array([place.gate] * rows, pa.string()))
        letters = letters.append_column(BATCH_COLUMN, pa.array([place.batch] * rows, pa.int64()))
        files.create_dir(directory, recursive=True)
        try:
            with files.open_output_stream(hidden) as stream:
                pq.write_table(letters, stream)
            files.move(hidden, f"{directory}/{name}")
        except BaseException:
            with suppress(OSError):
                files.delete_file(hidden)
            raise
        return rows


@dataclass(frozen=True, slots=True)
class BatchFiles:
    """The files of one batch, which may be run again after a restart.

    A replay may cut the batch into other partitions, so overwriting is not enough. Nor may the
    files be deleted before it: a sink that has the batch already passes over it, and then no
    task runs. So they are laid aside, under names that readers pass over, until the batch is over.
    """

    path: str
    query_id: str
    gate: str
    batch: int

    def lay_aside(self) -> None:
        """Before a replay. What an earlier replay left behind is settled first."""
        self.settle()
        files, directory = self._open()
        for name in self._named(files, directory, _prefix(self.batch)):
            files.move(f"{directory}/{name}", f"{directory}/{_ASIDE}{name}")

    def settle(self) -> None:
        """After it: what was laid aside goes if the replay wrote, and comes back if it did not."""
        files, directory = self._open()
        aside = self._named(files, directory, _ASIDE + _prefix(self.batch))
        written = bool(aside) and bool(self._named(files, directory, _prefix(self.batch)))
        for name in aside:
            if written:
                files.delete_file(f"{directory}/{name}")
            else:
                files.move(f"{directory}/{name}", f"{directory}/{name.removeprefix(_ASIDE)}")

    def remove_halves(self) -> None:
        """What tasks of an earlier run have left half written."""
        files, directory = self._open()
        for name in self._named(files, directory, "."):
            files.delete_file(f"{directory}/{name}")

    def _open(self) -> tuple[pafs.FileSystem, str]:
        files, inner = open_files(self.path)
        return files, directory_of(inner, self.query_id, self.gate)

    @staticmethod
    def _named(files: pafs.FileSystem, directory: str, prefix: str) -> list[str]:
        infos = files.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        return sorted(info.base_name for info in infos if info.base_name.startswith(prefix))


def _prefix(batch: int) -> str:
    return f"{batch:012d}-"


# --- Kafka ------------------------------------------------------------------------------------


class KafkaSink:
    """One message for each letter: JSON of its columns."""

    def __init__(
        self, settings: LetterSettings, producer_of: Callable[[LetterSettings], Any] | None = None
    ) -> None:
        self._settings = settings
        self._producer_of = producer_of or _producer

    def write(self, letters: pa.Table, place: Place) -> int:
        servers = str(self._settings.producer["bootstrap.servers"])
        if time.monotonic() < _quiet_until.get(servers, 0.0):
            raise TimeoutError(f"{servers} did not answer lately")
        producer = self._producer_of(self._settings)
        arrived = 0
        errors: list[str] = []

        def delivered(error: Any, message: Any) -> None:  # noqa: ARG001
            nonlocal arrived
            if error is None:
                arrived += 1
            elif len(errors) < 1:
                errors.append(str(error))

        headers = {
            "headgate_query": place.query_id,
            "headgate_gate": place.gate,
            "headgate_batch": str(place.batch),
        }
        deadline = time.monotonic() + self._settings.timeout_seconds
        identities = letters.column(IDENTITY_FIELD).to_pylist()
        for identity, text in zip(identities, letters.column(JSON_FIELD).to_pylist(), strict=True):
            message = {"key": str(identity), "value": text, "headers": headers}
            self._produce(producer, message, delivered, deadline)
        producer.flush(max(0.0, deadline - time.monotonic()))
        if arrived < letters.num_rows:
            with suppress(Exception):
                producer.purge()
                producer.poll(0)
            _quiet_until[servers] = time.monotonic() + _PAUSE_SECONDS
            why = errors[0] if errors else f"no answer within {self._settings.timeout_seconds:g} s"
            raise PartlyWrittenError(arrived, f"{servers}: {why}")
        return arrived

    def _produce(
        self, producer: Any, message: dict[str, Any], delivered: Any, deadline: float
    ) -> None:
        while True:
            try:
                producer.produce(self._settings.topic, on_delivery=delivered, **message)
                return
            except BufferError:  # the client's queue is full: let it work
                if time.monotonic() > deadline:
                    return
                producer.poll(0.05)


class PartlyWrittenError(Exception):
    """Some letters arrived, and then it failed."""

    def __init__(self, written: int, text: str) -> None:
        super().__init__(text)
        self.written = written


def _producer(settings: LetterSettings) -> Any:
    """One producer for each cluster and process: to connect takes longer than to write."""
    from confluent_kafka import Producer

    timeout_ms = max(1000, round(settings.timeout_seconds * 1000))
    wanted = {
        "client.id": "headgate-letters",
        "linger.ms": "20",
        "message.timeout.ms": str(timeout_ms),
        "log_level": "2",
        **settings.producer,
    }
    key = tuple(sorted(wanted.items()))
    if key not in _producers:
        if len(_producers) >= 4:
            _producers.pop(next(iter(_producers)))
        _producers[key] = Producer(wanted)
    return _producers[key]
