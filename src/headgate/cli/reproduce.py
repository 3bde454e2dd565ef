"""`headgate reproduce`: the papers' tables and figures again, beside their own numbers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from headgate.cli.reproduce_tables import findings_table, list_table
from headgate.cli.terminal import errors, output, print_json
from headgate.errors import HeadgateError, UsageError
from headgate.reproduce.catalogue import all_experiments, choose
from headgate.reproduce.experiment import Experiment, Request
from headgate.reproduce.figures import require_matplotlib
from headgate.reproduce.report import Report, save_report

__all__ = ["reproduce"]

DEFAULT_DIRECTORY = Path("out/reproduce")


def complete_experiment(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion: the experiments that begin like this, with their titles."""
    known = all_experiments()
    return [(name, e.title) for name, e in known.items() if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...", help="Which experiments.", autocompletion=complete_experiment
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the files go.")
    ] = DEFAULT_DIRECTORY,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller runs of the same shape.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="HEADGATE_DATA",
            help="Where the real traces are; without it, synthetic profiles are used.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Regenerate a table or figure of the papers beside the paper's own numbers.

    Writes NAME.csv (raw data), NAME.json (findings) and NAME.png for each experiment.
    """
    known = all_experiments()
    if list_them:
        _show_list(list(known.values()), as_json)
        return
    chosen = list(known.values()) if everything else choose(names or [], known)
    if not chosen:
        raise UsageError("say what to reproduce: give names, or --all; --list shows them")
    if data is not None and not data.is_dir():
        raise UsageError(f"--data {data}: there is no such directory; leave it out or correct it")
    require_matplotlib()
    request = Request(seed=seed, quick=quick, data_directory=data)
    reports = _run_all(chosen, request, out, show=not as_json)
    if as_json:
        print_json([report.content for report in reports])
    if len(reports) < len(chosen):
        raise typer.Exit(2)


def _show_list(experiments: Sequence[Experiment], as_json: bool) -> None:
    if as_json:
        fields = ("name", "title", "source", "simulated", "on_spark")
        print_json([{field: getattr(e, field) for field in fields} for e in experiments])
    else:
        output().print(list_table(experiments))


def _run_all(
    experiments: Sequence[Experiment], request: Request, directory: Path, *, show: bool
) -> list[Report]:
    """The reports of those that succeeded; one that fails does not stop the others."""
    reports = []
    for experiment in experiments:
        try:
            report = _run(experiment, request, directory)
        except HeadgateError as error:
            message = ("Error: ", "bold red"), (f"{experiment.name}: {error}", "red")
            errors().print(Text.assemble(*message), soft_wrap=True)
            continue
        reports.append(report)
        if show:
            output().print(findings_table(report))
    return reports


def _run(experiment: Experiment, request: Request, directory: Path) -> Report:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors(), transient=True) as progress:
        task = progress.add_task(experiment.name, total=None)

        def advance(done: int, total: int, what: str) -> None:
            description = f"{experiment.name}: {what}" if what else experiment.name
            progress.update(task, completed=done, total=total, description=description)

        outcome = experiment.run(request, advance)
    return save_report(experiment, request, outcome, directory, _command(experiment, request))


def _command(experiment: Experiment, request: Request) -> str:
    """What to type to get the same again."""
    words = ["headgate", "reproduce", experiment.name, "--seed", str(request.seed)]
    words += ["--quick"] if request.quick else []
    if request.data_directory is not None:
        words += ["--data", str(request.data_directory)]
    return shlex.join(words)
