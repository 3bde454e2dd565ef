"""The list of experiments, and our numbers beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from headgate.cli.plan_tables import quiet_table, spaced
from headgate.reproduce.experiment import Cell, Experiment
from headgate.reproduce.report import Report

__all__ = ["findings_table", "list_table"]


def list_table(experiments: Sequence[Experiment]) -> Table:
    table = quiet_table()
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what")
    table.add_column("from")
    table.add_column("how", no_wrap=True)
    for experiment in experiments:
        table.add_row(experiment.name, experiment.title, experiment.source, _how(experiment))
    return table


def findings_table(report: Report) -> Group:
    experiment = report.experiment
    heading = Text.assemble((experiment.title, "bold"), f" ({experiment.source}, ")
    heading.append(f"{_how(experiment)})")
    table = quiet_table()
    table.add_column("what")
    table.add_column("ours", justify="right", no_wrap=True)
    table.add_column("paper", justify="right", no_wrap=True)
    table.add_column("note", style="dim")
    for finding in report.findings:
        table.add_row(finding.what, _shown(finding.ours), _shown(finding.paper), finding.note)
    files = f"Written: {report.rows_file}, {report.findings_file.name}, {report.figure_file.name}\n"
    return spaced([heading, table, Text(files, style="dim")])


def _how(experiment: Experiment) -> str:
    if experiment.on_spark:
        return "on Spark"
    return "simulated" if experiment.simulated else "computed"


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 1e4 else f"{cell:.4g}"
    return str(cell)
