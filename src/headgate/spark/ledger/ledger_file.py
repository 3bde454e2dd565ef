"""The ledger on disk: lines of JSON beside the checkpoint, one for each gate and batch.

No pyspark. A row is handed to the system at once, so it survives the death of the driver,
and the file is synced to disk at most once a second and when it is closed: to sync every row
would hold up Spark's own logs. Files are started anew with every run of the query and at
`_LARGEST_FILE` bytes; none is ever rewritten.

Guarantees: a row stands once for each (query_id, batch, gate), also across restarts; a
line that was cut off by a crash is passed over. A batch that Spark committed and whose
numbers were lost (the driver died between the commit and the row, or the machine before
the row was on disk) gets a row with the status "uncounted" when the query starts again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO, cast

__all__ = ["COUNTED", "UNCOUNTED", "LedgerFile", "LedgerLine", "Line", "read_lines"]

COUNTED, UNCOUNTED = "counted", "uncounted"
_LARGEST_FILE = 16 * 1024 * 1024
_SYNC_EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One gate in one batch; times in seconds (since 1970 where they are points in time).

    keep_fraction is the share that goes by hash; with a policy, of what its level leaves.
    level, dropped_by_level (of level 1, 2 ...), odd (how often a filter could not judge)
    and digest (JSON, by group) are there for gates with a policy; letters (dead letters
    written) and letters_left (that were to be written and are not) for gates with letters.
    result_* are of the whole query and there where its results are measured.
    would_keep is there while shedding is off: the share that would be kept if it were on.
    """

    time_seconds: float
    query: str
    query_id: str
    run_id: str
    batch: int
    gate: str
    status: str
    offered: int | None
    kept: int | None
    dropped: int | None
    keep_fraction: float | None
    version: int | None
    salt: int | None
    why: str
    latency_mean_seconds: float | None = None
    latency_p95_seconds: float | None = None
    duration_seconds: float | None = None
    arrival_rate_per_second: float | None = None
    query_class: str | None = None
    held_seconds: float | None = None
    lost: int | None = None
    event_time_max_micros: int | None = None
    level: int | None = None
    dropped_by_level: list[int] | None = None
    odd: int | None = None
    digest: str | None = None
    result_rows: int | None = None
    result_latency_mean_seconds: float | None = None
    result_latency_p95_seconds: float | None = None
    letters: int | None = None
    letters_left: int | None = None
    would_keep: float | None = None


class Line(Protocol):
    """What a file needs of a row, which is a dataclass."""

    @property
    def query_id(self) -> str: ...

    @property
    def batch(self) -> int: ...

    @property
    def gate(self) -> str: ...


class LedgerFile:
    """Appends the rows of one run of one query. The clock is monotonic, in seconds."""

    def __init__(
        self, directory: Path, run: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.directory = directory
        self._clock = clock
        self._synced_at = -math.inf
        self._run = run
        self._part = 0
        self._file: TextIO | None = None
        self._last: dict[tuple[str, str], int] = {}
        for row in read_lines([directory]):
            self._remember(row["query_id"], row["gate"], row["batch"])

    def last_batch(self, query_id: str) -> int:
        """The newest batch that has a row; -1 without any."""
        batches = (batch for (query, _), batch in self._last.items() if query == query_id)
        return max(batches, default=-1)

    def append(self, lines: Iterable[Line]) -> None:
        """Write rows that are not there yet. OSError when the disk refuses."""
        fresh = {(x.query_id, x.gate, x.batch): x for x in lines if self._is_new(x)}
        if not fresh:
            return
        file = self._open()
        for line in fresh.values():
            file.write(json.dumps(asdict(cast(Any, line)), separators=(",", ":")) + "\n")
        file.flush()
        if self._clock() - self._synced_at >= _SYNC_EVERY_SECONDS:
            self._sync(file)
        for query_id, gate, batch in fresh:
            self._remember(query_id, gate, batch)
        if file.tell() > _LARGEST_FILE:
            self.close()
            self._part += 1

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with file:
                self._sync(file)

    def _sync(self, file: TextIO) -> None:
        file.flush()
        os.fsync(file.fileno())
        self._synced_at = self._clock()

    def _is_new(self, line: Line) -> bool:
        return line.batch > self._last.get((line.query_id, line.gate), -1)

    def _remember(self, query_id: str, gate: str, batch: int) -> None:
        key = (query_id, gate)
        self._last[key] = max(batch, self._last.get(key, -1))

    def _open(self) -> TextIO:
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"{self._run}-{self._part:05d}.jsonl"
            self._file = path.open("a", encoding="utf-8")
        return self._file


def read_lines(directories: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """All whole rows of ledger directories, oldest file first."""
    for directory in directories:
        files = directory.glob("*.jsonl") if directory.is_dir() else ()
        for path in sorted(files, key=lambda file: (file.stat().st_mtime, file.name)):
            for text in path.read_text(encoding="utf-8").splitlines():
                try:
                    row = json.loads(text)
                except ValueError:
                    continue
                if isinstance(row, dict) and {"query_id", "batch", "gate"} <= row.keys():
                    yield row
