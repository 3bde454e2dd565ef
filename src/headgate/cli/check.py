"""`headgate check`: every problem of a network file at once, or what the network is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headgate.cli.network_summary import summarise, summary_view
from headgate.cli.terminal import output, print_json
from headgate.errors import NetworkError
from headgate.network import load_network

__all__ = ["check"]


def check(
    network_file: Annotated[
        Path, typer.Argument(metavar="NETWORK", help="The YAML file that describes the network.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a network file: all problems with file and line, or a summary of the network."""
    try:
        network = load_network(network_file)
    except NetworkError as error:
        if not as_json:
            raise
        print_json({"valid": False, "problems": [_problem(p) for p in error.problems]})
        raise typer.Exit(2) from None
    summary = summarise(network)
    if as_json:
        print_json({"valid": True, "network": summary.to_dict()})
    else:
        output().print(summary_view(summary))


def _problem(problem: Any) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "field": list(problem.field),
        "message": problem.message,
    }
