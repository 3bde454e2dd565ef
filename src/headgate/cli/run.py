"""`headgate run`: the queries of a network file on one Spark application."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headgate.cli.run_code import own_code, with_python_path
from headgate.cli.run_live import RunLines, RunTable, summary
from headgate.cli.run_options import (
    aiming_at,
    fed,
    parse_priorities,
    parse_settings,
    read_loads,
    replay_options,
)
from headgate.cli.terminal import errors, output, print_json, quiet_interrupt
from headgate.errors import HeadgateError, UsageError
from headgate.network import Network, load_network
from headgate.simulation.arrivals import Arrivals
from headgate.spark.local_session import check_machine, fast_files, start_spark
from headgate.spark.networks.network_needs import problems_to_run

if TYPE_CHECKING:
    from headgate.spark.networks.network_report import NetworkReport
    from headgate.spark.networks.network_run import NetworkRun, RunSettings

__all__ = ["run"]

_INTERRUPTED = 130


def run(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="The YAML file that describes the network.")
    ],
    master: Annotated[
        str, typer.Option(help="Where Spark runs: local[2], spark://host:7077, yarn, ...")
    ] = "local[*]",
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="Stop after so many seconds. Without it, until Ctrl-C."),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS=PRIORITY,...",
            help="Priorities of the classes in the file: gold=6,silver=3,bronze=1. Each class "
            "then runs as Spark queries of its own that take turns.",
        ),
    ] = None,
    stand_ins: Annotated[
        bool,
        typer.Option(
            "--stand-ins",
            help="Stand in for operators without code and streams without source, by their "
            "described cost, selectivity and rate.",
        ),
    ] = False,
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            "-l",
            metavar="STREAM=LOAD",
            help="Replay a load instead of the stream's source, as for headgate simulate: "
            "steps:50,100,150@10, flash:base=1000,peak=3000,at=20,for=10, "
            "trace:FILE,scale=60,factor=1.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Latency target of all queries, instead of the file's."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where checkpoints are kept.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="At the end, write what was measured as a network file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the queries of a network on Spark, with gates where the plan drops.

    Shows rates, what is kept and latency while it runs; at the end the score beside the best
    possible one, and the predicted load beside the measured one. Needs Java 17 or 21.
    """
    check_machine("headgate run", "")
    loads = read_loads(load or [])
    network = load_network(
        network_file, lambda n: problems_to_run(fed(n, loads, stand_ins), stand_ins)
    )
    network = aiming_at(fed(network, loads, stand_ins), target)
    priorities = None if classes is None else parse_priorities(classes)
    settings = parse_settings(conf or [])
    if checkpoint is None:  # nobody goes on from these files with other settings
        settings = fast_files(settings)
    with (
        tempfile.TemporaryDirectory(prefix="headgate-run-", ignore_cleanup_errors=True) as name,
        own_code(Path.cwd(), network_file.parent) as code_paths,
        _log_that_stays_if_needed() as log,
    ):
        directory = Path(name)
        chosen = _settings(loads, directory, priorities, stand_ins, checkpoint)
        settings = with_python_path(settings, code_paths)
        done = _run(network, chosen, (directory, log), master, settings, seconds, as_json)
        if export is not None:
            export.write_text(done.measured, encoding="utf-8")
            errors().print(f"What was measured is in {export}", style="dim")
        failed = {} if done.failure is None else {"error": str(done.failure)}
        if as_json:
            print_json({**done.report.to_dict(), **failed})
        else:
            output().print(summary(done.report))
        if done.failure is not None:
            raise UsageError(f"{done.failure}. Spark's own messages are in {log}")
    if done.interrupted and seconds is not None:
        raise typer.Exit(_INTERRUPTED)


@dataclass(frozen=True, slots=True)
class _Done:
    """What a run leaves. failure: why a query ended before its time."""

    report: NetworkReport
    measured: str
    interrupted: bool
    failure: HeadgateError | None


@contextmanager
def _log_that_stays_if_needed() -> Iterator[Path]:
    """A file for Spark's own messages; it stays where a message of ours can name it."""
    with tempfile.NamedTemporaryFile(prefix="headgate-run-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    try:
        yield log
    except HeadgateError as error:
        if str(log) not in str(error):
            log.unlink(missing_ok=True)
        raise
    else:
        log.unlink(missing_ok=True)


def _run(
    network: Network,
    chosen: RunSettings,
    files: tuple[Path, Path],
    master: str,
    settings: Mapping[str, str],
    seconds: float | None,
    as_json: bool,
) -> _Done:
    """Run until the time is over, somebody presses Ctrl-C or a query fails.

    files: a directory for what Spark writes, and the file for its messages.
    """
    from headgate.spark.networks.network_run import run_network
    from headgate.spark.query_context import silence_query_context

    console = errors() if as_json else output()
    console.print("Starting Spark ...")
    directory, log = files
    spark = start_spark(directory, log, master, f"headgate: {network.name}", settings)
    try:
        spark.sparkContext.setLogLevel("ERROR")
        silence_query_context()  # said once, by us
        with quiet_interrupt() as pressed, run_network(spark, network, chosen) as running:
            failure: HeadgateError | None = None
            try:
                _watch(running, seconds, pressed, console)
            except HeadgateError as error:  # what was measured until then is not lost
                failure = error
            return _Done(running.report(), running.headgate.network(), pressed(), failure)
    finally:
        spark.stop()


def _watch(
    running: NetworkRun, seconds: float | None, pressed: Callable[[], bool], console: Console
) -> None:
    """Show how it goes until the time is over or somebody has pressed Ctrl-C."""
    watcher = RunTable(console, seconds) if console.is_terminal else RunLines(console, seconds)

    def look(elapsed: float) -> bool:
        watcher.tick(running, elapsed)
        return not pressed()

    with watcher:
        running.wait(seconds, look)


def _settings(
    loads: Mapping[str, Arrivals],
    directory: Path,
    priorities: Mapping[str, float] | None,
    stand_ins: bool,
    checkpoint: Path | None,
) -> RunSettings:
    from headgate.spark.networks.network_run import RunSettings

    replayed = {
        stream: replay_options(arrivals, directory / f"load{number}.csv")
        for number, (stream, arrivals) in enumerate(loads.items())
    }
    kept = None if checkpoint is None else str(checkpoint.absolute())
    return RunSettings(priorities, stand_ins, kept, replayed)
