"""What the demo on Spark shows while it runs: a live table, or plain lines in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import number
from headgate.cli.plan_tables import quiet_table
from headgate.demo.recording import WITH, WITHOUT, Batch, Recording, Run, per_second
from headgate.demo.scenario import Scenario

__all__ = ["LinesWatcher", "LiveWatcher", "Row", "rows_of"]

_ROWS = 16


@dataclass(frozen=True, slots=True)
class Row:
    """A slice of the scenario's time; None where no batch has ended in it (yet)."""

    begin: float
    end: float
    phase: str
    arriving_per_second: float
    kept_per_second: float | None
    dropped_per_second: float | None
    latency_with: float | None
    latency_without: float | None


def rows_of(recording: Recording, count: int = _ROWS) -> list[Row]:
    """The scenario in slices of equal length, with what was measured in each."""
    scenario = recording.scenario
    if scenario is None:
        return []
    edges = [scenario.run_seconds * i / count for i in range(count + 1)]
    ours, theirs = (recording.runs.get(n, Run(n)).batches for n in (WITH, WITHOUT))
    rates = per_second(ours, edges)
    known_until = ours[-1].end_seconds if ours else 0.0
    return [
        Row(
            low,
            high,
            scenario.phase_at((low + high) / 2.0),
            _arriving(scenario, low, high),
            kept if high <= known_until else None,
            dropped if high <= known_until else None,
            _latency(ours, low, high),
            _latency(theirs, low, high),
        )
        for low, high, (kept, dropped) in zip(edges[:-1], edges[1:], rates, strict=True)
    ]


def _arriving(scenario: Scenario, low: float, high: float) -> float:
    return (scenario.arrived_before(high) - scenario.arrived_before(low)) / (high - low)


def _latency(batches: Sequence[Batch], low: float, high: float) -> float | None:
    """Of the last batch that ended in the slice."""
    ended = [
        batch.latency_mean_seconds
        for batch in batches
        if low < batch.end_seconds <= high and batch.latency_mean_seconds is not None
    ]
    return ended[-1] if ended else None


class LiveWatcher:
    """Redraws one table in place."""

    def __init__(self, console: Console) -> None:
        self._recording: Recording | None = None
        self._title, self._seconds, self._elapsed = "", 1.0, 0.0
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> LiveWatcher:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._recording is not None:  # what stays on the screen needs no progress bar
            self._live.update(_table(self._recording), refresh=True)
        self._live.__exit__(kind, error, trace)

    def stage(self, title: str, seconds: float) -> None:
        self._title, self._seconds, self._elapsed = title, seconds, 0.0
        self._draw()

    def tick(self, elapsed_seconds: float) -> None:
        self._elapsed = elapsed_seconds
        self._draw()

    def scene(self, recording: Recording) -> None:
        self._recording = recording

    def _draw(self) -> None:
        done = min(self._elapsed, self._seconds)
        line = Table.grid(padding=(0, 2))
        line.add_row(
            Text(self._title, style="bold"),
            ProgressBar(total=self._seconds, completed=done, width=28),
            f"{done:.0f} of {self._seconds:.0f} s",
        )
        parts: list[RenderableType] = [line]
        if self._recording is not None:
            parts = [_table(self._recording), line]
        self._live.update(Group(*parts), refresh=True)


class LinesWatcher:
    """One line for each slice of time, when the batches that it has a part in have ended."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._recording: Recording | None = None
        self._told = 0

    def __enter__(self) -> LinesWatcher:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def stage(self, title: str, seconds: float) -> None:
        self._told = 0
        self._console.print(f"{title}, {seconds:.0f} s", soft_wrap=True)

    def tick(self, elapsed_seconds: float) -> None:
        if self._recording is None:
            return
        alone = WITHOUT in self._recording.runs
        for row in rows_of(self._recording)[self._told :]:
            if row.end > elapsed_seconds or (not alone and row.kept_per_second is None):
                break
            self._told += 1
            self._console.print(_line(row, without=alone), soft_wrap=True)

    def scene(self, recording: Recording) -> None:
        self._recording = recording
        self._console.print(_capacity(recording), soft_wrap=True)


def _capacity(recording: Recording) -> Text:
    scenario = recording.scenario
    if scenario is None:
        return Text()
    return Text.assemble(
        "This machine does ",
        (f"{number(scenario.capacity_per_second)} rows/s", "bold"),
        f". The crowd brings {number(scenario.crowd_per_second)}.",
    )


def _line(row: Row, *, without: bool) -> str:
    latency = row.latency_without if without else row.latency_with
    told = f"{row.end:5.1f} s  {row.phase:5}  arriving {number(row.arriving_per_second)}/s"
    if not without:
        told += f"  kept {_rate(row.kept_per_second)}/s  dropped {_rate(row.dropped_per_second)}/s"
    return f"{told}  latency {_age(latency)}"


def _table(recording: Recording) -> Group:
    target = recording.settings.target_seconds
    table = quiet_table()
    table.add_column("time", justify="right")
    table.add_column("phase")
    for name in ("arriving/s", "kept/s", "dropped/s"):
        table.add_column(name, justify="right")
    table.add_column(f"latency (target {target:g} s)", justify="right")
    table.add_column("without Headgate", justify="right")
    for row in rows_of(recording):
        table.add_row(
            f"{row.end:.1f} s",
            Text(row.phase, style="yellow" if row.phase == "crowd" else "dim"),
            number(row.arriving_per_second),
            _rate(row.kept_per_second),
            _rate(row.dropped_per_second),
            _judged(row.latency_with, target),
            _judged(row.latency_without, target),
        )
    return Group(_capacity(recording), table)


def _judged(seconds: float | None, target: float) -> Text:
    if seconds is None:
        return Text("-", style="dim")
    late = seconds / target
    return Text(_age(seconds), style="green" if late <= 1.25 else "yellow" if late <= 2 else "red")


def _rate(value: float | None) -> str:
    return "-" if value is None else number(value)


def _age(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f} s"
