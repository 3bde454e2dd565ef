"""The ledger on disk: lines of JSON beside the checkpoint, one for each gate and batch.

No pyspark. A row is handed to the system at once, so it survives the death of the driver,
and the file is synced to disk at most once a second and when it is closed: to sync every row
would hold up Spark's own logs. Files are started anew with every run of the query and at
`_LARGEST_FILE` bytes; none is ever rewritten.

Guarantees: a row stands once for each (query_id, batch, gate), also across restarts, as long as
one driver at a time runs the query; the rows of a query and gate stand in the order of their
batches, also after a disk that refused for a while. A line that was cut off or damaged is passed
over. A batch that Spark committed and whose numbers were lost (the driver died between the commit
and the row, or the machine before the row was on disk) gets a row with the status "uncounted" when
the query starts again.
"""

from __future__ import annotations

import errno
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Protocol, cast

from headgate.spark.ledger.temporary import make_directory

__all__ = ["COUNTED", "UNCOUNTED", "LedgerFile", "LedgerLine", "Line"]

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
    """Appends the rows of one run of one query. The clock is monotonic, in seconds.

    last:    the newest batch that has a row, by query id and gate; kept up to date.
    written: told of each row with the name of its file, and where it begins and ends there.
    """

    def __init__(
        self,
        directory: Path,
        run: str,
        last: Mapping[tuple[str, str], int] | None = None,
        written: Callable[[str, int, int, dict[str, Any]], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.directory = directory
        self._clock, self._written = clock, written
        self._synced_at = -math.inf
        self._run = run
        self._part = 0
        self._file: FileIO | None = None
        self._torn = False
        self._last = dict(last or {})

    def last_batch(self, query_id: str) -> int:
        """The newest batch that has a row; -1 without any."""
        batches = (batch for (query, _), batch in self._last.items() if query == query_id)
        return max(batches, default=-1)

    @property
    def name(self) -> str:
        """Of the file that grows."""
        return f"{self._run}-{self._part:05d}.jsonl"

    def append(self, lines: Iterable[Line]) -> bool:
        """Write rows that are not there yet; True when that filled a file. OSError when the disk
        refuses; rows that were written before it did are not written again.
        """
        fresh = [line for line in lines if self._is_new(line)]
        if not fresh:
            return False
        file = self._open()
        for line in fresh:
            if self._is_new(line):
                self._append(file, line)
        if self._clock() - self._synced_at >= _SYNC_EVERY_SECONDS:
            self._sync(file)
        if file.tell() <= _LARGEST_FILE:
            return False
        self.roll()
        return True

    def roll(self) -> None:
        """The next row begins a new file. OSError."""
        self._part += 1
        self._torn = False
        self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with file:
                self._sync(file)

    def _append(self, file: FileIO, line: Line) -> None:
        row = asdict(cast(Any, line))
        text = (json.dumps(row, separators=(",", ":")) + "\n").encode()
        if self._torn:  # ends the half of a line
            text = b"\n" + text
        begin = file.tell()
        self._torn = True
        if file.write(text) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = False
        self._last[line.query_id, line.gate] = line.batch
        if self._written is not None:
            self._written(self.name, begin, begin + len(text), row)

    def _sync(self, file: FileIO) -> None:
        os.fsync(file.fileno())
        self._synced_at = self._clock()

    def _is_new(self, line: Line) -> bool:
        return line.batch > self._last.get((line.query_id, line.gate), -1)

    def _open(self) -> FileIO:
        if self._file is None:
            make_directory(self.directory)
            file = FileIO(self.directory / self.name, "a")
            file.seek(0, os.SEEK_END)
            self._file = file
        return self._file
