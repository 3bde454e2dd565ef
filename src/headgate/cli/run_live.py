"""What `headgate run` shows: a live table or plain lines while it runs, figures at the end."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headgate.cli.numbers import number, percent
from headgate.cli.plan_tables import quiet_table

if TYPE_CHECKING:
    from headgate.spark.networks.network_report import NetworkReport
    from headgate.spark.networks.network_run import GateNow, NetworkRun

__all__ = ["RunLines", "RunTable", "summary"]

_LINE_EVERY_SECONDS = 5.0


class RunTable:
    """Redraws one table in place."""

    def __init__(self, console: Console, seconds: float | None) -> None:
        self._seconds = seconds
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> RunTable:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def tick(self, running: NetworkRun, elapsed_seconds: float) -> None:
        parts: list[RenderableType] = [_table(running.gates_now())]
        parts.append(_progress(running, elapsed_seconds, self._seconds))
        self._live.update(Group(*parts), refresh=True)


class RunLines:
    """A line for each gate every five seconds."""

    def __init__(self, console: Console, seconds: float | None) -> None:
        self._console, self._seconds = console, seconds
        self._told = 0.0

    def __enter__(self) -> RunLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tick(self, running: NetworkRun, elapsed_seconds: float) -> None:
        if elapsed_seconds - self._told < _LINE_EVERY_SECONDS:
            return
        self._told = elapsed_seconds
        for line in running.gates_now():
            self._console.print(_plain(line, elapsed_seconds), soft_wrap=True)


def _plain(line: GateNow, elapsed_seconds: float) -> str:
    late = "" if line.latency_seconds is None else f"  latency {line.latency_seconds:.1f} s"
    return (
        f"{elapsed_seconds:5.0f} s  {line.gate}  {number(line.offered_per_second)}/s  "
        f"keeps {percent(line.keep_fraction)} ({line.why}){late}"
    )


def _table(lines: list[GateNow]) -> Table:
    table = quiet_table()
    table.add_column("query")
    table.add_column("gate")
    table.add_column("offered/s", justify="right")
    table.add_column("keeps", justify="right")
    table.add_column("because of")
    table.add_column("latency", justify="right")
    table.add_column("target", justify="right")
    for line in lines:
        target = line.target_seconds
        table.add_row(
            line.query,
            line.gate,
            number(line.offered_per_second),
            Text(percent(line.keep_fraction), style="yellow" if line.keep_fraction < 1 else ""),
            line.why,
            _judged(line.latency_seconds, target),
            "-" if target is None else f"{target:g} s",
        )
    return table


def _progress(running: NetworkRun, elapsed: float, seconds: float | None) -> Table:
    line = Table.grid(padding=(0, 2))
    load = running.load_now()
    told = "measuring" if load is None else f"load {number(load)} of {number(running.capacity())}"
    if seconds is None:
        line.add_row(Text(f"{elapsed:.0f} s", style="bold"), told, Text("Ctrl-C stops", "dim"))
    else:
        done = min(elapsed, seconds)
        bar = ProgressBar(total=seconds, completed=done, width=28)
        line.add_row(bar, f"{done:.0f} of {seconds:.0f} s", told)
    return line


def _judged(seconds: float | None, target: float | None) -> Text:
    if seconds is None:
        return Text("-", style="dim")
    late = 0.0 if target is None else seconds / target
    return Text(
        f"{seconds:.1f} s", style="green" if late <= 1.25 else "yellow" if late <= 2 else "red"
    )


def summary(report: NetworkReport) -> Group:
    """The figures at the end."""
    queries = quiet_table(f"{report.network}: {report.seconds:.0f} s counted after warm-up")
    for name in ("query", "delivered", "delivered/s", "weight", "latency", "target"):
        queries.add_column(name, justify="left" if name == "query" else "right")
    for q in report.queries:
        target = q.latency_target_seconds
        queries.add_row(
            q.name,
            f"{q.delivered:,}",
            number(q.per_second),
            f"{q.weight:g}",
            _judged(q.latency_seconds, target),
            "-" if target is None else f"{target:g} s",
        )
    gates = quiet_table("Gates")
    for name in ("gate", "offered", "kept", "dropped", "share kept", "what falls"):
        gates.add_column(name, justify="right" if name not in ("gate", "what falls") else "left")
    for by_gate in report.gates.values():
        for gate, (offered, kept, dropped) in by_gate.items():
            share = percent(kept / offered) if offered else "-"
            falls = report.drops.get(gate, "random")
            gates.add_row(gate, f"{offered:,}", f"{kept:,}", f"{dropped:,}", share, falls)
    return Group(queries, Text(), gates, Text(), *_figures(report))


def _figures(report: NetworkReport) -> list[Text]:
    lines = []
    if report.score is not None and report.best_score is not None and report.of_best is not None:
        lines.append(
            Text.assemble(
                ("Score: ", "bold"),
                f"{number(report.score)} weighted tuples/s, {percent(report.of_best)} of "
                f"{number(report.best_score)}, the best from what was measured",
            )
        )
    if report.load_error is not None:
        each = report.load_error_mean_abs
        single = "" if each is None else f", {percent(each)} off in a single batch"
        lines.append(
            Text.assemble(
                ("Load: ", "bold"),
                f"predicted {number(report.predicted_load or 0.0)}, measured "
                f"{number(report.measured_load or 0.0)} ({100 * report.load_error:+.1f} %{single}) "
                f"of {number(report.capacity)} task seconds per second",
            )
        )
    lines += [Text(f"alarm: {text}", style="yellow") for text in report.alarms[-5:]]
    return lines or [
        Text("Too short for figures: they begin when ten batches have warmed up.", "dim")
    ]
