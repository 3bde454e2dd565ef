"""Ledgers with damaged lines, and sums that must not depend on how they were come by."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.agent.recall import read_recent, recalled_batches
from headgate.spark.ledger import ledger_file, lines
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_file import LedgerFile, LedgerLine
from headgate.spark.ledger.ledger_sums import SUMS_FILE, DirectorySums
from headgate.spark.ledger.lines import newest_rows, parts_in, read_lines
from headgate.spark.ledger.report import sum_up

LINE = LedgerLine(1.0, "alerts", "q", "r", 0, "orders", "counted", 9, 6, 3, 0.6, 1, 1, "feedback")
TIMED = replace(LINE, latency_mean_seconds=3.0, duration_seconds=2.0)


def text(line: LedgerLine) -> bytes:
    return json.dumps(asdict(line)).encode() + b"\n"


def line(batch: int, gate: str = "orders", **changes: Any) -> LedgerLine:
    return replace(TIMED, batch=batch, gate=gate, time_seconds=100.0 + batch, **changes)


DAMAGED = {
    "no UTF-8": b'{"time_seconds":1,"que\xff\xfe\x00\n',
    "torn within a character": '{"query":"ü'.encode()[:-1] + b"\n",
    "types": b'{"query_id":"x","batch":"7","gate":"t"}\n',
    "fields missing": b'{"query_id":"x","batch":7,"gate":"t"}\n',
    "no object": b"[]\n",
    "deep": b"[" * 100_000 + b"\n",
    "huge": text(LINE).replace(b'"offered": 9', b'"offered": ' + b"9" * 40),
    "infinite": text(LINE).replace(b'"time_seconds": 1.0', b'"time_seconds": 1e999'),
    "truth": text(LINE).replace(b'"kept": 6', b'"kept": true'),
    "half counted": text(LINE).replace(b'"kept": 6', b'"kept": null'),
    "empty": b"\n",
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_line_is_passed_over_and_no_other(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "r-00000.jsonl").write_bytes(text(line(0)) + damage + text(line(1)))
    assert [row["batch"] for row in read_lines([tmp_path])] == [0, 1]
    assert [row["batch"] for row in newest_rows(parts_in(tmp_path), 10**9)] == [1, 0]
    alarms = Alarms()
    book, run = LedgerBook(alarms), QueryRun("key", "alerts", {"orders": []})  # type: ignore[dict-item]
    run.query_id = "q"
    book.open(run, tmp_path, "r2", (0, 1, 2))
    assert [row["batch"] for row in book.rows()] == [0, 1, 2]
    [sums] = book.sums().values()
    assert (sums.offered, sums.batches, sums.uncounted_batches) == (18, 2, 1)
    book.close_all()
    assert alarms.all() == []


def test_fields_of_later_and_earlier_versions_are_no_damage(tmp_path: Path) -> None:
    row = asdict(line(0))
    del row["would_keep"]
    (tmp_path / "a.jsonl").write_text(json.dumps({**row, "new": {"a": 1}}) + "\n")
    [read] = read_lines([tmp_path])
    assert (read["would_keep"], read["new"]) == (None, {"a": 1})


def test_after_a_disk_that_took_half_a_line_rows_stand_once(tmp_path: Path) -> None:
    class Half:
        """Takes 300 bytes."""

        def __init__(self, path: Path) -> None:
            self.file, self.left = path.open("ab", buffering=0), 300

        def write(self, content: bytes) -> int:
            taken = self.file.write(content[: self.left]) or 0
            self.left -= taken
            return taken

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    ledger = LedgerFile(tmp_path, "r")
    half = Half(tmp_path / ledger.name)
    ledger._file = half  # type: ignore[assignment]
    rows = [line(0), line(1)]
    with pytest.raises(OSError, match="No space left"):
        ledger.append(rows)
    half.file.close()
    ledger._file = None
    ledger.append([*rows, line(2)])
    ledger.close()
    assert [row["batch"] for row in read_lines([tmp_path])] == [0, 1, 2]


def fill(directory: Path, batches: range, run: str, monkeypatch: pytest.MonkeyPatch) -> LedgerBook:
    """Files of a few lines."""
    monkeypatch.setattr(ledger_file, "_LARGEST_FILE", 5000)
    book, run_ = LedgerBook(Alarms()), QueryRun(run, "alerts", {"orders": [], "more": []})  # type: ignore[dict-item]
    run_.query_id = "q"
    book.open(run_, directory, run, ())
    with book._lock:
        for batch in batches:
            why = ("feedback", "limit")[batch % 2]
            fields = {"run_id": run, "why": why, "event_time_max_micros": 1000 * batch}
            book._write(run_, [line(batch, **fields), line(batch, "more", **fields)])
    return book


def test_sums_that_were_kept_are_those_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = fill(tmp_path, range(50), "r1", monkeypatch)
    assert len(parts_in(tmp_path)) > 5
    assert book.sums() == sum_up(book.rows())
    book.close_all()
    read: list[Path] = []
    real = lines.rows_from
    monkeypatch.setattr(
        "headgate.spark.ledger.ledger_sums.rows_from",
        lambda path, begin, *more: read.append(path) or real(path, begin, *more),  # type: ignore[func-returns-value]
    )
    again = LedgerBook(Alarms())
    run = QueryRun("r2", "alerts", {"orders": [], "more": []})  # type: ignore[dict-item]
    run.query_id = "q"
    again.open(run, tmp_path, "r2", (49,))
    assert read == []  # of the lines
    assert again.event_times(run, 49)[0]["more"] == 49_000
    assert not again.event_times(run, 50)[1]
    again.open(run, tmp_path, "r3", (49, 50))
    assert again.event_times(run, 50)[1]
    assert again.event_times(run, 50)[0]["more"] > 1e15
    assert [r["batch"] for r in again.rows() if r["status"] == "uncounted"] == [50, 50]
    assert again.sums() == sum_up(again.rows())
    assert again.sums()["alerts", "more"].batches == 50
    again.close_all()


SPOILS: dict[str, Callable[[Path], object]] = {
    "missing": lambda sums: sums.unlink(),
    "cut": lambda sums: sums.write_bytes(sums.read_bytes()[:-40]),
    "another number": lambda sums: sums.write_bytes(sums.read_bytes().replace(b"9", b"8", 1)),
    "no sums": lambda sums: sums.write_bytes(b"\xff\xfe"),
    "a directory": lambda sums: (sums.unlink(), sums.mkdir()),
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS.keys())
def test_damaged_sums_are_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], object]
) -> None:
    book = fill(tmp_path, range(30), "r1", monkeypatch)
    expected = book.sums()
    book.close_all()
    spoil(tmp_path / SUMS_FILE)
    again = fill(tmp_path, range(0), "r2", monkeypatch)
    assert again.sums() == expected == sum_up(read_lines([tmp_path]))
    again.close_all()


def test_a_file_that_was_replaced_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, range(30), "r1", monkeypatch).close_all()
    first, second = parts_in(tmp_path)[:2]
    first.write_bytes(text(line(0)) * 1 + text(line(1, offered=90, kept=6, dropped=84)) * 1)
    second.unlink()
    sums = DirectorySums(tmp_path)
    sums.catch_up()
    assert sums.sums() == sum_up(read_lines([tmp_path]))


def test_batches_that_stand_in_two_files_count_once(tmp_path: Path) -> None:
    for name, batches in (("a", (0, 1, 2)), ("b", (2, 3)), ("c", (4, 6)), ("d", (8, 7, 8))):
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(b"".join(text(line(batch)) for batch in batches))
    sums = DirectorySums(tmp_path)
    sums.catch_up()
    found = sums.sums()["alerts", "orders"]
    assert found.batches == 8
    assert found == sum_up(read_lines([tmp_path]))["alerts", "orders"]
    (tmp_path / "e.jsonl").write_bytes(text(line(9)))
    sums.catch_up()
    assert sums.sums()["alerts", "orders"].batches == 9


def test_recall_reads_from_the_end_what_it_would_find_in_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, range(200), "r1", monkeypatch).close_all()
    fill(tmp_path, range(200, 220), "r2", monkeypatch).close_all()
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 100)
    opened: list[Path] = []

    def newest_first() -> Any:
        for path in reversed(parts_in(tmp_path)):
            opened.append(path)
            yield path

    gates = {"orders", "more"}
    found = read_recent(newest_first(), "q", gates)
    assert found == recalled_batches(read_lines([tmp_path]), gates)
    assert len(found) == 30
    assert found[-1][0].batch == 219
    assert len(opened) < len(parts_in(tmp_path)) / 2
    assert read_recent(newest_first(), "another", gates) == []
