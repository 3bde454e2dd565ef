"""`headgate plan`: what to drop, where, at given input rates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headgate.cli.plan_map import MapRequest, write_map
from headgate.cli.plan_tables import plan_view
from headgate.cli.planners import DEFAULT_PLANNER, complete_planner, make_planner, planner_classes
from headgate.cli.rates import parse_fraction, parse_rates, rates_at_scale
from headgate.cli.terminal import errors, output, print_json
from headgate.cli.trace_file import read_trace
from headgate.errors import UsageError
from headgate.network import load_network
from headgate.planning import Objective

__all__ = ["plan"]

PLANNER_HELP = f"Which planner: {', '.join(planner_classes())}."


def plan(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="The YAML file that describes the network.")
    ],
    rates: Annotated[
        list[str] | None,
        typer.Option(
            "--rates",
            "-r",
            metavar="STREAM=RATE,...",
            help="Tuples per second of each stream, for example orders=2000,clicks=500. "
            "A stream that is not named has the rate of the file.",
        ),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Multiply all rates: 3 asks for three times the load.")
    ] = 1.0,
    planner: Annotated[
        str, typer.Option(help=PLANNER_HELP, autocompletion=complete_planner)
    ] = DEFAULT_PLANNER,
    objective: Annotated[
        Objective | None,
        typer.Option(
            help="throughput: the largest weighted sum. fairness: no query loses more than it must."
        ),
    ] = None,
    max_error: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="How far from optimal a plan may be, for example 5%."),
    ] = None,
    max_expected_error: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="The same, expected over the usual rates."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Observed rates that solver-w weighs its errors by: a column for each stream, "
            "or one column that is the shape for all.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    map_file: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE.png",
            help="Also draw the plans for all rates of two streams.",
        ),
    ] = None,
    x: Annotated[
        str | None, typer.Option(metavar="STREAM", help="The map's horizontal axis.")
    ] = None,
    y: Annotated[
        str | None, typer.Option(metavar="STREAM", help="The map's vertical axis.")
    ] = None,
) -> None:
    """Say what to drop, where and how much, so that every node and link keeps up."""
    if map_file is None and (x or y):
        raise UsageError("--x and --y choose the axes of a map; add --map FILE.png")
    network = load_network(network_file)
    wanted = rates_at_scale(network, parse_rates(rates or [], network), scale)
    errors_wanted = {"max_error": max_error, "max_expected_error": max_expected_error}
    with errors().status("planning"):
        options = _options(objective, errors_wanted)
        if trace is not None:
            options["workload"] = read_trace(trace, network)
        chosen = make_planner(planner, network, options)
        result = chosen.plan(wanted)
    if as_json:
        print_json(result.to_dict())
    else:
        output().print(plan_view(result))
    if map_file is not None:
        with errors().status("drawing the map"):
            write_map(MapRequest(chosen, result, x, y), map_file)
        errors().print(f"Map written to {map_file}", style="dim")


def _options(
    objective: Objective | None, errors_wanted: Mapping[str, str | None]
) -> dict[str, object]:
    """Only what was asked for; throughput is what every planner does anyway."""
    options: dict[str, object] = {
        name: parse_fraction("--" + name.replace("_", "-"), text)
        for name, text in errors_wanted.items()
        if text is not None
    }
    if objective is Objective.FAIRNESS:
        options["objective"] = objective
    return options
