"""`headgate simulate`: a network under a load in virtual time."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from headgate.cli.simulate_plot import write_plot
from headgate.cli.simulate_tables import result_to_dict, result_view
from headgate.cli.terminal import errors, output, print_json
from headgate.control import LATENCY_CONTROLLERS, ServiceKind
from headgate.errors import UsageError
from headgate.names import nearest
from headgate.network import Network, load_network
from headgate.quantities import DURATION
from headgate.simulation.arrivals import Arrivals
from headgate.simulation.load_text import parse_loads
from headgate.simulation.record import PeriodRow, SimulationResult
from headgate.simulation.settings import NodeFailure, Planning, SimulationSettings, WorkCosts
from headgate.simulation.simulate import simulate as run_simulation
from headgate.simulation.trace_file import RecordedLoad, parse_recorded_load

__all__ = ["simulate"]

CONTROLLER_HELP = f"What decides how much to keep: {', '.join(LATENCY_CONTROLLERS)}."
USUAL_PERIOD_SECONDS = {ServiceKind.MICRO_BATCH: 0.1, ServiceKind.INPUT_BUFFER: 0.25}


def simulate(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="The YAML file that describes the network.")
    ],
    load: Annotated[
        list[str] | None,
        typer.Option(
            "--load",
            "-l",
            metavar="STREAM=LOAD",
            help="What arrives: constant:100, steps:50,100,150@10, "
            "flash:base=1000,peak=3000,at=20,for=10, onoff:on=500,for=5,pause=20, "
            "trace:FILE,scale=60,factor=1, or poisson: in front of any of them. "
            "A stream that is not named has the rate of the file.",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(help="Virtual seconds to run.")] = 60.0,
    controller: Annotated[str, typer.Option(help=CONTROLLER_HELP)] = "model",
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Latency target of all queries, for example 3s or 500ms."
        ),
    ] = None,
    service: Annotated[
        ServiceKind, typer.Option(help="Micro-batches as on Spark, or the input buffers of DISSP.")
    ] = ServiceKind.MICRO_BATCH,
    period: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Trigger of the micro-batches (0s: as soon as possible; usually 100ms), "
            "or control period of the buffers (usually 250ms).",
        ),
    ] = None,
    planning: Annotated[
        Planning | None,
        typer.Option("--plan", help="Who plans. Default: central if there are several nodes."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 1,
    fail: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE=AT,FOR", help="A node fails: analytics=20s,5s."),
    ] = None,
    memory: Annotated[
        int | None, typer.Option(metavar="TUPLES", min=1, help="Most tuples that wait on a node.")
    ] = None,
    batch_cost: Annotated[
        str, typer.Option(metavar="TIME", help="CPU time of a micro-batch, whatever is in it.")
    ] = "0s",
    noise: Annotated[
        float, typer.Option(min=0.0, help="Relative standard deviation of the cost of a batch.")
    ] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write a line for each batch.")
    ] = None,
    plot_file: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw latency and load.")
    ] = None,
    journal_file: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Write the journal for headgate explain."),
    ] = None,
) -> None:
    """Run a network under a load in virtual time, with the coordinator that runs on Spark.

    All numbers are simulated.
    """
    network = load_network(network_file)
    usual = {stream.name: stream.rate_per_second for stream in network.streams}
    loads = parse_loads(load or [], usual, _read_trace)
    settings = SimulationSettings(
        seconds=seconds,
        seed=seed,
        service=service,
        period_seconds=_period(period, service),
        controller=_controller(controller),
        latency_target_seconds=None if target is None else _duration("--target", target),
        planning=_planning(planning, network),
        costs=WorkCosts(batch_fixed_seconds=_duration("--batch-cost", batch_cost), noise=noise),
        memory_tuples=memory,
        failures=tuple(_failure(text) for text in fail or []),
        with_journal=journal_file is not None,
    )
    result = _run(network, loads, settings)
    if csv_file is not None:
        _write_rows(csv_file, result.rows)
    if journal_file is not None:
        _write_journals(journal_file, result)
    if plot_file is not None:
        write_plot(network.name, loads, result, plot_file)
        errors().print(f"Picture written to {plot_file}", style="dim")
    if as_json:
        print_json(result_to_dict(network, result))
    else:
        output().print(result_view(network, result))


def _run(
    network: Network, loads: dict[str, Arrivals], settings: SimulationSettings
) -> SimulationResult:
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors(), transient=True) as progress:
        task = progress.add_task("", total=settings.seconds)
        return run_simulation(
            network, loads, settings, lambda now: progress.update(task, completed=now)
        )


def _read_trace(file: str) -> RecordedLoad:
    path = Path(file)
    try:
        return parse_recorded_load(path.read_text(encoding="utf-8-sig"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the trace {file!r}: {error}") from None


def _duration(option: str, text: str) -> float:
    try:
        return DURATION.parse(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}") from None


def _period(text: str | None, service: ServiceKind) -> float:
    if text is not None:
        return _duration("--period", text)
    return USUAL_PERIOD_SECONDS[service]


def _controller(name: str) -> str:
    if name not in LATENCY_CONTROLLERS:
        hint = nearest(name, LATENCY_CONTROLLERS)
        raise UsageError(f"--controller {name}: no such controller{hint}")
    return name


def _planning(asked: Planning | None, network: Network) -> Planning:
    if asked is not None:
        return asked
    return Planning.CENTRAL if len(network.nodes) > 1 else Planning.NONE


def _failure(text: str) -> NodeFailure:
    node, equals, times = text.rpartition("=")
    at, comma, length = times.partition(",")
    if not (equals and comma):
        raise UsageError(f"--fail {text}: expected node=at,for, for example analytics=20s,5s")
    return NodeFailure(node, _duration("--fail", at), _duration("--fail", length))


def _write_rows(path: Path, rows: Sequence[PeriodRow]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [f.name for f in fields(PeriodRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def _write_journals(path: Path, result: SimulationResult) -> None:
    """One file, or FILE.NODE for each node where every node has a coordinator of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, lines in result.journals.items():
        alone = len(result.journals) == 1
        target = path if alone else path.with_name(f"{path.name}.{name}")
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")
        errors().print(f"Journal written to {target}", style="dim")
