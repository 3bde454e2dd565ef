"""What the demo shows while it runs, from literal numbers."""

from __future__ import annotations

import io

from rich.console import Console

from headgate.cli.demo_live import LinesWatcher, LiveWatcher, rows_of
from headgate.demo.recording import WITHOUT
from tests.demo.recordings import recording


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(
        file=text, force_terminal=terminal, width=100, height=40, color_system=None
    ), text


def test_rows_hold_what_was_measured_in_their_slice_of_time() -> None:
    rows = rows_of(recording(), count=4)  # ten seconds each
    assert [row.phase for row in rows] == ["calm", "crowd", "crowd", "after"]
    assert rows[0].latency_with == 4.0  # of the last batch in the slice
    assert rows[1].latency_with == 3.3
    assert rows[2].latency_with is None
    assert rows[1].latency_without == 11.0
    assert rows[1].arriving_per_second == 3000.0
    assert rows[1].kept_per_second == 300.0
    assert rows[1].dropped_per_second == 900.0


def test_plain_lines_come_once_when_their_time_is_over() -> None:
    out, text = console(terminal=False)
    made = recording()
    without = made.runs.pop(WITHOUT)
    with LinesWatcher(out) as watcher:
        watcher.scene(made)
        watcher.stage("The crowd with Headgate", 40.0)
        watcher.tick(5.1)
        watcher.tick(5.2)
        made.runs[WITHOUT] = without
        watcher.stage("The crowd without Headgate", 40.0)
        watcher.tick(20.0)
    lines = text.getvalue().splitlines()
    assert lines[0] == "This machine does 1,000 rows/s. The crowd brings 3,000."
    assert lines[1] == "The crowd with Headgate, 40 s"
    told = "2.5 s calm arriving 400/s kept 320/s dropped 0/s latency 1.0 s"
    assert " ".join(lines[2].split()) == told
    assert lines[4] == "The crowd without Headgate, 40 s"
    assert len(lines) == 5 + 8
    assert lines[-1].split()[-2:] == ["11.0", "s"]


def test_the_live_table_shows_both_runs_and_the_progress() -> None:
    out, text = console(terminal=True)
    with LiveWatcher(out) as watcher:
        watcher.stage("Warming up", 22.0)
        watcher.scene(recording())
        watcher.stage("The crowd without Headgate", 40.0)
        watcher.tick(20.0)
        shown = text.getvalue()
        assert "20 of 40 s" in shown
        assert "The crowd without Headgate" in shown
    last = text.getvalue()[len(shown) :]
    assert "20 of 40 s" not in last.splitlines()[-1]
    for words in ("latency (target 3 s)", "without Headgate", "3.3 s", "11.0 s"):
        assert words in last
