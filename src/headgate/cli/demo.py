"""`headgate demo`: a flash crowd on Spark, with Headgate and without it, then a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from headgate.cli.demo_live import LinesWatcher, LiveWatcher
from headgate.cli.demo_simulated import simulated_demo
from headgate.cli.terminal import errors, output, print_json, quiet_interrupt
from headgate.demo.findings import find, headline, ledger_sentence
from headgate.demo.page import NEXT_STEPS
from headgate.demo.recording import Recording, Watcher
from headgate.demo.report import Files, content, save
from headgate.demo.scenario import FULL, QUICK, Settings
from headgate.errors import DemoError, UsageError
from headgate.quantities import DURATION
from headgate.spark.local_session import check_machine, machine, start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["demo"]

_SIMULATED_SECONDS = 8.0
_INTERRUPTED = 130  # what a shell expects after Ctrl-C


def demo(
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=3600.0,
            help=f"How long each of the two runs takes.  [{FULL.run_seconds:g}]",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help=f"The latency that Headgate is asked to hold.  [{FULL.target_seconds:g}s]"
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the report goes.")] = Path(
        "out/demo"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="Half a minute, rough numbers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="No Spark: a plan on a model of a shop.")
    ] = False,
) -> None:
    """Run a flash crowd on Spark, with Headgate and without it, and compare.

    Measures how much this machine can do, lets three times as much arrive, and writes
    report.html, report.json and latency.svg. About two minutes; needs Java 17 or 21.
    """
    if simulated:
        if as_json or quick or target is not None:
            raise UsageError("--simulated goes with --seconds and --out only")
        simulated_demo(_SIMULATED_SECONDS if seconds is None else seconds, out)
        return
    settings = _settings(seconds, target, quick)
    check_machine()
    console = errors() if as_json else output()
    recording = Recording(settings, machine())
    try:
        _run(recording, console, out / "spark.log")
    except KeyboardInterrupt:
        recording.stopped_early = True
    _tell(recording, console, out, as_json)


def _settings(seconds: float | None, target: str | None, quick: bool) -> Settings:
    chosen = QUICK if quick else FULL
    if target is not None:
        try:
            chosen = replace(
                chosen,
                target_seconds=DURATION.parse(target),
                run_seconds=chosen.run_seconds if seconds is None else seconds,
            )
        except ValueError as error:
            raise UsageError(f"--target: {error}") from None
    elif seconds is not None:
        chosen = replace(chosen, run_seconds=seconds)
    return chosen


_JAVA = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""Java's quick compiler alone. The other one makes a warm JVM faster, but it takes a minute and
half of a small machine, in which the demo's query would not have the capacity that was measured.
"""


def _run(recording: Recording, console: Console, log: Path) -> None:
    """Spark is stopped at the end, however the end comes."""
    with tempfile.TemporaryDirectory(prefix="headgate-demo-", ignore_cleanup_errors=True) as name:
        console.print("Starting Spark ...")
        spark = start_spark(Path(name), log, settings=_JAVA)
        try:
            spark.sparkContext.setLogLevel("ERROR")
            _watch(spark, recording, console, Path(name))
        except DemoError as error:
            raise DemoError(f"{error}; Spark's own messages are in {log}") from error
        finally:
            spark.stop()


def _watch(spark: SparkSession, recording: Recording, console: Console, directory: Path) -> None:
    from headgate.demo.run import run_demo  # imports pyspark
    from headgate.spark import attach

    watcher = LiveWatcher(console) if console.is_terminal else LinesWatcher(console)
    with quiet_interrupt() as pressed, attach(spark) as hg, watcher:
        run_demo(spark, hg, recording, _Interruptible(watcher, pressed), directory)


class _Interruptible:
    """Passes on what a watcher is told, and stops the demo there when Ctrl-C was pressed."""

    def __init__(self, watcher: Watcher, pressed: Callable[[], bool]) -> None:
        self._watcher, self._pressed = watcher, pressed
        self.stage, self.scene = watcher.stage, watcher.scene

    def tick(self, elapsed_seconds: float) -> None:
        if self._pressed():
            raise KeyboardInterrupt
        self._watcher.tick(elapsed_seconds)


def _tell(recording: Recording, console: Console, out: Path, as_json: bool) -> None:
    if not any(run.batches for run in recording.runs.values()):
        errors().print("Stopped before the crowd came. Nothing was written but Spark's log.")
        raise typer.Exit(_INTERRUPTED)
    files = save(recording, out)
    if as_json:
        print_json(content(recording))
    else:
        console.print(Text(), _farewell(recording, files), sep="\n", soft_wrap=True)
    if recording.stopped_early:
        errors().print("Stopped early: the report holds what was measured until then.")
        raise typer.Exit(_INTERRUPTED)


def _farewell(recording: Recording, files: Files) -> Text:
    findings = find(recording)
    return Text.assemble(
        (headline(recording, findings), "bold"),
        "\n",
        ("Ledger: ", "bold"),
        ledger_sentence(recording, findings),
        "\n",
        ("Report: ", "bold"),
        f"{files.page} (for programs: {files.content})\n\n",
        ("In your own program:\n", "bold"),
        NEXT_STEPS,
        "\n",
    )
