"""A directory of lines that stands where no file can be appended to (HDFS, S3): a spool on the
driver's disk, and copies of it there.

Every `_SEND_SECONDS` what is new in the file that grows is sent as a piece, a file of its own
(`run-00000.00003.jsonl`). A file that is full, or has `_MOST_PIECES` pieces, or whose query has
ended is sent whole under its own name; then its pieces are removed and `_sums` is sent.

Guarantees: only whole files are sent, each under its final name; lines that were sent are not
lost, also if the driver dies between any two steps. What is there already is known before a line
is written, so a batch stands once. A copy that fails is tried again after `_RETRY_SECONDS`.
Not guaranteed: lines since the last piece when the driver dies (they are noted as uncounted at
the next start, like all lines that are lost); that a reader sees a piece and its whole file
never at once (`hg.ledger()` counts each batch once).
Bounds: sent files leave the spool, oldest first, when it has more than `_LARGEST_SPOOL` bytes. What
cannot be sent stays in it. No lines in memory.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headgate.spark.ledger.ledger_sums import SUMS_FILE
from headgate.spark.ledger.lines import parts_in
from headgate.spark.ledger.temporary import make_directory

__all__ = ["Mirror", "RemoteFiles"]

_SEND_SECONDS = 60.0
_RETRY_SECONDS = 10.0
_MOST_PIECES = 32
_LARGEST_SPOOL = 256 * 1024 * 1024
_PIECE = re.compile(r"^(.+)\.\d{5}\.jsonl$")


class RemoteFiles(Protocol):
    """A directory elsewhere (`HadoopFiles`; one on the disk in tests). All raise OSError."""

    address: str

    def sizes(self) -> dict[str, tuple[int, float]]:
        """Bytes and time of change (seconds since 1970) of its files; none if it is not there."""

    def fetch(self, name: str, to: Path) -> None: ...

    def send(self, path: Path, name: str) -> None:
        """A whole file; one of this name is replaced."""

    def remove(self, name: str) -> None: ...


@dataclass(slots=True)
class _Sent:
    """What of a file of the spool is there. bytes: in pieces; whole: when it was sent whole, all
    of it; since: when the last piece was sent.
    """

    since: float
    bytes: int = 0
    pieces: list[str] = field(default_factory=list)
    whole: int = 0


class Mirror:
    """One directory. `look`, `fetch` and `newest_first` are called by whoever holds the book's
    lock, `send` by one thread at a time. The clock is monotonic, in seconds.
    """

    def __init__(
        self, spool: Path, remote: RemoteFiles, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.spool, self.remote = spool, remote
        self._clock = clock
        self._retry_at = 0.0
        self._looked = False
        self._there: dict[str, tuple[int, float]] = {}
        self._sent: dict[str, _Sent] = {}
        self._fetched: set[str] = set()

    @property
    def has_files(self) -> bool:
        """Something stands in the directory elsewhere."""
        return bool(self._there) or any(s.whole or s.pieces for s in list(self._sent.values()))

    def look(self) -> dict[str, int]:
        """Sizes of the files with lines that are only there, without pieces of whole ones. The
        first time `_sums` is fetched.
        """
        there = self.remote.sizes()
        if not self._looked and SUMS_FILE in there:
            make_directory(self.spool)
            self.remote.fetch(SUMS_FILE, self.spool / SUMS_FILE)
        self._looked = True
        here = {path.name for path in parts_in(self.spool)}
        lines = {name for name in there if name.endswith(".jsonl") and name[0] not in "._"}
        pieces = {name for name in lines if (m := _PIECE.match(name)) and _whole(m) in here | lines}
        self._there = {name: there[name] for name in lines - pieces}
        return {name: size for name, (size, _) in self._there.items() if name not in here}

    def fetch(self, name: str) -> Path:
        """A file that stands elsewhere, in the spool."""
        path = self.spool / name
        if not path.exists():
            make_directory(self.spool)
            hidden = self.spool / f".{name}.part"
            self.remote.fetch(name, hidden)
            _, changed = self._there[name]
            os.utime(hidden, (changed, changed))
            self._fetched.add(name)
            hidden.replace(path)
        return path

    def newest_first(self) -> list[str]:
        """Names of all files with lines, here or elsewhere."""
        times = {name: changed for name, (_, changed) in self._there.items()}
        times.update({path.name: path.stat().st_mtime for path in parts_in(self.spool)})
        return sorted(times, key=lambda one: (times[one], one), reverse=True)

    def send(self, growing: set[str], at_once: bool = False) -> set[str]:
        """Send what is due. OSError. Returns files that grow and should be closed.

        growing: files that are still written; at_once: whatever the clock says.
        """
        now = self._clock()
        if now < self._retry_at and not at_once:
            return set()
        self._retry_at = now + _RETRY_SECONDS  # unless all of it could be sent
        sent_whole = False
        for path in parts_in(self.spool):
            if path.name in self._fetched:
                continue
            sent = self._sent.setdefault(path.name, _Sent(now))
            if path.name not in growing:
                sent_whole |= self._send_whole(path, sent)
            elif at_once or now - sent.since >= _SEND_SECONDS:
                self._send_piece(path, sent)
                sent.since = now
        if sent_whole and (self.spool / SUMS_FILE).exists():
            self.remote.send(self.spool / SUMS_FILE, SUMS_FILE)
        self._retry_at = 0.0
        return {name for name in growing if self._many_pieces(name)}

    def _many_pieces(self, name: str) -> bool:
        sent = self._sent.get(name)
        return sent is not None and len(sent.pieces) >= _MOST_PIECES

    def dispensable(self) -> dict[str, int]:
        """Files of the spool that can go, and their sizes: oldest first, down to the bound."""
        parts = [(path.name, path.stat().st_size) for path in parts_in(self.spool)]
        over = sum(size for _, size in parts) - _LARGEST_SPOOL
        found = {}
        for name, size in parts:
            sent = self._sent.get(name)
            if over > 0 and (name in self._fetched or (sent is not None and sent.whole == size)):
                found[name] = size
                over -= size
        return found

    def drop(self, name: str, size: int) -> None:
        """Take a file that is elsewhere out of the spool."""
        path = self.spool / name
        self._there.setdefault(name, (size, path.stat().st_mtime))
        self._fetched.discard(name)
        self._sent.pop(name, None)
        path.unlink()

    def _send_whole(self, path: Path, sent: _Sent) -> bool:
        size = path.stat().st_size
        fresh = sent.whole != size
        if fresh:
            self.remote.send(path, path.name)
            sent.whole = size
        while sent.pieces:
            self.remote.remove(sent.pieces[-1])
            sent.pieces.pop()
        return fresh

    def _send_piece(self, path: Path, sent: _Sent) -> None:
        with path.open("rb") as file:
            file.seek(sent.bytes)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        if not content:
            return
        hidden = self.spool / ".piece"
        hidden.write_bytes(content)
        name = f"{path.stem}.{len(sent.pieces):05d}.jsonl"
        self.remote.send(hidden, name)
        hidden.unlink()
        sent.pieces.append(name)
        sent.bytes += len(content)


def _whole(piece: re.Match[str]) -> str:
    return f"{piece[1]}.jsonl"
