"""Ledgers whose directory is on another file system. Elsewhere is a directory on this disk."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.agent.recall import read_recent
from headgate.spark.ledger import ledger_file, mirror
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_file import LedgerLine
from headgate.spark.ledger.ledger_sums import SUMS_FILE
from headgate.spark.ledger.lines import read_lines
from headgate.spark.ledger.report import sum_up

LINE = LedgerLine(1.0, "alerts", "q", "r", 0, "orders", "counted", 9, 6, 3, 0.6, 1, 1, "feedback")


class Elsewhere:
    """Files that can only be written whole. `broken` refuses; `fetched` is what was read."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.address = directory, directory.as_uri()
        self.broken = False
        self.fetched: list[str] = []

    def _check(self) -> None:
        if self.broken:
            raise OSError("no route to host")

    def sizes(self) -> dict[str, tuple[int, float]]:
        self._check()
        found = self.directory.glob("*") if self.directory.is_dir() else ()
        return {path.name: (path.stat().st_size, path.stat().st_mtime) for path in found}

    def fetch(self, name: str, to: Path) -> None:
        self._check()
        self.fetched.append(name)
        shutil.copyfile(self.directory / name, to)

    def send(self, path: Path, name: str) -> None:
        self._check()
        self.directory.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self.directory / name)

    def remove(self, name: str) -> None:
        self._check()
        (self.directory / name).unlink()

    def lines(self) -> list[str]:
        return sorted(path.name for path in self.directory.glob("*.jsonl"))

    def batches(self) -> list[int]:
        return sorted(row["batch"] for row in read_lines([self.directory]))


class Driver:
    """A book of its own, as a driver on another machine has it."""

    def __init__(self, elsewhere: Elsewhere) -> None:
        self.alarms = Alarms()
        self.book = LedgerBook(self.alarms)
        self.spool = self.book.mirrored(elsewhere)
        assert self.book._clock is not None
        self.book._clock.close()  # the tests send by themselves

    def start(self, run_id: str, *committed: int) -> QueryRun:
        run = QueryRun(run_id, "alerts", {"orders": []})  # type: ignore[dict-item]
        run.query_id = "q"
        self.book.open(run, self.spool, run_id, committed)
        return run

    def write(self, run: QueryRun, *batches: int) -> None:
        timed = replace(LINE, duration_seconds=2.0, latency_mean_seconds=1.0, run_id=run.key)
        with self.book._lock:
            self.book._write(
                run, [replace(timed, batch=b, time_seconds=100.0 + b) for b in batches]
            )

    def die(self) -> None:
        """Nothing more is sent."""
        for place in self.book._places.values():
            if place.file is not None and place.file._file is not None:
                place.file._file.close()
        shutil.rmtree(self.spool, ignore_errors=True)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    monkeypatch.setattr(mirror, "_SEND_SECONDS", 0.0)
    monkeypatch.setattr(mirror, "_RETRY_SECONDS", 0.0)
    return Elsewhere(tmp_path / "far")


def test_a_driver_elsewhere_goes_on_where_this_one_died(elsewhere: Elsewhere) -> None:
    first = Driver(elsewhere)
    run = first.start("r1")
    first.write(run, 0, 1)
    first.book.send()
    first.write(run, 2)
    first.book.send()
    assert elsewhere.lines() == ["r1-00000.00000.jsonl", "r1-00000.00001.jsonl"]
    first.write(run, 3)  # never sent
    first.die()
    second = Driver(elsewhere)
    second.book.prepare(second.spool)
    recalled = read_recent(second.book.newest_first(second.spool), "q", ["orders"])
    assert [report.batch for report, _ in recalled] == [1, 2]
    run = second.start("r2", 0, 1, 2, 3)
    second.write(run, 3, 4)
    second.book.close_all()
    assert elsewhere.batches() == [0, 1, 2, 3, 4]
    assert second.book.sums() == sum_up(read_lines([elsewhere.directory]))
    [sums] = second.book.sums().values()
    assert (sums.batches, sums.uncounted_batches) == (4, 1)
    assert sorted(row["batch"] for row in second.book.rows()) == [0, 1, 2, 3, 4]
    assert second.alarms.all() == []
    second.die()


def test_a_file_that_is_done_takes_the_place_of_its_pieces(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "_MOST_PIECES", 3)
    driver = Driver(elsewhere)
    run = driver.start("r1")
    for batch in range(8):
        driver.write(run, batch)
        driver.book.send()
    assert elsewhere.batches() == list(range(8))
    assert "r1-00000.jsonl" in elsewhere.lines()
    assert not [name for name in elsewhere.lines() if name.startswith("r1-00000.0")]
    driver.book.close(run)
    driver.book.send()
    assert elsewhere.lines() == ["r1-00000.jsonl", "r1-00001.jsonl", "r1-00002.jsonl"]
    driver.book.send()
    driver.die()


def test_only_what_recall_needs_is_fetched(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "_LARGEST_FILE", 3000)
    first = Driver(elsewhere)
    run = first.start("r1")
    for batch in range(200):
        first.write(run, batch)
    first.book.close_all()
    assert len(elsewhere.lines()) > 20
    first.die()
    second = Driver(elsewhere)
    second.book.prepare(second.spool)
    assert elsewhere.fetched == [SUMS_FILE]
    found = read_recent(second.book.newest_first(second.spool), "q", ["orders"])
    assert [report.batch for report, _ in found] == list(range(170, 200))
    assert len(elsewhere.fetched) < 10
    second.start("r2")
    [sums] = second.book.sums().values()
    assert sums.batches == 200
    second.die()
    (elsewhere.directory / SUMS_FILE).write_bytes(b"damaged")
    third = Driver(elsewhere)
    third.start("r3")
    [sums] = third.book.sums().values()
    assert sums.batches == 200
    third.die()


def test_what_cannot_be_sent_waits_and_is_an_alarm(elsewhere: Elsewhere) -> None:
    driver = Driver(elsewhere)
    run = driver.start("r1")
    driver.write(run, 0)
    elsewhere.broken = True
    driver.book.send()
    driver.book.close(run)
    driver.book.send()
    assert "no route to host; lines wait in" in driver.alarms.all()[-1].text
    elsewhere.broken = False
    driver.book.send()
    assert elsewhere.lines() == ["r1-00000.jsonl"]
    assert elsewhere.batches() == [0]
    driver.die()


def test_nothing_is_written_before_it_is_known_what_is_there(elsewhere: Elsewhere) -> None:
    """Else batches that are counted elsewhere would be noted as uncounted."""
    first = Driver(elsewhere)
    first.write(first.start("r1"), 0, 1)
    first.book.close_all()
    first.die()
    second = Driver(elsewhere)
    elsewhere.broken = True
    run = second.start("r2", 0, 1, 2)
    second.write(run, 3)
    assert [alarm.kind for alarm in second.alarms.all()] == ["ledger", "ledger"]
    elsewhere.broken = False
    second.write(run, 4)
    second.book.close_all()
    rows = {row["batch"]: row["status"] for row in read_lines([elsewhere.directory])}
    assert rows == {0: "counted", 1: "counted", 2: "uncounted", 3: "counted", 4: "counted"}
    assert elsewhere.batches() == [0, 1, 2, 3, 4]
    second.die()


def test_the_spool_is_bounded(elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "_LARGEST_FILE", 3000)
    monkeypatch.setattr(mirror, "_LARGEST_SPOOL", 10_000)
    driver = Driver(elsewhere)
    run = driver.start("r1")
    for batch in range(100):
        driver.write(run, batch)
        driver.book.send()
    assert sum(path.stat().st_size for path in driver.spool.glob("*.jsonl")) < 14_000
    [sums] = driver.book.sums().values()
    assert sums.batches == 100
    assert elsewhere.batches() == list(range(100))
    driver.die()


def test_pieces_left_beside_their_whole_file_count_once(elsewhere: Elsewhere) -> None:
    first = Driver(elsewhere)
    run = first.start("r1")
    first.write(run, 0, 1)
    first.book.send()
    real_remove = elsewhere.remove

    def dies(_: Any) -> None:
        raise OSError("the driver was killed here")

    elsewhere.remove = dies  # type: ignore[method-assign]
    first.book.close(run)
    first.book.send()
    elsewhere.remove = real_remove  # type: ignore[method-assign]
    assert elsewhere.lines() == ["r1-00000.00000.jsonl", "r1-00000.jsonl"]
    first.die()  # had it lived, the next try would have removed the piece
    second = Driver(elsewhere)
    second.start("r2")
    [sums] = second.book.sums().values()
    assert sums.batches == 2
    second.die()
