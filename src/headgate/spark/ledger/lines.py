"""Reading the files of ledgers and digests, byte by byte, so that no damage hides more than its
own line. No pyspark.

Guarantees: a line that is cut off, is no JSON, is no UTF-8 or has fields of other types is passed
over; every other line is read. At most a block and one line are in memory.
Not guaranteed: that damage which leaves a line readable is found (a digit that changed).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from headgate.spark.ledger.ledger_file import LedgerLine

__all__ = [
    "Row",
    "is_line",
    "ledger_row",
    "newest_rows",
    "parse_line",
    "parts_in",
    "read_lines",
    "rows_from",
]

Row = dict[str, Any]

_BLOCK_BYTES = 256 * 1024
_LARGEST_NUMBER = 2**63
_TYPES: dict[str, tuple[type, ...]] = {
    "float": (int, float),
    "int": (int,),
    "str": (str,),
    "list[int]": (list,),
}


def parse_line(text: bytes) -> Row | None:
    """A line that names query, gate and batch; None for any other."""
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return row if is_line(row) else None


def is_line(row: Any) -> bool:
    """True for what a file of `ledger_file` can hold."""
    return (
        isinstance(row, dict)
        and isinstance(row.get("query_id"), str)
        and isinstance(row.get("gate"), str)
        and _is_whole(row.get("batch"))
    )


def ledger_row(text: bytes) -> Row | None:
    """A line of the ledger with all its fields; None for one whose fields are damaged.

    Fields that later versions added are None in older lines; those of a later one stay.
    """
    row = parse_line(text)
    if row is None:
        return None
    for name, types, needed in _FIELDS:
        value = row.setdefault(name, None)
        if value is None:
            if needed:
                return None
        elif not isinstance(value, types) or isinstance(value, bool) or not _is_sound(value):
            return None
    counts = [row["offered"] is None, row["kept"] is None, row["dropped"] is None]
    return row if all(counts) or not any(counts) else None


def read_lines(
    directories: Iterable[Path], parse: Callable[[bytes], Row | None] = ledger_row
) -> Iterator[Row]:
    """All sound rows of ledger directories, oldest file first."""
    for directory in directories:
        for path in parts_in(directory):
            for row, _ in rows_from(path, 0, parse):
                if row is not None:
                    yield row


def parts_in(directory: Path) -> list[Path]:
    """The files with lines, oldest first."""
    files = directory.glob("*.jsonl") if directory.is_dir() else ()
    found = []
    for path in files:
        try:
            found.append((path.stat().st_mtime, path.name, path))
        except FileNotFoundError:  # gone meanwhile
            continue
    return [path for _, _, path in sorted(found)]


def rows_from(
    path: Path, begin: int, parse: Callable[[bytes], Row | None] = ledger_row
) -> Iterator[tuple[Row | None, int]]:
    """Each whole line from a position on and the position after it; None for a damaged one.

    A last line without an end is left for later. OSError.
    """
    with path.open("rb") as file:
        file.seek(begin)
        for line in file:
            if not line.endswith(b"\n"):
                return
            begin += len(line)
            yield parse(line), begin


def newest_rows(parts: Iterable[Path], most_bytes: int) -> Iterator[Row]:
    """Rows of the ledger from the newest back, from parts of which the newest comes first.

    Ends after `most_bytes` of lines. Within a part the last line is the newest. OSError.
    """
    for path in parts:
        for line in _lines_back(path):
            most_bytes -= len(line)
            if most_bytes < 0:
                return
            row = ledger_row(line)
            if row is not None:
                yield row


def _lines_back(path: Path) -> Iterator[bytes]:
    """Lines of a file, the last one first."""
    with path.open("rb") as file:
        position = file.seek(0, 2)
        rest: list[bytes] = []  # what was read of a line that begins before it, newest first
        while position > 0:
            size = min(_BLOCK_BYTES, position)
            position -= size
            file.seek(position)
            head, *lines = file.read(size).split(b"\n")
            if lines:
                yield lines.pop() + b"".join(reversed(rest))
                yield from reversed(lines)
                rest = []
            rest.append(head)
        yield b"".join(reversed(rest))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER


def _is_sound(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return abs(value) < _LARGEST_NUMBER
    if isinstance(value, list):
        return all(_is_whole(one) for one in value)
    return True


def _expected_fields() -> list[tuple[str, tuple[type, ...], bool]]:
    """Name, types and whether a line without it is damaged."""
    found = []
    for field in fields(LedgerLine):
        name, _, optional = str(field.type).partition(" | ")
        needed = not optional and field.default is MISSING
        found.append((field.name, _TYPES[name], needed))
    return found


_FIELDS = _expected_fields()
