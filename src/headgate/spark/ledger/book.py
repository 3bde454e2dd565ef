"""Files with one line for each gate and batch, of all queries of one driver.

Called on the event thread. A disk that refuses raises an alarm; lines are held in memory, a
bounded number for each query (oldest out), and written when it works again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.ledger_file import LedgerFile, Line
from headgate.spark.ledger.ledger_sums import DirectorySums

__all__ = ["Book"]

AtOpen = Callable[[LedgerFile], Iterable[Line]]


@dataclass(slots=True)
class _Place:
    """Where the lines of one run go. at_open: what is written first; file: once it could be
    opened; held: lines that wait for that.
    """

    directory: Path
    run_id: str
    at_open: AtOpen
    held: deque[Line]
    file: LedgerFile | None = field(default=None)


class Book:
    """Opened files by the key of their run. `kind` names the book in alarms.

    directories: of all runs so far, also those that have ended.
    """

    def __init__(self, alarms: Alarms, kind: str, most_held: int) -> None:
        self.directories: list[Path] = []
        self._alarms, self._kind, self._most_held = alarms, kind, most_held
        self._places: dict[str, _Place] = {}
        self._sums: dict[Path, DirectorySums] = {}
        self._lock = threading.RLock()

    def prepare(self, directory: Path) -> None:
        """Read what stands in a directory, so that it can be opened quickly. OSError."""
        with self._lock:
            sums = self._sums_of(directory)
            sums.catch_up()
            with suppress(OSError):  # then the next start reads it again
                sums.save()

    def close(self, run: QueryRun) -> None:
        with self._lock:
            place = self._places.get(run.key)
            if place is not None:
                if place.held:  # a last try
                    self._write(run, ())
                del self._places[run.key]
                self._shut(place)

    def close_all(self) -> None:
        with self._lock:
            for place in self._places.values():
                self._shut(place)
            self._places.clear()

    def _shut(self, place: _Place) -> None:
        if place.file is not None:
            with suppress(OSError):
                place.file.close()
            with suppress(OSError):
                self._sums_of(place.directory).save()

    def _begin(self, run: QueryRun, directory: Path, run_id: str, at_open: AtOpen) -> None:
        """Begin or continue the file of a query; later, if the disk refuses now."""
        if directory not in self.directories:
            self.directories.append(directory)
        held: deque[Line] = deque(maxlen=self._most_held)
        self._places[run.key] = _Place(directory, run_id, at_open, held)
        self._write(run, ())

    def _write(self, run: QueryRun, lines: Iterable[Line]) -> None:
        """Write the lines and those that wait; nothing for a query without a file."""
        place = self._places.get(run.key)
        if place is None:
            return
        held = place.held
        doing = "read"
        try:
            held.extend(lines)
            file = self._opened(place)
            doing = "write"
            filled = file.append(held)
            held.clear()
            if filled:
                self._sums_of(place.directory).save()
        except (OSError, ValueError) as error:
            if place.file is not None:
                with suppress(OSError):
                    place.file.close()
            text = f"cannot {doing} {place.directory}: {error}; {len(held)} rows wait in memory"
            self._alarms.raise_alarm(self._kind, run.name, text)

    def _opened(self, place: _Place) -> LedgerFile:
        if place.file is None:
            sums = self._sums_of(place.directory)
            sums.catch_up()
            last = sums.last_batches()
            place.file = LedgerFile(place.directory, place.run_id, last, sums.written)
            waiting = list(place.held)
            place.held.clear()
            place.held.extend([*place.at_open(place.file), *waiting])
        return place.file

    def _sums_of(self, directory: Path) -> DirectorySums:
        if directory not in self._sums:
            self._sums[directory] = self._new_sums(directory)
        return self._sums[directory]

    def _new_sums(self, directory: Path) -> DirectorySums:
        return DirectorySums(directory)
