"""What the files of one directory add up to, so that nobody has to read all of them.

For each file, and in it for each query and gate: first and last batch, the newest event time, and
the sums of the report. Files only grow, so only what is new of them is read. The sums are kept in
`_sums` beside the files (Spark passes over such a name), written whole under another name first.

Guarantees: sums are those of the lines, each batch once. A file of sums that is missing or
damaged, and the part of it that does not fit to a file with lines (size, or the last bytes), is
made anew from the lines. Files that hold the same batches (two drivers at once, copies) are read
again, line by line.
Not guaranteed: that a change in the midst of a file, which leaves its size, is noticed.
Cost: a read of `_sums` and one of 4 KB for each file at the opening; memory for the sums, a few
hundred bytes for each file and gate, and no row.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headgate.spark.ledger.lines import Row, ledger_row, parts_in, rows_from
from headgate.spark.ledger.report import GateSums, sum_up

__all__ = ["SUMS_FILE", "DirectorySums", "GatePart", "PartSums"]

SUMS_FILE = "_sums"
_FORMAT = 1
_CHECKED_BYTES = 4096


@dataclass(slots=True)
class GatePart:
    """One gate of one query in one file. event_time_micros: see `LedgerBook.event_times`."""

    query: str
    query_id: str
    gate: str
    first_batch: int
    last_batch: int
    last_time_seconds: float = 0.0
    event_time_micros: int | None = None
    sums: GateSums = field(default_factory=GateSums)


@dataclass(slots=True)
class PartSums:
    """One file. size: bytes of it that are in the sums. mixed: its batches do not ascend.

    check: of the last of these bytes, and at which size it was made.
    """

    size: int = 0
    mixed: bool = False
    gates: dict[tuple[str, str], GatePart] = field(default_factory=dict)
    check: tuple[int, int | None] = (-1, None)

    def add(self, row: Row, counted: bool) -> None:
        """counted: with the sums of the report."""
        key = (row["query_id"], row["gate"])
        part = self.gates.get(key)
        if part is None:
            part = GatePart(str(row.get("query") or ""), *key, row["batch"], row["batch"])
            self.gates[key] = part
        elif row["batch"] <= part.last_batch:
            self.mixed = True
            part.first_batch = min(part.first_batch, row["batch"])
            return
        part.last_batch = row["batch"]
        if counted:
            part.last_time_seconds = max(part.last_time_seconds, row["time_seconds"])
            time_micros = row["event_time_max_micros"]
            if row["offered"] is None:
                time_micros = round(row["time_seconds"] * 1e6)
            if time_micros is not None:
                before = part.event_time_micros
                part.event_time_micros = time_micros if before is None else max(before, time_micros)
            part.sums.add(row)


class DirectorySums:
    """See the module. parse: how a line is read; counted: with the sums of the report.

    elsewhere: sizes of files that belong to the directory and stand in another place. Their sums
    are taken from `_sums`; `fetch` makes them stand here if they must be read after all.
    """

    def __init__(
        self,
        directory: Path,
        parse: Callable[[bytes], Row | None] = ledger_row,
        counted: bool = True,
        elsewhere: Mapping[str, int] | None = None,
        fetch: Callable[[str], Path] | None = None,
    ) -> None:
        self.directory = directory
        self.elsewhere = dict(elsewhere or {})
        self._parse, self._counted, self._fetch = parse, counted, fetch
        self._parts = self._load()
        self._mixed: tuple[dict[str, int], dict[tuple[str, str], GateSums]] = ({}, {})

    # --- what is known --------------------------------------------------------------------------

    def gate_parts(self) -> Iterator[GatePart]:
        """All of all files."""
        for part in self._parts.values():
            yield from part.gates.values()

    def last_batches(self) -> dict[tuple[str, str], int]:
        """The newest batch by query id and gate."""
        last: dict[tuple[str, str], int] = {}
        for part in self.gate_parts():
            key = (part.query_id, part.gate)
            last[key] = max(part.last_batch, last.get(key, part.last_batch))
        return last

    def sums(self) -> dict[tuple[str, str], GateSums]:
        """Sums of the report by (query, gate). OSError if files must be read that cannot be."""
        again = self._doubtful()
        total: dict[tuple[str, str], GateSums] = {}
        known = [
            gate
            for name, part in self._parts.items()
            if name not in again
            for gate in part.gates.values()
        ]
        for gate in sorted(known, key=lambda one: one.last_time_seconds):
            total.setdefault((gate.query, gate.gate), GateSums()).merge(gate.sums)
        for key, sums in self._read_again(again).items():
            total.setdefault(key, GateSums()).merge(sums)
        return total

    # --- keeping up -----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Read what is new in the files. OSError."""
        here = {path.name: path for path in parts_in(self.directory)}
        for name in self._parts.keys() - here.keys() - self.elsewhere.keys():
            del self._parts[name]
        for name, path in here.items():
            self._read(name, path)
        for name, size in self.elsewhere.items():
            part = self._parts.get(name)
            if name not in here and (part is None or part.size != size) and self._fetch:
                self._parts.pop(name, None)
                self._read(name, self._fetch(name))

    def written(self, name: str, begin: int, end: int, row: Row) -> None:
        """A row was appended to a file here."""
        part = self._parts.setdefault(name, PartSums())
        if part.size == begin:  # else somebody wrote in between: `catch_up` reads it
            part.add(row, self._counted)
            part.size = end

    def save(self) -> None:
        """Write `_sums`. OSError."""
        if not self.directory.is_dir():
            return
        for name, part in self._parts.items():
            if part.check[0] != part.size:
                part.check = (part.size, self._check(self.directory / name, part.size))
        parts = {
            name: {
                "size": part.size,
                "check": part.check[1],
                "mixed": part.mixed,
                "gates": [asdict(gate) for gate in part.gates.values()],
            }
            for name, part in self._parts.items()
        }
        body = json.dumps({"format": _FORMAT, "parts": parts}, separators=(",", ":")).encode()
        hidden = self.directory / f"{SUMS_FILE}.{os.getpid()}"
        hidden.write_bytes(b"%08x\n" % zlib.crc32(body) + body)
        hidden.replace(self.directory / SUMS_FILE)

    def _read(self, name: str, path: Path) -> None:
        part = self._parts.setdefault(name, PartSums())
        size = path.stat().st_size
        if size == part.size:
            return
        if size < part.size:  # another file under this name
            part = self._parts[name] = PartSums()
        for row, end in rows_from(path, part.size, self._parse):
            if row is not None:
                part.add(row, self._counted)
            part.size = end

    # --- from the disk --------------------------------------------------------------------------

    def _load(self) -> dict[str, PartSums]:
        """What `_sums` says of files that are as they were then."""
        try:
            check, body = (self.directory / SUMS_FILE).read_bytes().split(b"\n", 1)
            if int(check, 16) != zlib.crc32(body):
                return {}
            found = json.loads(body)
            if found["format"] != _FORMAT:
                return {}
            return {
                name: PartSums(
                    told["size"],
                    told["mixed"],
                    _gates(told["gates"]),
                    (told["size"], told["check"]),
                )
                for name, told in found["parts"].items()
                if self._fits(name, told["size"], told["check"])
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def _fits(self, name: str, size: int, check: int | None) -> bool:
        now = self._check(self.directory / name, size)
        if now is None:
            return self.elsewhere.get(name) == size
        return check is None or now == check

    @staticmethod
    def _check(path: Path, size: int) -> int | None:
        """A sum of the last bytes before a position; None for a file that is not there."""
        try:
            with path.open("rb") as file:
                file.seek(max(0, size - _CHECKED_BYTES))
                text = file.read(size - file.tell())
                return zlib.crc32(text) if file.tell() == size else -1
        except FileNotFoundError:
            return None

    # --- batches that stand in several files ----------------------------------------------------

    def _doubtful(self) -> set[str]:
        """Files in which a batch can stand that stands elsewhere too."""
        found = {name for name, part in self._parts.items() if part.mixed}
        spans: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
        for name, part in self._parts.items():
            for key, gate in part.gates.items():
                spans.setdefault(key, []).append((gate.first_batch, gate.last_batch, name))
        for of_gate in spans.values():
            newest, whose = None, ""
            for first, last, name in sorted(of_gate):
                if newest is not None and first <= newest:
                    found |= {name, whose}
                if newest is None or last > newest:
                    newest, whose = last, name
        return found

    def _read_again(self, names: Iterable[str]) -> dict[tuple[str, str], GateSums]:
        sizes = {name: self._parts[name].size for name in names}
        if self._mixed[0] != sizes:
            self._mixed = (sizes, sum_up(self._rows(sizes)))
        return self._mixed[1]

    def _rows(self, names: Iterable[str]) -> Iterator[Row]:
        for name in sorted(names):
            path = self.directory / name
            if not path.exists() and self._fetch is not None:
                path = self._fetch(name)
            for row, _ in rows_from(path, 0, self._parse):
                if row is not None:
                    yield row


def _gates(told: Iterable[dict[str, object]]) -> dict[tuple[str, str], GatePart]:
    gates = {}
    for one in told:
        sums = GateSums(**one.pop("sums"))  # type: ignore[arg-type]
        gate = GatePart(**one, sums=sums)  # type: ignore[arg-type]
        gates[gate.query_id, gate.gate] = gate
    return gates
