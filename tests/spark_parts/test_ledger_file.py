from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headgate.spark.agent.alarms import Alarms
from headgate.spark.agent.decision import GateDecision
from headgate.spark.agent.progress import BatchReport, GateReport
from headgate.spark.agent.query_run import QueryRun
from headgate.spark.ledger.ledger_book import LedgerBook
from headgate.spark.ledger.ledger_file import LedgerFile, LedgerLine
from headgate.spark.ledger.ledger_sums import DirectorySums
from headgate.spark.ledger.lines import read_lines
from headgate.spark.ledger.report import Report, sum_up

LINE = LedgerLine(1.0, "alerts", "q", "r1", 0, "orders", "counted", 9, 6, 3, 0.6, 1, 1, "feedback")


def opened(directory: Path, run: str) -> LedgerFile:
    sums = DirectorySums(directory)
    sums.catch_up()
    return LedgerFile(directory, run, sums.last_batches(), sums.written)


def test_a_row_is_written_once_also_by_the_next_run(tmp_path: Path) -> None:
    first = opened(tmp_path, "r1")
    first.append([LINE, LINE, replace(LINE, batch=1)])
    first.append([LINE])
    first.close()
    second = opened(tmp_path, "r2")
    assert second.last_batch("q") == 1
    second.append([replace(LINE, batch=1), replace(LINE, batch=2)])
    second.close()
    assert [row["batch"] for row in read_lines([tmp_path])] == [0, 1, 2]


def test_rows_are_written_at_once_and_synced_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    now = [100.0]
    ledger = LedgerFile(tmp_path, "r1", clock=lambda: now[0])
    for batch, at in enumerate((100.0, 100.5, 100.9, 101.0, 101.5)):
        now[0] = at
        ledger.append([replace(LINE, batch=batch)])
        assert len(list(read_lines([tmp_path]))) == batch + 1
    assert len(synced) == 2
    ledger.close()
    assert len(synced) == 3


def test_a_line_cut_off_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    ledger = LedgerFile(tmp_path, "r1")
    ledger.append([LINE])
    ledger.close()
    with (tmp_path / "r1-00000.jsonl").open("a") as file:
        file.write('{"query_id":"q","batch":1,"ga')
    assert opened(tmp_path, "r2").last_batch("q") == 0


def book_with_run(
    directory: Path, committed: tuple[int, ...], replayed: int | None = None
) -> tuple[LedgerBook, QueryRun]:
    book, run = LedgerBook(Alarms()), QueryRun("key", "alerts", {"orders": []})  # type: ignore[dict-item]
    run.query_id = "q"
    book.open(run, directory, "r", committed, replayed)
    return book, run


def report_of(batch: int) -> BatchReport:
    decision = GateDecision().changed_to({"orders": 0.5})
    return BatchReport("q", "r", batch, 10.0, 1.0, decision, {"orders": GateReport(10, 5)})


@pytest.mark.parametrize("runs_again", [True, False])
def test_a_replay_that_the_sink_passes_over_is_named(tmp_path: Path, runs_again: bool) -> None:
    book, run = book_with_run(tmp_path, ())
    book.enter(run, report_of(0), {})
    book.close(run)
    book, run = book_with_run(tmp_path, (0,), replayed=1)
    report = report_of(1) if runs_again else replace(report_of(1), gates={})
    book.enter(run, report, {})
    book.enter(run, replace(report_of(2), gates={}), {})  # nothing is said of later batches
    rows = list(book.rows())
    book.close_all()
    status = "counted" if runs_again else "uncounted"
    assert [(row["batch"], row["status"]) for row in rows] == [(0, "counted"), (1, status)]


def test_committed_batches_without_numbers_are_named(tmp_path: Path) -> None:
    book, run = book_with_run(tmp_path, ())
    book.enter(run, report_of(0), {})
    book.close(run)
    book, run = book_with_run(tmp_path, (0, 1))
    book.enter(run, report_of(2), {})
    rows = list(book.rows())
    book.close_all()
    assert [(row["batch"], row["status"]) for row in rows] == [
        (0, "counted"),
        (1, "uncounted"),
        (2, "counted"),
    ]
    [sums] = sum_up(rows).values()
    assert (sums.offered, sums.kept, sums.dropped, sums.uncounted_batches) == (20, 10, 10, 1)
    assert sums.dropped_because == {"replayed": 10}
    report = Report("on", {"alerts": 3.0}, sum_up(rows), [])
    assert report.balances
    assert "1 batches could not be counted" in str(report)
    assert report.as_dict()["gates"][0]["dropped"] == 10


def test_what_would_go_while_shedding_is_off_is_summed_up(tmp_path: Path) -> None:
    book, run = book_with_run(tmp_path, ())
    run.remember_would_keep(0, {"orders": 0.25})
    for batch in (0, 1):
        book.enter(run, report_of(batch), {})
    rows = list(book.rows())
    book.close_all()
    assert [row["would_keep"] for row in rows] == [0.25, None]
    report = Report("off", {"alerts": 3.0}, sum_up(rows), [])
    assert report.as_dict()["gates"][0]["would_drop"] == 8  # of 10
    assert "about 8 more would have been dropped, but shedding was off" in str(report)


def test_a_disk_that_refuses_raises_an_alarm_and_rows_wait(tmp_path: Path) -> None:
    blocked = tmp_path / "ledger"
    alarms = Alarms()
    book, run = LedgerBook(alarms), QueryRun("key", "alerts", {"orders": []})  # type: ignore[dict-item]
    run.query_id = "q"
    blocked.write_text("a file stands where the directory should be")
    book.open(run, blocked, "r", ())
    book.enter(run, report_of(0), {})
    assert [alarm.kind for alarm in alarms.all()] == ["ledger"]
    blocked.unlink()
    book.enter(run, report_of(1), {})
    book.close_all()
    assert [row["batch"] for row in book.rows()] == [0, 1]
