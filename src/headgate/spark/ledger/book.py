"""Files with one line for each gate and batch, of all queries of one driver.

Called on the event thread. A disk that refuses raises an alarm; lines are held in memory, a
bounded number for each query (oldest out), and written when it works again. Directories on other
file systems have a spool here; see `mirror`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.clock import Clock
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.ledger_file import LedgerFile, Line
from headgate.spark.ledger.ledger_sums import DirectorySums
from headgate.spark.ledger.lines import parts_in
from headgate.spark.ledger.mirror import Mirror, RemoteFiles
from headgate.spark.ledger.temporary import temporary_directory

__all__ = ["Book"]

_LOOK_SECONDS = 1.0
_LAST_SEND_SECONDS = 30.0

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
        self._mirrors: dict[Path, Mirror] = {}
        self._clock: Clock | None = None
        self._lock = threading.RLock()
        self._sending = threading.Lock()

    def mirrored(self, remote: RemoteFiles) -> Path:
        """The spool of a directory on another file system; the same one for the same address."""
        with self._lock:
            for spool, mirror in self._mirrors.items():
                if mirror.remote.address == remote.address:
                    return spool
            spool = temporary_directory("spool") / self._kind
            self._mirrors[spool] = Mirror(spool, remote)
            if self._clock is None:
                self._clock = Clock(self.send, _LOOK_SECONDS, self._alarms)
            return spool

    def addresses(self) -> list[str]:
        """Where Spark finds lines, also those that are on other file systems."""
        found = []
        for directory in self.directories:
            if parts_in(directory):
                found.append(f"file://{directory.absolute()}")
            mirror = self._mirrors.get(directory)
            if mirror is not None and mirror.has_files:
                found.append(mirror.remote.address)
        return found

    def newest_first(self, directory: Path) -> Iterator[Path]:
        """Its files, fetched one by one if they stand elsewhere. OSError."""
        mirror = self._mirrors.get(directory)
        if mirror is None:
            yield from reversed(parts_in(directory))
        else:
            with self._lock:
                names = mirror.newest_first()
            for name in names:
                with self._lock:
                    path = mirror.fetch(name)
                yield path

    def send(self, at_once: bool = False) -> None:
        """Copy what is due to other file systems; what fails is an alarm and is tried again."""
        with self._sending:
            for spool, mirror in list(self._mirrors.items()):
                with self._lock:
                    files = [p.file for p in self._places.values() if p.directory == spool]
                    growing = {file.name for file in files if file is not None}
                try:
                    full = mirror.send(growing, at_once)
                    with self._lock:
                        self._tidy(spool, mirror, full)
                except OSError as error:
                    text = f"cannot send to {mirror.remote.address}: {error}; lines wait in {spool}"
                    self._alarms.raise_alarm(self._kind, mirror.remote.address, text)

    def _tidy(self, spool: Path, mirror: Mirror, full: set[str]) -> None:
        for place in self._places.values():
            if place.directory == spool and place.file is not None and place.file.name in full:
                place.file.roll()
        sums = self._sums.get(spool)
        dispensable = {} if sums is None else mirror.dispensable()
        for name, size in dispensable.items():
            if sums is not None:
                sums.elsewhere[name] = size
            mirror.drop(name, size)

    def prepare(self, directory: Path) -> None:
        """Read what stands in a directory, so that it can be opened quickly. OSError."""
        with self._lock:
            mirror = self._mirrors.get(directory)
            if mirror is not None and directory in self._sums:  # others may have added to it
                self._sums[directory].elsewhere = mirror.look()
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
        if self._clock is not None:
            self._clock.close()
            last = threading.Thread(target=self.send, args=(True,), daemon=True)
            last.start()
            last.join(_LAST_SEND_SECONDS)
            if last.is_alive():
                text = f"copies are not done after {_LAST_SEND_SECONDS:g} s; they go on"
                self._alarms.raise_alarm(self._kind, "close", text)

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
            mirror = self._mirrors.get(directory)
            elsewhere = {} if mirror is None else mirror.look()
            fetch = None if mirror is None else mirror.fetch
            self._sums[directory] = self._new_sums(directory, elsewhere, fetch)
        return self._sums[directory]

    def _new_sums(
        self, directory: Path, elsewhere: Mapping[str, int], fetch: Callable[[str], Path] | None
    ) -> DirectorySums:
        return DirectorySums(directory, elsewhere=elsewhere, fetch=fetch)
