"""Files with one line for each gate and batch, of all queries of one driver.

Called on the event thread. A disk that refuses raises an alarm; lines are held in memory, a
bounded number for each query (oldest out), and written when it works again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.ledger_file import LedgerFile, Line

__all__ = ["Book"]


class Book:
    """Opened files by the key of their run. `kind` names the book in alarms."""

    def __init__(self, alarms: Alarms, kind: str, most_held: int) -> None:
        self.directories: list[Path] = []
        self._alarms, self._kind, self._most_held = alarms, kind, most_held
        self._files: dict[str, LedgerFile] = {}
        self._held: dict[str, deque[Line]] = {}
        self._lock = threading.RLock()

    def close(self, run: QueryRun) -> None:
        with self._lock:
            file = self._files.pop(run.key, None)
            if file is not None:
                self._shut(file)

    def close_all(self) -> None:
        with self._lock:
            for file in self._files.values():
                self._shut(file)
            self._files.clear()

    @staticmethod
    def _shut(file: LedgerFile) -> None:
        with suppress(OSError):  # closing tries to write once more
            file.close()

    def _begin(self, run: QueryRun, directory: Path, run_id: str) -> LedgerFile | None:
        """Begin or continue the file of a query; None when the disk refuses."""
        try:
            file = LedgerFile(directory, run_id)
        except OSError as error:
            self._alarms.raise_alarm(self._kind, run.name, f"cannot read {directory}: {error}")
            return None
        if directory not in self.directories:
            self.directories.append(directory)
        self._files[run.key] = file
        self._held[run.key] = deque(maxlen=self._most_held)
        return file

    def _write(self, run: QueryRun, lines: Iterable[Line]) -> None:
        """Write the lines and those that wait; nothing for a query without a file."""
        file = self._files.get(run.key)
        if file is None:
            return
        held = self._held[run.key]
        try:
            held.extend(lines)
            file.append(held)
            held.clear()
        except (OSError, ValueError) as error:
            self._shut(file)
            text = f"cannot write {file.directory}: {error}; {len(held)} rows wait in memory"
            self._alarms.raise_alarm(self._kind, run.name, text)
